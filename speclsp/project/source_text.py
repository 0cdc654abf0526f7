"""Reads a file as source text with its secrets masked."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from speclsp.secrets.line_scan import kind_of
from speclsp.secrets.masked_text import masked

Mask = Callable[[str, str], str]
"""Takes a text and the path of its file; returns the text without secrets."""

MAX_BYTES: Final = 512 << 10
"""Bytes of the largest file that is read: masking and tokenising it takes 0.4 s of processor time
(0.28 and 0.55 µs a character with Qwen2.5-Coder's vocabulary)."""
_SNIFFED_BYTES: Final = 8192
_LONGEST_LINE: Final = 20_000
_LONG_MEAN_LINE: Final = 400
_DIGEST_BYTES: Final = 16
_FLAGS: Final = sum(getattr(os, flag, 0) for flag in ("O_BINARY", "O_CLOEXEC", "O_NONBLOCK"))
NO_LINKS: Final = getattr(os, "O_NOFOLLOW", 0)
"""Flag of :func:`read_regular`; Windows lacks it, and some of ``_FLAGS``."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file's text, and a hash of its bytes and of the rules that masked it."""

    text: str
    content: bytes


def read_source(path: str, mask: Mask = masked) -> SourceText | None:
    """Read a regular file of UTF-8 text; does not follow links nor block on pipes.

    Returns None for a file that is unreadable, larger than ``MAX_BYTES``, binary or
    minified.
    """
    try:
        data = read_regular(path, MAX_BYTES + 1, flags=NO_LINKS)
    except (OSError, ValueError):
        return None
    text = None if len(data) > MAX_BYTES else _decoded(data)
    if text is None or _is_minified(text):
        return None
    # Files with equal bytes and different names may be masked differently.
    digest = hashlib.blake2b(data, digest_size=_DIGEST_BYTES, person=kind_of(path).encode())
    return SourceText(mask(text, path), digest.digest())


def read_regular(path: str | Path, max_bytes: int, *, flags: int = 0) -> bytes:
    """Return at most ``max_bytes`` of a regular file; see :func:`open_regular`."""
    with open_regular(path, flags=flags) as stream:
        return stream.read(max_bytes)


def open_regular(path: str | Path, *, flags: int = 0) -> BinaryIO:
    """Open a regular file to read it; ``flags`` are further ones of ``os.open``.

    Raises OSError, also for pipes, sockets and devices, for which it does not wait, and ValueError
    for a path with a NUL.
    """
    descriptor = os.open(path, os.O_RDONLY | _FLAGS | flags)
    stream = os.fdopen(descriptor, "rb")
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return stream
    stream.close()
    raise OSError(f"{path} is no regular file")


def unmasked(text: str, path: str) -> str:  # noqa: ARG001  # a Mask
    """Return the text unchanged, for users who switched masking off."""
    return text


def _decoded(data: bytes) -> str | None:
    """Decode UTF-8 without a byte-order mark; None for other content.

    Line ends become LF as in buffers and prompts, whose tokens would not match otherwise.
    """
    if b"\0" in data[:_SNIFFED_BYTES]:
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.replace("\r\n", "\n")


def _is_minified(text: str) -> bool:
    """Whether the lines are too long for text written by hand."""
    lines = text.split("\n")
    n_chars_per_line = len(text) / len(lines)
    return n_chars_per_line > _LONG_MEAN_LINE or max(map(len, lines)) > _LONGEST_LINE
