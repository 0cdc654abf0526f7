"""N-gram cache: draft the token that followed most often, token by token.

Three sources are asked in turn, as in llama.cpp: the *context* (the buffer and what was generated),
*dynamic* statistics (what this user wrote and accepted before) and *static* ones (from large
texts).  In the first two the longest n-gram that is sure enough decides.  Among the tokens that
followed it, the one with the highest score is taken,

    score = count × (100 × static count, or 1 where static statistics do not have it),

so that static statistics confirm or overrule what a few sightings suggest.  Sure enough means: the
n-gram was seen often enough, and the token taken has a large enough share.  The context may be
less sure than dynamic statistics, since it is nearer.

Unlike llama.cpp's, the context is counted when it is asked for, from the text as it is: nothing
has to be kept in step with edits, and no n-gram is lost between two updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from speclsp.drafting.lookup_text import LookupText
from speclsp.drafting.protocol import (
    NO_DRAFT,
    NO_FOLLOWERS,
    Draft,
    DraftContext,
    Followers,
    Statistics,
    TokenArray,
    sum_of,
)
from speclsp.drafting.suffix import NAME as SUFFIX
from speclsp.settings import Settings

NAME: Final = "ngram-cache"
CONTEXT_ORDER: Final = 4
"""Tokens of the longest n-grams of the context, and of those that have thresholds of their own."""
STATIC_ORDER: Final = 2
"""Tokens of the n-grams of static statistics that are used."""

_NOTHING = DraftContext(prompt=())


@dataclass(frozen=True, slots=True)
class Threshold:
    """When the followers of an n-gram are sure enough."""

    n_seen: int
    """Least sightings of the n-gram."""
    percent: int
    """Least share of the token taken."""


LAX: Final = (Threshold(2, 66), Threshold(2, 50), Threshold(1, 50), Threshold(1, 50))
"""llama.cpp's for the context, by order from 1 on; those of static statistics too."""
STRICT: Final = (Threshold(4, 75), Threshold(3, 66), Threshold(2, 66), Threshold(2, 66))
"""llama.cpp's for dynamic statistics; longer n-grams have the last one."""


class Choice(NamedTuple):
    """A token that is sure enough."""

    token: int
    probability: float
    """Its share of the sightings, with one more for what was never seen here."""


def best_token(followers: Followers, static: Followers, threshold: Threshold) -> Choice | None:
    """Return the follower with the highest score, None where it is not sure enough.

    Of equally good ones the first is taken.
    """
    if not followers.tokens.size:
        return None
    n_seen = int(followers.counts.sum())
    n_needed = threshold.percent * n_seen
    if n_seen < threshold.n_seen or 100 * int(followers.counts.max()) < n_needed:
        return None
    best = int(followers.counts.argmax())
    if static.tokens.size:
        _, here, there = np.intersect1d(
            followers.tokens, static.tokens, assume_unique=True, return_indices=True
        )
        scores = followers.counts.astype(np.float64)
        scores[here] *= 100.0 * static.counts[there]
        best = int(scores.argmax())
    n_right = int(followers.counts[best])
    if 100 * n_right < n_needed:
        return None
    return Choice(int(followers.tokens[best]), n_right / (n_seen + 1))


def has_majority(tokens: TokenArray, percent: int) -> bool:
    """Whether one token makes up ``percent`` of many, 50 at least.

    In order it would stand in the middle, and to find the middle takes a fraction of counting all:
    behind a line end there are thousands.
    """
    low, high = (tokens.size - 1) // 2, tokens.size // 2
    middle = np.partition(tokens, (low, high))
    n_most = max(int((tokens == middle[place]).sum()) for place in (low, high))
    return 100 * n_most >= percent * tokens.size


