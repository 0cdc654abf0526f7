"""A hub on loopback that speaks as much of Hugging Face's API as a download needs."""

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from scripted_http import Request, response, scripted_server

COMMIT = "c" * 40
_API = re.compile(r"^/api/models/([\w.-]+/[\w.-]+)(?:/revision/\w+)?(?:\?.*)?$")
_FILE = re.compile(r"^/([\w.-]+/[\w.-]+)/resolve/(?:main|c{40})/(.+)$")


@dataclass
class FakeHub:
    """What it serves; tests change it while it runs."""

    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    token: str = ""
    """What private and gated repositories want to see."""
    private: set[str] = field(default_factory=set)
    gated: set[str] = field(default_factory=set)
    cuts: list[int] = field(default_factory=list)
    """Bytes after which the next answers with a file break off."""
    lengths_of_all: list[int] = field(default_factory=list)
    """Bytes of the next answers, which ignore ranges and say no length."""
    damaged: set[str] = field(default_factory=set)
    """Files whose bytes are not those of their checksums."""
    hold: threading.Event | None = None
    """Where set, files come to a halt after their first half until the event is."""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path and Range header of each request."""
    url: str = ""

    def answer(self, request: Request) -> Iterator[bytes]:
        """Answer one request."""
        self.asked.append((request.method, request.path, request.headers.get("range", "")))
        found = _API.match(request.path) or _FILE.match(request.path)
        if found is None or found[1] not in self.repositories:
            yield response(404, b"", "X-Error-Code: RepoNotFound")
            return
        files = self.repositories[found[1]]
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token and self.token and token != self.token:
            message = "X-Error-Message: Invalid credentials in Authorization header"
            yield response(401, b"", message)
        elif found[1] in self.private and token != self.token:
            yield response(401, b"", "X-Error-Code: RepoNotFound")
        elif found.re is _API:
            siblings = [
                {
                    "rfilename": name,
                    "size": len(data),
                    "lfs": {"sha256": sha256(data), "size": len(data), "pointerSize": 134},
                }
                for name, data in files.items()
            ]
            yield response(200, {"id": found[1], "sha": COMMIT, "siblings": siblings})
        elif found[1] in self.gated and token != self.token:
            yield response(403, b"", "X-Error-Code: GatedRepo")
        elif found[2] not in files:
            yield response(404, b"", "X-Error-Code: EntryNotFound")
        else:
            yield from self._file(request, found[2], files[found[2]])

    def _file(self, request: Request, name: str, data: bytes) -> Iterator[bytes]:
        if request.method == "GET" and self.lengths_of_all:
            yield b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
            yield data[: self.lengths_of_all.pop(0)]
            return
        start = int((re.findall(r"bytes=(\d+)-", request.headers.get("range", "")) or ["0"])[0])
        headers = [f"X-Repo-Commit: {COMMIT}", f"X-Linked-Size: {len(data)}"]
        headers += [f'{tag}: "{sha256(data)}"' for tag in ("ETag", "X-Linked-Etag")]
        headers += [f"Content-Range: bytes {start}-{len(data) - 1}/{len(data)}"] if start else []
        head, end, _ = response(206 if start else 200, data[start:], *headers).partition(
            b"\r\n\r\n"
        )
        yield head + end
        if request.method == "HEAD":
            return
        if name in self.damaged:
            data = data[:-1] + bytes([data[-1] ^ 1])
        if (hold := self.hold) is not None:
            half = max(start, len(data) // 2)
            yield data[start:half]
            hold.wait()
            start = half
        yield data[start : start + self.cuts.pop(0) if self.cuts else None]

    def ranges(self) -> list[str]:
        """The Range headers of the requests for files' bytes."""
        return [
            found for method, path, found in self.asked if method == "GET" and "resolve" in path
        ]


@contextmanager
def serve_hub() -> Iterator[FakeHub]:
    """Serve a hub until the block ends."""
    hub = FakeHub()
    with scripted_server(hub.answer) as server:
        hub.url = server.url
        try:
            yield hub
        finally:
            if hub.hold is not None:
                hub.hold.set()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
