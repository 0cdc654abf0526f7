"""Which token followed each n-gram last, in constant memory.

A hash table of 2^20 buckets with four entries each, 32 MiB in all.  An entry is 64 bits: 32 of the
n-gram's hash, so that one n-gram is not taken for another, and the token that followed, plus one.
The entries of a bucket stand in the order of their last use; a new one takes the place of the
oldest.  So the pool never needs to be emptied: it forgets what was not seen for longest.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.ngram_stack import FACTOR, MASK, hash_weights, ngram_hashes
from speclsp.drafting.protocol import TokenArray

BUCKET_BITS: Final = 20
WAYS: Final = 4

_MIX: Final = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: moves every bit of a hash into the upper ones (Knuth 6.4)."""
_TAG_SHIFT: Final = 12
_TAG_BITS: Final = 32
_LOW: Final = 2**32 - 1
_MOVED_BACK: Final = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
"""For the entry that leaves a bucket: the others, in their order."""


class NgramPool:
    """The token behind each n-gram of ``n`` tokens."""

    def __init__(self, n: int, bucket_bits: int = BUCKET_BITS) -> None:
        self.n = n
        self._shift = 64 - bucket_bits
        self._weights = hash_weights(n)
        # Written once here: else the first texts would pay for getting the memory, page by page.
        self._buckets: NDArray[np.uint64] = np.full((1 << bucket_bits, WAYS), 0, dtype=np.uint64)

    @property
    def n_bytes(self) -> int:
        """Memory that the entries occupy."""
        return self._buckets.nbytes

    def learn(self, tokens: TokenArray) -> None:
        """Take in what follows each n-gram of a text; later places replace earlier ones."""
        hashes = ngram_hashes(tokens[:-1], self._weights)
        if not hashes.size:
            return
        # Reversed, so that of equal n-grams the first one found is the last one of the text.
        hashes, first = np.unique(hashes[::-1], return_index=True)
        following = tokens[self.n :][::-1][first].astype(np.uint64) + np.uint64(1)
        mixed = hashes * np.uint64(_MIX)
        entries = (mixed >> np.uint64(_TAG_SHIFT) & np.uint64(_LOW)) << np.uint64(_TAG_BITS)
        entries |= following
        buckets = (mixed >> np.uint64(self._shift)).astype(np.intp)
        # Each round puts one entry into each bucket.
        while buckets.size:
            chosen, idx = np.unique(buckets, return_index=True)
            self._put(chosen, entries[idx])
            buckets, entries = np.delete(buckets, idx), np.delete(entries, idx)

    def chain(self, tail: TokenArray, n_tokens: int) -> list[int]:
        """Follow the pool from the last n tokens of ``tail``, up to ``n_tokens`` far."""
        text: list[int] = tail[-self.n :].tolist()
        if len(text) < self.n:
            return []
        leaving = int(self._weights[0])
        hashed = int(ngram_hashes(tail[-self.n :], self._weights)[0])
        for start in range(n_tokens):
            token = self._following(hashed)
            if token < 0:
                break
            hashed = ((hashed - text[start] * leaving) * FACTOR + token) & MASK
            text.append(token)
        return text[self.n :]

    def _following(self, hashed: int) -> int:
        """Return the token behind an n-gram, −1 where it is not known."""
        mixed = hashed * _MIX & MASK
        tag = mixed >> _TAG_SHIFT & _LOW
        for entry in self._buckets[mixed >> self._shift].tolist():
            if entry >> _TAG_BITS == tag and entry & _LOW:
                return int(entry & _LOW) - 1
        return -1

    def _put(self, buckets: NDArray[np.intp], entries: NDArray[np.uint64]) -> None:
        """Put one entry into each of some different buckets."""
        rows = self._buckets[buckets]
        same = rows >> np.uint64(_TAG_BITS) == (entries >> np.uint64(_TAG_BITS))[:, None]
        leaving = np.where(same.any(axis=1), same.argmax(axis=1), WAYS - 1)
        self._buckets[buckets, 1:] = np.take_along_axis(rows, _MOVED_BACK[leaving], axis=1)
        self._buckets[buckets, 0] = entries
