"""Sorts the contexts of a reversed text: a suffix array, by prefix doubling.

Manber and Myers 1993; groups that are already told apart are left alone, as in Larsson and
Sadakane 2007.  Each round packs what it sorts by and where it came from into one 64-bit number
where that fits, because NumPy sorts numbers twice as fast as it sorts their indices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

DEPTH: Final = 48
"""Tokens of context by which places are sorted: the longest match that is counted."""

SEPARATOR: Final = 0
"""Stands between files in a reversed text; tokens in it are one more than their ids."""

Places: TypeAlias = NDArray[np.int32]
"""Where contexts begin in the reversed text.  A smaller place is later in the segment."""

_WORD_BITS: Final = 64
_PIECE: Final = 1 << 17
_Number = TypeVar("_Number", np.int32, np.uint32)
_Index = TypeVar("_Index", np.int32, np.int64)


class SortInterruptedError(Exception):
    """Sorting was given up because it was asked to."""


def sorted_places(
    text: NDArray[np.uint32], interrupted: Callable[[], bool] = lambda: False
) -> Places:
    """Sort all places of a reversed text by :data:`DEPTH` tokens of context.

    Leaves out places with no context in their file, and those with nothing to follow them.  The
    text begins with a separator and ends with DEPTH of them.
    Raises :class:`SortInterruptedError`, within a round, where ``interrupted`` says so.
    """
    order, is_first, n_sorted = _sorted_by_first_tokens(text)
    starts = _last_true(is_first)
    rank = np.empty(len(text), dtype=np.uint32)
    _put(rank, order, starts)
    # What is not yet told apart from its neighbours: ranks, what stands there, and for each the
    # first rank of its group.
    open_ranks = np.flatnonzero(_is_shared(is_first))
    places = order.take(open_ranks)
    groups = starts.take(open_ranks)
    while n_sorted < DEPTH and len(open_ranks):
        if interrupted():
            raise SortInterruptedError
        # Contexts equal in n_sorted tokens are told apart by the rank of what comes after these.
        following = rank.take(places + np.int32(n_sorted), mode="clip")
        within, is_first = _sorted_in_groups(groups, following)
        places = places.take(within)
        groups = open_ranks.take(_last_true(is_first))
        _put(order, open_ranks, places)
        _put(rank, places, groups)
        still_open = np.flatnonzero(_is_shared(is_first))
        open_ranks = open_ranks.take(still_open)
        places = places.take(still_open)
        groups = groups.take(still_open)
        n_sorted *= 2
    kept = text.take(order) != SEPARATOR
    # Place 0 is a separator: what is not kept anyway may wrap round.
    kept &= text.take(order - np.int32(1), mode="wrap") != SEPARATOR
    return order.take(np.flatnonzero(kept))


def _sorted_by_first_tokens(
    text: NDArray[np.uint32],
) -> tuple[Places, NDArray[np.bool_], int]:
    """Sort by as many tokens as fit into a number beside the place.

    Returns the places, whether each differs from the one before, and the tokens sorted by.
    """
    dense, n_token_bits = _renumbered(text)
    n_place_bits = (len(text) - 1).bit_length()
    n_tokens = max(1, min(4, (_WORD_BITS - n_place_bits) // n_token_bits))
    packed = dense.astype(np.uint64)
    for token_idx in range(1, n_tokens):
        packed <<= np.uint64(n_token_bits)
        packed[:-token_idx] |= dense[token_idx:]
    packed <<= np.uint64(n_place_bits)
    packed |= np.arange(len(text), dtype=np.uint64)
    packed.sort()
    order = (packed & np.uint64((1 << n_place_bits) - 1)).astype(np.int32)
    packed >>= np.uint64(n_place_bits)
    return order, _differs_from_former(packed), n_tokens


def _renumbered(text: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], int]:
    """Number the tokens that occur without gaps, in their order; returns the bits they take."""
    occurs = np.zeros(int(text.max()) + 1, dtype=np.uint32)
    for start in range(0, len(text), _PIECE):
        occurs[text[start : start + _PIECE]] = 1
    numbers = np.cumsum(occurs, dtype=np.uint32) - np.uint32(1)
    return numbers.take(text), max(1, int(numbers[-1]).bit_length())


def _sorted_in_groups(
    groups: NDArray[np.int64], values: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Sort values within groups, which are ascending numbers.

    Returns where each comes from, and whether it differs from the one before.
    """
    # Numbered without gaps, groups take fewer bits.
    packed = np.cumsum(_differs_from_former(groups), dtype=np.uint64)
    n_value_bits = int(values.max()).bit_length()
    n_item_bits = (len(values) - 1).bit_length()
    n_bits = int(packed[-1]).bit_length() + n_value_bits + n_item_bits
    packed <<= np.uint64(n_value_bits)
    packed |= values
    if n_bits > _WORD_BITS:
        within = np.argsort(packed)
        return within, _differs_from_former(packed.take(within))
    packed <<= np.uint64(n_item_bits)
    packed |= np.arange(len(values), dtype=np.uint64)
    packed.sort()
    within = (packed & np.uint64((1 << n_item_bits) - 1)).astype(np.int64)
    packed >>= np.uint64(n_item_bits)
    return within, _differs_from_former(packed)


def _differs_from_former(values: NDArray[np.uint64] | NDArray[np.int64]) -> NDArray[np.bool_]:
    differs = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs


def _last_true(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each index the last one up to it whose flag is set; the first flag is."""
    return np.flatnonzero(flags).take(np.cumsum(flags, dtype=np.int64) - 1)


def _put(target: NDArray[_Number], indices: NDArray[_Index], values: NDArray[np.generic]) -> None:
    """Assign to items in small pieces: meanwhile no other thread runs, and look-ups want to."""
    for start in range(0, len(indices), _PIECE):
        end = start + _PIECE
        target[indices[start:end]] = values[start:end]


def _is_shared(is_first: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which items of a sorted array are in one group with another, by the groups' first items."""
    is_last = np.ones(len(is_first), dtype=np.bool_)
    is_last[:-1] = is_first[1:]
    is_last &= is_first
    return ~is_last
