"""Private keys over several lines: ``-----BEGIN … PRIVATE KEY-----`` and what follows.

Without an end marker, as in a file that was cut, the block goes on as long as its lines look like a
key's.  The search reads every character a bounded number of times.
"""

from __future__ import annotations

import re
from typing import Final

from speclsp.secrets.spans import Span

BEGIN: Final = "-----BEGIN"
_BEGINNING: Final = re.compile(
    r"-----BEGIN (?:(?:[A-Z0-9]{1,20} ){0,6}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1)-----"
)
ENDING: Final = re.compile(
    r"-----END (?:[A-Z0-9 ]{0,80}?PRIVATE KEY[A-Z ]{0,20}|OpenVPN Static key V1)-----"
)
# Nothing that a part took is ever given back: a line of n blanks would be tried in n³ ways.
_BODY_LINE: Final = re.compile(
    r"[ \t\"'`+\\.,;|#/*>\-]*+"
    r"(?:[A-Za-z][A-Za-z\-]{0,40}+: [^\n]*+|[A-Za-z0-9+/=\\ ]*+)"
    r"[ \t\"'`+\\.,;()|nr]*+"
)
_LINE_ENDS: Final = re.compile(r"\n*+")
_MAX_CHARS: Final = 20_000


def key_blocks(text: str) -> list[Span]:
    """Return the text between the markers of each private key, or behind a lone first marker."""
    blocks = []
    position = text.find(BEGIN)
    while position >= 0:
        beginning = _BEGINNING.match(text, position)
        end = position + len(BEGIN)
        if beginning is not None:
            start, end = beginning.end(), _end_of_key(text, beginning.end())
            if text[start:end].strip("\\nr \t\n\r\"'`"):
                blocks.append(Span(start, end))
        position = text.find(BEGIN, end)
    return blocks


def _end_of_key(text: str, start: int) -> int:
    """Return where the end marker begins, or the last line that looks like a key's ends."""
    latest = start + _MAX_CHARS
    next_beginning = text.find(BEGIN, start, latest)
    if next_beginning >= 0:
        latest = next_beginning + len(BEGIN)
    ending = ENDING.search(text, start, latest)
    return ending.start() if ending is not None else _end_of_body(text, start)


def _end_of_body(text: str, start: int) -> int:
    end = start
    while True:
        stop = _BODY_LINE.match(text, end).end()  # type: ignore[union-attr]  # it may be empty
        if stop < len(text) and text[stop] != "\n":
            break
        end = _LINE_ENDS.match(text, stop).end()  # type: ignore[union-attr]  # it may be empty
        if end == len(text):
            break
    # Empty lines are part of a block only where more of it follows.
    return start + len(text[start:end].rstrip())
