"""The log-probability of each emitted token, and the most probable other tokens at its place.

Both come from the logits of the pass, at the cost of a sum over the vocabulary for each token.
Few functions of NumPy are called, since after a target pass their code is in no CPU cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from speclsp.decoding.sampling import LogitRow, best_tokens

_DEPTH: Final = np.float32(14.0)
"""How far below the emitted token's logit others are left out of the sum.

On 32 rows of Qwen2.5-Coder 0.5B the sum's logarithm becomes at most 0.002 smaller; at worst, with n
tokens just below that, ln(1 + n·e⁻¹⁴), which is 0.12 for 152,000.  Where the model is not sure, a
third of all tokens are nearer than 18, and their exponentials took longer than all else."""
_N_FOUND_AGAIN: Final = 3
"""Tokens in a row by which a copy that was left is found again."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A token that the model might have emitted at ``position`` instead."""

    position: int
    token: int
    logprob: float
    """Natural logarithm of its probability at temperature 1, given the tokens before it."""


class TokenScores:
    """Collects the log-probability of each emitted token from its row of logits.

    That is ln p(token | tokens before it) at temperature 1, without the sampler's filters.  If
    ``chosen_by`` returns a row, as token healing does, that row counts: it is conditioned on what
    the user has typed.
    """

    def __init__(
        self,
        *,
        n_rivals: int = 0,
        chosen_by: Callable[[], LogitRow | None] = lambda: None,
        copy: Sequence[int] | NDArray[np.int32] = (),
    ) -> None:
        """Keep ``n_rivals`` tokens for each place, the most probable ones first.

        ``chosen_by`` is called for each token after it was sampled.  It returns the logits that the
        token was sampled from, -inf for excluded tokens, or None for those of the model.
        Tokens that follow ``copy`` are not scored, which gives NaN: most of a next edit's answer.
        """
        self._n_rivals = n_rivals
        self._chosen_by = chosen_by
        self._copy: list[int] = np.asarray(copy).tolist()
        self._next = 0
        """The place in the copy that follows what was emitted, or followed before it was left."""
        self._since_left: list[int] = []
        """What was emitted since the copy was left."""
        self.logprobs: list[float] = []
        """By emitted token."""
        self.rivals: list[Rival] = []
        """Those of each emitted token in turn, the most probable first."""

    def observe(self, token: int, row: LogitRow) -> None:
        """Take the next emitted token and the logits that it was chosen by, shape [n_vocab]."""
        if self._follows_copy(token):
            self.logprobs.append(math.nan)
            return
        restricted = self._chosen_by()
        if restricted is not None:
            row = restricted
        log_total = log_sum_exp(row, token)
        if self._n_rivals:
            self._keep_rivals(token, row, log_total)
        self.logprobs.append(float(row[token]) - log_total)

    def _follows_copy(self, token: int) -> bool:
        """Whether a token goes on with the copy; it is found again by ``_N_FOUND_AGAIN`` tokens."""
        if not self._copy:
            return False
        if not self._since_left and self._copy[self._next : self._next + 1] == [token]:
            self._next += 1
            return True
        self._since_left.append(token)
        last = self._since_left[-_N_FOUND_AGAIN:]
        if len(last) < _N_FOUND_AGAIN:
            return False
        with suppress(ValueError):
            place = self._copy.index(last[0], self._next)
            while self._copy[place : place + _N_FOUND_AGAIN] != last:
                place = self._copy.index(last[0], place + 1)
            self._next = place + _N_FOUND_AGAIN
            self._since_left.clear()
        return False

    def _keep_rivals(self, token: int, row: LogitRow, log_total: float) -> None:
        position = len(self.logprobs)
        for rival in best_tokens(row, float(row.max()), self._n_rivals + 1).tolist():
            logprob = float(row[rival]) - log_total
            if rival != token and math.isfinite(logprob):
                self.rivals.append(Rival(position, rival, logprob))


def log_sum_exp(logits: LogitRow, token: int) -> float:
    """Return ln Σ exp(logits) for logits of shape [n_vocab], of which ``token`` has a large one.

    Others far below it, and those that are NaN, are left out.  NaN if the sum is not finite.
    """
    known = logits[token]
    if not math.isfinite(known):
        return math.nan
    near = logits.compress(logits >= known - _DEPTH)  # itself, however large it is
    # Below the best one, since a token may have been drawn so far below it that exp would overflow.
    best = float(near.max())
    if not math.isfinite(best):
        return math.nan
    near -= best
    return best + math.log(np.add.reduce(np.exp(near, out=near)))
