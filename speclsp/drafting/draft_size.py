"""How much to verify: the draft size with the most expected tokens per time.

A pass over k draft tokens emits 1 + Σ path p̂ tokens on average and takes T(k + 1).  The size
maximises the quotient, which is 1 where nothing is drafted.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from speclsp.drafting.calibration import Calibration
from speclsp.drafting.cost import VerifyCurve
from speclsp.drafting.draft_length import N_BUCKETS, bucket

SHAPES: Final = (1, 2, 3, 5, 7, 11, 15, 23, 31, 47, 63)
"""Draft sizes to choose from beside the largest one: with the token before them, batches of 2, 3,
4, 6, 8, 12, 16 …  Backends reuse the graph of a pass for another one of the same size, and change
their kernels at 8."""

_HYSTERESIS: Final = 1.02
"""So much better another size must be than the last one."""

MORE_THAN_ANY: Final = 1 << 30
"""A match length that no match has."""


class DraftSize(NamedTuple):
    """A draft's size and its expected tokens per time, in units of a pass without a draft."""

    n_nodes: int
    rate: float


NOTHING: Final = DraftSize(0, 1.0)


def best_size(
    path_probabilities: Sequence[float], curve: VerifyCurve, last_n_nodes: int
) -> DraftSize:
    """Return the best size for nodes in the order of growth; the last size wins near-ties."""
    expected = [1.0, *accumulate(path_probabilities, initial=1.0)][1:]
    n_nodes = len(path_probabilities)
    best, best_merit = NOTHING, _HYSTERESIS if last_n_nodes == 0 else 1.0
    for size in (*(shape for shape in SHAPES if shape < n_nodes), n_nodes):
        if size == 0:
            continue
        rate = expected[size] / curve.ratio(size + 1)
        merit = rate * (_HYSTERESIS if size == last_n_nodes else 1.0)
        if merit > best_merit:
            best, best_merit = DraftSize(size, rate), merit
    return best


def least_path(curve: VerifyCurve, n_max: int) -> float:
    """Return the path probability below which no further node can pay.

    A node pays if it adds more than its share of the time at a rate of at least 1.
    """
    ratios = [curve.ratio(shape + 1) for shape in (0, *SHAPES) if shape <= n_max]
    sizes = [shape for shape in (0, *SHAPES) if shape <= n_max]
    slopes = [
        (ratios[right] - ratios[left]) / (sizes[right] - sizes[left])
        for left in range(len(sizes))
        for right in range(left + 1, len(sizes))
    ]
    return max(0.0, min(slopes, default=0.0))


def least_useful_match(
    calibration: Calibration, curve: VerifyCurve, n_max: int, overhead: float
) -> int:
    """Return the least match length that may be worth a draft on this curve.

    A shorter one is not, even where all places agree.  ``overhead`` is what drafting itself takes,
    in units of T(1).  Where no match pays, the length is more than any.
    """
    best_by_bucket = [calibration.best_probability(idx) for idx in range(N_BUCKETS)]
    for length_bucket in range(N_BUCKETS):
        length = 1 << length_bucket
        paths = accumulate(
            (best_by_bucket[bucket(length + depth)] for depth in range(n_max)), operator.mul
        )
        size, rate = best_size(tuple(paths), curve, 0)
        if size and rate * curve.ratio(size + 1) > curve.ratio(size + 1) + overhead:
            return length
    return MORE_THAN_ANY
