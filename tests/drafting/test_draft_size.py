"""The draft size: most expected tokens per time, few shapes, hysteresis."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclsp.drafting.calibration import Calibration
from speclsp.drafting.cost import VerifyCurve, straight_curve
from speclsp.drafting.draft_size import (
    MORE_THAN_ANY,
    NOTHING,
    SHAPES,
    best_size,
    least_path,
    least_useful_match,
)

FREE = VerifyCurve((1, 2), (1.0, 1.0))
CPU = VerifyCurve((1, 2, 4, 8, 16), (1.0, 2.0, 2.7, 3.9, 6.1))


def test_all_of_it_where_verifying_is_free() -> None:
    assert best_size([0.5, 0.2, 0.1], FREE, 0) == (3, pytest.approx(1.8))
    assert best_size([0.01] * 64, FREE, 0).n_nodes == 64


def test_nothing_where_it_does_not_pay() -> None:
    assert best_size([0.8, 0.5], CPU, 0) is NOTHING
    assert best_size([], FREE, 0) is NOTHING


def test_a_step_in_the_curve_is_jumped_over() -> None:
    # Two tokens cost twice as much as one, but fifteen draft tokens only three times as much more.
    size, rate = best_size([0.97**k for k in range(1, 16)], CPU, 0)
    assert size == 15
    assert rate == pytest.approx((1 + sum(0.97**k for k in range(1, 16))) / 6.1)


def test_few_shapes() -> None:
    paths = [0.9**k for k in range(1, 32)]
    sizes = {best_size(paths, straight_curve(slope / 100), 0).n_nodes for slope in range(1, 100)}
    assert sizes <= {0, *SHAPES, 31}
    assert len(sizes) > 4


def test_near_ties_keep_the_last_size() -> None:
    paths = [0.5, 0.26, 0.24]
    curve = VerifyCurve((1, 2, 3, 4), (1.0, 1.1, 1.29, 1.5))
    best = best_size(paths, curve, 0).n_nodes
    other = 2 if best == 1 else 1
    assert best_size(paths, curve, other).n_nodes == other
    assert best_size([0.011], straight_curve(0.01), 0) is NOTHING
    assert best_size([0.011], straight_curve(0.01), 1).n_nodes == 1


@given(
    paths=st.lists(st.floats(0.0, 1.0), max_size=40).map(lambda p: sorted(p, reverse=True)),
    slope=st.floats(0.0, 1.0),
    last=st.sampled_from([0, *SHAPES]),
)
def test_no_other_shape_is_much_better(paths: list[float], slope: float, last: int) -> None:
    curve = straight_curve(slope)
    size, rate = best_size(paths, curve, last)
    assert rate == pytest.approx((1 + sum(paths[:size])) / curve.ratio(size + 1))
    for shape in (0, *SHAPES):
        if shape <= len(paths):
            other = (1 + sum(paths[:shape])) / curve.ratio(shape + 1)
            assert other <= rate * 1.021


def test_the_least_path_is_the_cheapest_step() -> None:
    assert least_path(straight_curve(0.25), 15) == pytest.approx(0.25)
    assert least_path(FREE, 15) == 0.0
    assert least_path(VerifyCurve((1, 2, 3, 16), (1.0, 2.0, 1.8, 3.0)), 15) == 0.0
    steps = VerifyCurve((1, 2, 8, 16), (1.0, 2.0, 2.6, 4.2))
    assert least_path(steps, 15) == pytest.approx(0.1)


def test_matches_that_cannot_pay_are_not_looked_for() -> None:
    calibration = Calibration()
    # Nothing is known yet: everything may pay.
    assert least_useful_match(calibration, CPU, 15, 0.0) == 1
    calibration.cell("suffix:buffer", 1, 1.0, 1.0, shadowed=False)
    assert least_useful_match(calibration, FREE, 15, 0.0) == 1
    assert 1 < least_useful_match(calibration, CPU, 15, 0.0) < MORE_THAN_ANY
    assert least_useful_match(calibration, straight_curve(1.5), 15, 0.0) == MORE_THAN_ANY


def test_what_drafting_takes_counts() -> None:
    calibration = Calibration()
    calibration.cell("suffix:buffer", 1, 1.0, 1.0, shadowed=False)
    curve = straight_curve(0.1)
    lengths = [least_useful_match(calibration, curve, 15, cost) for cost in (0.0, 1.0, 3.0, 30.0)]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[2] < lengths[3] == MORE_THAN_ANY
