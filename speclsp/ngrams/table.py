"""Tables of n-gram counts, with look-up by hash.

The rows of a table are sorted by the 64-bit hashes of their n-grams.  The leading bits select a
bucket of about a hundred rows, the last 32 bits are the n-gram's tag; a look-up compares all tags
of the bucket at once and then the tokens, so hash collisions are harmless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.protocol import NO_FOLLOWERS, Followers, TokenArray

MAX_COUNT: Final = 2**31 - 1
"""Largest count, which is that of llama.cpp's layout."""

_MASK: Final = 2**64 - 1
_FACTOR: Final = 0x9E3779B97F4A7C15
_MIX: Final = 0xD6E8FEB86659FD93
_ROWS_PER_BUCKET: Final = 128
_MAX_BUCKET_BITS: Final = 16
_TAG_MASK: Final = 2**32 - 1

Keys = NDArray[np.uint64]
"""Hashes of n-grams."""


def key_of(ngram: Sequence[int]) -> int:
    """Return the hash of one n-gram: a polynomial of its tokens modulo 2^64, mixed."""
    key = 0
    for token in ngram:
        key = (key * _FACTOR + token + 1) & _MASK
    key = ((key ^ (key >> 32)) * _MIX) & _MASK
    return key ^ (key >> 29)


def keys_of(columns: Sequence[TokenArray]) -> Keys:
    """Return the hashes of many n-grams, whose i-th tokens are ``columns[i]``."""
    keys = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        keys *= np.uint64(_FACTOR)
        keys += column.astype(np.uint64)
        keys += np.uint64(1)
    keys ^= keys >> np.uint64(32)
    keys *= np.uint64(_MIX)
    keys ^= keys >> np.uint64(29)
    return keys


def bucket_bits(n_ngrams: int) -> int:
    """Return how many leading bits of the hash select the bucket in a table of this size."""
    return min(max(n_ngrams // _ROWS_PER_BUCKET, 1).bit_length() - 1, _MAX_BUCKET_BITS)


def buckets_of(keys: Keys, n_bits: int) -> NDArray[np.uint16]:
    """Return the bucket of each hash."""
    # Two shifts, since n_bits may be 0 and a shift by 64 is undefined.
    return ((keys >> np.uint64(63 - n_bits)) >> np.uint64(1)).astype(np.uint16)


def bucket_starts(buckets: NDArray[np.uint16], n_bits: int) -> NDArray[np.int64]:
    """Return where each bucket's rows begin; the last item is where the rows end."""
    starts = np.zeros((1 << n_bits) + 1, dtype=np.int64)
    np.cumsum(np.bincount(buckets, minlength=1 << n_bits), out=starts[1:])
    return starts


def tags_of(keys: Keys) -> NDArray[np.uint32]:
    """Return the tags of hashes."""
    return (keys & np.uint64(_TAG_MASK)).astype(np.uint32)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NgramTable:
    """The followers of m n-grams of one order, one n-gram per row.  Arrays are not modified."""

    starts: NDArray[np.int64]
    """Where the rows of each bucket begin; shape [buckets + 1]."""
    tags: NDArray[np.uint32]
    """The last bits of each row's hash; shape [m]."""
    grams: TokenArray
    """The n-grams; shape [m, order]."""
    begins: NDArray[np.uint32]
    """Where each row's followers begin in ``tokens`` and ``counts``; shape [m]."""
    lengths: NDArray[np.uint32]
    """Number of different followers; shape [m]."""
    tokens: TokenArray
    counts: NDArray[np.int32]
    _starts: memoryview = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # A memoryview reads single items several times faster than an array.
        object.__setattr__(self, "_starts", self.starts.data)

    def __len__(self) -> int:
        return len(self.tags)

    @property
    def order(self) -> int:
        """Tokens of each n-gram."""
        return int(self.grams.shape[1])

    @property
    def n_followers(self) -> int:
        """Pairs of an n-gram and a follower."""
        return int(self.lengths.sum(dtype=np.int64))

    def followers(self, ngram: Sequence[int]) -> Followers:
        """Return the followers of an n-gram of this order."""
        key = key_of(ngram)
        bucket = key * (len(self._starts) - 1) >> 64
        low, high = self._starts[bucket], self._starts[bucket + 1]
        for place in (self.tags[low:high] == key & _TAG_MASK).nonzero()[0].tolist():
            row = low + place
            if self.grams[row].tolist() == list(ngram):
                begin = int(self.begins[row])
                end = begin + int(self.lengths[row])
                return Followers(self.tokens[begin:end], self.counts[begin:end])
        return NO_FOLLOWERS


@dataclass(frozen=True, slots=True, eq=False)
class NgramTables:
    """Tables by order; an ``NgramCounts`` of the drafters."""

    by_order: Mapping[int, NgramTable]

    @property
    def max_order(self) -> int:
        """Tokens of the longest n-grams; 0 where there are none."""
        return max(self.by_order, default=0)

    def followers(self, ngram: tuple[int, ...]) -> Followers:
        """Return the followers of an n-gram; none where it is unknown."""
        table = self.by_order.get(len(ngram))
        return NO_FOLLOWERS if table is None else table.followers(ngram)
