"""A hub on loopback that means harm: one table of what it does, and what the user is told.

``tests/models/test_hostile_hub.py`` holds the same of all of it: nothing outside the cache appears
or changes, and no name in the cache leads to bytes that nobody verified.
"""

import hashlib
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripted_http import Request, response

REPOSITORY = "owner/model"
NAME = "model-q4_k_m.gguf"
COMMIT = "c" * 40
MODEL = b"GGUF" + bytes(range(256)) * 1200
SHA256 = hashlib.sha256(MODEL).hexdigest()
PAGE = b"<!doctype html><title>Log in</title>" + b" " * 1000
CLIMB = "../" * 5
"""From the cache's blobs up to the home folder."""
ESCAPE = "\x1b]0;owned\x07\x1b[2J\u202e"

Bytes = Iterable[bytes | float]


@dataclass(frozen=True)
class World:
    """What the hub knows of the user's machine."""

    home: Path
    cache: Path

    @property
    def folder(self) -> Path:
        """The repository's folder in the cache."""
        return self.cache / "models--owner--model"


@dataclass(frozen=True)
class Behaviour:
    """``says`` is in the error; it is empty where the model arrives nevertheless."""

    name: str
    says: str
    listing: Callable[[World], Bytes] | None = None
    """Its answer to a request for the files' names; None for an honest one."""
    file: Callable[[Request], Bytes] | None = None
    """Its answer to a request for a file's bytes; None for an honest one."""
    prepare: Callable[[World], None] | None = None
    """What was on the disk before."""
    is_slow: bool = False
    """Whether a limit in time ends it."""

    def answer(self, world: World, request: Request) -> Bytes:
        """Answer one request."""
        if request.path.startswith("/api/models/"):
            return [response(200, listing())] if self.listing is None else self.listing(world)
        if self.file is not None and not request.path.startswith("/honest/"):
            return self.file(request)
        return [sent(request)]


def listing(*files: Any, **changes: Any) -> dict[str, Any]:
    """Return the list of files as the hub sends it."""
    return {"id": REPOSITORY, "sha": COMMIT, "siblings": list(files or [listed()]), **changes}


def listed(rfilename: Any = NAME, sha256: Any = SHA256, **changes: Any) -> dict[str, Any]:
    """Return one file of the list."""
    lfs = {"sha256": sha256, "size": len(MODEL), "pointerSize": 134}
    return {"rfilename": rfilename, "size": len(MODEL), "lfs": lfs, **changes}


def start_of(request: Request) -> int:
    """Return the first byte that a request asks for."""
    return int(request.headers.get("range", "bytes=0-")[6:-1])


def sent(request: Request, data: bytes = MODEL, **headers: str) -> bytes:
    """Return the answer with a file's bytes, or those that are still missing."""
    start = start_of(request)
    usual = {"ETag": f'"{SHA256}"', "X-Linked-Size": str(len(data)), "X-Repo-Commit": COMMIT}
    lines = [f"{name}: {value}" for name, value in {**usual, **headers}.items()]
    if request.method == "HEAD":
        return head(200, f"Content-Length: {len(data)}", *lines)
    if not start:
        return response(200, data, *lines)
    lines.append(f"Content-Range: bytes {start}-{len(data) - 1}/{len(data)}")
    return response(206, data[start:], *lines)


def head(status: int, *headers: str) -> bytes:
    """Return an answer's beginning, without its length."""
    return "\r\n".join([f"HTTP/1.1 {status} Status", *headers, "", ""]).encode("latin-1")