class NgramCacheDrafter:
    """Drafts at most ``n_draft`` tokens from the request's statistics, and from its buffer.

    Where ``reads_buffer`` is False it leaves the buffer to another drafter, and drafts nothing
    without statistics.
    """

    name = NAME

    def __init__(self, *, n_draft: int, reads_buffer: bool = True) -> None:
        self._n_draft = n_draft
        self._reads_buffer = reads_buffer
        self._begin(_NOTHING)

    def begin(self, context: DraftContext) -> None:
        """Take the request's buffer and statistics."""
        self._begin(context)

    def _begin(self, context: DraftContext) -> None:
        self._statistics = context.statistics
        n_own = STATIC_ORDER if context.statistics.static else 0
        if self._reads_buffer:
            n_own = CONTEXT_ORDER
        self._max_order = max(n_own, longest_dynamic(context.statistics))
        self._before = context.prefix[-self._max_order :].tolist() if self._max_order else []
        self._text: LookupText | None = None
        if self._reads_buffer:
            self._text = LookupText(replace(context, buffers=()), self._max_order)
        self._n_generated = 0

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Draft token by token, each behind the ones before, until none is sure enough."""
        if not self._max_order:
            return NO_DRAFT
        if self._text is not None:
            self._text.extend(generated[self._n_generated :])
            self._n_generated = len(generated)
        first = NO_DRAFT
        tokens: list[int] = []
        probabilities: list[float] = []
        tail = [*self._before, *generated[-self._max_order :]][-self._max_order :]
        while len(tokens) < min(n_max, self._n_draft):
            following = self._step(tail)
            if not following.tokens:
                break
            first = first if tokens else following
            tokens += following.tokens
            probabilities += following.probabilities
            tail = [*tail, *following.tokens][-self._max_order :]
        return replace(first, tokens=tuple(tokens), probabilities=tuple(probabilities))

    def accept(self, n_accepted: int, n_verified: int) -> None:
        """Do nothing: the buffer has what was accepted, and its owner counts the statistics."""

    def _step(self, tail: list[int]) -> Draft:
        """Return the next token as a draft of one, or no draft."""
        statistics = self._statistics
        static = NO_FOLLOWERS
        if statistics.static and len(tail) >= STATIC_ORDER:
            static = sum_of(statistics.static, tuple(tail[-STATIC_ORDER:]))
        if self._text is not None:
            for order, followers in self._text.followers(tail[-CONTEXT_ORDER:]):
                threshold = LAX[order - 1]
                if not has_majority(followers, threshold.percent):
                    continue
                choice = best_token(_counted(followers), static, threshold)
                if choice is not None:
                    return _draft_of(choice, "context", order)
        if statistics.dynamic:
            for order in range(min(len(tail), longest_dynamic(statistics)), 0, -1):
                counted = sum_of(statistics.dynamic, tuple(tail[-order:]))
                choice = best_token(counted, static, STRICT[min(order, len(STRICT)) - 1])
                if choice is not None:
                    return _draft_of(choice, "dynamic", order)
        choice = best_token(static, NO_FOLLOWERS, LAX[STATIC_ORDER - 1])
        return NO_DRAFT if choice is None else _draft_of(choice, "static", STATIC_ORDER)


def longest_dynamic(statistics: Statistics) -> int:
    """Return the tokens of the longest n-grams of dynamic statistics; 0 where there are none."""
    return max((source.max_order for source in statistics.dynamic), default=0)


def create(settings: Settings) -> NgramCacheDrafter:
    """Make the drafter from the settings of the group speculation.

    Beside suffix, which finds all that the buffer's n-grams would and more, it leaves the buffer
    out: merged with it, its drafts from there took 2 % from the tokens per pass of edits.
    """
    names = [name.strip() for name in settings.drafters.split(",")]
    return NgramCacheDrafter(
        n_draft=settings.spec_ngram_cache_n_max,
        reads_buffer=settings.mode == "first" or SUFFIX not in names,
    )


def _draft_of(choice: Choice, source: str, order: int) -> Draft:
    return Draft((choice.token,), source, order, (choice.probability,))


def _counted(tokens: TokenArray) -> Followers:
    return Followers(*np.unique(tokens, return_counts=True))
