"""Where every n-gram of a token sequence stands, kept up to date as the sequence's end changes.

As in an LZ77 match finder, a table leads from an n-gram's hash to its last place, and each place to
the one before it with the same hash.  Both are stacks: taking a token back restores the place
before, so that the next version of a text costs what was added and taken back at its end.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from speclsp.drafting.protocol import TokenArray

FACTOR: Final = 6364136223846793005
"""Knuth's multiplier for 64-bit congruential generators."""
MASK: Final = 2**64 - 1

_NOWHERE: Final = -1


def hash_weights(n: int) -> NDArray[np.uint64]:
    """Return FACTOR^(n−1), …, FACTOR, 1 modulo 2^64."""
    weights = np.ones(n, dtype=np.uint64)
    weights[:-1] = FACTOR
    return np.cumprod(weights[::-1], dtype=np.uint64)[::-1].copy() if n > 1 else weights


def ngram_hashes(tokens: TokenArray, weights: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash each run of ``len(weights)`` tokens: the sum of token · weight modulo 2^64."""
    if tokens.size < weights.size:
        return np.zeros(0, dtype=np.uint64)
    windows = sliding_window_view(tokens.astype(np.uint64), weights.size)
    hashes: NDArray[np.uint64] = windows @ weights
    return hashes


def n_shared_at_start(left: TokenArray, right: TokenArray) -> int:
    """Return how many leading tokens are equal."""
    n_tokens = min(left.size, right.size)
    different = left[:n_tokens] != right[:n_tokens]
    place = int(different.argmax()) if n_tokens else 0
    return place if n_tokens and different[place] else n_tokens


class NgramStack:
    """A sequence that changes at its end, and the places of its n-grams.

    A place is the index behind an n-gram's last token.  ``weights`` are those of the n-gram's
    tokens in the order in which they are pushed.
    """

    def __init__(self, weights: NDArray[np.uint64]) -> None:
        self._weights = weights
        self._n = weights.size
        self.tokens = array("i")
        """The sequence; only this class changes it."""
        self._last: dict[int, int] = {}
        # Item i belongs to place n + i.
        self._before = array("i")

    def set(self, tokens: TokenArray) -> None:
        """Make the sequence ``tokens``; costs what differs behind the shared beginning."""
        n_shared = n_shared_at_start(self._array(0), tokens)
        self.truncate(n_shared)
        self.extend(tokens[n_shared:])

    def extend(self, tokens: TokenArray) -> None:
        """Push tokens."""
        first = max(len(self.tokens) + 1, self._n)
        self.tokens.frombytes(tokens.astype(np.intc).tobytes())
        last = self._last
        for place, key in enumerate(self._hashes_from(first), first):
            self._before.append(last.get(key, _NOWHERE))
            last[key] = place

    def truncate(self, n_tokens: int) -> None:
        """Take tokens back until ``n_tokens`` are left."""
        first = max(n_tokens + 1, self._n)
        for key in reversed(self._hashes_from(first)):
            place = self._before.pop()
            if place == _NOWHERE:
                del self._last[key]
            else:
                self._last[key] = place
        del self.tokens[n_tokens:]

    def places(self, key: int, ngram: array[int]) -> Iterator[int]:
        """Yield where ``ngram``, whose hash is ``key``, stands; the last one first."""
        place = self._last.get(key, _NOWHERE)
        while place != _NOWHERE:
            # Equal hashes need not mean equal tokens.
            if self.tokens[place - self._n : place] == ngram:
                yield place
            place = self._before[place - self._n]

    def _hashes_from(self, first_place: int) -> list[int]:
        """Hashes of the n-grams at ``first_place`` and behind it."""
        if first_place > len(self.tokens):
            return []
        hashes: list[int] = ngram_hashes(self._array(first_place - self._n), self._weights).tolist()
        return hashes

    def _array(self, start: int) -> TokenArray:
        return np.array(self.tokens[start:], dtype=np.int32)
