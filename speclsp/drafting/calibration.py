"""How often candidates are right: p̂[source, match length, frequency], learned from the target.

Two stages, both tables of Beta posteriors that are updated from every token that the target emits,
and forget exponentially:

1. For what one source says of a token: how long the longest match is that continues with it, what
   share of that source's places with a match so long do, and whether a longer match says otherwise.
2. Sources that agree are joined as if they were independent, 1 − Π(1 − p̂), and what may follow a
   place is scaled down to a sum below 1.  Both are wrong by as much as the sources copy from each
   other, so the result is looked up in a second table that knows how often it was right: apart for
   one source and several, and for a place's best token and the others.

The prior of the first stage is what human-written code of four projects gave by match length,
times a guess at what the frequency changes of it; that of the second is that the first is right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from speclsp.drafting.draft_length import N_BUCKETS, PRIORS, bucket

PRIOR_WEIGHT: Final = 8.0
"""Observations that a prior of either stage counts as."""
MEMORY: Final = 2048.0
"""Observations of a cell after which an older one has lost 1 − 1/e of its weight."""

HIGHEST: Final = 0.98
"""Sum of the probabilities of what may follow a place: something else always may."""

N_FREQUENCIES: Final = 7
_SOLE, _FEW, _MANY, _MOST, _SOME, _RARE, _RAREST = range(N_FREQUENCIES)
_BY_FREQUENCY: Final = (1.0, 1.1, 1.2, 0.8, 0.4, 0.2, 0.1)
"""What the prior is multiplied by.  A guess, as the next: learning overrules it soon."""
_BY_FREQUENCY_SHADOWED: Final = (0.2, 0.25, 0.3, 0.2, 0.1, 0.05, 0.02)
"""The same where a longer match of the same source says otherwise."""
_PRIORS: Final = {**PRIORS, "draft": (0.6,) * N_BUCKETS}
_OTHER_SOURCE: Final = "open"
"""The source whose prior those get that have none."""

_N_DECILES: Final = 10
_OWN_PROBABILITY: Final = 1000
"""Frequency classes from here on are deciles of a source's own probability."""

_LOWEST_LOGIT: Final = -6.5
_LOGIT_STEP: Final = 0.75
_N_LOGITS: Final = 19
_N_AGREEMENTS: Final = 4
_VERDICT: Final = "="
"""What stands for the second table among the names of cells."""


Cell: TypeAlias = list[float]
"""How often what belongs to a cell was right, and how often it was seen."""


