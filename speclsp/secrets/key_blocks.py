"""Private keys over several lines: ``-----BEGIN … PRIVATE KEY-----`` and what follows.

The end marker may be missing, while the block is being pasted or where a file was cut: then the
block goes on as long as its lines look like one.

Every character is looked at a bounded number of times, whatever the text, and of a text that
changed only what the change can matter to.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from speclsp.secrets.spans import Span

_BEGIN: Final = "-----BEGIN"
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
MOST_MARKERS: Final = 1_000
"""Markers of a text that are kept; of one with more nobody wants to know where they are."""
_LINE_ENDS: Final = re.compile(r"\n*+")
_MAX_CHARS: Final = 20_000
_SEEN_BEYOND: Final = 200
"""Expressions look at no more than this beyond what they match."""


class KeyMarker(NamedTuple):
    """A place where a block may begin, and what became of that."""

    start: int
    end: int
    """From here on the next marker is looked for."""
    seen_end: int
    """What stands from here on has no say in this marker."""
    span: Span | None
    """What lies between a private key's markers; None where there is nothing."""

    def moved(self, shift: int) -> KeyMarker:
        """Return the marker where ``shift`` characters have come in before it."""
        start, end, seen_end, span = self
        moved = None if span is None else Span(span.start + shift, span.end + shift)
        return KeyMarker(start + shift, end + shift, seen_end + shift, moved)


def key_blocks(text: str) -> Iterator[Span]:
    """Yield what lies between a private key's markers, or behind the first of them."""
    position = text.find(_BEGIN)
    while position >= 0:
        marker = _marker_at(text, position, sys.maxsize)
        if marker.span is not None:
            yield marker.span
        position = text.find(_BEGIN, marker.end)


def key_markers(
    text: str, former: Sequence[KeyMarker], *, n_head: int, n_tail: int, shift: int, n_most: int
) -> list[KeyMarker] | None:
    """Return the markers of a text, of whose former version ``former`` are the markers.

    The versions have ``n_head`` characters at the beginning in common and ``n_tail`` at the end,
    and the text is ``shift`` longer.  Where there are more than ``MOST_MARKERS`` not all come back.
    None where more than ``n_most`` characters have to be looked at in blocks.
    """
    markers = list(takewhile(lambda marker: marker.seen_end <= n_head, former))
    n_left = n_most
    position = text.find(_BEGIN, markers[-1].end if markers else 0)
    while position >= 0 and len(markers) <= MOST_MARKERS:
        if position >= len(text) - n_tail:
            # Where the former version had a marker in what is the same, all behind it is the same.
            idx = bisect_left(former, position - shift, key=lambda marker: marker.start)
            if idx < len(former) and former[idx].start == position - shift:
                return [*markers, *(marker.moved(shift) for marker in former[idx:])]
        marker = _marker_at(text, position, n_left)
        n_left -= marker.seen_end - marker.start
        if n_left < 0:
            return None
        markers.append(marker)
        position = text.find(_BEGIN, marker.end)
    return markers


def _marker_at(text: str, position: int, n_most: int) -> KeyMarker:
    """Return the marker at a position; one of a block that is too long is not to the end."""
    beginning = _BEGINNING.match(text, position)
    if beginning is None:
        return KeyMarker(position, position + len(_BEGIN), position + _SEEN_BEYOND, None)
    start = beginning.end()
    latest = start + _MAX_CHARS
    next_beginning = text.find(_BEGIN, start, latest)
    if next_beginning >= 0:
        latest = next_beginning + len(_BEGIN)
    ending = ENDING.search(text, start, latest)
    if ending is not None:
        end, seen_end = ending.start(), ending.end()
    else:
        end, seen_end = _end_of_body(text, start, n_most)
        seen_end = max(seen_end, latest) + _SEEN_BEYOND
    has_key = bool(text[start:end].strip("\\nr \t\n\r\"'`"))
    return KeyMarker(position, end, seen_end, Span(start, end) if has_key else None)


def _end_of_body(text: str, start: int, n_most: int) -> tuple[int, int]:
    """Return where the last line of a block ends, and how far was looked for that."""
    end = stop = start
    while stop - start <= n_most:
        stop = _BODY_LINE.match(text, end).end()  # type: ignore[union-attr]  # it may be empty
        if stop < len(text) and text[stop] != "\n":
            break
        end = _LINE_ENDS.match(text, stop).end()  # type: ignore[union-attr]  # it may be empty
        if end == len(text):
            break
    # Empty lines are part of a block only where more of it follows.
    return start + len(text[start:end].rstrip()), stop
