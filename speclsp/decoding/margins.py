"""How far a choice is from coming out differently, in logits.

A backend's last bits depend on the batch's shape, so a token that was verified in a batch may
differ from the one decoded alone where two choices are nearly equal.  These margins bound that:
if every logit of a row is off by at most ε and the margin is larger than ε, the choice is the same.

The bounds rest on one fact.  If logits move by at most ε, the weights exp(l / T) of a set of
tokens and of the rest move by factors between e^(−ε/T) and e^(ε/T), so the set's probability P
moves by at most 2ε / T in log-odds, log(P / (1 − P)).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from speclsp.decoding.sampling import LogitRow, SamplingParams, best_tokens, candidates


def greedy_margin(row: LogitRow) -> float:
    """Return half the gap between the two largest logits."""
    if row.size < 2:
        return math.inf
    second, first = np.partition(row, row.size - 2)[-2:].astype(np.float64)
    return float(first - second) / 2.0


def draw_margin(row: LogitRow, params: SamplingParams, uniform: float) -> float:
    """Return the margin of drawing with ``uniform`` from the row.

    It is the least of the draw's own distance to the boundaries of its interval and of the
    filters' distances to letting another set of tokens through.
    """
    filters = min(
        _top_k_margin(row, params), _top_p_margin(row, params), _min_p_margin(row, params)
    )
    return min(filters, _interval_margin(row, params, uniform))


def _interval_margin(row: LogitRow, params: SamplingParams, uniform: float) -> float:
    """Distance of ``uniform`` to the nearest inner boundary of the cumulative distribution."""
    _, cumulative = candidates(row, params)
    boundaries = cumulative[:-1] / cumulative[-1]
    boundaries = boundaries[(boundaries > 0.0) & (boundaries < 1.0)]
    if not boundaries.size:
        return math.inf
    place = int(np.searchsorted(boundaries, uniform, side="right"))
    beside = boundaries[max(place - 1, 0) : place + 1]
    return min(abs(_log_odds(float(b)) - _log_odds(uniform)) for b in beside) * (
        params.temperature / 2.0
    )


def _top_k_margin(row: LogitRow, params: SamplingParams) -> float:
    """Half the gap between the last token that top-k keeps and the first that it drops."""
    if not 0 < params.top_k < row.size:
        return math.inf
    logits = _ranked(row)
    return float(logits[params.top_k - 1] - logits[params.top_k]) / 2.0


def _top_p_margin(row: LogitRow, params: SamplingParams) -> float:
    """Distance to keeping one token more or less, or exchanging the last one for the next."""
    if params.top_p >= 1.0:
        return math.inf
    logits = _ranked(row)
    logits = logits[: params.top_k] if params.top_k > 0 else logits
    masses = np.cumsum(np.exp(logits - logits[0]))
    masses /= masses[-1]
    last = min(int(np.searchsorted(masses, params.top_p, side="left")), logits.size - 1)
    distances = [abs(_log_odds(float(masses[last])) - _log_odds(params.top_p)) / 2.0]
    if last > 0:
        distances.append(abs(_log_odds(params.top_p) - _log_odds(float(masses[last - 1]))) / 2.0)
    if last + 1 < logits.size:
        distances.append(float(logits[last] - logits[last + 1]) / 2.0)
    return min(distances)


def _min_p_margin(row: LogitRow, params: SamplingParams) -> float:
    """Half the distance of the nearest logit to min-p's threshold below the best."""
    if params.min_p <= 0.0:
        return math.inf
    logits = _ranked(row)
    logits = logits[: params.top_k] if params.top_k > 0 else logits
    distances = np.abs(logits[1:] - (logits[0] + math.log(params.min_p)))
    return float(distances.min()) / 2.0 if distances.size else math.inf


def _ranked(row: LogitRow) -> NDArray[np.float64]:
    """Return all logits, the largest first."""
    return row[best_tokens(row, float(row.max()), row.size)].astype(np.float64)


def _log_odds(probability: float) -> float:
    if probability <= 0.0:
        return -math.inf
    if probability >= 1.0:
        return math.inf
    return math.log(probability) - math.log1p(-probability)
