"""An immutable, searchable piece of a corpus: a suffix array over reversed contexts.

The files' tokens are laid end to end, separated so that no match crosses from one into another,
and the whole text is turned round.  What stood *before* a position is then what *follows* it, so
the contexts are suffixes of the reversed text, and :mod:`~speclsp.drafting.suffix_array` sorts
them.  That brings equal contexts together: the longest match of a query lies beside the place
where the query would be inserted, and all places that share it form one range.  Nothing is
hashed: nothing needs verifying, and no candidate is missed.

Six tokens of each context are kept beside it as two sorted keys, so that a search compares
numbers; only among contexts that agree in all six it reads the text.

Memory per token: 4 bytes of text, 4 of suffix array, 16 of keys.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.gaps import Gaps
from speclsp.drafting.protocol import TokenArray
from speclsp.drafting.query import KEY_BITS, KEY_TOKENS, Query
from speclsp.drafting.suffix_array import SEPARATOR, Places

TOKEN_BYTES: Final = 4
SEPARATOR_TEXT: Final = bytes(TOKEN_BYTES)
_END: Final = SEPARATOR - 1
_N_PROBED: Final = 4
"""Places that are looked at one by one for whether a match counts, before all are."""
_FAR: Final = (1 << KEY_TOKENS * KEY_BITS) - 1
"""Differs from a key in all tokens."""
_N_NEAR: Final = 64
"""A range's other end is looked for so near to the one before it is looked for anywhere."""

FileKey: TypeAlias = bytes
"""What a file is known by: the hash of its content."""

SortKeys: TypeAlias = NDArray[np.uint64]
"""Three tokens each, the nearest to the place in the highest bits."""


class Match(NamedTuple):
    """Where a segment holds the longest match; ``n_tokens`` is 0 where it holds none."""

    n_tokens: int
    low: int
    high: int
    """The ranks from low to high - 1 are the match's places, those in gaps included."""


NO_MATCH: Final = Match(0, 0, 0)


@dataclass(frozen=True, slots=True)
class SegmentParts:
    """What a segment consists of, for example in a file."""

    spans: Mapping[FileKey, tuple[int, int]]
    """Where each file lies in the reversed text."""
    text: bytes | mmap.mmap
    """The reversed text, big-endian, so that comparing bytes compares tokens."""
    order: Places
    """Contexts in sorted order."""
    keys: SortKeys
    """The three nearest tokens of each context, in sorted order."""
    deeper_keys: SortKeys
    """The three tokens further back."""


