"""The curve between, at and beyond what was measured."""

from __future__ import annotations

import pytest

from speclsp.drafting.verify_curve import VerifyCurve, straight_curve

CURVE = VerifyCurve((1, 2, 4, 8), (1.0, 1.5, 1.4, 3.0))


@pytest.mark.parametrize(
    ("n_tokens", "ratio"),
    [(0, 1.0), (1, 1.0), (2, 1.5), (3, 1.45), (4, 1.4), (6, 2.2), (8, 3.0), (10, 3.8)],
)
def test_it_is_linear_between_the_sizes_and_beyond_the_last(n_tokens: int, ratio: float):
    assert CURVE.ratio(n_tokens) == pytest.approx(ratio)


def test_beyond_a_dip_it_does_not_fall():
    assert VerifyCurve((1, 8, 16), (1.0, 2.0, 1.5)).ratio(32) == 1.5


def test_one_size_alone_is_flat():
    assert VerifyCurve((1,), (1.0,)).ratio(9) == 1.0
    assert VerifyCurve((1,), (1.0,)).slope == 0.0


@pytest.mark.parametrize("slope", [0.0, 0.2, 1.5])
def test_a_straight_curve_has_its_slope(slope: float):
    curve = straight_curve(slope)
    assert curve.slope == pytest.approx(slope)
    assert curve.ratio(5) == pytest.approx(1.0 + 4 * slope)
