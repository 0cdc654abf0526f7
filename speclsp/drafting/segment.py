"""An immutable, searchable piece of a corpus: a suffix array over reversed contexts.

The files' tokens are laid end to end, separated so that no match crosses from one into another,
and the whole text is turned round.  What stood *before* a position is then what *follows* it, so
the contexts are suffixes of the reversed text.  Sorting them (a suffix array, Manber and Myers
1993, by prefix doubling; groups that are already told apart are left alone as in Larsson and
Sadakane 2007) brings equal contexts together.  The longest match of a query then lies beside the
place where the query would be inserted, and all places that share it form one range.  Nothing is
hashed: nothing needs verifying, and no candidate is missed.

Memory per token: 4 bytes of text, 4 of suffix array, 8 of sorted keys of the first three tokens.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.protocol import TokenArray

DEPTH: Final = 48
"""Tokens of context by which places are sorted: the longest match that is counted."""

MAX_TOKEN: Final = 2**21 - 2
"""Largest token id that can be indexed: three of them, each plus one, share a key of 63 bits."""

_KEY_TOKENS: Final = 3
_KEY_BITS: Final = 21
_SEPARATOR: Final = 0
_TOKEN_BYTES: Final = 4

FileKey: TypeAlias = bytes
"""What a file is known by: the hash of its content."""

Places: TypeAlias = NDArray[np.int32]
"""Where contexts begin in the reversed text.  A smaller place is later in the segment."""

Stretches: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Stretches of the reversed text that do not count: their sorted starts, and their ends."""


class Query:
    """The end of a token sequence, prepared for searching segments.

    It takes at most the last ``n_max`` tokens, and none before an id that no file can hold.
    """

    __slots__ = ("key", "n_tokens", "text")

    def __init__(self, tail: TokenArray, n_max: int) -> None:
        values = [token + 1 for token in tail[-min(n_max, DEPTH) :][::-1].tolist()]
        if values and not 0 < min(values) <= max(values) <= MAX_TOKEN + 1:
            values = list(takewhile(lambda value: 0 < value <= MAX_TOKEN + 1, values))
        self.n_tokens = len(values)
        self.text = struct.pack(f">{len(values)}I", *values)
        first, second, third = [*values, _SEPARATOR, _SEPARATOR, _SEPARATOR][:_KEY_TOKENS]
        self.key = (first << 2 * _KEY_BITS) | (second << _KEY_BITS) | third


class Segment:
    """Several files' tokens with their index; never changes, so any thread may read it."""

    __slots__ = (
        "_keys",
        "_order",
        "_text",
        "_view_of_keys",
        "_view_of_order",
        "n_tokens",
        "spans",
    )

    def __init__(self, files: Sequence[tuple[FileKey, TokenArray]]) -> None:
        """Index files; the later ones are the newer ones.  Raises ValueError for a bad token."""
        text, self.spans = _reversed_text(files)
        self.n_tokens = sum(len(tokens) for _, tokens in files)
        self._order, self._keys = _sorted_contexts(text)
        # Big-endian, so that comparing bytes compares tokens.
        self._text = text.astype(">u4").tobytes()
        # Items of a memoryview are read several times faster than items of an array.
        self._view_of_order = self._order.data
        self._view_of_keys = self._keys.data

    spans: Mapping[FileKey, tuple[int, int]]
    """Where each file lies in the reversed text."""

    @property
    def n_bytes(self) -> int:
        """Memory that the segment occupies, the table of files aside."""
        return len(self._text) + self._order.nbytes + self._keys.nbytes

    def file_tokens(self, key: FileKey) -> TokenArray:
        """Return a file's tokens.  Raises KeyError."""
        start, end = self.spans[key]
        part = self._text[start * _TOKEN_BYTES : end * _TOKEN_BYTES]
        return np.frombuffer(part, dtype=">u4")[::-1].astype(np.int32) - np.int32(1)

    def continuation(self, place: int, n_tokens: int) -> list[int]:
        """Return the ``n_tokens`` tokens that follow a place in its file, or fewer."""
        n_tokens = min(n_tokens, place)
        start = (place - n_tokens) * _TOKEN_BYTES
        values = struct.unpack_from(f">{n_tokens}I", self._text, start)[::-1]
        if _SEPARATOR in values:
            values = values[: values.index(_SEPARATOR)]
        return [value - 1 for value in values]

    def longest_match(
        self, query: Query, n_min: int, hidden: Stretches | None
    ) -> tuple[Places, int]:
        """Find all places that share the most tokens with the query, ``n_min`` at least.

        Returns the places and the match's length; (empty, 0) for no match.
        """
        keys = self._view_of_keys
        group_low = bisect_left(keys, query.key)
        if group_low < len(keys) and keys[group_low] == query.key:
            group_high = bisect_right(keys, query.key, group_low)
        elif n_min >= _KEY_TOKENS:
            return self._order[:0], 0
        else:
            group_high = group_low
        low = high = self._bisect(query.text, group_low, group_high)
        left, right = self._n_shared(query, low - 1), self._n_shared(query, high)
        while (n_shared := max(left, right)) >= n_min:
            stem = query.text[: n_shared * _TOKEN_BYTES]
            in_group = n_shared >= _KEY_TOKENS
            if left == n_shared:
                low = self._bisect(stem, group_low if in_group else 0, low)
            if right == n_shared:
                end = group_high if in_group else len(self._order)
                high = self._bisect(stem + b"\xff", high, end)
            places = self._order[low:high]
            if hidden is not None:
                places = places[~_inside(places, hidden)]
            if len(places):
                return places, n_shared
            left, right = self._n_shared(query, low - 1), self._n_shared(query, high)
        return self._order[:0], 0

    def _bisect(self, stem: bytes, low: int, high: int) -> int:
        """First rank in [low, high) whose context, cut to the stem's length, is not below it."""
        if low >= high:
            return low
        text, order, n_bytes = self._text, self._view_of_order, len(stem)

        def context(rank: int) -> bytes:
            start = order[rank] * _TOKEN_BYTES
            return text[start : start + n_bytes]

        return bisect_left(range(high), stem, low, high, key=context)

    def _n_shared(self, query: Query, rank: int) -> int:
        """How many tokens the context of a rank shares with the query; -1 outside the array."""
        if not 0 <= rank < len(self._order):
            return -1
        start = self._view_of_order[rank] * _TOKEN_BYTES
        n_bytes = len(query.text)
        context = self._text[start : start + n_bytes]
        difference = int.from_bytes(context, "big") ^ int.from_bytes(query.text, "big")
        return (8 * n_bytes - difference.bit_length()) // (8 * _TOKEN_BYTES)


