"""Measures T(k), the seconds of a target pass over k tokens, on the model that was just loaded.

Somebody may be waiting for that model, so the measurement ends soon whatever the model is: in
:data:`BUDGET_S` and two passes over a single token.  A pass over k tokens never takes longer than
its tokens one by one, so it is known beforehand what fits.  Of sizes that do not, T(k) is assumed;
the passes of completions correct that (:class:`~speclsp.decoding.verify_cost.VerifyCost`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from speclsp.decoding.protocol import Target, tree_target
from speclsp.decoding.verify_cost import SHORTEST_S, VerifyCost
from speclsp.drafting.draft_length import COST_PER_DRAFT_TOKEN
from speclsp.drafting.verify_curve import VerifyCurve

BUDGET_S: Final = 0.8
"""Seconds that the measurement may take, beside two passes over one token."""
HURRIED_S: Final = 0.2
"""The same where somebody waits."""
_COMPILING_S: Final = 5.0
"""Seconds more for a GPU's kernels: what is compiled now keeps no request waiting later."""

_SIZES: Final = (1, 8, 4, 2, 16, 6, 3, 12, 24)
"""Batch sizes, the important ones first; few, since backends reuse graphs of equal shape."""
_FIRST_PIECE: Final = 8
_MOST_CONTEXT: Final = 512
"""Tokens in the cache meanwhile, at the most, and those that come first.
Attention's share grows with them, and with it what a draft token costs: the embedded model's
T(8) / T(1) is 3.5 behind 64 tokens and 5.3 behind 600.  What takes long to evaluate them is a large
model, whose attention is a small share."""
_CONTEXT_SHARE: Final = 0.25
"""Share of the budget that evaluating them may take."""
_N_REPEATS: Final = 4
_COMPILED: Final = 1.25
"""A pass that took so many times as long as its tokens one by one compiled kernels, or waited."""
_DISTURBED: Final = 1.1
"""A pass that took so many times as long as one over more tokens was probably disturbed."""
_TREE_SIZE: Final = 8
"""Batch size at which a tree is compared with a chain."""
_PARENTS: Final = (-1, -1, 0, 1, 2, 3, 3)
"""The tree: two branches, of which one splits again."""
_LEAST_SLOPED: Final = 4
"""A smaller largest size alone says little of the slope: T(2) / T(1) has a step of its own."""


def measure_verify_cost(
    target: Target,
    clock: Callable[[], float],
    *,
    budget_s: float = BUDGET_S,
    hurried: Callable[[], bool] = lambda: False,
) -> VerifyCost:
    """Measure T(k) at a few sizes, and a tree where the target evaluates trees.

    Takes the shortest of some runs, since whatever else the machine does only adds time.  The
    target's cache is empty afterwards.  ``clock`` is in seconds.  From when on ``hurried`` is true,
    nothing is begun after :data:`HURRIED_S`.
    Raises :class:`~speclsp.errors.DecodeError`.
    """
    return _Measurement(target, clock, budget_s, hurried).result()


def assumed_times(measured: Mapping[int, float], sizes: Sequence[int]) -> dict[int, float]:
    """Return T(k) for those of ``sizes`` that were not measured.

    Between measured sizes it is a line, and beyond the largest, m, a line of the mean slope up to
    there, c in T(k) = T(m) + T(1) · c · (k - m).  Where m is less than 4, c is what is usual, or
    the geometric mean of that and of what was measured.
    """
    known = sorted(measured)
    single, largest = measured[1], known[-1]
    curve = VerifyCurve(tuple(known), tuple(measured[size] / single for size in known))
    slope = COST_PER_DRAFT_TOKEN
    if largest > 1:
        found = max(0.0, (curve.ratio(largest) - 1.0) / (largest - 1))
        slope = found if largest >= _LEAST_SLOPED else math.sqrt(slope * found)
    return {
        size: single
        * (curve.ratio(size) if size < largest else curve.ratio(largest) + slope * (size - largest))
        for size in sizes
        if size not in measured
    }


