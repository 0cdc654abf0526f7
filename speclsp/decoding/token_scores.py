"""How probable the model found what it emitted, and what it would have said instead.

Read from the rows of logits that a pass has computed anyway, as each token is emitted: one
log-sum-exp over the vocabulary for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from speclsp.decoding.sampling import LogitRow, best_tokens

TokenIds: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rival:
    """A token that the model might have emitted in the place of the one at ``position``."""

    position: int
    token: int
    logprob: float
    """Natural logarithm of its probability at temperature 1, given what stands before it."""


class TokenScores:
    """Is told each emitted token with its row.

    A token's log-probability is ln p(token | what stands before it), natural logarithm, at
    temperature 1 and without the sampler's filters, whatever the token was drawn with.  Where
    ``allowed`` gives token ids, as token healing does, it is that among these: what the user typed
    already is given, and it costs the suggestion nothing that the model would have typed it
    otherwise.
    """

    def __init__(
        self, *, n_rivals: int = 0, allowed: Callable[[], TokenIds | None] = lambda: None
    ) -> None:
        """``n_rivals`` tokens are kept for each place, the most probable ones first."""
        self._n_rivals = n_rivals
        self._allowed = allowed
        self.logprobs: list[float] = []
        """Of each emitted token."""
        self.rivals: list[Rival] = []

    def observe(self, token: int, row: LogitRow) -> None:
        """Take the next emitted token and the logits that it was chosen by, shape [n_vocab]."""
        allowed = self._allowed()
        logits = row if allowed is None else row[allowed]
        log_total = log_sum_exp(logits)
        self.logprobs.append(float(row[token]) - log_total)
        if not self._n_rivals:
            return
        position = len(self.logprobs) - 1
        for idx in best_tokens(logits, float(logits.max()), self._n_rivals + 1).tolist():
            rival = idx if allowed is None else int(allowed[idx])
            if rival != token:
                logprob = float(row[rival]) - log_total
                self.rivals.append(Rival(position, rival, logprob))


def log_sum_exp(logits: LogitRow) -> float:
    """Return ln Σ exp(logits); NaN where a logit is no number."""
    best = float(logits.max())
    if not math.isfinite(best):
        return math.nan
    # Shifted first, in float32: the sum lies in [1, n], and its error at a few parts in a million.
    return best + math.log(float(np.exp(logits - np.float32(best)).sum()))
