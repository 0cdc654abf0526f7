"""T(k), the time of a target pass over k tokens, learned from real passes.

Each pass reads all weights once, so T(k) is flat until compute binds and then rises linearly.
With quantised weights compute binds from the second token on: 8 tokens take 2.1 times as long as
one on a GPU (8B Q4_0, RTX 3090, published).  On two CPU cores 2, 4, 8 and 16 tokens take 2.6, 3.8,
4.1 and 5.2 times as long (0.5 GB, Q8_0, measured).  The prior is a straight line.
Nothing is timed while a model loads: those times varied by a factor of five between runs.
Behind the first request some passes are timed in idle time (:meth:`PassCost.untimed`).
A tree costs what a chain of its size costs (measured ratios 0.91 to 1.02 at 4, 8 and 16 tokens), so
both share one curve.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

PRIOR_SLOPE: Final = 0.35
"""c in T(k) / T(1) = 1 + c · (k − 1) before passes were timed, one for all devices.  It decides
what the first minute drafts: where passes rise as steeply as T(8) = 7, sessions of 144 tokens take
3 % less time than with 0.16, and elsewhere at most 1 % more."""

SHAPES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Batch sizes that times are kept for: backends reuse a pass's graph for the next one of its size,
and change their kernels at 8.  A pass of another size counts for the nearest one."""

_N_KEPT: Final = 5
"""Latest times of a shape.  Disturbances only add time, so a low quantile is close to the truth:
it ignores three disturbed passes of five, and two undisturbed ones replace a wrong value, while
drafts of that length seem to pay."""
_N_KEPT_SINGLE: Final = 15
_N_AGAIN: Final = 3
"""Tokens of a pass that evaluates two again."""
_TIMED: Final = (1, 2, 4, 8)
"""Sizes of the passes that are timed in idle time."""
_N_TIMED: Final = 3
"""Passes of each of these sizes: so many show that it is dear."""


@dataclass(frozen=True, slots=True)
class VerifyCurve:
    """T(k) / T(1) by the batch size k: a draft of n nodes makes a batch of n + 1 tokens.

    ``sizes`` rise strictly and begin with 1; ``ratios`` has one positive number for each, the
    first 1.
    """

    sizes: tuple[int, ...]
    ratios: tuple[float, ...]

    def ratio(self, n_tokens: int) -> float:
        """Return T(n_tokens) / T(1): linear between the sizes, and beyond the last."""
        if len(self.sizes) == 1:
            return 1.0
        place = min(max(1, bisect_left(self.sizes, n_tokens)), len(self.sizes) - 1)
        left, right = self.sizes[place - 1 : place + 1]
        lower, higher = self.ratios[place - 1 : place + 1]
        slope = (higher - lower) / (right - left)
        if n_tokens > right:
            return higher + max(slope, 0.0) * (n_tokens - right)
        return lower + slope * (n_tokens - left)

    @property
    def least_slope(self) -> float:
        """What a further token adds in the cheapest batch, on average, in units of T(1).

        A node whose path is less probable hardly pays anywhere.  The least step between two sizes
        would be 0 where batches are padded to whole groups.
        """
        added = zip(self.sizes[1:], self.ratios[1:], strict=True)
        return max(0.0, min(((ratio - 1.0) / (size - 1) for size, ratio in added), default=0.0))


def straight_curve(slope: float, n_tokens: int = 64) -> VerifyCurve:
    """Return the curve of T(k + 1) = T(1) · (1 + slope · k)."""
    return VerifyCurve((1, n_tokens), (1.0, 1.0 + slope * (n_tokens - 1)))


