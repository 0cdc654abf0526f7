"""What servers say of their files: checked here, before any of it becomes a path or a request.

A hub is whoever answers as one: Hugging Face, the mirror in ``HF_ENDPOINT``, or somebody between.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from speclsp.errors import DownloadError

MAX_LISTING_BYTES: Final = 1 << 24
"""Longest list of files that is read: Hugging Face sends some 300 bytes for each."""
MAX_FILE_BYTES: Final = 1 << 40
"""Largest file: 20 times what Hugging Face recommends for one."""

_SHA256: Final = re.compile("[0-9a-f]{64}")
_COMMIT: Final = re.compile("[0-9a-f]{40}")
_SIZE: Final = re.compile("[0-9]{1,13}")
_PART: Final = re.compile(r'[^/\\:*?"<>|]*[^/\\:*?"<>|. ]')
"""A file's or folder's name on all systems: it does not end in a dot or a space on Windows."""
_MAX_NAME_BYTES: Final = 255
"""Of a file's path in its repository: file systems take as much for each of its parts."""
_N_QUOTED: Final = 80

ODD_REMEDY: Final = (
    "Check whether the network wants a login first, and the mirror if HF_ENDPOINT names one; or "
    "try again later."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file on the hub, or elsewhere.  Raises DownloadError where a part has not its form."""

    origin: str
    """The repository, or the address without its credentials."""
    name: str
    """Of a file on the hub its path in the repository, each part of which may be a file's name."""
    url: str
    size: int
    """In bytes, 1 to ``MAX_FILE_BYTES``."""
    sha256: str
    """64 hexadecimal digits in lower case."""
    commit: str = ""
    """The version of the repository, 40 hexadecimal digits in lower case; empty elsewhere."""

    def __post_init__(self) -> None:
        if self.commit and not is_name(self.name):
            raise DownloadError(
                f"{self.origin} has a file {quoted(self.name)}, whose name is unsafe here.",
                remedy=f"Choose another file of it, or another repository. {ODD_REMEDY}",
            )
        if not 0 < self.size <= MAX_FILE_BYTES:
            raise DownloadError(
                f"{self.origin} gives no possible size for {self.name}.", remedy=ODD_REMEDY
            )
        if not is_sha256(self.sha256):
            raise DownloadError(
                f"{self.origin} has no SHA-256 for {self.name}.",
                remedy="On Hugging Face large files have one. `ngram pull` takes it from --sha256, "
                "too, or from a file beside the other, with `.sha256` after its name, as "
                "`sha256sum` writes it.",
            )


def is_sha256(text: str) -> bool:
    """Return whether a text is a SHA-256 in lower case."""
    return _SHA256.fullmatch(text) is not None


def is_commit(text: str) -> bool:
    """Return whether a text is the SHA-1 of a commit."""
    return _COMMIT.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Return whether a path with slashes leads to a file below its folder, on all systems."""
    return (
        text.isprintable()
        and len(text.encode()) <= _MAX_NAME_BYTES
        and all(_PART.fullmatch(part) for part in text.split("/"))
    )


def quoted(text: str) -> str:
    """Return a server's words as a message shows them."""
    return repr(text if len(text) <= _N_QUOTED else f"{text[:_N_QUOTED]}…")


def size_of(header: str) -> int | None:
    """Return the size in a Content-Length; None where it is none."""
    return int(header) if _SIZE.fullmatch(header) else None


class _Lfs(msgspec.Struct):
    sha256: str = ""


class _Sibling(msgspec.Struct):
    rfilename: str
    size: int | None = None
    lfs: _Lfs | None = None
    """None for small text files."""


class _Listing(msgspec.Struct):
    sha: str
    siblings: list[_Sibling] = []


def listed_files(
    repository: str,
    content: bytes,
    choose: Callable[[Sequence[str]], Sequence[str]],
    *,
    endpoint: str,
    sha256: str = "",
) -> list[RemoteFile]:
    """Return the files that ``choose`` picks by their names from the hub's answer ``content``.

    ``sha256`` replaces the hub's.  Raises DownloadError, and what ``choose`` raises.
    """
    if len(content) > MAX_LISTING_BYTES:
        raise DownloadError(
            f"The list of files of {repository} is longer than {MAX_LISTING_BYTES >> 20} MiB.",
            remedy=ODD_REMEDY,
        )
    try:
        listing = msgspec.json.decode(content, type=_Listing)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DownloadError(
            f"The hub's list of files of {repository} cannot be read: {error}.", remedy=ODD_REMEDY
        ) from error
    if not is_commit(listing.sha):
        raise DownloadError(f"The hub names no version of {repository}.", remedy=ODD_REMEDY)
    by_name = {sibling.rfilename: sibling for sibling in listing.siblings}
    return [
        RemoteFile(
            origin=repository,
            name=name,
            url=f"{endpoint}/{repository}/resolve/{listing.sha}/{quote(name)}",
            size=by_name[name].size or 0,
            sha256=sha256 or (lfs.sha256 if (lfs := by_name[name].lfs) else ""),
            commit=listing.sha,
        )
        for name in choose(list(by_name))
    ]
