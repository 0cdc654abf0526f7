"""llama.cpp's ``ngram-mod``: one pool of n-grams for all documents, followed as far as it leads.

The pool (:mod:`speclsp.drafting.ngram_pool`) says which token followed n tokens last, wherever
that was, and from there the next one.  A chain of fewer than ``n_min`` tokens is not drafted.

Unlike upstream's, the pool checks its keys and forgets its oldest entries instead of all.  It is
not emptied after bad drafts either: what the model wrote instead replaces what was wrong, and how
much of a chain is drafted follows what was accepted (:mod:`speclsp.drafting.draft_length`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from speclsp.drafting.draft_length import AcceptanceEstimate
from speclsp.drafting.ngram_pool import NgramPool
from speclsp.drafting.ngram_stack import n_shared_at_start
from speclsp.drafting.protocol import EMPTY_TOKENS, NO_DRAFT, Draft, DraftContext, TokenArray
from speclsp.errors import DrafterError
from speclsp.settings import Settings

SOURCE: Final = "pool"
LEARN_EVERY: Final = 32
"""Generated tokens that are learned at once."""


class NgramModDrafter:
    """Drafts chains of ``n_min`` to ``n_max`` tokens from ``pool``."""

    name = "ngram-mod"

    def __init__(self, pool: NgramPool, *, n_min: int, n_max: int) -> None:
        self._pool = pool
        self._n_min = n_min
        self._n_max = n_max
        self._estimate = AcceptanceEstimate()
        self._last = NO_DRAFT
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
        if context.verify_curve is not None:
            self._estimate.cost_per_token = context.verify_curve.slope
        self._last = NO_DRAFT

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Draft a chain that is long enough, as far as it is likely to be right."""
        self._extend(generated)
        chain = self._pool.chain(self._text, self._n_max)
        n_tokens = min(len(chain), n_max) if len(chain) >= self._n_min else 0
        if n_tokens > 0:
            n_tokens = self._estimate.draft_length(SOURCE, self._pool.n, n_tokens)
        self._last = NO_DRAFT
        if n_tokens > 0:
            self._last = Draft(tuple(chain[:n_tokens]), SOURCE, self._pool.n)
        return self._last

    def accept(self, n_accepted: int) -> None:
        """Learn how far the last draft was right."""
        last = self._last
        self._estimate.observe(last.source, last.match_length, len(last.tokens), n_accepted)

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
