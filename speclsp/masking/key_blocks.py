"""Private keys over several lines: ``-----BEGIN … PRIVATE KEY-----`` and what follows.

The end marker may be missing, while the block is being pasted or where a file was cut: then the
block goes on as long as its lines look like one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from speclsp.masking.spans import Span

_BEGIN: Final = "-----BEGIN"
_BEGINNING: Final = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_END: Final = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----")
_BODY_LINE: Final = re.compile(
    r"[ \t\"'`+\\.,;|#/*>\-]*"
    r"(?:[A-Za-z][A-Za-z\-]*: [^\n]*|[A-Za-z0-9+/=\\ ]*)"
    r"[ \t\"'`+\\.,;()|nr]*"
)
_MAX_CHARS: Final = 20_000


def key_blocks(text: str) -> Iterator[Span]:
    """Yield what lies between a private key's markers, or behind the first of them."""
    position = text.find(_BEGIN)
    while position >= 0:
        beginning = _BEGINNING.match(text, position)
        end = position + len(_BEGIN)
        if beginning is not None:
            end = _end_of_block(text, beginning.end())
            start = beginning.end()
            if text[start:end].strip("\\nr \t\n\r\"'`"):
                yield Span(start, end)
        position = text.find(_BEGIN, end)


def _end_of_block(text: str, start: int) -> int:
    ending = _END.search(text, start, start + _MAX_CHARS)
    between = ending.start() if ending is not None else -1
    if ending is not None and _BEGIN not in text[start:between]:
        return between
    end = start
    while end < len(text):
        line_end = text.find("\n", end)
        line_end = len(text) if line_end < 0 else line_end
        if not _BODY_LINE.fullmatch(text, end, line_end):
            break
        # Empty lines are part of a block only where more of it follows.
        end = line_end + 1
    return min(len(text), max(start, len(text[:end].rstrip())))
