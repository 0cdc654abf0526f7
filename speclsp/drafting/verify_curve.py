"""What verifying a draft costs, as drafters get to know it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

_N_SLOPE: Final = 8
"""Draft tokens over which the slope is taken."""


@dataclass(frozen=True, slots=True)
class VerifyCurve:
    """T(k) / T(1) by the batch size k: a draft of n nodes makes a batch of n + 1 tokens.

    ``sizes`` rise strictly and begin with 1; ``ratios`` has one positive number for each, the
    first 1.  The curve may have steps and dips: backends compute batches of different sizes by
    different kernels.
    """

    sizes: tuple[int, ...]
    ratios: tuple[float, ...]

    def ratio(self, n_tokens: int) -> float:
        """Return T(n_tokens) / T(1): linear between the measured sizes, and beyond the last."""
        sizes, ratios = self.sizes, self.ratios
        place = bisect_left(sizes, n_tokens)
        if place < len(sizes) and sizes[place] == n_tokens:
            return ratios[place]
        if len(sizes) == 1 or n_tokens < 1:
            return ratios[0]
        place = min(place, len(sizes) - 1)
        left, right = sizes[place - 1], sizes[place]
        slope = (ratios[place] - ratios[place - 1]) / (right - left)
        if n_tokens > right:
            return ratios[place] + max(slope, 0.0) * (n_tokens - right)
        return ratios[place - 1] + slope * (n_tokens - left)

    @property
    def slope(self) -> float:
        """c in T(k + 1) ≈ T(1) · (1 + c · k) for drafts of some tokens; at least 0."""
        return max(0.0, (self.ratio(1 + _N_SLOPE) - 1.0) / _N_SLOPE)


def straight_curve(slope: float, n_tokens: int = 64) -> VerifyCurve:
    """Return the curve of T(k + 1) = T(1) · (1 + slope · k), where nothing was measured."""
    return VerifyCurve((1, n_tokens), (1.0, 1.0 + slope * (n_tokens - 1)))
