"""Says which neighbouring segments to merge, by their tokens that count, the oldest first.

Segments stay few, since a search costs time in each; and a token should be merged few times in its
life, however many files are replaced.  A size of None stands for a segment that may not be merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, TypeAlias

Run: TypeAlias = tuple[int, int]
"""The first of several neighbours to merge, and the one after the last."""

Sizes: TypeAlias = Sequence[int | None]

_FULL_SEGMENT: Final = 2_000_000
"""Tokens of a segment that is merged only where nothing smaller can be: it takes half a second."""

_EAGERNESS: Final = 2.5
"""How much better it is to make few segments of many at once than to merge a few tokens.

Found by simulation: of 1 to 3, this rewrites a token least often while files are replaced.
"""

_SETTLED_RATIO: Final = 4
"""In idle time a segment gets this much larger than all newer ones together."""
_LARGE_SHARE: Final = 16
"""Segments with at least one part in so many of all tokens are large."""
_LARGE_SEGMENTS: Final = 3
_SETTLED_SEGMENTS: Final = 4
"""Large segments, and all, in idle time: the others are room for files that change."""


def best_run(sizes: Sizes) -> Run | None:
    """Return what to merge where there are too many segments; None where nothing can be.

    What counts is the cost, which is the tokens to sort, for each segment fewer; and more so the
    more there are, for merging many small ones at once spares merging them one after another.
    Segments stay below the full size unless nothing else can be merged.
    """
    full_size = _full_size(sizes)
    best: tuple[bool, float] | None = None
    best_run: Run | None = None
    for low in range(len(sizes) - 1):
        n_tokens = 0
        for high, size in enumerate(sizes[low:], start=low):
            if size is None:
                break
            n_tokens += size
            if high == low:
                continue
            score = (n_tokens > full_size, n_tokens / (high - low) ** _EAGERNESS)
            if best is None or score < best:
                best, best_run = score, (low, high + 1)
    return best_run


def run_to_settle(sizes: Sizes) -> Run | None:
    """Return what to merge in idle time; None where that is done.

    Of the newest segments those become one of which none is much larger than all newer ones
    together, so that what was merged lately is not merged again for a few files.  Then of the
    large ones those become one that are smallest, until few are left, and so do those between.
    """
    first = _first_to_settle(sizes)
    if first < len(sizes) - 1:
        return first, len(sizes)
    large = [
        idx for idx, size in enumerate(sizes) if (size or 0) * _LARGE_SHARE >= _n_tokens(sizes)
    ]
    if None in sizes:
        return None
    if len(large) > _LARGE_SEGMENTS:
        runs = [(low, high + 1) for low, high in pairwise(large)]
        return min(runs, key=lambda run: _n_tokens(sizes[slice(*run)]))
    return best_run(sizes) if len(sizes) > _SETTLED_SEGMENTS else None


def _first_to_settle(sizes: Sizes) -> int:
    full_size = _full_size(sizes)
    first = len(sizes)
    n_merged = 0
    for idx in reversed(range(len(sizes))):
        size = sizes[idx]
        if size is None or size + n_merged > full_size:
            break
        if size < _SETTLED_RATIO * n_merged:
            first = idx
        n_merged += size
    return first


def _full_size(sizes: Sizes) -> int:
    return max(_FULL_SEGMENT, _n_tokens(sizes) // 2)


def _n_tokens(sizes: Sizes) -> int:
    return sum(size or 0 for size in sizes)