class Calibration:
    """Both tables.  Belongs to the engine thread."""

    def __init__(self) -> None:
        self._cells: dict[tuple[str, int, int], Cell] = {}
        self._sources: set[str] = set()
        self._verdicts = [
            [_new_cell(_probability(_LOWEST_LOGIT + _LOGIT_STEP * idx)) for idx in range(_N_LOGITS)]
            for _ in range(_N_AGREEMENTS)
        ]

    def cell(
        self,
        source: str,
        match_length: int,
        n_places: float,
        n_places_in_all: float,
        *,
        shadowed: bool,
    ) -> Cell:
        """Return the cell of a token that ``n_places`` of ``n_places_in_all`` continue with.

        ``shadowed`` says that a longer match of the source continues otherwise.
        """
        share = n_places / n_places_in_all
        if share > 0.999:
            frequency = _SOLE if n_places < 1.5 else _FEW if n_places < 4 else _MANY
        elif share >= 0.2:
            frequency = _MOST if share >= 0.5 else _SOME
        else:
            frequency = _RARE if share >= 0.05 else _RAREST
        if shadowed:
            frequency += N_FREQUENCIES
        key = (source, bucket(match_length), frequency)
        return self._cells.get(key) or self._make(key)

    def own_cell(self, source: str, probability: float) -> Cell:
        """Return the cell of a token whose source gives a probability, as a draft model does."""
        decile = _N_DECILES - 1 if probability >= 1.0 else 0
        if 0.0 <= probability < 1.0:
            decile = int(probability * _N_DECILES)
        key = (source, 0, _OWN_PROBABILITY + decile)
        return self._cells.get(key) or self._make(key)

    def best_probability(self, length_bucket: int) -> float:
        """Return the highest p̂ of any source for matches of a length whose places all agree.

        1 as long as no source is known.
        """
        keys = [
            (source, length_bucket, frequency)
            for source in self._sources
            for frequency in (_SOLE, _FEW, _MANY)
        ]
        # Nothing is learned by asking.
        cells = [self._cells.get(key) or _new_cell(_prior(*key)) for key in keys]
        return max((right / seen for right, seen in cells), default=1.0)

    def joint(self, probability: float, agreement: int) -> float:
        """Return how often tokens are right whose joined p̂ is ``probability``.

        ``agreement`` is 0 for one source, 1 for several, and 2 more for a token that is not the
        best of its place.
        """
        verdicts = self._verdicts[agreement]
        low, share = _logit_place(probability)
        left, right = verdicts[low], verdicts[low + 1]
        return (1.0 - share) * left[0] / left[1] + share * right[0] / right[1]

    def observe(
        self, cells: Iterable[Cell], probability: float, agreement: int, right: bool
    ) -> None:
        """Learn that a token of these cells and with this joined p̂ was right or not."""
        for cell in cells:
            _add(cell, right, 1.0)
        low, share = _logit_place(probability)
        verdicts = self._verdicts[agreement]
        _add(verdicts[low], right, 1.0 - share)
        _add(verdicts[low + 1], right, share)

    def cells(self) -> dict[str, tuple[float, float]]:
        """Return all that was learned, by names that :meth:`take` knows."""
        named = {
            f"{source}/{length_bucket}/{frequency}": (right, seen)
            for (source, length_bucket, frequency), (right, seen) in self._cells.items()
        }
        for agreement, verdicts in enumerate(self._verdicts):
            for idx, (right, seen) in enumerate(verdicts):
                named[f"{_VERDICT}/{agreement}/{idx}"] = (right, seen)
        return named

    def take(self, cells: Mapping[str, tuple[float, float]]) -> None:
        """Take over what was learned before; what can be no cell is passed over."""
        for name, (right, seen) in cells.items():
            cell = self._cell_named(name)
            if cell is not None and 0.0 < right <= seen < math.inf:
                cell[:] = right, seen

    def _cell_named(self, name: str) -> Cell | None:
        source, _, numbers = name.rpartition("/")
        source, _, first_number = source.rpartition("/")
        if not source or not (first_number.isdecimal() and numbers.isdecimal()):
            return None
        first, second = int(first_number), int(numbers)
        if source == _VERDICT:
            is_one = first < _N_AGREEMENTS and second < _N_LOGITS
            return self._verdicts[first][second] if is_one else None
        is_share = second < 2 * N_FREQUENCIES
        is_decile = 0 <= second - _OWN_PROBABILITY < _N_DECILES
        is_one = first < N_BUCKETS and (is_share or is_decile)
        return self._make((source, first, second)) if is_one else None

    def _make(self, key: tuple[str, int, int]) -> Cell:
        self._sources.add(key[0])
        cell = self._cells[key] = _new_cell(_prior(*key))
        return cell


def _new_cell(prior: float) -> Cell:
    return [PRIOR_WEIGHT * prior, PRIOR_WEIGHT]


def _add(cell: Cell, right: bool, weight: float) -> None:
    keep = 1.0 - weight / MEMORY
    cell[0] = cell[0] * keep + (weight if right else 0.0)
    cell[1] = cell[1] * keep + weight


def _prior(source: str, length_bucket: int, frequency: int) -> float:
    if frequency >= _OWN_PROBABILITY:
        return (frequency - _OWN_PROBABILITY + 0.5) / _N_DECILES
    by_length = _PRIORS.get(source.rpartition(":")[2]) or _PRIORS[_OTHER_SOURCE]
    factors = (*_BY_FREQUENCY, *_BY_FREQUENCY_SHADOWED)
    return min(by_length[length_bucket] * factors[frequency], HIGHEST)


def _probability(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))


def _logit_place(probability: float) -> tuple[int, float]:
    """Return the second table's cell below a probability, and the share of the one above it."""
    if probability < _LEAST:
        return 0, 0.0
    if probability > _MOST_PROBABLE:
        return _N_LOGITS - 2, 1.0
    place = (math.log(probability / (1.0 - probability)) - _LOWEST_LOGIT) / _LOGIT_STEP
    low = int(place)
    return low, place - low


_LEAST: Final = _probability(_LOWEST_LOGIT)
_MOST_PROBABLE: Final = _probability(_LOWEST_LOGIT + _LOGIT_STEP * (_N_LOGITS - 1.001))
