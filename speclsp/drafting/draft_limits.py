"""Below what a node or a match cannot pay.

It is kept over requests: to compute it takes as long as several look-ups, and it changes little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from speclsp.drafting.calibration import Calibration
from speclsp.drafting.cost import VerifyCurve
from speclsp.drafting.draft_size import least_path, least_useful_match

_VALID: Final = 16
"""Requests after which the limits are computed anew: what is learned of matches changes, too."""
_SAME: Final = 0.05
"""Curves whose ratios differ by so small a share have the same limits."""


class DraftLimits:
    """The limits for one calibration and drafts of at most ``n_max`` nodes."""

    def __init__(self, calibration: Calibration, n_max: int) -> None:
        self._calibration = calibration
        self._n_max = n_max
        self._curves: tuple[VerifyCurve, ...] = ()
        self._n_uses = 0
        self.least_paths: tuple[float, ...] = ()
        """For each curve the path probability below which no further node can pay."""
        self.n_min_match = 1
        """The least match length that may pay on one of the curves."""

    def take(self, curves: Sequence[VerifyCurve], overhead: float) -> None:
        """Take the curves of a request; ``overhead`` is what drafting takes in units of T(1)."""
        self._n_uses += 1
        is_known = len(curves) == len(self._curves) and all(map(_are_alike, curves, self._curves))
        if is_known and self._n_uses < _VALID:
            return
        self._curves = tuple(curves)
        self._n_uses = 0
        self.least_paths = tuple(least_path(curve, self._n_max) for curve in curves)
        self.n_min_match = min(
            least_useful_match(self._calibration, curve, self._n_max, overhead) for curve in curves
        )


def _are_alike(left: VerifyCurve, right: VerifyCurve) -> bool:
    return left is right or (
        left.sizes == right.sizes
        and all(abs(a - b) <= _SAME * b for a, b in zip(left.ratios, right.ratios, strict=True))
    )
