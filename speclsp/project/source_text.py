"""Reads a file as source text, its secrets masked, or says why it is none."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from speclsp.secrets.line_scan import kind_of
from speclsp.secrets.masked_text import masked

SkipReason = Literal["unreadable", "huge", "binary", "minified"]

Mask = Callable[[str, str], str]
"""From a text and the path of its file to the text without secrets."""

_SNIFFED_BYTES: Final = 8192
_LONGEST_LINE: Final = 20_000
_LONG_MEAN_LINE: Final = 400
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file's text, and the hash that it is known by: of its bytes, and of how it was masked."""

    text: str
    content: bytes


def read_source(path: str, max_file_size: int, mask: Mask = masked) -> SourceText | SkipReason:
    """Read a regular file of UTF-8 text; links are not followed, and pipes do not block."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return "unreadable"
            data = stream.read(max_file_size + 1)
    except (OSError, ValueError):
        return "unreadable"
    if len(data) > max_file_size:
        return "huge"
    text = _decoded(data)
    if text is None:
        return "binary"
    if _is_minified(text):
        return "minified"
    # Two files of the same bytes may be masked differently, by their names.
    digest = hashlib.blake2b(data, digest_size=_DIGEST_BYTES, person=kind_of(path).encode())
    return SourceText(mask(text, path), digest.digest())


def unmasked(text: str, path: str) -> str:  # noqa: ARG001  # a Mask
    """Return the text as it is, for users who switched masking off."""
    return text


def _decoded(data: bytes) -> str | None:
    """Text of UTF-8 bytes without a byte-order mark; None where they are none.

    Line ends become LF, as in buffers and prompts: other tokens would never match theirs.
    """
    if b"\0" in data[:_SNIFFED_BYTES]:
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.replace("\r\n", "\n")


def _is_minified(text: str) -> bool:
    """Whether the lines are too long to have been typed."""
    lines = text.split("\n")
    n_chars_per_line = len(text) / len(lines)
    return n_chars_per_line > _LONG_MEAN_LINE or max(map(len, lines)) > _LONGEST_LINE
