"""The parts of a segment that do not count: files that were removed, or are open in a buffer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

import numpy as np

from speclsp.drafting.suffix_array import Places


class Gaps:
    """Disjoint stretches of a segment's reversed text, in ascending order."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        """Take (start, end) pairs in any order."""
        ordered = sorted(spans)
        self._starts = [start for start, _ in ordered]
        self._ends = [end for _, end in ordered]

    def __len__(self) -> int:
        return len(self._starts)

    def widened(self, spans: Iterable[tuple[int, int]]) -> Gaps:
        """Return a copy with more stretches."""
        copy = Gaps()
        copy._starts = self._starts.copy()
        copy._ends = self._ends.copy()
        for start, end in spans:
            copy.add(start, end)
        return copy

    def add(self, start: int, end: int) -> None:
        """Let a stretch that is disjoint from the others count no more."""
        insort(self._starts, start)
        insort(self._ends, end)

    def discard(self, start: int, end: int) -> None:
        """Let a stretch that was added count again."""
        del self._starts[bisect_left(self._starts, start)]
        del self._ends[bisect_left(self._ends, end)]

    def cover(self, place: int) -> bool:
        """Whether a place does not count."""
        idx = bisect_right(self._starts, place)
        return idx > 0 and place < self._ends[idx - 1]

    def uncovered(self, places: list[int]) -> list[int]:
        """Return those of a few places that count."""
        starts, ends = self._starts, self._ends
        return [
            place
            for place in places
            if not (idx := bisect_right(starts, place)) or place >= ends[idx - 1]
        ]

    def uncovered_places(self, places: Places) -> Places:
        """Return those of many places that count."""
        starts = np.array(self._starts, dtype=np.int32)
        ends = np.array([0, *self._ends], dtype=np.int32)
        return places[places >= ends[np.searchsorted(starts, places, side="right")]]
