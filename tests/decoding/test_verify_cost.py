"""T(k), measured with a clock that the target itself moves, and followed as it drifts."""

from __future__ import annotations

import numpy as np
import pytest

from speclsp.decoding.verify_cost import VerifyCost, measure_verify_cost
from speclsp.engine.scripted import ScriptedTarget, hashing

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24)


class TimedTarget(ScriptedTarget):
    """Decodes take ``first`` seconds for one token and ``more`` for each other one.

    From nine tokens on there is a step of ``step``, and a tree takes ``tree_factor`` times as long.
    """

    def __init__(
        self, first: float, more: float, *, step: float = 0.0, tree_factor: float = 1.0, **sizes
    ) -> None:
        super().__init__(hashing(16), 16, **sizes)
        self.first = first
        self.more = more
        self.step = step
        self.tree_factor = tree_factor
        self.now = 0.0

    def time_of(self, n_tokens):
        return self.first + self.more * (n_tokens - 1) + self.step * (n_tokens > 8)

    def decode(self, tokens, n_logits):
        self.now += self.time_of(len(tokens))
        return super().decode(tokens, n_logits)

    def decode_tree(self, pending, tokens, parents):
        self.now += self.time_of(len(pending) + len(tokens)) * self.tree_factor
        return super().decode_tree(pending, tokens, parents)

    def clock(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("first", "more", "cost"),
    [(0.001, 0.0, 0.0), (0.001, 0.0005, 0.5), (2.0, 0.5, 0.25), (0.001, -0.00001, 0.0)],
)
def test_the_slope_is_found_and_the_cache_left_empty(first, more, cost):
    target = TimedTarget(first, more)
    assert measure_verify_cost(target, target.clock).curve.slope == pytest.approx(cost)
    assert target.cached == []


def test_the_curve_has_the_steps_that_were_measured():
    target = TimedTarget(0.002, 0.0002, step=0.004, tree_factor=1.25)
    cost = measure_verify_cost(target, target.clock)
    assert cost.curve.sizes == SIZES
    assert cost.curve.ratios == pytest.approx([target.time_of(k) / 0.002 for k in SIZES])
    assert cost.milliseconds == tuple((k, pytest.approx(target.time_of(k) * 1e3)) for k in SIZES)
    # A tree is compared at one size, and its curve lies above the other from two tokens on.
    assert cost.tree_curve.ratio(1) == 1.0
    assert cost.tree_curve.ratio(8) == pytest.approx(cost.curve.ratio(8) * 1.25)


def test_a_slow_model_is_measured_with_few_decodes():
    slow, fast, chains = TimedTarget(2.0, 0.5), TimedTarget(1e-4, 5e-5), TimedTarget(1e-4, 5e-5)
    chains.n_branches = 1
    for target in (slow, fast, chains):
        measure_verify_cost(target, target.clock)
    # 64 tokens of text, two decodes of one token and one of eight; or 512 tokens in four pieces,
    # five decodes at nine sizes, and five of a tree.
    assert (slow.n_decodes, fast.n_decodes, chains.n_decodes) == (4, 54, 49)


class CompilingTarget(TimedTarget):
    """A GPU: the first decode of each batch size takes ``compiling`` seconds more."""

    def __init__(self, compiling: float) -> None:
        super().__init__(0.002, 0.0002)
        self.compiling = compiling
        self.known: set[int] = set()

    def time_of(self, n_tokens):
        extra = 0.0 if n_tokens in self.known else self.compiling
        self.known.add(n_tokens)
        return super().time_of(n_tokens) + extra


@pytest.mark.parametrize("compiling", [0.1, 0.3])
def test_a_gpu_that_compiles_kernels_first_is_measured_behind_that(compiling):
    target = CompilingTarget(compiling)
    cost = measure_verify_cost(target, target.clock)
    assert cost.curve.sizes == SIZES
    assert cost.curve.ratios == pytest.approx([1 + 0.1 * (k - 1) for k in SIZES])
    assert cost.tree_curve.ratio(8) == pytest.approx(cost.curve.ratio(8))


def test_a_gpu_that_compiles_for_long_is_measured_at_fewer_sizes():
    target = CompilingTarget(60.0)
    cost = measure_verify_cost(target, target.clock)
    assert cost.curve.sizes == (1, 8)
    assert cost.curve.ratios == pytest.approx([1.0, 1.7])


@pytest.mark.parametrize("sizes", [{"n_batch": 1}, {"n_ctx": 8}, {"n_batch": 4, "n_ubatch": 2}])
def test_small_batches_and_contexts_are_not_exceeded(sizes):
    target = TimedTarget(0.001, 0.0005, **sizes)
    curve = measure_verify_cost(target, target.clock).curve
    assert curve.sizes[-1] <= target.n_batch
    assert curve.slope >= 0.0


def test_a_machine_that_becomes_slow_leaves_the_ratios_as_they_are():
    cost = VerifyCost({1: 0.01, 4: 0.02, 8: 0.03})
    before = cost.curve.ratios
    for _ in range(200):
        for size, seconds in ((1, 0.015), (4, 0.03), (8, 0.045)):
            cost.observe(size, seconds, branched=False)
    assert cost.curve.ratios == pytest.approx(before, rel=1e-6)
    assert dict(cost.milliseconds)[1] == pytest.approx(15.0, rel=0.01)


def test_ratios_that_change_are_followed():
    cost = VerifyCost({1: 0.01, 4: 0.02, 8: 0.03}, tree_factor=1.0)
    for _ in range(300):
        for size, seconds, branched in (
            (1, 0.01, False),
            (4, 0.012, False),
            (6, 0.0135, False),
            (8, 0.015, False),
            (8, 0.018, True),
        ):
            cost.observe(size, seconds, branched=branched)
    assert cost.curve.ratio(4) == pytest.approx(1.2, rel=0.05)
    assert cost.curve.ratio(8) == pytest.approx(1.5, rel=0.05)
    assert cost.tree_curve.ratio(8) == pytest.approx(1.8, rel=0.05)


def test_one_pass_out_of_line_changes_little():
    cost = VerifyCost({1: 0.01, 8: 0.03})
    cost.observe(1, 100.0, branched=False)
    assert cost.curve.ratio(8) == pytest.approx(3.0, rel=0.05)
    cost.observe(9, 1.0, branched=False)  # larger than anything measured
    cost.observe(1, 0.0, branched=False)  # a clock that stood still
    assert cost.curve.sizes == (1, 8)
    assert np.isfinite(cost.curve.ratios).all()
