"""What verifying a draft costs: T(k) as it was measured, and followed as it drifts.

A target pass over k tokens takes T(k).  On a GPU the tokens of a small batch are nearly free, on a
CPU each adds its share, and on both the curve has steps where other kernels take over.  Drafters
need T(k) / T(1) to know when a draft pays.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

from speclsp.drafting.verify_curve import VerifyCurve

SHORTEST_S: Final = 1e-9
"""A clock that did not move would otherwise break the logarithm."""
_LEVEL_STEP: Final = 0.2
_SHAPE_STEP: Final = 0.05
_N_KNOWN: Final = 1.0 / _SHAPE_STEP
"""Passes over a size from which on it counts as measured."""
_LARGEST_STEP: Final = math.log(2.0)
"""A pass that took more than twice, or less than half, of what was expected counts as that."""
_LARGEST_FACTOR: Final = 4.0
"""One pass changes what is assumed of other sizes no more: it may have been disturbed."""
_LEAST_EXCESS: Final = 0.01
"""An assumed T(k) / T(1) that is no more above 1 says nothing of other sizes."""


class VerifyCost:
    """T(k) as measured and as it drifts; :attr:`curve` is what drafters get.

    Each pass tells two things: how fast the machine is at present, whatever the size, and how the
    sizes compare.  The first is followed quickly, since load and temperature come and go; the
    second slowly.  Both are exponential averages of the logarithm.

    Sizes that were only assumed learn quickly: the first pass over one is taken for its time, and
    moves the others that are assumed.
    """

    def __init__(
        self,
        seconds: Mapping[int, float],
        tree_factor: float = 1.0,
        assumed: Mapping[int, float] | None = None,
    ) -> None:
        """Take T(k) in seconds by size k, 1 among them, and what a tree costs above a chain.

        ``assumed`` has T(k) for sizes that nobody measured.
        """
        together = {**(assumed or {}), **seconds}
        self._sizes = tuple(sorted(together))
        self._logs = [math.log(max(together[size], SHORTEST_S)) for size in self._sizes]
        self._n_seen = [_N_KNOWN if size in seconds else 0.0 for size in self._sizes]
        self._log_tree = math.log(max(tree_factor, 1.0))
        self._level = 0.0

    @property
    def curve(self) -> VerifyCurve:
        """T(k) / T(1) by batch size, for drafts without branches."""
        return self._curve(0.0)

    @property
    def tree_curve(self) -> VerifyCurve:
        """The same for trees with branches."""
        return self._curve(self._log_tree)

    @property
    def single_s(self) -> float:
        """T(1) in seconds, at the machine's present speed."""
        return math.exp(self._logs[0] + self._level)

    @property
    def milliseconds(self) -> tuple[tuple[int, float], ...]:
        """(k, T(k)) at the sizes that were measured, or seen since."""
        return tuple(
            (size, math.exp(log + self._level) * 1e3)
            for size, log, n_seen in zip(self._sizes, self._logs, self._n_seen, strict=True)
            if n_seen > 0.0
        )

    def observe(self, n_tokens: int, seconds: float, *, branched: bool) -> None:
        """Learn from a pass over ``n_tokens`` that took ``seconds``."""
        if seconds <= 0.0 or not 1 <= n_tokens <= self._sizes[-1]:
            return
        right = bisect_left(self._sizes, n_tokens)
        left = right if self._sizes[right] == n_tokens else right - 1
        share = 0.0
        if left != right:
            share = (n_tokens - self._sizes[left]) / (self._sizes[right] - self._sizes[left])
        expected = (1.0 - share) * self._logs[left] + share * self._logs[right] + self._level
        surprise = math.log(seconds) - expected - (self._log_tree if branched else 0.0)
        surprise = min(max(surprise, -_LARGEST_STEP), _LARGEST_STEP)
        # A size that was only assumed says little of the machine's speed.
        n_seen = (1.0 - share) * self._n_seen[left] + share * self._n_seen[right]
        self._level += _LEVEL_STEP * surprise * min(1.0, n_seen / _N_KNOWN)
        if branched:
            self._log_tree += _SHAPE_STEP * surprise
        else:
            self._learn(left, surprise, 1.0 - share)
            if left != right:
                self._learn(right, surprise, share)

    def _learn(self, idx: int, surprise: float, weight: float) -> None:
        """Let a size's time, and those that are only assumed as it is, follow ``surprise``."""
        if self._n_seen[idx] >= _N_KNOWN:
            self._logs[idx] += _SHAPE_STEP * surprise * weight
            return
        before = self._excess(idx)
        self._logs[idx] += surprise * weight * max(_SHAPE_STEP, 1.0 / (self._n_seen[idx] + 1.0))
        self._n_seen[idx] = min(_N_KNOWN, self._n_seen[idx] + weight)
        if before > _LEAST_EXCESS:
            factor = max(self._excess(idx), 0.0) / before
            factor = min(max(factor, 1.0 / _LARGEST_FACTOR), _LARGEST_FACTOR)
            for other, n_seen in enumerate(self._n_seen):
                if n_seen == 0.0 and self._excess(other) > 0.0:
                    excess = factor * self._excess(other)
                    self._logs[other] = self._logs[0] + math.log1p(excess)

    def _excess(self, idx: int) -> float:
        """By how much T(k) / T(1) is above 1."""
        return math.expm1(self._logs[idx] - self._logs[0])

    def _curve(self, extra: float) -> VerifyCurve:
        ratios = (math.exp(log - self._logs[0] + extra) for log in self._logs[1:])
        return VerifyCurve(self._sizes, (1.0, *ratios))
