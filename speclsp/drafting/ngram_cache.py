"""N-gram cache: drafts the token that followed most often, token by token.

As in llama.cpp there are three sources: the *context* (the buffer and the generated tokens),
*dynamic* statistics (what this user wrote and accepted before) and *static* ones (from large
texts).  In the first two the longest n-gram that is sure enough decides.  Of the tokens that
followed it, the one with the highest score is drafted,

    score = count × (100 × static count, or 1 if static statistics do not have it),

so that static statistics confirm or overrule a few sightings.  An n-gram is sure enough if it was
seen often enough and the token's share is large enough.  The thresholds are lower for the context,
since it is nearer.

Unlike in llama.cpp, the context is counted at each look-up, from the present text: no cache has to
follow edits, and no n-gram is lost between two updates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from speclsp.drafting.drafter import NO_CONTEXT, NO_DRAFT, Draft, DraftContext, Statistics, sum_of
from speclsp.drafting.lookup_text import LookupText
from speclsp.drafting.suffix import NAME as SUFFIX
from speclsp.settings import Settings
from speclsp.settings_resolution import ngram_cache_length

NAME: Final = "ngram-cache"
CONTEXT_ORDER: Final = 4
"""Tokens of the context's longest n-grams; longer ones share the last threshold."""
STATIC_ORDER: Final = 2
"""Tokens of the n-grams of static statistics."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """When a follower of an n-gram is sure enough."""

    n_seen: int
    """Least sightings of the n-gram."""
    percent: int
    """Least share of the follower."""


LAX: Final = (Threshold(2, 66), Threshold(2, 50), Threshold(1, 50), Threshold(1, 50))
"""llama.cpp's thresholds for the context and static statistics, by order from 1 on."""
STRICT: Final = (Threshold(4, 75), Threshold(3, 66), Threshold(2, 66), Threshold(2, 66))
"""llama.cpp's thresholds for dynamic statistics; longer n-grams have the last one."""


class Choice(NamedTuple):
    """A follower that is sure enough."""

    token: int
    probability: float
    """Its share of the sightings, of which one more stands for unseen followers."""


def best_token(
    followers: Mapping[int, int], static: Mapping[int, int], threshold: Threshold
) -> Choice | None:
    """Return the follower with the highest score; None if it is not sure enough.

    ``followers`` has counts by token.  Of equally good tokens the lowest id is taken.
    """
    n_seen = sum(followers.values())
    n_needed = threshold.percent * n_seen
    if n_seen < threshold.n_seen or 100 * max(followers.values()) < n_needed:
        return None

    def score(token: int) -> tuple[int, int]:
        return followers[token] * (100 * static.get(token, 0) or 1), -token

    best = max(followers, key=score)
    if 100 * followers[best] < n_needed:
        return None
    return Choice(best, followers[best] / (n_seen + 1))


class NgramCacheDrafter:
    """Drafts at most ``n_draft`` tokens from the request's statistics, and from its buffer.

    If ``reads_buffer`` is False, it drafts from statistics alone.
    """

    name = NAME

    def __init__(self, *, n_draft: int, reads_buffer: bool = True) -> None:
        self._n_draft = n_draft
        self._reads_buffer = reads_buffer
        self.begin(NO_CONTEXT)

    def begin(self, context: DraftContext) -> None:
        """Take the request's buffer and statistics."""
        self._statistics = context.statistics
        n_own = STATIC_ORDER if context.statistics.static else 0
        if self._reads_buffer:
            n_own = CONTEXT_ORDER
        self._max_order = max(n_own, longest_dynamic(context.statistics))
        self._before = context.prefix[-self._max_order :].tolist() if self._max_order else []
        self._text: LookupText | None = None
        if self._reads_buffer:
            self._text = LookupText(replace(context, buffers=()), self._max_order)

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Draft token by token until none is sure enough."""
        if not self._max_order:
            return NO_DRAFT
        if self._text is not None:
            self._text.extend_to(generated)
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
        """Do nothing: accepted tokens are in the buffer, and its owner counts them."""

    def _step(self, tail: list[int]) -> Draft:
        """Return the next token as a draft of one, or no draft."""
        statistics = self._statistics
        static: Mapping[int, int] = {}
        if statistics.static and len(tail) >= STATIC_ORDER:
            static = sum_of(statistics.static, tuple(tail[-STATIC_ORDER:]))
        if self._text is not None:
            for order, followers in self._text.followers(tail[-CONTEXT_ORDER:]):
                choice = best_token(Counter(followers.tolist()), static, LAX[order - 1])
                if choice is not None:
                    return _draft_of(choice, "context", order)
        if statistics.dynamic:
            for order in range(min(len(tail), longest_dynamic(statistics)), 0, -1):
                counted = sum_of(statistics.dynamic, tuple(tail[-order:]))
                choice = best_token(counted, static, STRICT[min(order, len(STRICT)) - 1])
                if choice is not None:
                    return _draft_of(choice, "dynamic", order)
        choice = best_token(static, {}, LAX[STATIC_ORDER - 1])
        return NO_DRAFT if choice is None else _draft_of(choice, "static", STATIC_ORDER)


def longest_dynamic(statistics: Statistics) -> int:
    """Return the tokens of the longest n-grams of dynamic statistics; 0 where there are none."""
    return max((source.max_order for source in statistics.dynamic), default=0)


def create(settings: Settings) -> NgramCacheDrafter:
    """Make the drafter from the settings of the group speculation.

    Beside ``suffix``, which finds everything in the buffer, it does not read the buffer: its drafts
    from there reduced the merged tokens per pass of edits by 2 %.
    """
    names = [name.strip() for name in settings.drafters.split(",")]
    return NgramCacheDrafter(
        n_draft=ngram_cache_length(settings),
        reads_buffer=settings.mode == "first" or SUFFIX not in names,
    )


def _draft_of(choice: Choice, source: str, order: int) -> Draft:
    return Draft((choice.token,), source, order, (choice.probability,))
