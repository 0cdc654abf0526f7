"""How probable the model found each emitted token, and which tokens came next in its ranking.

Both are read from the logits that a pass has computed anyway, at one log-sum-exp over the
vocabulary for each token: 70 µs for 152,000 tokens.  Summing only the tokens near the emitted one
takes as long, since gathering them costs what their exponentials save.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from speclsp.decoding.sampling import LogitRow, best_tokens

_LEAST_TOTAL: Final = 1e-30
"""A smaller sum of float32 exponentials has lost digits."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A token that the model might have emitted in the place of the one at ``position``."""

    position: int
    token: int
    logprob: float
    """Natural logarithm of its probability at temperature 1, given what stands before it."""


class TokenScores:
    """Collects the log-probability of each emitted token from its row of logits.

    That is ln p(token | what stands before it), natural logarithm, at temperature 1 and without the
    sampler's filters, whatever the token was drawn with.  Where ``chosen_by`` gives a row, as token
    healing does, that one counts: it conditions on what the user typed already.
    """

    def __init__(
        self, *, n_rivals: int = 0, chosen_by: Callable[[], LogitRow | None] = lambda: None
    ) -> None:
        """Keep ``n_rivals`` tokens for each place, the most probable ones first.

        ``chosen_by`` is asked for each token after it was sampled.  It returns the logits that were
        left to choose from, -inf for excluded tokens, or None for those of the model.
        """
        self._n_rivals = n_rivals
        self._chosen_by = chosen_by
        self._exponentials = np.empty(0, dtype=np.float32)
        self.logprobs: list[float] = []
        """Of each emitted token."""
        self.rivals: list[Rival] = []
        """Of each emitted token in turn, the most probable first."""

    def observe(self, token: int, row: LogitRow) -> None:
        """Take the next emitted token and the logits that it was chosen by, shape [n_vocab]."""
        restricted = self._chosen_by()
        if restricted is not None:
            row = restricted
        if self._exponentials.size != row.size:
            self._exponentials = np.empty(row.size, dtype=np.float32)
        log_total = log_sum_exp(row, self._exponentials)
        if self._n_rivals:
            self._keep_rivals(token, row, log_total)
        self.logprobs.append(float(row[token]) - log_total)

    def _keep_rivals(self, token: int, row: LogitRow, log_total: float) -> None:
        position = len(self.logprobs)
        for rival in best_tokens(row, float(row.max()), self._n_rivals + 1).tolist():
            logprob = float(row[rival]) - log_total
            if rival != token and math.isfinite(logprob):
                self.rivals.append(Rival(position, rival, logprob))


def log_sum_exp(logits: LogitRow, room: NDArray[np.float32] | None = None) -> float:
    """Return ln Σ exp(logits) for logits of shape [n_vocab]; NaN where a logit is no number.

    ``room`` of the same shape takes the exponentials.  Only where these overflow or vanish in
    float32 the largest logit is subtracted first.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        exponentials = np.exp(logits, out=room)
        # A dot product sums twice as fast as sum() does.
        total = float(exponentials.dot(_ones(exponentials.size)))
    if _LEAST_TOTAL < total < math.inf:
        return math.log(total)
    best = float(logits.max())
    if not math.isfinite(best):
        return math.nan
    return best + math.log(float(np.exp(logits - np.float32(best)).sum()))


@lru_cache(maxsize=2)
def _ones(n_vocab: int) -> NDArray[np.float32]:
    return np.ones(n_vocab, dtype=np.float32)