class _Measurement:
    """One measurement, from an empty cache to an empty cache."""

    def __init__(
        self,
        target: Target,
        clock: Callable[[], float],
        budget_s: float,
        hurried: Callable[[], bool],
    ) -> None:
        self._target = target
        self._clock = clock
        self._budget_s = budget_s
        self._hurried = hurried
        self._share_s = budget_s / (len(_SIZES) + 1)
        self._spent_s = 0.0
        self._forgivable_s = _COMPILING_S
        self._n_context = 0
        self._shortest: dict[int, float] = {}

    def result(self) -> VerifyCost:
        target = self._target
        target.truncate(0)
        self._measure_single()
        self._fill()
        n_most = max(1, min(target.n_batch, target.n_ctx // 4))
        sizes = [size for size in _SIZES if size <= n_most]
        for size in sizes:
            self._measure(size)
        tree_factor = self._tree_factor()
        target.truncate(0)
        shortest = {size: max(seconds, SHORTEST_S) for size, seconds in self._shortest.items()}
        return VerifyCost(shortest, tree_factor, assumed_times(shortest, sizes))

    def _measure_single(self) -> None:
        """Find out about T(1), which tells what everything else may take.

        A first pass that took long was a slow model's, or compiled a GPU's kernels: another tells.
        """
        first = self._pass(self._decode_of(1), math.inf)
        self._shortest[1] = first
        if first > self._share_s:
            self._shortest[1] = min(first, self._pass(self._decode_of(1), math.inf))
            self._forgive(first - self._shortest[1])

    def _fill(self) -> None:
        """Evaluate a context as long as fits the time, each piece as long as all before it."""
        most = min(_MOST_CONTEXT, self._target.n_ctx // 2)
        left_s = _CONTEXT_SHARE * self._budget_s
        piece, expected = _FIRST_PIECE, _FIRST_PIECE * self._shortest[1]
        while (
            self._n_context + piece <= most
            and piece <= self._target.n_batch
            and expected <= left_s
            and self._fits(expected)
        ):
            took = min(self._pass(self._decode_of(piece, 0), expected, n_kept=piece), expected)
            self._n_context += piece
            left_s -= took
            expected = took * self._n_context / piece
            piece = self._n_context

    def _measure(self, size: int) -> None:
        """Measure a size, if there is time; a slow model's T(1) is known."""
        if (size == 1 and self._shortest[1] > self._share_s) or not self._fits(self._most(size)):
            return
        took = self._shortest_of(self._decode_of(size), size)
        if took <= _COMPILED * size * self._shortest[1]:
            self._shortest[size] = took

    def _tree_factor(self) -> float:
        """Return what a tree takes by what a chain of its size takes, 1 if that is not known."""
        trees, chain_s = tree_target(self._target), self._shortest.get(_TREE_SIZE, 0.0)
        if trees is None or chain_s <= 0.0 or not self._fits(self._most(_TREE_SIZE)):
            return 1.0
        nodes = [idx % self._target.n_vocab for idx in range(1, _TREE_SIZE)]
        decode = partial(trees.decode_tree, [0], nodes, _PARENTS)
        return self._shortest_of(decode, _TREE_SIZE) / chain_s

    def _most(self, size: int) -> float:
        """Return what a pass takes at the most, by what others took."""
        return min(math.ceil(size / other) * seconds for other, seconds in self._shortest.items())

    def _fits(self, seconds: float) -> bool:
        """Whether there is time for a pass that takes no longer."""
        if self._hurried() and self._spent_s > HURRIED_S:
            return False
        return self._spent_s + seconds <= self._budget_s + 2.0 * self._shortest[1]

    def _shortest_of(self, decode: Callable[[], object], size: int) -> float:
        """Return the seconds of the fastest of some passes over ``size`` tokens.

        One that took longer than its tokens one by one is made again, whatever its share; one that
        took longer than a larger batch, once.
        """
        longest, usual = size * self._shortest[1], _DISTURBED * self._most(size)
        took = [self._pass(decode, longest)]
        while len(took) <= _N_REPEATS and self._fits(min(*took, longest)):
            is_usual = took[0] <= usual or (len(took) > 1 and min(took) <= _COMPILED * longest)
            if is_usual and sum(min(one, longest) for one in took) > self._share_s:
                break
            took.append(self._pass(decode, longest))
        return min((one for one in took if one > 0.0), default=0.0)

    def _pass(self, decode: Callable[[], object], longest: float, *, n_kept: int = 0) -> float:
        """Make one pass and keep ``n_kept`` of its tokens; returns its seconds.

        What it takes beyond ``longest`` does not count as spent.
        """
        started = self._clock()
        decode()
        took = max(0.0, self._clock() - started)
        self._target.truncate(self._n_context + n_kept)
        self._spent_s += took
        self._forgive(took - longest)
        return took

    def _forgive(self, seconds: float) -> None:
        """Take compiling off what was spent, as long as there is patience for it."""
        forgiven = min(max(seconds, 0.0), self._forgivable_s)
        self._forgivable_s -= forgiven
        self._spent_s -= forgiven

    def _decode_of(self, size: int, n_logits: int | None = None) -> Callable[[], object]:
        tokens = [idx % self._target.n_vocab for idx in range(size)]
        return partial(self._target.decode, tokens, size if n_logits is None else n_logits)
