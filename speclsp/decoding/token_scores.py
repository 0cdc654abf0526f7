"""How probable the model found what it emitted, and what it would have said instead.

Read from the rows of logits that a pass has computed anyway, as each token is emitted: one
log-sum-exp over the vocabulary for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from speclsp.decoding.sampling import LogitRow, best_tokens

_NEAR: Final = 16.0
_FEW: Final = 8
_SHORT: Final = 16_384


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
    ``chosen_by`` gives a row, as token healing does, that one counts: what the user typed already
    is given, and it costs the suggestion nothing that the model would have typed it otherwise.
    """

    def __init__(
        self, *, n_rivals: int = 0, chosen_by: Callable[[], LogitRow | None] = lambda: None
    ) -> None:
        """``n_rivals`` tokens are kept for each place, the most probable ones first.

        ``chosen_by`` is asked for each token after it was sampled; it gives the logits that are
        left, -inf for tokens that were not to be had, or None for those of the model.
        """
        self._n_rivals = n_rivals
        self._chosen_by = chosen_by
        self._rows: list[LogitRow] = []
        self._tokens: list[int] = []
        """Of the pass at hand."""
        self.logprobs: list[float] = []
        """Of each emitted token."""
        self.rivals: list[Rival] = []

    def observe(self, token: int, row: LogitRow) -> None:
        """Take the next emitted token and the logits that it was chosen by, shape [n_vocab]."""
        restricted = self._chosen_by()
        self._tokens.append(token)
        self._rows.append(row if restricted is None else restricted)

    def end_pass(self) -> None:
        """Score what was observed since the last call, while the rows are still there."""
        rows, tokens = self._rows, self._tokens
        if not rows:
            return
        self._rows, self._tokens = [], []
        log_totals = log_sums(rows)
        for token, row, log_total in zip(tokens, rows, log_totals, strict=True):
            if self._n_rivals:
                self._keep_rivals(token, row, log_total)
            self.logprobs.append(float(row[token]) - log_total)

    def _keep_rivals(self, token: int, row: LogitRow, log_total: float) -> None:
        position = len(self.logprobs)
        for rival in best_tokens(row, float(row.max()), self._n_rivals + 1).tolist():
            logprob = float(row[rival]) - log_total
            if rival != token and math.isfinite(logprob):
                self.rivals.append(Rival(position, rival, logprob))


def log_sums(rows: Sequence[LogitRow]) -> list[float]:
    """Return :func:`log_sum_exp` of each row.

    Several short rows are summed at once: for them the calls cost more than the sums.
    """
    if len(rows) == 1 or rows[0].size > _SHORT:
        return [log_sum_exp(row) for row in rows]
    stacked = np.stack(rows)
    best = stacked.max(axis=1)
    if not np.isfinite(best).all():
        return [log_sum_exp(row) for row in rows]
    stacked -= best[:, None]
    np.exp(stacked, out=stacked)
    sums: list[float] = (best + np.log(stacked.sum(axis=1))).tolist()
    return sums


def log_sum_exp(logits: LogitRow) -> float:
    """Return ln Σ exp(logits) for logits of shape [n_vocab]; NaN where a logit is no number.

    Where few logits of many lie near the largest, as is usual, the others are left out: together
    they add n_vocab · e^-16 at most, 0.02 for 150,000 tokens, and take ten times as long.
    """
    best = float(logits.max())
    if not math.isfinite(best):
        return math.nan
    if logits.size > _SHORT:
        near = np.flatnonzero(logits > np.float32(best - _NEAR))
        if near.size * _FEW < logits.size:
            logits = logits[near]
    # Shifted first, in float32: the sum is 1 or more, and its error a few parts in a million.
    return best + math.log(float(np.exp(logits - np.float32(best)).sum()))
