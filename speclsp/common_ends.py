"""How long two texts, lists of lines or lists of tokens begin and end alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

_STEP: Final = 65_536

_T = TypeVar("_T")


def common_head(old: Sequence[_T], new: Sequence[_T], n_max: int | None = None) -> int:
    """Return the length of the common beginning, at most ``n_max``.  Compares slices, in C."""
    if type(old) is not type(new):  # whose slices are never equal
        old, new = tuple(old), tuple(new)
    n_max = min(len(old) if n_max is None else n_max, len(old), len(new))
    n_alike, step = 0, min(_STEP, n_max)
    while step and n_alike < n_max:
        end = min(n_alike + step, n_max)
        if old[n_alike:end] == new[n_alike:end]:
            n_alike = end
        else:
            step //= 2
    return n_alike


def common_tail(old: Sequence[_T], new: Sequence[_T], n_max: int | None = None) -> int:
    """Return the length of the common end of two sequences of one type, at most ``n_max``."""
    n_max = min(len(old) if n_max is None else n_max, len(old), len(new))
    n_alike, step = 0, min(_STEP, n_max)
    while step and n_alike < n_max:
        n_more = min(step, n_max - n_alike)
        old_end, new_end = len(old) - n_alike, len(new) - n_alike
        if old[old_end - n_more : old_end] == new[new_end - n_more : new_end]:
            n_alike += n_more
        else:
            step //= 2
    return n_alike
