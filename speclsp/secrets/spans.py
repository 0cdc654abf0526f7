"""Places in a text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """``text[start:end]``, in code points."""

    start: int
    end: int


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order, those that touch or overlap joined."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.start <= joined[-1].end:
            if span.end > joined[-1].end:
                joined[-1] = Span(joined[-1].start, span.end)
        elif span.end > span.start:
            joined.append(span)
    return joined
