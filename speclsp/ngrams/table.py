"""Tables of n-gram counts, sorted by n-gram and looked up by bisection."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.drafter import TokenArray

MAX_COUNT: Final = 2**31 - 1
"""Largest count, which is that of llama.cpp's layout."""


def rows_of_grams(grams: NDArray[np.integer]) -> bytes:
    """Encode n-grams as ``NgramTable.rows``."""
    return grams.astype(">i4").tobytes()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NgramTable:
    """The followers of m n-grams of one order, one n-gram per row; arrays are never modified."""

    order: int
    """Tokens of each n-gram."""
    rows: bytes
    """The n-grams in lexicographic order, four big-endian bytes per token: comparing bytes compares
    n-grams."""
    lengths: NDArray[np.uint32]
    """Number of different followers of each row; shape [m]."""
    tokens: TokenArray
    """The followers of all rows, row by row, ascending within each."""
    counts: NDArray[np.int32]
    """How often each follower was seen."""
    ends: NDArray[np.int64] = field(init=False, repr=False)
    """Where each row's followers end in ``tokens`` and ``counts``; shape [m]."""

    _first: memoryview = field(init=False, repr=False)
    """The first token of each row; bisecting it is several times faster than bisecting ``rows``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", np.cumsum(self.lengths, dtype=np.int64))
        object.__setattr__(self, "_first", np.ascontiguousarray(self.grams[:, 0]).data)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def grams(self) -> TokenArray:
        """The n-grams; shape [m, order]."""
        return np.frombuffer(self.rows, dtype=">i4").reshape(-1, self.order).astype(np.int32)

    def followers(self, ngram: Sequence[int]) -> dict[int, int]:
        """Return how often each token followed an n-gram of this order."""
        low = bisect_left(self._first, ngram[0])
        high = bisect_right(self._first, ngram[0], low)
        wanted, rows = struct.pack(f">{len(ngram)}i", *ngram), self.rows
        n_bytes = len(wanted)

        def gram(row: int) -> bytes:
            return rows[row * n_bytes : (row + 1) * n_bytes]

        row = bisect_left(range(high), wanted, low, key=gram)
        if gram(row) != wanted:
            return {}
        end = int(self.ends[row])
        begin = end - int(self.lengths[row])
        tokens, counts = self.tokens[begin:end].tolist(), self.counts[begin:end].tolist()
        return dict(zip(tokens, counts, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class JoinedTable:
    """The table of one order of a whole corpus: arrays that take disk and page cache, not memory.

    They are those of :class:`NgramTable`.
    """

    grams: TokenArray
    """The n-grams in lexicographic order; shape [m, order]."""
    lengths: NDArray[np.uint32]
    tokens: TokenArray
    counts: NDArray[np.int32]


TableArrays: TypeAlias = NgramTable | JoinedTable
"""What a statistics file contains for one order."""


@dataclass(frozen=True, slots=True, eq=False)
class NgramTables:
    """Tables by order; implements the drafters' ``NgramCounts``."""

    by_order: Mapping[int, NgramTable]

    @property
    def max_order(self) -> int:
        """Tokens of the longest n-grams; 0 if there are none."""
        return max(self.by_order, default=0)

    def followers(self, ngram: tuple[int, ...]) -> dict[int, int]:
        """Return how often each token followed an n-gram; empty if it is unknown."""
        table = self.by_order.get(len(ngram))
        return {} if table is None else table.followers(ngram)
