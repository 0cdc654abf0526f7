"""How probable the model found what it emitted, and what it would have said instead.

Read from the rows of logits that a pass has computed anyway: one log-sum-exp over the vocabulary
for each token.  A pass must not wait for that where it can be put off: what is to be summed is
kept, and summed together, many tokens at once, when somebody asks or enough are there.  Rows of a
small vocabulary are kept whole.  Of a large one only the tokens count that are not much less
probable than the emitted one: in code they are few, and finding them takes a fraction of what a
hundred thousand exponentials take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speclsp.decoding.sampling import LogitRow, best_tokens

_SHORT: Final = 16_384
"""Logits of a row that is cheaper to copy than to sum."""
_N_KEPT: Final = 32
"""Most rows that wait to be summed: 2 MiB of them, and little more of large ones."""
_FAR: Final = 18.0
"""Tokens whose logits are so much lower are left out of a large row's sum: all of 200,000 together
would change a log-probability by 0.003 at the most."""
_FEW: Final = 1 / 8
"""Share of a row's tokens above which all are summed: gathering them would take as long."""
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
        self._n_copied = 0
        """Of these rows so many belong to former passes, and are copies."""
        self._near: list[_Near] = []
        """Of the tokens before those: of large rows only this waits to be summed."""
        self._marks = np.empty(0, dtype=np.bool_)
        """Room for one truth value for each token of a row."""
        self._logprobs: list[float] = []
        self._rivals: list[Rival] = []

    @property
    def logprobs(self) -> list[float]:
        """Of each emitted token."""
        self._score()
        return self._logprobs

    @logprobs.setter
    def logprobs(self, known: list[float]) -> None:
        self._logprobs = known

    @property
    def rivals(self) -> list[Rival]:
        """Of each emitted token in turn, the most probable first."""
        self._score()
        return self._rivals

    def observe(self, token: int, row: LogitRow) -> None:
        """Take the next emitted token and the logits that it was chosen by, shape [n_vocab]."""
        restricted = self._chosen_by()
        if restricted is not None:
            row = restricted
        if row.size > _SHORT and not self._n_rivals:
            # At once, since the row is in the caches now, and the next one takes its place there.
            self._near.append(self._near_of(token, row))
            return
        self._tokens.append(token)
        self._rows.append(row)

    def end_pass(self) -> None:
        """Keep or score what was observed since the last call, while the rows are still there."""
        rows = self._rows
        if rows and rows[0].size > _SHORT:
            self._score()
        for idx in range(self._n_copied, len(self._rows)):
            rows[idx] = rows[idx].copy()
        self._n_copied = len(self._rows)
        if len(self._rows) >= _N_KEPT or len(self._near) >= _N_KEPT:
            self._score()

    def _near_of(self, token: int, row: LogitRow) -> _Near:
        """Return what of a large row is to be summed."""
        if self._marks.size != row.size:
            self._marks = np.empty(row.size, dtype=np.bool_)
        return _near(token, row, self._marks)

    def _score(self) -> None:
        """Score what waits."""
        near, self._near = self._near, []
        self._logprobs += [one.own - one.log_sum() for one in near]
        rows, tokens = self._rows, self._tokens
        if not rows:
            return
        self._rows, self._tokens, self._n_copied = [], [], 0
        for token, row, log_total in zip(tokens, rows, _log_totals(tokens, rows), strict=True):
            if self._n_rivals:
                self._keep_rivals(token, row, log_total)
            self._logprobs.append(float(row[token]) - log_total)

    def _keep_rivals(self, token: int, row: LogitRow, log_total: float) -> None:
        position = len(self._logprobs)
        for rival in best_tokens(row, float(row.max()), self._n_rivals + 1).tolist():
            logprob = float(row[rival]) - log_total
            if rival != token and math.isfinite(logprob):
                self._rivals.append(Rival(position, rival, logprob))


class _Near(NamedTuple):
    """What of a large row makes up its log-sum-exp."""

    own: float
    """The logit of the token that the row was scored for."""
    logits: LogitRow
    """Those near it; where these are many, the row's log-sum-exp alone, which stands for all."""

    def log_sum(self) -> float:
        """Return :func:`log_sum_exp` of the row; NaN where it has none."""
        own, logits = self
        with np.errstate(over="ignore"):
            total = float(np.add.reduce(np.exp(logits - np.float32(own))))
        return own + math.log(total) if total < math.inf else log_sum_exp(logits)


def _log_totals(tokens: Sequence[int], rows: Sequence[LogitRow]) -> list[float]:
    """Return what each row's logits are to be reduced by, to be log-probabilities."""
    if rows[0].size <= _SHORT:
        return log_sums(rows)
    marks = np.empty(rows[0].size, dtype=np.bool_)
    return [_near(*each, marks).log_sum() for each in zip(tokens, rows, strict=True)]


def log_sum_near(row: LogitRow, token: int) -> float:
    """Return :func:`log_sum_exp` of a row of which ``token`` is among the most probable ones.

    It is too small by n_vocab · e⁻¹⁸ at the most, relative to the token's own part.  A logit
    elsewhere that is no number is left out.
    """
    return _near(token, row, np.empty(row.size, dtype=np.bool_)).log_sum()


def _near(token: int, row: LogitRow, marks: NDArray[np.bool_]) -> _Near:
    """Return what is to be summed of a row; ``marks`` is room for as many truth values."""
    # Behind a pass each kind of call into NumPy is in no cache and takes 10 to 20 µs, so that there
    # are few of them here, and what can be done later is.
    own = float(row[token])
    np.greater_equal(row, own - _FAR, out=marks)
    if not math.isfinite(own) or np.count_nonzero(marks) > _FEW * row.size:
        return _Near(own, np.array([log_sum_exp(row)], dtype=np.float32))
    return _Near(own, row[marks])


def log_sums(rows: Sequence[LogitRow]) -> list[float]:
    """Return :func:`log_sum_exp` of each row.

    Several short rows are summed at once: for them the calls cost more than the sums.
    """
    if len(rows) == 1:
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

    Logits are mostly such that their exponentials are float32 numbers as they are.  Only where they
    are not, is the largest one looked for and taken off first.
    """
    with np.errstate(over="ignore"):
        total = float(np.add.reduce(np.exp(logits)))
    if _LEAST_TOTAL < total < math.inf:
        return math.log(total)
    best = float(logits.max())
    if not math.isfinite(best):
        return math.nan
    return best + math.log(float(np.exp(logits - np.float32(best)).sum()))
