"""Finds where the records of a file in llama.cpp's layout begin.

A record is 4 tokens, n, and n pairs; only n says where the next one begins, so they form a chain.
Unused tokens are −1, which stands nowhere else, and the last of a record's four is followed by its
n.  So a −1 before something else shows where a record begins, anywhere in the file: from there
thousands of chains are followed at once, each up to the beginning of the next.  Where such marks
are missing (n-grams of 4 tokens have none), or contradict the chains (the file is damaged), there
is one chain, record by record.
"""

from __future__ import annotations

import math
from array import array
from typing import Final

import numpy as np
from numpy.typing import NDArray

Int32Array = NDArray[np.int32]
"""The file, as native 32-bit numbers."""
Places = NDArray[np.int64]
"""Indices of words."""

N_TOKENS: Final = 4
"""Tokens of an n-gram in the layout; unused ones are −1."""
HEADER: Final = N_TOKENS + 1
"""Words of a record before its pairs."""

_UNUSED: Final = -1
_LONGEST_MARK_SEARCH: Final = 64
_MIN_CHAINS: Final = 16
_UNEVEN: Final = 32


def record_starts(words: Int32Array) -> tuple[Places, int]:
    """Return where the records begin, and where the chain ends.

    It ends at the end of the words, or where a record claims no pairs or more than there are.
    """
    starts = _starts_by_marks(words)
    return _starts_in_a_chain(words) if starts is None else (starts, len(words))


def _starts_by_marks(words: Int32Array) -> Places | None:
    """Follow many chains at once; None where the file does not allow it."""
    heads = _marked_starts(words)
    if len(heads) < _MIN_CHAINS:
        return None
    ends = np.append(heads[1:], len(words))
    if int((ends - heads).max()) * len(heads) > _UNEVEN * len(words):
        return None
    visited: list[Places] = []
    chains: list[Places] = []
    numbers = np.arange(len(heads))
    places = heads
    while places.size:
        if int(places.max()) + HEADER > len(words):
            return None
        n_pairs = words[places + N_TOKENS]
        if int(n_pairs.min()) < 1:
            return None
        visited.append(places)
        chains.append(numbers)
        places = places + HEADER + 2 * n_pairs.astype(np.int64)
        beyond = places - ends
        if int(beyond.max()) >= 0:
            if (beyond > 0).any():
                return None
            going_on = beyond < 0
            places, numbers, ends = places[going_on], numbers[going_on], ends[going_on]
    return _in_file_order(visited, chains, len(heads))


def _in_file_order(visited: list[Places], chains: list[Places], n_chains: int) -> Places:
    """Lay the chains' records end to end."""
    n_records = np.zeros(n_chains + 1, dtype=np.int64)
    for numbers in chains:
        n_records[numbers + 1] += 1
    offsets = np.cumsum(n_records)[:-1]
    starts = np.empty(sum(map(len, visited)), dtype=np.int64)
    for step, (places, numbers) in enumerate(zip(visited, chains, strict=True)):
        starts[offsets[numbers] + step] = places
    return starts


def _marked_starts(words: Int32Array) -> Places:
    """Return where some records must begin, about evenly spaced, the first at 0."""
    n_chains = math.isqrt(len(words))
    spacing = max(len(words) // max(n_chains, 1), _LONGEST_MARK_SEARCH)
    firsts = np.arange(spacing, len(words) - _LONGEST_MARK_SEARCH, spacing)
    if not firsts.size:
        return np.zeros(1, dtype=np.int64)
    window = words[firsts[:, None] + np.arange(_LONGEST_MARK_SEARCH)]
    is_mark = (window[:, :-1] == _UNUSED) & (window[:, 1:] != _UNUSED)
    found = is_mark.any(axis=1)
    heads = firsts[found] + is_mark[found].argmax(axis=1) - (N_TOKENS - 1)
    return np.unique(np.append(heads, 0))


def _starts_in_a_chain(words: Int32Array) -> tuple[Places, int]:
    view = words.data
    n_words = len(words)
    starts = array("q")
    place = 0
    while place + HEADER <= n_words:
        n_pairs = view[place + N_TOKENS]
        end = place + HEADER + 2 * n_pairs
        if n_pairs < 1 or end > n_words:
            break
        starts.append(place)
        place = end
    return np.frombuffer(starts, dtype=np.int64) if starts else np.zeros(0, np.int64), place
