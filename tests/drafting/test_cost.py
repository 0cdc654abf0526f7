"""T(k): the prior, what passes teach, and how soon a wrong curve is healed."""

import random

import pytest

from speclsp.drafting.cost import SHAPES, PassCost, VerifyCurve, straight_curve

CURVE = VerifyCurve((1, 2, 4, 8), (1.0, 1.5, 1.4, 3.0))


def test_a_curve_is_linear_between_its_sizes_and_beyond():
    assert [CURVE.ratio(size) for size in (1, 2, 3, 4, 6, 8)] == pytest.approx(
        [1.0, 1.5, 1.45, 1.4, 2.2, 3.0]
    )
    assert CURVE.ratio(10) == pytest.approx(3.8)
    assert VerifyCurve((1, 8, 16), (1.0, 2.0, 1.5)).ratio(32) == 1.5
    assert VerifyCurve((1,), (1.0,)).ratio(9) == 1.0
    assert straight_curve(0.25).ratio(5) == pytest.approx(2.0)
    assert straight_curve(0.3).least_slope == pytest.approx(0.3)
    assert CURVE.least_slope == pytest.approx(0.4 / 3)


def test_a_further_token_has_its_part_of_the_group_that_a_batch_is_padded_to():
    padded = VerifyCurve((1, 2, 3, 4, 6, 8), (1.0, 2.0, 2.0, 2.0, 3.0, 3.0))
    assert padded.least_slope == pytest.approx(2.0 / 7)
    assert VerifyCurve((1, 8), (1.0, 1.0)).least_slope == 0.0


@pytest.fixture
def cost():
    return PassCost(0.4)


def test_it_begins_with_the_prior_and_knows_no_time(cost):
    assert cost.single_s == 0.0
    assert cost.milliseconds == ()
    assert cost.curve.ratio(8) == pytest.approx(3.8)


def test_idle_time_times_each_size_until_three_passes_show_what_it_costs(cost):
    assert cost.untimed() == (1,) * 3 + (2,) * 3 + (4,) * 3 + (8,) * 3
    cost.learn([(1, 0.01)] * 5 + [(3, 0.02), (4, 0.03), (4, 0.03), (16, 0.09)])
    assert cost.untimed() == (2,) * 3 + (4, 8, 8, 8)
    for size in cost.untimed():
        cost.observe(size, 0.01 * size)
    assert cost.untimed() == ()
    assert [cost.curve.ratio(size) for size in (2, 4, 8)] == pytest.approx([2.0, 3.0, 8.0])


def passes(cost: PassCost, times: dict[int, float], n_rounds: int = 20) -> None:
    for _ in range(n_rounds):
        for n_tokens, seconds in times.items():
            cost.observe(n_tokens, seconds)


def test_passes_overrule_the_prior_for_their_shape_and_lower_what_larger_ones_add(cost):
    passes(cost, {1: 0.01, 4: 0.014})
    assert cost.single_s == pytest.approx(0.01)
    assert cost.curve.ratio(4) == pytest.approx(1.4, rel=0.05)
    # T(4) rose by a third of what the prior says, so T(8) is taken to rise by less, too.
    assert cost.curve.ratio(8) == pytest.approx(1.4 + 4 * 0.4 / 3, rel=0.05)
    assert cost.milliseconds == ((1, pytest.approx(10.0)), (4, pytest.approx(14.0)))


def test_a_dear_second_token_makes_larger_shapes_no_dearer_than_the_prior(cost):
    """Kernels for one token differ from those for several: T(2) says little about T(8)."""
    passes(cost, {1: 0.01, 2: 0.02})
    assert cost.curve.ratio(8) == pytest.approx(2.0 + 6 * 0.4)


def test_no_batch_is_taken_to_cost_less_than_one_token(cost):
    passes(cost, {1: 0.01, 2: 0.005, 4: 0.008})
    assert min(cost.curve.ratios) == 1.0


def test_disturbed_passes_change_little(cost):
    passes(cost, {1: 0.01, 8: 0.03})
    before = cost.curve.ratio(8)
    for n_tokens, seconds in ((1, 10.0), (8, 5.0), (8, 3.0), (1, 0.0), (200, 1.0), (0, 1.0)):
        cost.observe(n_tokens, seconds)
    assert cost.curve.ratio(8) == pytest.approx(before)
    assert cost.single_s == pytest.approx(0.01)


def test_passes_over_more_tokens_than_the_largest_shape_count_for_it():
    cost = PassCost(0.1)
    passes(cost, {1: 0.01, 100: 0.5})
    # 64 tokens of a pass over 100, by the prior's line.
    assert cost.curve.ratio(64) == pytest.approx(50.0 * (1 + 0.1 * 63) / (1 + 0.1 * 99))


def test_a_slow_first_pass_spoils_no_ratio_for_good(cost):
    passes(cost, {1: 0.1, 8: 0.03})
    assert cost.curve.ratio(8) < 1.5
    passes(cost, {1: 0.01, 8: 0.03})
    assert cost.single_s == pytest.approx(0.01)
    assert cost.curve.ratio(8) == pytest.approx(3.0)


def test_a_machine_that_becomes_slow_leaves_the_ratios_as_they_are(cost):
    passes(cost, {1: 0.01, 4: 0.02, 8: 0.03})
    before = cost.curve.ratios
    passes(cost, {1: 0.015, 4: 0.03, 8: 0.045})
    assert cost.curve.ratios == pytest.approx(before)
    assert cost.single_s == pytest.approx(0.015)


def test_what_was_learned_of_a_shape_stays_however_long_no_pass_has_it(cost):
    """Forgotten times would be tried again by drafts that were known not to pay."""
    passes(cost, {1: 0.01, 2: 0.022, 8: 0.042})
    before = cost.curve.ratios
    passes(cost, {1: 0.01}, 5000)
    assert cost.curve.ratios == before


@pytest.mark.parametrize("wrong", [0.011, 0.02, 0.1])
@pytest.mark.parametrize("slope", [0.05, 0.3, 0.6])
def test_a_wrong_curve_is_healed_within_fifty_passes(wrong, slope):
    """After noise at load, passes over 1 to 16 tokens with 20 % of noise come to within 15 %."""
    noise = random.Random(1)
    cost = PassCost(0.4)
    for n_tokens in (1, *SHAPES[1:8]):
        for _ in range(3):
            cost.observe(n_tokens, wrong if n_tokens > 1 else 0.01)
    for idx in range(50):
        n_tokens = (1, 4, 1, 8, 1, 4, 8, 16)[idx % 8]
        seconds = 0.01 * (1 + slope * (n_tokens - 1)) * noise.uniform(1.0, 1.2)
        cost.observe(n_tokens, seconds)
    for n_tokens in (4, 8):
        assert cost.curve.ratio(n_tokens) == pytest.approx(1 + slope * (n_tokens - 1), rel=0.15)


def test_a_draft_costs_more_where_accepted_tokens_are_evaluated_again():
    plain, again = PassCost(0.1), PassCost(0.1, evaluates_again=True)
    assert again.curve.ratio(1) == 1.0
    for n_tokens in (2, 4, 16):
        extra = again.curve.ratio(n_tokens) - plain.curve.ratio(n_tokens)
        assert extra == pytest.approx(plain.curve.ratio(3) - 1.0)