def _reversed_text(
    files: Sequence[tuple[FileKey, TokenArray]],
) -> tuple[NDArray[np.uint32], dict[FileKey, tuple[int, int]]]:
    """Lay the files end to end, the last first, each reversed, with separators between.

    One separator stands at the beginning, and as many as the longest query at the end, so that a
    context can be read past the end.
    """
    n_total = sum(len(tokens) + 1 for _, tokens in files) + 1 + DEPTH
    text = np.zeros(n_total, dtype=np.uint32)
    spans: dict[FileKey, tuple[int, int]] = {}
    start = 1
    for key, tokens in reversed(files):
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) <= MAX_TOKEN:
            raise ValueError(f"token ids from {tokens.min()} to {tokens.max()} cannot be indexed")
        end = start + len(tokens)
        text[start:end] = tokens[::-1]
        text[start:end] += np.uint32(1)
        spans[key] = (start, end)
        start = end + 1
    return text, spans


def _sorted_contexts(text: NDArray[np.uint32]) -> tuple[Places, NDArray[np.uint64]]:
    """Sort all places by DEPTH tokens of context, and give the first three as keys.

    Leaves out places with no context in their file, and those with nothing to follow them.
    """
    n_places = len(text)
    keys = text.astype(np.uint64) << np.uint64(2 * _KEY_BITS)
    keys[:-1] |= text[1:].astype(np.uint64) << np.uint64(_KEY_BITS)
    keys[:-2] |= text[2:]
    order = np.argsort(keys).astype(np.int32)
    keys = keys[order]
    starts = _group_starts(keys)
    rank = np.empty(n_places, dtype=np.uint32)
    rank[order] = starts
    n_sorted = _KEY_TOKENS
    while n_sorted < DEPTH:
        open_ranks = _ranks_in_groups(starts)
        if not len(open_ranks):
            break
        # Contexts equal in n_sorted tokens are told apart by the rank of what comes after these.
        places = order[open_ranks]
        pairs = starts[open_ranks].astype(np.uint64) << np.uint64(32)
        pairs |= rank[np.minimum(places + np.int32(n_sorted), np.int32(n_places - 1))]
        within = np.argsort(pairs)
        pairs = pairs[within]
        places = places[within]
        order[open_ranks] = places
        starts[open_ranks] = open_ranks[_group_starts(pairs)]
        rank[places] = starts[open_ranks]
        n_sorted *= 2
    kept = text[order] != _SEPARATOR
    # Place 0 is a separator: what is not kept anyway may wrap round.
    kept &= text[order - np.int32(1)] != _SEPARATOR
    return order[kept], keys[kept]


def _group_starts(values: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """For each item of a sorted array the index of the first equal one."""
    starts = np.arange(len(values), dtype=np.uint32)
    starts[1:][values[1:] == values[:-1]] = 0
    np.maximum.accumulate(starts, out=starts)
    return starts


def _ranks_in_groups(starts: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Ranks that share their group with another rank."""
    alone = np.ones(len(starts) + 1, dtype=np.bool_)
    np.not_equal(starts[1:], starts[:-1], out=alone[1:-1])
    return np.flatnonzero(~(alone[:-1] & alone[1:])).astype(np.uint32)


def _inside(places: Places, stretches: Stretches) -> NDArray[np.bool_]:
    """Which places lie in one of the stretches."""
    starts, ends = stretches
    stretch_idx = np.searchsorted(starts, places, side="right") - 1
    result: NDArray[np.bool_] = (stretch_idx >= 0) & (places < ends[stretch_idx])
    return result