class PassCost:
    """T(k) of one loaded model, learned from its passes.

    T(1) is the lower quartile of the latest passes without a draft.  The times of other passes are
    kept by shape, as multiples of T(1), and the lower quartile of a shape counts.  A shape without
    passes costs more than the next smaller one by the prior's slope, or by the mean slope up to
    there if that is less.  An estimate that is too low corrects itself, since such drafts are
    verified.  One that is too high stays: trying drafts for its sake costs more than it brings
    (docs/decisions/drafting.md).
    """

    def __init__(self, slope: float = PRIOR_SLOPE, *, evaluates_again: bool = False) -> None:
        """Begin with the prior T(k) / T(1) = 1 + ``slope`` · (k − 1).

        ``evaluates_again`` is true of a target that evaluates accepted tokens again, together with
        the next one, after a draft with a wrong token: two on average are taken for granted.
        """
        self._slope = slope
        self._evaluates_again = evaluates_again
        self._single: deque[float] = deque(maxlen=_N_KEPT_SINGLE)
        self._ratios: dict[int, deque[float]] = {}
        self._curve: VerifyCurve | None = None

    @property
    def single_s(self) -> float:
        """T(1) in seconds; 0 before the first pass without a draft."""
        single = tuple(self._single)  # other threads read it, too
        return lower_quartile(single) if single else 0.0

    @property
    def curve(self) -> VerifyCurve:
        """T(k) / T(1) by batch size."""
        curve = self._curve
        if curve is None:
            ratios = self._fitted()
            again = ratios[SHAPES.index(_N_AGAIN)] - 1.0 if self._evaluates_again else 0.0
            curve = VerifyCurve(SHAPES, (1.0, *(ratio + again for ratio in ratios[1:])))
            self._curve = curve
        return curve

    @property
    def milliseconds(self) -> tuple[tuple[int, float], ...]:
        """(k, T(k)) of the shapes that were timed."""
        seen = [(1, 1.0)] if self._single else []
        seen += [(shape, lower_quartile(kept)) for shape, kept in sorted(self._ratios.items())]
        return tuple((shape, ratio * self.single_s * 1e3) for shape, ratio in seen)

    def untimed(self) -> tuple[int, ...]:
        """Return the sizes of the passes that are still to be timed in idle time."""
        n_timed = {shape: len(kept) for shape, kept in self._ratios.items()}
        n_timed[1] = len(self._single)
        return tuple(size for size in _TIMED for _ in range(n_timed.get(size, 0), _N_TIMED))

    def learn(self, passes: Iterable[tuple[int, float]]) -> None:
        """Learn from passes, given by their tokens and seconds."""
        for n_tokens, seconds in passes:
            self.observe(n_tokens, seconds)

    def observe(self, n_tokens: int, seconds: float) -> None:
        """Learn from a pass over ``n_tokens``."""
        if seconds <= 0.0 or n_tokens < 1:
            return
        if n_tokens == 1:
            self._single.append(seconds)
            return
        if not self._single:
            return
        ratio = seconds / self.single_s
        shape = min(SHAPES[1:], key=lambda size: abs(math.log(size / n_tokens)))
        kept = self._ratios.setdefault(shape, deque(maxlen=_N_KEPT))
        kept.append(ratio * self._line(shape) / self._line(n_tokens))
        self._curve = None

    def _line(self, n_tokens: int) -> float:
        return 1.0 + self._slope * (n_tokens - 1)

    def _fitted(self) -> tuple[float, ...]:
        """Return T(k) / T(1) of all shapes, each at least 1.

        Before its fifth pass a shape's cost without passes counts as one of its times: three passes
        show that it is dear, and one shows that it is cheap.
        """
        ratios = [1.0]
        for left, shape in pairwise(SHAPES):
            line = self._line(shape)
            if left > 1:
                mean_slope = (ratios[-1] - 1.0) / (left - 1)
                line = ratios[-1] + min(self._slope, mean_slope) * (shape - left)
            times = [line, *self._ratios.get(shape, ())][-_N_KEPT:]
            ratios.append(max(1.0, lower_quartile(times)))
        return tuple(ratios)


@dataclass(frozen=True, slots=True)
class AskingCost:
    """What a draft model takes, in seconds."""

    token_s: float
    """For each token of a draft."""
    lacking_s: float = 0.0
    """To read the part of the text that it has not evaluated yet."""

    def best_gain(self, p: float, n_most: int, curve: VerifyCurve, single_s: float) -> float:
        """Return the highest E ln (tokens) − ln (time / T(1)) of a pass with a draft of the model.

        ``p`` is the chance that a token is right if those before it are, ``n_most`` the most tokens
        of a draft, and ``single_s`` T(1).
        """
        best, gain, path = -math.inf, 0.0, 1.0
        for n_tokens in range(1, n_most + 1):
            path *= p
            gain += path * math.log1p(1.0 / n_tokens)
            drafting = (self.lacking_s + n_tokens * self.token_s) / single_s
            best = max(best, gain - math.log(curve.ratio(n_tokens + 1) + drafting))
        return best


def lower_quartile(values: Collection[float]) -> float:
    """Return the lower quartile."""
    return sorted(values)[len(values) // 4]
