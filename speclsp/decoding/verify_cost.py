"""What verifying a draft costs: measured on the loaded model, and followed as it drifts.

A target pass over k tokens takes T(k).  On a GPU the tokens of a small batch are nearly free, on a
CPU each adds its share, and on both the curve has steps where other kernels take over.  Drafters
need T(k) / T(1) to know when a draft pays.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from typing import Final

from speclsp.decoding.protocol import Target, tree_target
from speclsp.drafting.verify_curve import VerifyCurve

BUDGET_S: Final = 0.8
"""Seconds that the measurement may take; a slow model is measured at fewer sizes."""
_COMPILING_S: Final = 5.0
"""Seconds more for a GPU's kernels: what is compiled now keeps no request waiting later."""

_SIZES: Final = (1, 8, 4, 2, 16, 6, 3, 12, 24)
"""Batch sizes, the important ones first; few, since backends reuse graphs of equal shape."""
_N_CONTEXT: Final = 64
_MOST_CONTEXT: Final = 512
"""Tokens in the cache meanwhile, the lower figure for a model that takes long to evaluate them.
Attention's share grows with them, and with it what a draft token costs: the embedded model's
T(8) / T(1) is 3.5 behind 64 tokens and 5.3 behind 600."""
_N_REPEATS: Final = 4
_TREE_SIZE: Final = 8
"""Batch size at which a tree is compared with a chain."""
_PARENTS: Final = (-1, -1, 0, 1, 2, 3, 3)
"""The tree: two branches, of which one splits again."""
_SHORTEST_S: Final = 1e-9
"""A clock that did not move would otherwise break the logarithm."""
_LEVEL_STEP: Final = 0.2
_SHAPE_STEP: Final = 0.05
_LARGEST_STEP: Final = math.log(2.0)
"""A pass that took more than twice, or less than half, of what was expected counts as that."""


class VerifyCost:
    """T(k) as measured and as it drifts; :attr:`curve` is what drafters get.

    Each pass tells two things: how fast the machine is at present, whatever the size, and how the
    sizes compare.  The first is followed quickly, since load and temperature come and go; the
    second slowly.  Both are exponential averages of the logarithm.
    """

    def __init__(self, seconds: dict[int, float], tree_factor: float = 1.0) -> None:
        """Take T(k) in seconds by size k, 1 among them, and what a tree costs above a chain."""
        self._sizes = tuple(sorted(seconds))
        self._logs = [math.log(max(seconds[size], _SHORTEST_S)) for size in self._sizes]
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
        """(k, T(k)) at the measured sizes."""
        times = (math.exp(log + self._level) * 1e3 for log in self._logs)
        return tuple(zip(self._sizes, times, strict=True))

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
        self._level += _LEVEL_STEP * surprise
        if branched:
            self._log_tree += _SHAPE_STEP * surprise
        else:
            self._logs[left] += _SHAPE_STEP * surprise * (1.0 - share)
            self._logs[right] += _SHAPE_STEP * surprise * share

    def _curve(self, extra: float) -> VerifyCurve:
        ratios = (math.exp(log - self._logs[0] + extra) for log in self._logs[1:])
        return VerifyCurve(self._sizes, (1.0, *ratios))


def measure_verify_cost(
    target: Target, clock: Callable[[], float], budget_s: float = BUDGET_S
) -> VerifyCost:
    """Measure T(k) at a few sizes, and a tree where the target evaluates trees.

    Takes the shortest of some runs, since whatever else the machine does only adds time.  The
    target's cache is empty afterwards.  ``clock`` is in seconds.
    Raises :class:`~speclsp.errors.DecodeError`.
    """
    begun = clock()
    n_most = max(1, min(target.n_batch, target.n_ctx // 4))
    following = [idx % target.n_vocab for idx in range(n_most)]
    n_context = _fill(target, clock, budget_s / 4)
    share = budget_s / (len(_SIZES) + 1)
    measured: dict[int, float] = {}
    for_kernels = _COMPILING_S
    for size in _SIZES:
        # Two points are always measured: without them there is no curve.
        if size <= n_most and (len(measured) < 2 or clock() - begun < budget_s):
            decode = partial(target.decode, following[:size], size)
            longest = size * measured[1] if measured else 0.0
            measured[size], compiled = _shortest(decode, target, n_context, clock, share, longest)
            begun += min(compiled, for_kernels)
            for_kernels -= min(compiled, for_kernels)
    tree_factor = 1.0
    trees = tree_target(target)
    if trees is not None and _TREE_SIZE in measured and clock() - begun < budget_s:
        nodes = following[1:_TREE_SIZE]
        decode = partial(trees.decode_tree, following[:1], nodes, _PARENTS)
        longest = _TREE_SIZE * measured[1]
        of_tree, _ = _shortest(decode, target, n_context, clock, share, longest)
        tree_factor = of_tree / measured[_TREE_SIZE]
    target.truncate(0)
    return VerifyCost(measured, tree_factor)


def _fill(target: Target, clock: Callable[[], float], budget_s: float) -> int:
    """Fill the cache with a context as long as fits the time, and return its tokens."""
    begun = clock()
    most = min(_MOST_CONTEXT, target.n_ctx // 2)
    n_context = min(_N_CONTEXT, most, target.n_batch)
    target.truncate(0)
    target.decode([idx % target.n_vocab for idx in range(n_context)], 0)
    # The next piece is as long as all before it, and takes as long as they took.
    while 2 * n_context <= min(most, target.n_batch) and 2.0 * (clock() - begun) < budget_s:
        target.decode([idx % target.n_vocab for idx in range(n_context)], 0)
        n_context *= 2
    return n_context


def _shortest(
    decode: Callable[[], object],
    target: Target,
    n_context: int,
    clock: Callable[[], float],
    budget_s: float,
    longest_s: float,
) -> tuple[float, float]:
    """Return the seconds of the fastest of some decodes, and those of compiling before them.

    The first one warms up, and alone counts only where it ends the budget and took no more than
    ``longest_s``.  A batch never takes longer than its tokens one by one: where the first does,
    the backend of a GPU compiled its kernels for this size.
    """
    shortest, compiled = float("inf"), 0.0
    begun = clock()
    for repeat in range(_N_REPEATS + 1):
        started = clock()
        decode()
        took = clock() - started
        target.truncate(n_context)
        is_slow = repeat == 0 and took > longest_s
        exhausted = clock() - begun - compiled > budget_s
        if repeat > 0 or (exhausted and not is_slow):
            shortest = min(shortest, took)
            if exhausted:
                break
        elif is_slow:
            compiled = took
    return shortest, max(0.0, compiled - shortest)
