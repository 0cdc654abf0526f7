"""llama.cpp's ``ngram-mod``: one pool of n-grams for all documents, followed as far as it leads.

The pool says which token followed n tokens last, wherever that was, and from there the next one.
A chain of fewer than ``n_min`` tokens is not drafted.

The pool is a hash table of 2^20 buckets with four entries each, 32 MiB in all.  An entry is 64
bits: 32 of the n-gram's hash, so that one n-gram is not taken for another, and the token that
followed, plus one.  The entries of a bucket stand in the order of their last use; a new one takes
the place of the oldest.  So unlike upstream's the pool checks its keys and is never emptied: it
forgets what was not seen for longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from speclsp.drafting.protocol import EMPTY_TOKENS, NO_DRAFT, Draft, DraftContext, TokenArray
from speclsp.errors import DrafterError
from speclsp.settings import Settings

SOURCE: Final = "pool"
LEARN_EVERY: Final = 32
"""Generated tokens that are learned at once."""

FACTOR: Final = 6364136223846793005
"""Knuth's multiplier for 64-bit congruential generators."""
MASK: Final = 2**64 - 1
BUCKET_BITS: Final = 20
WAYS: Final = 4

_MIX: Final = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: moves every bit of a hash into the upper ones (Knuth 6.4)."""
_TAG_SHIFT: Final = 12
_TAG_BITS: Final = 32
_LOW: Final = 2**32 - 1
_MOVED_BACK: Final = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
"""For the entry that leaves a bucket: the others, in their order."""


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


class NgramModDrafter:
    """Drafts chains of ``n_min`` to ``n_max`` tokens from ``pool``."""

    name = "ngram-mod"

    def __init__(self, pool: NgramPool, *, n_min: int, n_max: int) -> None:
        self._pool = pool
        self._n_min = n_min
        self._n_max = n_max
        self._prefix = self._suffix = EMPTY_TOKENS
        self._buffers: tuple[TokenArray, ...] = ()
        self._text = EMPTY_TOKENS
        self._n_generated = 0
        self._n_unlearned = 0

    def begin(self, context: DraftContext) -> None:
        """Learn what is new in the request's buffers."""
        self._learn_generated()
        for tokens in reversed(context.buffers):
            if not any(tokens is known for known in self._buffers):
                self._pool.learn(tokens)
        self._learn_changed(self._suffix, context.suffix)
        self._learn_changed(self._prefix, context.prefix)
        self._prefix, self._suffix = context.prefix, context.suffix
        self._buffers = context.buffers
        self._text = context.prefix[-self._pool.n :]
        self._n_generated = self._n_unlearned = 0

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Draft a chain that is long enough."""
        self._extend(generated)
        chain = self._pool.chain(self._text, self._n_max)
        tokens = tuple(chain[: max(n_max, 0)]) if len(chain) >= self._n_min else ()
        return Draft(tokens, SOURCE, self._pool.n) if tokens else NO_DRAFT

    def accept(self, n_accepted: int, n_verified: int) -> None:
        """Nothing to do: what was wrong is replaced when the output is learned."""

    def _extend(self, generated: Sequence[int]) -> None:
        """Append what is new of the generated tokens; learn them when there are enough."""
        new = np.array(generated[self._n_generated :], dtype=np.int32)
        self._n_generated = len(generated)
        self._n_unlearned += new.size
        self._text = np.concatenate([self._text, new])
        if self._n_unlearned >= LEARN_EVERY:
            self._learn_generated()

    def _learn_generated(self) -> None:
        self._pool.learn(self._text[-self._n_unlearned - self._pool.n :])
        self._text = self._text[-self._pool.n :]
        self._n_unlearned = 0

    def _learn_changed(self, before: TokenArray, now: TokenArray) -> None:
        """Learn the n-grams that a new version of a text has and the old one had not."""
        start = n_shared_at_start(before, now)
        n_left = min(before.size, now.size) - start
        n_behind = n_shared_at_start(before[::-1][:n_left], now[::-1][:n_left])
        n = self._pool.n
        self._pool.learn(now[max(0, start - n) : now.size - max(0, n_behind - n)])


def create(settings: Settings) -> NgramModDrafter:
    """Make the drafter from the settings ``spec_ngram_mod_*``, with a pool of its own.

    Raises :class:`DrafterError` where the settings contradict each other.
    """
    if settings.spec_ngram_mod_n_min > settings.spec_ngram_mod_n_max:
        raise DrafterError(
            f"spec_ngram_mod_n_min ({settings.spec_ngram_mod_n_min}) is larger than "
            f"spec_ngram_mod_n_max ({settings.spec_ngram_mod_n_max}).",
            remedy="Lower `spec_ngram_mod_n_min` or raise `spec_ngram_mod_n_max`.",
        )
    return NgramModDrafter(
        NgramPool(settings.spec_ngram_mod_n_match),
        n_min=settings.spec_ngram_mod_n_min,
        n_max=settings.spec_ngram_mod_n_max,
    )
