"""What judged cases come to, and how far chance may have moved that.

Every score is a ratio of sums over cases.  Its interval is the percentile bootstrap's: cases are
drawn with replacement, 1,000 times (Efron, "Bootstrap methods: another look at the jackknife",
1979).  Two ways of completing are compared on the same draws, since the cases are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from benchmarks.defects import DefectKind
from benchmarks.quality_replay import JudgedCase, JudgedPlace

Score = Literal["exact", "exact_at_start", "similarity", "saved", "defects", "shown"]
"""``exact``: share of the places, with something of the line to write, whose line comes out right.
``exact_at_start``: the same at each case's first such place, where nothing of it was typed yet.
``similarity``: mean over what was shown.
``saved``: characters saved by taking, per character that the human wrote.
``defects``: suggestions with a defect per 100 shown.
``shown``: share of the requests with a suggestion."""

SCORES: Final[tuple[Score, ...]] = get_args(Score)
N_DRAWS: Final = 1000
_LEVEL: Final = 95.0

Sums = NDArray[np.float64]
"""Shape [n_cases, n_scores, 2]: numerator and denominator of each case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


def score_sums(judged: Sequence[JudgedCase]) -> Sums:
    """Return every case's part in every score."""
    return np.array([[_parts(case, score) for score in SCORES] for case in judged], dtype=float)


def score_values(judged: Sequence[JudgedCase]) -> dict[Score, float]:
    """Return every score without its interval; NaN where there is nothing to divide by."""
    return dict(zip(SCORES, _ratios(score_sums(judged).sum(axis=0)).tolist(), strict=True))


def estimates(sums: Sums, seed: int) -> dict[Score, Estimate]:
    """Return every score with its interval."""
    drawn = _drawn(sums, seed)
    whole = _ratios(sums.sum(axis=0))
    return {score: _estimate(float(whole[idx]), drawn[:, idx]) for idx, score in enumerate(SCORES)}


def comparison(ours: Sums, baseline: Sums, seed: int) -> dict[Score, Estimate]:
    """Return ours over the baseline's for every score, of the same cases."""
    above, below = _drawn(ours, seed), _drawn(baseline, seed)
    whole = _quotient(_ratios(ours.sum(axis=0)), _ratios(baseline.sum(axis=0)))
    drawn = _quotient(above, below)
    return {score: _estimate(float(whole[idx]), drawn[:, idx]) for idx, score in enumerate(SCORES)}


def defect_counts(judged: Sequence[JudgedCase]) -> dict[DefectKind, int]:
    """Return how many suggestions shown had each defect."""
    kinds: tuple[DefectKind, ...] = get_args(DefectKind)
    places = [place for case in judged for place in case.places]
    return {kind: sum(kind in place.defects for place in places) for kind in kinds}


def _parts(judged: JudgedCase, score: Score) -> tuple[float, float]:
    places = judged.places
    shown = [place for place in places if place.answer.text]
    with_line = [place for place in places if place.has_line]
    match score:
        case "exact":
            return _share(with_line, lambda place: place.is_exact)
        case "exact_at_start":
            return _share(with_line[:1], lambda place: place.is_exact)
        case "similarity":
            return sum(place.similarity for place in shown), len(shown)
        case "saved":
            return sum(place.n_chars_saved for place in places), len(judged.case.typed)
        case "defects":
            return 100.0 * sum(bool(place.defects) for place in shown), len(shown)
        case "shown":
            return len(shown), len(places)


def _share(
    places: Sequence[JudgedPlace], holds: Callable[[JudgedPlace], bool]
) -> tuple[float, float]:
    return sum(map(holds, places)), len(places)


def _drawn(sums: Sums, seed: int) -> NDArray[np.float64]:
    """The scores of ``N_DRAWS`` draws of cases, shape [n_draws, n_scores]."""
    generator = np.random.default_rng(seed)
    chosen = generator.integers(0, len(sums), size=(N_DRAWS, len(sums)))
    return np.stack([_ratios(sums[row].sum(axis=0)) for row in chosen])


def _ratios(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return _quotient(sums[:, 0], sums[:, 1])


def _quotient(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """The quotients; NaN where there is nothing to divide by."""
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below != 0)


def _estimate(value: float, drawn: NDArray[np.float64]) -> Estimate:
    known = drawn[~np.isnan(drawn)]
    if not known.size:
        return Estimate(value=value, low=value, high=value)
    margin = (100.0 - _LEVEL) / 2
    low, high = np.percentile(known, [margin, 100.0 - margin]).tolist()
    return Estimate(value=value, low=low, high=high)
