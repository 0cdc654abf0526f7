"""How far a choice is from coming out differently, in logits.

A backend's last bits depend on the batch's shape, so a token that was verified in a batch may
differ from the one decoded alone where two choices are nearly equal.  These margins bound that:
if every logit of a row is off by at most ε and the margin is larger than ε, the choice is the same.

Three facts make the bounds, with logits that are off by at most ε:

* The difference of two logits moves by at most 2ε, so at least a gap of 2ε separates what cannot
  change places.
* Scores of the Gumbel-max draw are logits over the temperature T plus noise that does not depend
  on the logits, so the same holds for T times their difference.
* The weights exp(l) of a set of tokens and of the rest move by factors between e^(−ε) and e^ε, so
  the set's share P moves by at most 2ε in log-odds, log(P / (1 − P)).
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from speclsp.decoding.sampling import (
    LogitRow,
    SamplingParams,
    SeededSampler,
    best_tokens,
    gumbel_noise,
    make_sampler,
)

NEARLY_EVEN: Final = {"q4_k_m": 0.2}
"""Margin above which no choice may come out differently with Qwen2.5-Coder's files, on the CPU at
hand or on another one: tokens that were recorded with AMX came out differently without it at
margins up to 0.171."""
EPSILON: Final = {"f16": 0.05, "q8_0": 0.3, "q4_k_m": 3.0}
"""Above the largest logit difference between batch shapes on one prefix, with room for other
instruction sets.  Measured on x86-64 with AVX-512: 0.0372 and 0 with one thread; Q4_K_M with AMX
0.90, without it 2.13 (Qwen2.5-Coder 1.5B, passes over four tokens and over one).
tests/lossless/test_lossless.py holds it on the machine at hand."""


def greedy_margin(row: LogitRow) -> float:
    """Return half the gap between the two largest logits."""
    if row.size < 2:
        return math.inf
    second, first = np.partition(row, row.size - 2)[-2:].astype(np.float64)
    return float(first - second) / 2.0


def draw_margin(row: LogitRow, params: SamplingParams, number: int) -> float:
    """Return the margin of drawing with the random ``number`` from the row.

    Another token is drawn where the drawn one is filtered out, where another one that passes the
    filters gets the best score, or where one that had a better score passes the filters.
    """
    token_ids = best_tokens(row, float(row.max()), row.size)
    logits = row[token_ids].astype(np.float64)
    scores = logits + params.temperature * gumbel_noise(token_ids, number)
    filters: list[_TopK | _TopP | _MinP] = [
        _TopK(logits, params.top_k),
        _TopP(logits[: params.top_k] if params.top_k > 0 else logits, params.top_p),
        _MinP(logits, params.min_p),
    ]
    n_kept = min(a_filter.n_kept for a_filter in filters)
    drawn = int(scores[:n_kept].argmax())
    margin = min(a_filter.to_leave(drawn) for a_filter in filters)
    gaps = (scores[drawn] - scores) / 2.0
    gaps[drawn] = math.inf
    margin = min(margin, float(gaps[:n_kept].min()))
    for rank in (np.flatnonzero(gaps[n_kept:] < margin) + n_kept).tolist():
        shut_out_by = [a_filter for a_filter in filters if rank >= a_filter.n_kept]
        to_enter = max(a_filter.to_enter(rank) for a_filter in shut_out_by)
        margin = min(margin, max(float(gaps[rank]), to_enter))
    return max(margin, 0.0)


class _TopK:
    """Ranks below k pass.  Logits are sorted, the largest first, here and below."""

    def __init__(self, logits: NDArray[np.float64], top_k: int) -> None:
        self._logits = logits
        self.n_kept = min(top_k, logits.size) if top_k > 0 else logits.size

    def to_leave(self, rank: int) -> float:
        """Return the margin of a token that passes."""
        if self.n_kept == self._logits.size:
            return math.inf
        return float(self._logits[rank] - self._logits[self.n_kept]) / 2.0

    def to_enter(self, rank: int) -> float:
        """Return the margin of a token that does not pass."""
        return float(self._logits[self.n_kept - 1] - self._logits[rank]) / 2.0


class _MinP:
    """Logits not below the best one's plus log(min_p) pass."""

    def __init__(self, logits: NDArray[np.float64], min_p: float) -> None:
        self._logits = logits
        self._threshold = logits[0] + math.log(min_p) if min_p > 0.0 else -math.inf
        self.n_kept = int((logits >= self._threshold).sum())

    def to_leave(self, rank: int) -> float:
        """Return the margin of a token that passes.

        The best one fails where the second best becomes so much better.
        """
        if rank == 0 and self._logits.size > 1:
            to_second = float(self._logits[0] - self._logits[1])
            return (to_second + float(self._logits[0] - self._threshold)) / 2.0
        return float(self._logits[rank] - self._threshold) / 2.0

    def to_enter(self, rank: int) -> float:
        """Return the margin of a token that does not pass."""
        return float(self._threshold - self._logits[rank]) / 2.0


class _TopP:
    """A token passes while those before it have less than top_p of the mass."""

    def __init__(self, logits: NDArray[np.float64], top_p: float) -> None:
        self._logits = logits
        self._weights = np.exp(logits - logits[0])
        self._mass = float(self._weights.sum())
        self._log_odds = _log_odds(np.array([top_p]))[0] if top_p < 1.0 else math.inf
        # before[n] is the mass of the n best tokens.
        self._before = np.concatenate([[0.0], np.cumsum(self._weights)])
        n_passing = int((self._before[:-1] < top_p * self._mass).sum())
        self.n_kept = max(n_passing, 1) if top_p < 1.0 else logits.size

    def to_leave(self, rank: int) -> float:
        """Return the margin of a token that passes.

        It leaves where, with the next ones up to some rank overtaking it, those before it have
        enough mass; the overtaking and the mass both take their error.
        """
        if math.isinf(self._log_odds) or rank >= self._logits.size:
            return math.inf
        overtaking = (self._logits[rank] - self._logits[rank:]) / 2.0
        masses = self._before[rank + 1 :] - self._weights[rank]
        reaching = (self._log_odds - _log_odds(masses / self._mass)) / 2.0
        return float(np.maximum(overtaking, reaching).min())

    def to_enter(self, rank: int) -> float:
        """Return the margin of a token that does not pass, of those that top-k leaves."""
        if rank >= self._logits.size:
            return 0.0  # Top-k shuts it out too, by more than nothing.
        falling_behind = np.append(self._logits[1:rank] - self._logits[rank], 0.0) / 2.0
        lacking = (_log_odds(self._before[1 : rank + 1] / self._mass) - self._log_odds) / 2.0
        return float(np.maximum(falling_behind, lacking).min())


def _log_odds(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(P / (1 − P)), infinite at 0 and 1; rounding may put a share beyond 1."""
    with np.errstate(divide="ignore"):
        return np.log(shares) - np.log(np.maximum(1.0 - shares, 0.0))


class RecordingSampler:
    """Samples, and keeps each choice's margin."""

    def __init__(self, params: SamplingParams) -> None:
        self._params = params
        self._sampler = make_sampler(params)
        self.margins: list[float] = []

    def sample(self, row: LogitRow) -> int:
        token = self._sampler.sample(row)
        self.margins.append(self._margin(row))
        return token

    def sample_again(self, row: LogitRow) -> int:
        token = self._sampler.sample_again(row)
        self.margins[-1] = min(self.margins[-1], self._margin(row))
        return token

    def _margin(self, row: LogitRow) -> float:
        if isinstance(self._sampler, SeededSampler):
            return draw_margin(row, self._params, self._sampler.number)
        return greedy_margin(row)