def bomb(n_mebibytes: int) -> bytes:
    """Return gzip that unpacks to many bytes, 1 kB for each MiB."""
    packer = zlib.compressobj(wbits=31)
    beginning = packer.compress(b"\0" * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(b"\0" * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return beginning + again * (n_mebibytes - 1) + packer.flush()


def trickle(data: Iterable[int]) -> Iterator[bytes | float]:
    """Yield bytes one by one, with pauses."""
    for byte in data:
        yield bytes([byte])
        yield 0.02


def _files(*files: Any) -> Callable[[World], Bytes]:
    return lambda _: [response(200, listing(*files))]


def _raw(content: object, *headers: str, status: int = 200) -> Callable[[World], Bytes]:
    return lambda _: [response(status, content, *headers)]


def _endless(*beginning: bytes, piece: bytes = b" " * 65536) -> Bytes:
    return itertools.chain(beginning, itertools.repeat(piece))


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _blob_of_others(world: World) -> None:
    """Put other bytes of the same length under the model's checksum."""
    _write(world.folder / "blobs" / SHA256, bytes(len(MODEL)))


def _link_elsewhere(world: World) -> None:
    """Let the model's name lead out of the cache."""
    place = world.folder / "snapshots" / COMMIT / NAME
    place.parent.mkdir(parents=True)
    place.symlink_to(world.home / ".bashrc")


_SIZE = "gives no possible size"
_UNREADABLE = "cannot be read"
_UNSAFE = "whose name is unsafe"
_NO_SHA256 = "has no SHA-256"
_NO_VERSION = "names no version"
_LOST = "was lost"
_UNREACHABLE = "cannot be reached"
_NO_MODEL = "is no model"


TABLE: list[Behaviour] = [
    # Checksums that are paths.
    *(
        Behaviour(f"sha256 {what}", _NO_SHA256, _files(listed(sha256=sha256)))
        for what, sha256 in [
            ("climbs to a new file", f"{CLIMB}evil.pth"),
            ("climbs to a new folder", f"{CLIMB}new/folder/x"),
            ("climbs to a file of the user", f"{CLIMB}.bashrc"),
            ("is a folder", "."),
            ("is empty", ""),
            ("is in upper case", "A" * 64),
            ("is too short", "a" * 63),
            ("ends with a line", f"{'a' * 64}\n"),
            ("has other digits", "\u0660" * 64),
            ("is a name of Windows", f"C:{'a' * 62}"),
        ]
    ),
    Behaviour(
        "sha256 is an absolute path",
        _NO_SHA256,
        lambda world: [response(200, listing(listed(sha256=f"{world.home}/.bashrc")))],
    ),
    Behaviour("sha256 is null", _UNREADABLE, _files(listed(sha256=None))),
    Behaviour("sha256 is a number", _UNREADABLE, _files(listed(sha256=7))),
    Behaviour("lfs is null", _NO_SHA256, _files(listed(lfs=None))),
    Behaviour("lfs is a list", _UNREADABLE, _files(listed(lfs=[SHA256]))),
    # Sizes.
    Behaviour("size is null", _SIZE, _files(listed(size=None))),
    Behaviour("size is a text", _UNREADABLE, _files(listed(size="7"))),
    Behaviour("size is negative", _SIZE, _files(listed(size=-1))),
    Behaviour("size is 0", _SIZE, _files(listed(size=0))),
    Behaviour("size is a fraction", _UNREADABLE, _files(listed(size=0.5))),
    Behaviour("size is true", _UNREADABLE, _files(listed(size=True))),
    Behaviour("size is huge", _SIZE, _files(listed(size=1 << 63))),
    Behaviour("size is an exabyte less than is possible", "no space", _files(listed(size=1 << 40))),
    Behaviour(
        "size has 5,000 digits",
        _UNREADABLE,
        _raw(
            b'{"sha":"%b","siblings":[{"rfilename":"m.gguf","size":%b}]}'
            % (COMMIT.encode(), b"9" * 5000)
        ),
    ),
    Behaviour("size is less than what comes", "is longer", _files(listed(size=9))),
    Behaviour("size is more than what comes", _LOST, _files(listed(size=len(MODEL) + 1))),
    # Versions.
    *(
        Behaviour(f"commit {what}", says, _raw(listing(sha=sha)))
        for what, says, sha in [
            ("climbs", _NO_VERSION, f"{CLIMB}evil"),
            ("is dots", _NO_VERSION, ".."),
            ("is short", _NO_VERSION, "c" * 7),
            ("ends with a line", _NO_VERSION, COMMIT + "\n"),
            ("is null", _UNREADABLE, None),
        ]
    ),
    # File names.
    *(
        Behaviour(f"file name {what}", _UNSAFE, _files(listed(name)))
        for what, name in [
            ("climbs", f"{CLIMB}evil.gguf"),
            ("climbs after a folder", "a/../../../../../../evil.gguf"),
            ("is absolute", "/tmp/evil.gguf"),
            ("climbs on Windows", "..\\..\\evil.gguf"),
            ("has a drive", "C:evil.gguf"),
            ("has an empty folder", "a//b.gguf"),
            ("has a folder that is a dot", "a/./b.gguf"),
            ("has a folder that ends with a space", "a /b.gguf"),
            ("has a NUL", "a\0b.gguf"),
            ("has lines", "a\nError: all is well.\nb.gguf"),
            ("controls the terminal", f"{ESCAPE}.gguf"),
            ("turns the line around", "\u202efugg.gguf"),
            ("is long", f"{'x' * 300}.gguf"),
            ("is endless", f"{'x' * 1_000_000}.gguf"),
        ]
    ),
    Behaviour("file name is a number", _UNREADABLE, _files(listed(7))),
    Behaviour("file name is no text at all", _UNREADABLE, _raw(b'{"sha":"\xff"}')),
    Behaviour(
        "a part of a split model climbs",
        _UNSAFE,
        _files(*(listed(f"a/../../m-0000{n}-of-00002.gguf") for n in (1, 2))),
    ),
    Behaviour(
        "a split model lacks 99,998 parts",
        "1 of the 99999 parts",
        _files(listed("m-00001-of-99999.gguf")),
    ),
    Behaviour(
        "a file's name is another's folder",
        "cannot be written",
        _files(listed("deep/model-q4_k_m.gguf")),
        prepare=lambda world: _write(world.folder / "snapshots" / COMMIT / "deep", b""),
    ),
    Behaviour(
        "no name is a model's, and all control the terminal",
        "has no GGUF",
        _files(*(listed(f"{ESCAPE}{n}.bin") for n in range(1000))),
    ),
    Behaviour("no files", "has no GGUF", _raw(listing(siblings=[]))),
    Behaviour(
        "one name has two checksums, the last of which climbs",
        _NO_SHA256,
        _files(listed(), listed(sha256=f"{CLIMB}evil")),
    ),
    # Lists of files that are none.
    Behaviour("no JSON", _UNREADABLE, _raw(b"{")),
    Behaviour("nothing", _UNREADABLE, _raw(b"")),
    Behaviour("a page", _UNREADABLE, _raw(PAGE)),
    Behaviour("null", _UNREADABLE, _raw(b"null")),
    Behaviour("a list", _UNREADABLE, _raw([])),
    Behaviour("files are no list", _UNREADABLE, _raw(listing(siblings={"a": 1}))),
    Behaviour(
        "JSON 100,000 deep", _UNREADABLE, _raw(b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    ),
    Behaviour("a list without end", "longer than 16 MiB", lambda _: _endless(head(200))),
    Behaviour(
        "a list with a length of 1 EB",
        "longer than 16 MiB",
        lambda _: _endless(head(200, "Content-Length: 1000000000000000000")),
    ),
    Behaviour(
        "a list byte by byte",
        _LOST,
        lambda _: itertools.chain([head(200)], trickle(itertools.repeat(32))),
        is_slow=True,
    ),
    Behaviour("headers byte by byte", _LOST, lambda _: trickle(itertools.repeat(65)), is_slow=True),
    Behaviour(
        "headers without end", _LOST, lambda _: _endless(b"HTTP/1.1 200 OK\r\n", piece=b"a: b\r\n")
    ),
    Behaviour(
        "100 Continue without end",
        _LOST,
        lambda _: _endless(piece=b"HTTP/1.1 100 Continue\r\n\r\n"),
        is_slow=True,
    ),
    Behaviour(
        "a header that is none and has no end",
        _LOST,
        lambda _: [b"HTTP/1.1 200 OK\r\n" + b"\x1b[2J" * 20_000 + b"\r\n\r\n"],
    ),
    Behaviour("silence", _LOST, lambda _: [60.0], is_slow=True),
    Behaviour("the connection is closed", _LOST, lambda _: []),
    Behaviour("no HTTP", _LOST, lambda _: [f"{ESCAPE}\r\n\r\n".encode(), 0.1]),
    Behaviour("1 GiB of gzip", "compressed", _raw(bomb(1024), "Content-Encoding: gzip")),
    # Redirects and refusals.
    *(
        Behaviour(
            f"redirects {what}",
            says,
            lambda _, location=location: [head(302, f"Location: {location}"), *[b" " * 65536] * 99],
        )
        for what, says, location in [
            ("in a circle", "redirects more than", "/api/models/x"),
            ("to a file", _UNREACHABLE, "file:///etc/passwd"),
            ("nowhere", _LOST, "http://127.0.0.1:999999/"),
            ("to no port", _UNREACHABLE, "http://127.0.0.1:0/x"),
            ("with an escape sequence", "answered 302", f"http://{ESCAPE[:-1]}/"),
        ]
    ),
    Behaviour(
        "404 with 1 GiB of gzip",
        "answered 404",
        _raw(bomb(1024), "Content-Encoding: gzip", status=404),
    ),
    Behaviour(
        "500 with an escape sequence",
        "answered 500",
        lambda _: [head(500, f"X-Error-Message: {ESCAPE[:-1]}", "Content-Length: 0")],
    ),
    Behaviour(
        "403 with an escape sequence",
        "is gated",
        lambda _: [head(403, f"X-Error-Message: {ESCAPE[:-1]}", "X-Error-Code: GatedRepo")],
    ),
    Behaviour("204", _UNREADABLE, lambda _: [head(204)]),
    Behaviour("999", "answered 999", _raw(b"", status=999)),
    # Headers of files, from which programs have made paths.
    *(
        Behaviour(f"{name} {what}", "", file=lambda r, n=name, v=value: [sent(r, **{n: v})])
        for name, what, value in [
            ("ETag", "climbs to a new file", f'"{CLIMB}evil.pth"'),
            ("ETag", "climbs to a file of the user", f'"{CLIMB}.bashrc"'),
            ("X-Linked-Etag", "climbs to a new file", f'"{CLIMB}evil.pth"'),
            ("X-Linked-Etag", "climbs to a file of the user", f'"{CLIMB}.bashrc"'),
            ("ETag", "is another checksum", f'"{"b" * 64}"'),
            ("X-Repo-Commit", "climbs", f"{CLIMB}evil"),
            ("X-Repo-Commit", "is another version", "d" * 40),
            ("Content-Disposition", "climbs", f"attachment; filename={CLIMB}evil"),
            ("X-Linked-Size", "is a text", "7x"),
            ("Set-Cookie", "is odd", "=;;=\x80; Max-Age=x; Domain=.; expires=never"),
            ("Warning", "controls the terminal", ESCAPE[:-1]),
        ]
    ),
    # Files.
    Behaviour(
        "another model of the same length", "checksum", file=lambda r: [sent(r, MODEL[:-1] + b"\0")]
    ),
    Behaviour(
        "a page whose checksum fits",
        _NO_MODEL,
        _files(listed(sha256=hashlib.sha256(PAGE).hexdigest(), size=len(PAGE))),
        lambda r: [sent(r, PAGE)],
    ),
    Behaviour(
        "a page whose checksum fits, byte by byte at first",
        _NO_MODEL,
        _files(listed(sha256=hashlib.sha256(b"GGUX" + PAGE).hexdigest(), size=len(PAGE) + 4)),
        lambda r: [head(200), b"G", 0.02, b"G", 0.02, b"U", 0.02, b"X" + PAGE],
    ),
    Behaviour("a page in the file's place", _NO_MODEL, file=lambda r: [response(200, PAGE)]),
    Behaviour("a file without end", "is longer", file=lambda r: _endless(head(200), MODEL)),
    Behaviour("a file that ends early", _LOST, file=lambda r: [sent(r, MODEL[: len(MODEL) // 2])]),
    Behaviour("a file of nothing", _LOST, file=lambda r: [response(200)]),
    Behaviour(
        "a file byte by byte",
        "bytes came in",
        file=lambda r: itertools.chain([head(200)], trickle(MODEL)),
        is_slow=True,
    ),
    Behaviour(
        "the rest of a file byte by byte",
        "bytes came in",
        file=lambda r: itertools.chain([head(200), MODEL[:200_000]], trickle(MODEL[200_000:])),
        is_slow=True,
    ),
    Behaviour(
        "a file comes to a halt", _LOST, file=lambda r: [head(200), MODEL[:9], 60.0], is_slow=True
    ),
    Behaviour(
        "a byte for each request",
        "ended early",
        file=lambda r: [
            response(
                206, MODEL[(n := start_of(r)) :][:1], f"Content-Range: bytes {n}-{n}/{len(MODEL)}"
            )
        ],
    ),
    Behaviour(
        "a byte for each connection",
        _LOST,
        file=lambda r: [head(200, "Content-Length: 999"), MODEL[:1]],
    ),
    Behaviour(
        "another part than was asked for",
        "as another part",
        file=lambda r: [response(206, MODEL, f"Content-Range: bytes 7-{len(MODEL)}/{len(MODEL)}")],
    ),
    Behaviour("a part of nothing", "as another part", file=lambda r: [response(206, MODEL)]),
    Behaviour("no part is left", "answered 416", file=lambda r: [response(416)]),
    Behaviour("accepted, later", "answered 202", file=lambda r: [response(202, MODEL)]),
    Behaviour(
        "1 GiB of gzip for a file",
        "compressed",
        file=lambda r: [response(200, bomb(1024), "Content-Encoding: gzip")],
    ),
    Behaviour(
        "ten compressions in a row",
        "compressed",
        file=lambda r: [response(200, bomb(1), f"Content-Encoding: {', '.join(['gzip'] * 10)}")],
    ),
    Behaviour(
        "broken chunks",
        _LOST,
        file=lambda r: [head(200, "Transfer-Encoding: chunked"), b"-1\r\nGGUF\r\n"],
    ),
    Behaviour(
        "a chunk with a name without end",
        _LOST,
        file=lambda r: _endless(head(200, "Transfer-Encoding: chunked"), b"4;", piece=b"x" * 65536),
    ),
    Behaviour(
        "two lengths",
        _LOST,
        file=lambda r: [head(200, "Content-Length: 4", "Content-Length: 9"), MODEL],
    ),
    Behaviour("no such file", "answered 404", file=lambda r: [response(404)]),
    Behaviour(
        "the bytes are elsewhere", "", file=lambda r: [response(302, b"", "Location: /honest/file")]
    ),
    # What was there before.
    Behaviour("other bytes under the checksum's name", "", prepare=_blob_of_others),
    Behaviour(
        "other bytes under the checksum's name, and in the answer",
        "checksum",
        file=lambda r: [sent(r, bytes([*b"GGUF", *bytes(len(MODEL) - 4)]))],
        prepare=_blob_of_others,
    ),
    Behaviour("the model's name leads elsewhere", "", prepare=_link_elsewhere),
    Behaviour(
        "a page under its checksum",
        _NO_MODEL,
        _files(listed(sha256=hashlib.sha256(PAGE).hexdigest(), size=len(PAGE))),
        prepare=lambda w: _write(w.folder / "blobs" / hashlib.sha256(PAGE).hexdigest(), PAGE),
    ),
]
