"""What cannot pay: computed from the curves, and kept while they stay what they are."""

from __future__ import annotations

from speclsp.drafting.calibration import Calibration
from speclsp.drafting.cost import straight_curve
from speclsp.drafting.draft_limits import DraftLimits
from speclsp.drafting.draft_size import MORE_THAN_ANY, least_path, least_useful_match


class CountedCalibration(Calibration):
    """Counts how often it is asked what the best match is worth."""

    def __init__(self) -> None:
        super().__init__()
        self.cell("buffer", 4, 1.0, 1.0, shadowed=False)
        self.n_asked = 0

    def best_probability(self, length_bucket: int) -> float:
        self.n_asked += 1
        return super().best_probability(length_bucket)


def test_they_are_what_the_curves_give() -> None:
    calibration = CountedCalibration()
    limits = DraftLimits(calibration, 15)
    cheap, dear = straight_curve(0.1), straight_curve(0.6)
    limits.take((cheap, dear), 0.0)
    assert limits.least_paths == (least_path(cheap, 15), least_path(dear, 15))
    assert limits.n_min_match == least_useful_match(calibration, cheap, 15, 0.0)
    assert limits.n_min_match < least_useful_match(calibration, dear, 15, 0.0)


def test_they_are_kept_while_the_curves_are_nearly_the_same() -> None:
    calibration = CountedCalibration()
    limits = DraftLimits(calibration, 15)
    limits.take((straight_curve(0.2),), 0.0)
    n_asked = calibration.n_asked
    for _ in range(10):
        limits.take((straight_curve(0.201),), 0.0)
    assert calibration.n_asked == n_asked


def test_another_curve_counts_at_once() -> None:
    limits = DraftLimits(CountedCalibration(), 15)
    limits.take((straight_curve(0.1),), 0.0)
    n_cheap = limits.n_min_match
    limits.take((straight_curve(5.0),), 0.0)
    assert n_cheap < limits.n_min_match == MORE_THAN_ANY
    limits.take((straight_curve(0.1), straight_curve(0.1)), 0.0)
    assert limits.n_min_match == n_cheap


def test_what_was_learned_counts_after_some_requests() -> None:
    calibration = CountedCalibration()
    limits = DraftLimits(calibration, 15)
    limits.take((straight_curve(0.4),), 0.0)
    before = limits.n_min_match
    cells = [
        calibration.cell("buffer", length, n, n, shadowed=False)
        for length in (1, 2, 4, 8, 16, 32)
        for n in (1.0, 2.0, 9.0)
    ]
    for _ in range(500):
        calibration.observe(cells, 0.5, 0, right=False)
    for _ in range(20):
        limits.take((straight_curve(0.4),), 0.0)
    assert limits.n_min_match > before
