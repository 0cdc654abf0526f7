"""llama.cpp's ``ngram-mod``: drafts chains from one pool of n-grams for all requests.

The pool has the token that last followed each n-gram in any document; a draft looks up one token
after the other.  Chains of fewer than ``n_min`` tokens are not drafted.

As in llama.cpp the pool has 4 Mi entries of 32 bits (16 MiB).  It is emptied when a request starts
with more than a quarter of it in use, and after five drafts in a row of which less than a quarter
was accepted; the next request's texts are then learned anew.  Unlike there, an entry has 14 bits of
the n-gram's hash beside the token, so that n-grams with the same entry are seldom confused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from speclsp.drafting.drafter import EMPTY_TOKENS, NO_DRAFT, Draft, DraftContext, TokenArray
from speclsp.settings import Settings
from speclsp.settings_resolution import ngram_mod_lengths

NAME: Final = "ngram-mod"
SOURCE: Final = "pool"
LEARN_EVERY: Final = 32
"""Generated tokens that are learned at once, as in llama.cpp."""
MOST_USED: Final = 0.25
"""Share of the entries in use above which the pool is emptied, as in llama.cpp."""
LOW_ACCEPTANCE: Final = 0.25
MOST_LOW_DRAFTS: Final = 5
"""Drafts in a row with an acceptance rate below this after which the pool is emptied, as in
llama.cpp."""
ENTRY_BITS: Final = 22

_FACTOR: Final = 6364136223846793005
"""Knuth's multiplier for 64-bit congruential generators."""
_MIX: Final = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: moves every bit of a hash into the upper ones (Knuth 6.4)."""
_MASK: Final = 2**64 - 1
_TOKEN_BITS: Final = 18
"""Larger token ids are not learned; no vocabulary has them."""
_N_TAGS: Final = 2**14 - 1
"""One less than the bits hold, so that no entry is :data:`_EMPTY`."""
_EMPTY: Final = 2**32 - 1


def n_shared_at_start(left: TokenArray, right: TokenArray) -> int:
    """Return how many leading tokens are equal."""
    n_tokens = min(left.size, right.size)
    different = left[:n_tokens] != right[:n_tokens]
    place = int(different.argmax()) if n_tokens else 0
    return place if n_tokens and different[place] else n_tokens


class NgramPool:
    """The token after each n-gram of ``n`` tokens, in 2^``entry_bits`` entries."""

    def __init__(self, n: int, entry_bits: int = ENTRY_BITS) -> None:
        self.n = n
        self._shift = 64 - entry_bits
        weights = np.ones(n, dtype=np.uint64)
        weights[:-1] = _FACTOR
        self._weights = np.cumprod(weights[::-1], dtype=np.uint64)[::-1]
        # Written here, so that the first texts need not wait for the memory's pages.
        self._entries: NDArray[np.uint32] = np.full(1 << entry_bits, _EMPTY, dtype=np.uint32)
        self._n_used = 0

    @property
    def share_used(self) -> float:
        """Share of the entries that hold a token."""
        return self._n_used / self._entries.size

    def reset(self) -> None:
        """Forget everything."""
        self._entries.fill(_EMPTY)
        self._n_used = 0

    def learn(self, tokens: TokenArray) -> None:
        """Store the token after each n-gram of a text; later places replace earlier ones."""
        if tokens.size <= self.n:
            return
        mixed = (sliding_window_view(tokens[:-1].astype(np.uint64), self.n) @ self._weights) * _MIX
        following = tokens[self.n :].astype(np.uint32)
        known = following < 1 << _TOKEN_BITS
        mixed, following = mixed[known], following[known]
        places = (mixed >> np.uint64(self._shift)).astype(np.intp)
        tags = ((mixed & np.uint64(2**32 - 1)) % np.uint64(_N_TAGS)).astype(np.uint32)
        self._n_used += np.unique(places[self._entries[places] == _EMPTY]).size
        self._entries[places] = tags << np.uint32(_TOKEN_BITS) | following

    def chain(self, tail: TokenArray, n_tokens: int) -> list[int]:
        """Return up to ``n_tokens`` tokens that follow the last n tokens of ``tail``."""
        text: list[int] = tail[-self.n :].tolist()
        if len(text) < self.n:
            return []
        leaving = int(self._weights[0])
        hashed = 0
        for token in text:
            hashed = (hashed * _FACTOR + token) & _MASK
        for start in range(n_tokens):
            mixed = hashed * _MIX & _MASK
            entry = int(self._entries[mixed >> self._shift])
            if entry >> _TOKEN_BITS != (mixed & 2**32 - 1) % _N_TAGS:
                break
            token = entry & (1 << _TOKEN_BITS) - 1
            hashed = ((hashed - text[start] * leaving) * _FACTOR + token) & _MASK
            text.append(token)
        return text[self.n :]


class NgramModDrafter:
    """Drafts chains of ``n_min`` to ``n_max`` tokens from ``pool``."""

    name = NAME

    def __init__(self, pool: NgramPool, *, n_min: int, n_max: int) -> None:
        self._pool = pool
        self._n_min = n_min
        self._n_max = n_max
        self._n_low = 0
        self._prefix = self._suffix = self._text = EMPTY_TOKENS
        self._buffers: tuple[TokenArray, ...] = ()
        self._n_generated = self._n_unlearned = 0

    def begin(self, context: DraftContext) -> None:
        """Learn what has changed in the request's buffers."""
        self._learn_generated()
        if self._pool.share_used > MOST_USED:
            self._forget()
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
        """Draft a chain of at least ``n_min`` tokens."""
        self._extend(generated)
        n_max = min(n_max, self._n_max)
        if n_max < max(self._n_min, 1):
            return NO_DRAFT
        tokens = tuple(self._pool.chain(self._text, n_max))
        if not tokens or len(tokens) < self._n_min:
            return NO_DRAFT
        return Draft(tokens, SOURCE, self._pool.n)

    def accept(self, n_accepted: int, n_verified: int) -> None:
        """Empty the pool after a streak of drafts that were mostly wrong."""
        self._n_low = self._n_low + 1 if n_accepted < LOW_ACCEPTANCE * n_verified else 0
        if self._n_low >= MOST_LOW_DRAFTS:
            self._forget()

    def _forget(self) -> None:
        """Empty the pool; the next request's texts are learned whole."""
        self._pool.reset()
        self._n_low = 0
        self._prefix = self._suffix = EMPTY_TOKENS
        self._buffers = ()

    def _extend(self, generated: Sequence[int]) -> None:
        """Append the new generated tokens; learn them when there are enough."""
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
        """Learn the n-grams of a text's new version that the old one did not have."""
        start = n_shared_at_start(before, now)
        n_left = min(before.size, now.size) - start
        n_same_after = n_shared_at_start(before[::-1][:n_left], now[::-1][:n_left])
        n = self._pool.n
        self._pool.learn(now[max(0, start - n) : now.size - max(0, n_same_after - n)])


def create(settings: Settings) -> NgramModDrafter:
    """Make the drafter from its settings, with a pool of its own."""
    n_min, n_max = ngram_mod_lengths(settings)
    return NgramModDrafter(NgramPool(settings.spec_ngram_mod_n_match), n_min=n_min, n_max=n_max)