class Segment:
    """Several files' tokens with their index; never changes, so any thread may read it."""

    __slots__ = ("_deeper_keys", "_keys", "_order", "_text", "n_tokens", "parts", "spans")

    def __init__(self, parts: SegmentParts) -> None:
        self.parts = parts
        self.spans = parts.spans
        self.n_tokens = sum(end - start for start, end in self.spans.values())
        self._text = parts.text
        # Items of a memoryview are read several times faster than items of an array.
        self._order = parts.order.data
        self._keys = parts.keys.data
        self._deeper_keys = parts.deeper_keys.data

    @property
    def n_bytes(self) -> int:
        """Memory that the segment occupies, the table of files aside."""
        parts = self.parts
        arrays = (parts.order, parts.keys, parts.deeper_keys)
        return len(parts.text) + sum(array.nbytes for array in arrays)

    def file_tokens(self, key: FileKey) -> TokenArray:
        """Return a file's tokens.  Raises KeyError."""
        start, end = self.spans[key]
        part = self._text[start * TOKEN_BYTES : end * TOKEN_BYTES]
        return np.frombuffer(part, dtype=">u4")[::-1].astype(np.int32) - np.int32(1)

    def texts_after(self, places: Sequence[int], n_tokens: int) -> list[bytes]:
        """Return for each place the reversed text of what follows it, for :func:`tokens_of`.

        It has ``n_tokens`` tokens, or fewer at the segment's end.
        """
        text, n_bytes = self._text, n_tokens * TOKEN_BYTES
        ends = [place * TOKEN_BYTES for place in places]
        return [text[max(0, end - n_bytes) : end] for end in ends]

    def longest_match(self, query: Query, n_min: int, gaps: Gaps | None) -> Match:
        """Find the places that share the most tokens with the query, ``n_min`` at least.

        At least one of them is in no gap.
        """
        low, high, n_shared = self._longest_range(query, n_min)
        while n_shared >= n_min:
            if (
                gaps is None
                or not gaps.cover(self._order[low])
                or self._is_one_outside(low + 1, high, gaps)
            ):
                return Match(n_shared, low, high)
            # What shares less lies around them.
            n_shared = max(self._n_shared(query, low - 1), self._n_shared(query, high))
            if n_shared >= n_min:
                low, high = self._range_around(query, n_shared, low, high)
        return NO_MATCH

    def places(self, match: Match, gaps: Gaps | None, n_places: int) -> list[int]:
        """Return at most ``n_places`` places of a match that are in no gap, the newest first.

        They are spread evenly over what stands further back: ranks are sorted by that, so that a
        run of them would be one-sided.
        """
        _, low, high = match
        step = -(-(high - low) // n_places)
        places: list[int] = self._order[low:high:step].tolist()
        if gaps is not None:
            places = gaps.uncovered(places)
            if not places:
                rest = gaps.uncovered_places(self.parts.order[low:high])
                places = rest[:: -(-len(rest) // n_places)].tolist()
        # A smaller place is a newer one.
        places.sort()
        return places

    def _is_one_outside(self, low: int, high: int, gaps: Gaps) -> bool:
        """Whether one of a range of ranks is in no gap."""
        if gaps.uncovered(self._order[low : min(high, low + _N_PROBED)].tolist()):
            return True
        rest = self.parts.order[low + _N_PROBED : high]
        return len(rest) > 0 and len(gaps.uncovered_places(rest)) > 0

    def _longest_range(self, query: Query, n_min: int) -> tuple[int, int, int]:
        """Return the ranks that share the most tokens with the query, and how many tokens.

        Where they are fewer than ``n_min``, ranks and number may be any below.
        """
        n_left = query.n_tokens
        n_shared = KEY_TOKENS
        keys, high = self._keys, len(self._order)
        if n_min >= KEY_TOKENS:
            # So it mostly is, since another segment holds something.
            low = bisect_left(keys, query.key)
            if low == high or keys[low] != query.key:
                return 0, 0, 0
            high = _end_of_range(keys, query.key + 1, low, high)
        else:
            low, high, n_shared = _narrowed(
                keys, 0, high, query.key, min(KEY_TOKENS, n_left), n_min
            )
        n_left -= KEY_TOKENS
        if n_shared < KEY_TOKENS or n_left <= 0:
            return low, high, n_shared
        low, high, n_deeper = _narrowed(
            self._deeper_keys,
            low,
            high,
            query.deeper_key,
            min(KEY_TOKENS, n_left),
            n_min - KEY_TOKENS,
        )
        n_shared += n_deeper
        n_left -= KEY_TOKENS
        if n_deeper < KEY_TOKENS or n_left <= 0:
            return low, high, n_shared
        if high - low == 1:
            return low, high, self._n_shared(query, low)
        middle = self._bisect(query.text, low, high)
        left = self._n_shared(query, middle - 1) if middle > low else 0
        right = self._n_shared(query, middle) if middle < high else 0
        n_shared = max(left, right)
        if n_shared < n_min:
            return low, high, n_shared
        stem = query.text[: n_shared * TOKEN_BYTES]
        first = self._bisect(stem, low, middle) if left == n_shared else middle
        last = self._bisect(stem + b"\xff", middle, high) if right == n_shared else middle
        return first, last, n_shared

    def _range_around(self, query: Query, n_shared: int, low: int, high: int) -> tuple[int, int]:
        """Return the ranks that share ``n_shared`` tokens with the query.

        Those from low to high - 1 are known to share at least as many.
        """
        group_low, group_high = _around(self._keys, 0, low, high, query.key, n_shared)
        n_left = n_shared - KEY_TOKENS
        if n_left <= 0:
            return group_low, group_high
        group_low, group_high = _around(
            self._deeper_keys[:group_high], group_low, low, high, query.deeper_key, n_left
        )
        if n_left <= KEY_TOKENS:
            return group_low, group_high
        stem = query.text[: n_shared * TOKEN_BYTES]
        return self._bisect(stem, group_low, low), self._bisect(stem + b"\xff", high, group_high)

    def _bisect(self, stem: bytes, low: int, high: int) -> int:
        """First rank in [low, high) whose context, cut to the stem's length, is not below it."""
        text, order, n_bytes = self._text, self._order, len(stem)

        def context(rank: int) -> bytes:
            start = order[rank] * TOKEN_BYTES
            return text[start : start + n_bytes]

        return bisect_left(range(high), stem, low, high, key=context)

    def _n_shared(self, query: Query, rank: int) -> int:
        """How many tokens the context of a rank shares with the query; -1 outside the array."""
        if not 0 <= rank < len(self._order):
            return -1
        start = self._order[rank] * TOKEN_BYTES
        n_bytes = len(query.text)
        context = self._text[start : start + n_bytes]
        difference = int.from_bytes(context, "big") ^ int.from_bytes(query.text, "big")
        return (8 * n_bytes - difference.bit_length()) // (8 * TOKEN_BYTES)


def tokens_of(text: bytes) -> list[int]:
    """Return the tokens of a reversed text up to the end of its file."""
    tokens = [value - 1 for value in reversed(_unpacker(len(text))(text))]
    if _END in tokens:
        del tokens[tokens.index(_END) :]
    return tokens


@cache
def _unpacker(n_bytes: int) -> Callable[[bytes], tuple[int, ...]]:
    return struct.Struct(f">{n_bytes // TOKEN_BYTES}I").unpack


def _narrowed(
    keys: memoryview[int], low: int, high: int, key: int, n_tokens: int, n_min: int
) -> tuple[int, int, int]:
    """Return the part of [low, high) whose keys share the most of the first ``n_tokens`` tokens.

    Returns also how many tokens that are; where none are shared, the part is the whole, and where
    fewer than ``n_min``, it may be any.
    """
    shift = (KEY_TOKENS - n_tokens) * KEY_BITS
    first = key >> shift << shift
    beyond = first + (1 << shift)
    middle = bisect_left(keys, first, low, high)
    if middle < high and keys[middle] < beyond:
        return middle, _end_of_range(keys, beyond, middle, high), n_tokens
    if n_min >= n_tokens:
        return low, high, 0
    # Which of the two neighbours shares more shows in the highest bit that differs.
    left = keys[middle - 1] ^ key if middle > low else _FAR
    right = keys[middle] ^ key if middle < high else _FAR
    n_shared = (KEY_TOKENS * KEY_BITS - min(left, right).bit_length()) // KEY_BITS
    if 0 < n_shared >= n_min:
        shift = (KEY_TOKENS - n_shared) * KEY_BITS
        first = key >> shift << shift
        if left >> shift:
            low = middle
        else:
            near = middle - _N_NEAR
            if near > low and keys[near] < first:
                low = near
            low = bisect_left(keys, first, low, middle)
        high = middle if right >> shift else _end_of_range(keys, first + (1 << shift), middle, high)
    return low, high, n_shared


def _end_of_range(keys: memoryview[int], beyond: int, low: int, high: int) -> int:
    """First index from ``low`` on whose key is not below ``beyond``; ``high`` where none is."""
    near = low + _N_NEAR
    if near < high and keys[near] >= beyond:
        high = near
    return bisect_left(keys, beyond, low, high)


def _around(
    keys: memoryview[int], start: int, low: int, high: int, key: int, n_tokens: int
) -> tuple[int, int]:
    """Return the ranks from ``start`` on whose keys share ``n_tokens`` tokens, 3 at most."""
    shift = max(0, KEY_TOKENS - n_tokens) * KEY_BITS
    first = key >> shift << shift
    return bisect_left(keys, first, start, low), bisect_left(keys, first + (1 << shift), high)
