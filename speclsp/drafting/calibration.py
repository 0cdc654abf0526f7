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
times what the frequencies change of it; that of the second is that the first is right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

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
"""What the prior is multiplied by; measured, as the next, on six projects' text."""
_BY_FREQUENCY_SHADOWED: Final = (0.2, 0.25, 0.3, 0.2, 0.1, 0.05, 0.02)
"""The same where a longer match of the same source says otherwise."""
_PRIORS: Final = {**PRIORS, "draft": (0.6,) * N_BUCKETS}
_OTHER_SOURCE: Final = "open"
"""The source whose prior those get that have none."""

_N_DECILES: Final = 10
_LOWEST_LOGIT: Final = -6.5
_LOGIT_STEP: Final = 0.75
_N_LOGITS: Final = 19


class Evidence(NamedTuple):
    """What one source says of a token: a cell of the first table."""

    source: str
    length_bucket: int
    frequency: int
    """0 … 6 from frequent to rare, 7 more where a longer match says otherwise; or, where the
    source gives probabilities of its own, its decile of 1000 on."""


class _Verdict(NamedTuple):
    """A cell of the second table."""

    agreement: int
    """0 for one source, 1 for several; 2 more for a token that is not the place's best."""
    logit: int


_OWN_PROBABILITY: Final = 1000


def evidence(
    source: str, match_length: int, n_places: float, n_places_in_all: float, shadowed: bool
) -> Evidence:
    """Return the cell for a token that ``n_places`` of ``n_places_in_all`` continue with."""
    share = n_places / n_places_in_all
    if share > 0.999:
        frequency = _SOLE if n_places < 1.5 else _FEW if n_places < 4 else _MANY
    elif share >= 0.2:
        frequency = _MOST if share >= 0.5 else _SOME
    else:
        frequency = _RARE if share >= 0.05 else _RAREST
    return Evidence(source, bucket(match_length), frequency + N_FREQUENCIES * shadowed)


def own_evidence(source: str, probability: float) -> Evidence:
    """Return the cell for a token whose source gives its own probability, as a draft model does."""
    decile = min(int(probability * _N_DECILES), _N_DECILES - 1)
    return Evidence(source, 0, _OWN_PROBABILITY + decile)


class Calibration:
    """Both tables.  Belongs to the engine thread."""

    def __init__(self) -> None:
        self._cells: dict[Evidence | _Verdict, list[float]] = {}
        self._changed: set[Evidence | _Verdict] = set()
        self._sources: set[str] = set()

    def probability(self, cell: Evidence) -> float:
        """Return how often a token with this evidence is right: the mean of the posterior."""
        right, seen = self._cells.get(cell) or self._new_cell(cell)
        return right / seen

    def best_probability(self, length_bucket: int) -> float:
        """Return the highest p̂ of any source for matches of a length whose places all agree.

        1 as long as no source is known.
        """
        cells = [
            Evidence(source, length_bucket, frequency)
            for source in self._sources
            for frequency in (_SOLE, _FEW, _MANY)
        ]
        return max(map(self.probability, cells), default=1.0)

    def joint(self, probability: float, agreement: int) -> float:
        """Return how often tokens are right whose joined p̂ is ``probability``."""
        place = _logit_place(probability)
        low = int(place)
        share = place - low
        return (1.0 - share) * self._mean(agreement, low) + share * self._mean(agreement, low + 1)

    def observe(
        self, cells: Iterable[Evidence], probability: float, agreement: int, right: bool
    ) -> None:
        """Learn that a token with this evidence and joined p̂ was right or not."""
        for cell in cells:
            self._add(cell, right, 1.0)
        place = _logit_place(probability)
        low = int(place)
        self._add(_Verdict(agreement, low), right, 1.0 - (place - low))
        self._add(_Verdict(agreement, low + 1), right, place - low)

    def take(self, cells: Mapping[str, tuple[float, float]]) -> None:
        """Take over cells that were learned before; names that are none are passed over."""
        for name, (right, seen) in cells.items():
            cell = _cell_of(name)
            if cell is not None and 0.0 < right <= seen < math.inf:
                self._new_cell(cell)[:] = right, seen

    def changes(self) -> dict[str, tuple[float, float]]:
        """Return the cells that changed since the last call, by name."""
        changed = {_name_of(cell): _pair(self._cells[cell]) for cell in self._changed}
        self._changed.clear()
        return changed

    def _mean(self, agreement: int, logit: int) -> float:
        cell = _Verdict(agreement, logit)
        right, seen = self._cells.get(cell) or self._new_cell(cell)
        return right / seen

    def _add(self, cell: Evidence | _Verdict, right: bool, weight: float) -> None:
        counts = self._cells.get(cell) or self._new_cell(cell)
        keep = 1.0 - weight / MEMORY
        counts[0] = counts[0] * keep + (weight if right else 0.0)
        counts[1] = counts[1] * keep + weight
        self._changed.add(cell)

    def _new_cell(self, cell: Evidence | _Verdict) -> list[float]:
        counts = [PRIOR_WEIGHT * _prior(cell), PRIOR_WEIGHT]
        self._cells[cell] = counts
        if isinstance(cell, Evidence):
            self._sources.add(cell.source)
        return counts


def _prior(cell: Evidence | _Verdict) -> float:
    if isinstance(cell, _Verdict):
        return 1.0 / (1.0 + math.exp(-(_LOWEST_LOGIT + _LOGIT_STEP * cell.logit)))
    if cell.frequency >= _OWN_PROBABILITY:
        return (cell.frequency - _OWN_PROBABILITY + 0.5) / _N_DECILES
    by_length = _PRIORS.get(cell.source.rpartition(":")[2]) or _PRIORS[_OTHER_SOURCE]
    factors = (*_BY_FREQUENCY, *_BY_FREQUENCY_SHADOWED)
    return min(by_length[cell.length_bucket] * factors[cell.frequency], HIGHEST)


def _logit_place(probability: float) -> float:
    """Return where a probability lies between the second table's cells."""
    clipped = min(max(probability, 1e-9), 1.0 - 1e-9)
    logit = math.log(clipped / (1.0 - clipped))
    return min(max((logit - _LOWEST_LOGIT) / _LOGIT_STEP, 0.0), _N_LOGITS - 1.001)


def _pair(counts: list[float]) -> tuple[float, float]:
    return counts[0], counts[1]


def _name_of(cell: Evidence | _Verdict) -> str:
    return "/".join(map(str, cell))


def _cell_of(name: str) -> Evidence | _Verdict | None:
    parts = name.split("/")
    numbers = [part for part in parts[-2:] if part.isdecimal()]
    if len(numbers) != 2:
        return None
    first, second = int(numbers[0]), int(numbers[1])
    if len(parts) == 2:
        return _Verdict(first, second) if first < 4 and second < _N_LOGITS else None
    is_share = second < 2 * N_FREQUENCIES
    is_decile = _OWN_PROBABILITY <= second < _OWN_PROBABILITY + _N_DECILES
    is_known = first < N_BUCKETS and (is_share or is_decile)
    return Evidence("/".join(parts[:-2]), first, second) if is_known else None
