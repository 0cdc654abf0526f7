"""T(k), measured with a clock that the target itself moves, and followed as it drifts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scripted_target import ScriptedTarget, hashing

from speclsp.decoding.verify_cost import VerifyCost
from speclsp.decoding.verify_measuring import BUDGET_S, HURRIED_S, measure_verify_cost
from speclsp.errors import DecodeError

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
        self.jumps: dict[int, float] = {}
        self.decoded: list[int] = []
        self.n_context = 0

    def time_of(self, n_tokens):
        return self.first + self.more * (n_tokens - 1) + self.step * (n_tokens > 8)

    def decode(self, tokens, n_logits):
        self.now += self.time_of(len(tokens)) + self.jumps.get(self.n_decodes, 0.0)
        if n_logits:
            self.decoded.append(len(tokens))
        else:
            self.n_context += len(tokens)
        return super().decode(tokens, n_logits)

    def decode_tree(self, pending, tokens, parents):
        self.now += self.time_of(len(pending) + len(tokens)) * self.tree_factor
        self.decoded.append(len(pending) + len(tokens))
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


# T(k) = T(1) · (1 + 0.4 (k - 1)), as on a CPU.
@pytest.mark.parametrize(
    ("single_s", "n_context", "expected"),
    [
        (0.001, 256, {1: 6, 2: 5, 3: 5, 4: 5, 6: 5, 8: 10, 12: 5, 16: 5, 24: 5}),
        (0.035, 0, {1: 4, 8: 1, 4: 2, 2: 2, 16: 1, 3: 1}),
        (0.1, 0, {1: 2, 8: 1, 4: 1, 2: 1}),
        (0.2, 0, {1: 2, 4: 1}),
        (0.4, 0, {1: 2, 2: 1}),
        (0.5, 0, {1: 2}),
        (4.0, 0, {1: 2}),
    ],
)
def test_a_slow_model_is_measured_with_few_decodes(single_s, n_context, expected):
    target = TimedTarget(single_s, 0.4 * single_s)
    cost = measure_verify_cost(target, target.clock)
    assert Counter(target.decoded) == expected
    assert target.n_context == n_context
    # It ends in time; what was not measured is assumed, and can be learned.
    assert target.now <= BUDGET_S + 2 * single_s
    assert cost.curve.sizes == SIZES
    assert {size for size, _ in cost.milliseconds} == set(expected)
    assert cost.single_s == pytest.approx(single_s)
    for size, ratio in zip(SIZES, cost.curve.ratios, strict=True):
        assert ratio == pytest.approx(1 + 0.4 * (size - 1), rel=0.35)


@pytest.mark.parametrize("slope", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("single_s", [0.0003, 0.03, 0.08, 0.15, 0.3, 0.41, 1.0, 10.0])
def test_measuring_ends_in_time_whatever_the_model(single_s, slope):
    target = TimedTarget(single_s, slope * single_s)
    measure_verify_cost(target, target.clock)
    assert target.now <= BUDGET_S + 2 * single_s + 1e-9


def test_it_gives_way_to_whoever_waits():
    calm, hurried = TimedTarget(0.035, 0.014), TimedTarget(0.035, 0.014)
    measure_verify_cost(calm, calm.clock)
    cost = measure_verify_cost(hurried, hurried.clock, hurried=lambda: True)
    assert hurried.now <= HURRIED_S + hurried.time_of(8)
    assert hurried.now < calm.now / 2
    assert cost.curve.sizes == SIZES
    assert cost.curve.ratio(24) == pytest.approx(1 + 0.4 * 23)


def test_a_clock_that_stands_still_or_jumps_leaves_a_usable_curve():
    for jumps in ({}, {2: 3600.0}, {1: 3600.0}, {5: 3600.0}, {5: -3600.0}, {20: -3600.0}):
        target = TimedTarget(0.01, 0.004)
        target.jumps = jumps
        curve = measure_verify_cost(target, target.clock).curve
        assert curve.ratio(8) == pytest.approx(1 + 0.4 * 7, rel=0.35), jumps
        assert target.n_decodes < 60
    still = TimedTarget(0.0, 0.0)
    assert measure_verify_cost(still, still.clock).curve.ratios == pytest.approx([1.0] * 9)


def test_a_pass_that_took_longer_than_a_larger_batch_is_made_again():
    target = TimedTarget(0.035, 0.014)
    target.jumps = {5: 0.08}  # the first pass over 4 tokens
    cost = measure_verify_cost(target, target.clock)
    assert target.decoded[4:7] == [8, 4, 4]
    assert dict(cost.milliseconds)[4] == pytest.approx(1e3 * target.time_of(4))


def test_a_size_that_was_assumed_is_learned_by_few_passes():
    """A model of 500 ms whose curve is steeper, or flatter, than was assumed."""
    for slope in (0.05, 0.25, 0.6):
        target = TimedTarget(0.5, slope * 0.5)
        cost = measure_verify_cost(target, target.clock)
        for size in (4, 1, 4):
            cost.observe(size, target.time_of(size), branched=False)
        assert cost.single_s == pytest.approx(0.5, rel=0.1)
        assert cost.curve.ratio(4) == pytest.approx(target.time_of(4) / 0.5, rel=0.1)
        # Sizes that no pass had are assumed by what this one had.
        assert cost.curve.ratio(8) == pytest.approx(target.time_of(8) / 0.5, rel=0.2)
        assert [size for size, _ in cost.milliseconds] == [1, 4]


def test_a_disturbed_pass_over_an_assumed_size_leaves_the_others_usable():
    flat = {2: 1.02, 4: 1.02, 8: 0.9, 16: 1.04, 24: 1.05}
    cost = VerifyCost({1: 0.01}, assumed={size: 0.01 * ratio for size, ratio in flat.items()})
    cost.observe(2, 5.0, branched=False)
    curve = cost.curve
    assert [curve.ratio(size) for size in (4, 8, 16, 24)] == pytest.approx([1.08, 0.9, 1.16, 1.2])
    assert cost.single_s == pytest.approx(0.01)
    for _ in range(12):
        cost.observe(2, 0.0102, branched=False)
    assert cost.curve.ratio(2) == pytest.approx(1.02, rel=0.1)


def test_a_decode_that_fails_ends_the_measurement():
    class Failing(TimedTarget):
        def decode(self, tokens, n_logits):
            if self.n_decodes == 7:
                raise DecodeError("the device is gone.")
            return super().decode(tokens, n_logits)

    target = Failing(0.01, 0.004)
    with pytest.raises(DecodeError, match="the device is gone"):
        measure_verify_cost(target, target.clock)


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
    assert cost.milliseconds == ((1, pytest.approx(2.0)),)
    assert cost.curve.sizes == SIZES
    assert Counter(target.decoded) == {1: 2}


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
