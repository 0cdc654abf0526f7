"""How many tokens of a match to draft, from how often such matches were right.

Let p(L) be the probability that the token after a match of L tokens of context is the target's.
If it is, the match has grown by one, so the draft's first i tokens are all right with

    S_i = p(L) · p(L + 1) · … · p(L + i − 1).

A pass with k draft tokens then emits 1 + S_1 + … + S_k tokens on average and costs T(k + 1), taken
as T(1) · (1 + c · k).  The draft gets the k that maximises

    (1 + S_1 + … + S_k) / (1 + c · k),

and none where k = 0 does.  So a long match is drafted far and a short one little, and verifying
is not paid for where it gains nothing.

p is estimated apart for each source and for match lengths 1, 2–3, 4–7, 8–15, 16–31, 32 and more.
It starts from what human-written code gave, weighs as ``PRIOR_WEIGHT`` observations, follows what
the target accepts, and forgets exponentially, so that it fits the file at hand.  Where the
estimate says not to draft, every ``PROBE_EVERY``-th match is drafted by one token all the same:
otherwise there would be nothing to learn from, and a bad spell would switch the source off for
good.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

PRIORS: Final[dict[str, tuple[float, ...]]] = {
    "buffer": (0.31, 0.48, 0.67, 0.77, 0.90, 0.94),
    "open": (0.17, 0.32, 0.51, 0.72, 0.87, 0.85),
    "project": (0.17, 0.32, 0.51, 0.72, 0.87, 0.85),
    "pool": (0.17, 0.32, 0.51, 0.72, 0.87, 0.85),
}
"""P(top-1 right) by match length, measured on human-written code of four projects.

The pool holds buffers, whichever they were, so it starts like other open ones.
"""

PRIOR_WEIGHT: Final = 8.0
MEMORY: Final = 64.0
"""Observations after which an older one has lost 1 − 1/e of its weight."""
PROBE_EVERY: Final = 8

COST_PER_DRAFT_TOKEN: Final = 0.25
"""c where it was not measured: between a GPU with about 0.16 and a CPU with about 0.4."""

BATCH_SHAPES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Draft lengths to choose from beside the longest one: backends reuse graphs of equal shape."""

N_BUCKETS: Final = 6
"""Classes of match lengths."""


def bucket(match_length: int) -> int:
    """Return the class of a match length: 1, 2–3, 4–7, 8–15, 16–31, 32 and more."""
    if 0 <= match_length < _N_TABLED:
        return _BUCKETS[match_length]
    return 0 if match_length < 0 else N_BUCKETS - 1


_N_TABLED: Final = 1 << N_BUCKETS - 1
_BUCKETS: Final = tuple(max(length, 1).bit_length() - 1 for length in range(_N_TABLED))
"""The class of each length that is not in the last one."""


def best_length(probabilities: Sequence[float], cost_per_token: float) -> int:
    """Return the draft length with the best expected tokens per cost, 0 for no draft.

    ``probabilities[i]`` is that of the i-th draft token being right if those before it are.
    """
    survivals = accumulate(probabilities, lambda survival, p: survival * p)
    best, best_rate = 0, 1.0
    expected = 1.0
    for length, survival in enumerate(survivals, start=1):
        expected += survival
        if length != len(probabilities) and length not in BATCH_SHAPES:
            continue
        rate = expected / (1.0 + cost_per_token * length)
        if rate > best_rate:
            best, best_rate = length, rate
    return best


class AcceptanceEstimate:
    """p(source, match length), learned from what was accepted, and the draft lengths it gives."""

    def __init__(self) -> None:
        self.cost_per_token = COST_PER_DRAFT_TOKEN
        """c; whoever knows the target's sets it."""
        self._right = {source: [0.0] * N_BUCKETS for source in PRIORS}
        self._seen = {source: [0.0] * N_BUCKETS for source in PRIORS}
        self._n_declined = {source: [0] * N_BUCKETS for source in PRIORS}

    def probability(self, source: str, match_length: int) -> float:
        """Return the mean of the Beta posterior: the prior's mean, moved by what was seen."""
        place = bucket(match_length)
        right = PRIOR_WEIGHT * PRIORS[source][place] + self._right[source][place]
        return right / (PRIOR_WEIGHT + self._seen[source][place])

    def draft_length(self, source: str, match_length: int, n_max: int) -> int:
        """Return how many of ``n_max`` tokens behind a match to draft."""
        by_bucket = [self.probability(source, 1 << place) for place in range(N_BUCKETS)]
        probabilities = [by_bucket[bucket(match_length + idx)] for idx in range(n_max)]
        length = best_length(probabilities, self.cost_per_token)
        if length == 0 and n_max > 0:
            declined = self._n_declined[source]
            place = bucket(match_length)
            declined[place] = (declined[place] + 1) % PROBE_EVERY
            if declined[place] == 0:
                return 1
        return length

    def observe(self, source: str, match_length: int, n_drafted: int, n_accepted: int) -> None:
        """Learn from a verified draft: each token up to the first wrong one tells something."""
        for idx in range(min(n_accepted + 1, n_drafted)):
            place = bucket(match_length + idx)
            right, seen = self._right[source], self._seen[source]
            keep = 1.0 - 1.0 / MEMORY
            right[place] = right[place] * keep + (idx < n_accepted)
            seen[place] = seen[place] * keep + 1.0
