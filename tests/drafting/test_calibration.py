"""p̂: where it starts, how it learns and forgets, and what of it survives a restart."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclsp.drafting.calibration import MEMORY, PRIOR_WEIGHT, Calibration
from speclsp.drafting.draft_length import PRIORS


def mean(cell: list[float]) -> float:
    return cell[0] / cell[1]


def sole(calibration: Calibration, source: str, length: int) -> list[float]:
    return calibration.cell(source, length, 1.0, 1.0, shadowed=False)


@pytest.mark.parametrize("source", ["buffer", "open", "project"])
@pytest.mark.parametrize(("length", "bucket"), [(1, 0), (3, 1), (4, 2), (15, 3), (31, 4), (99, 5)])
def test_it_starts_from_the_measured_figures(source: str, length: int, bucket: int) -> None:
    cell = sole(Calibration(), f"suffix:{source}", length)
    assert mean(cell) == pytest.approx(PRIORS[source][bucket])
    assert cell[1] == PRIOR_WEIGHT


def test_frequency_moves_the_prior() -> None:
    calibration = Calibration()

    def of(n_places: float, n_in_all: float, *, shadowed: bool = False) -> float:
        return mean(calibration.cell("buffer", 8, n_places, n_in_all, shadowed=shadowed))

    assert of(9.0, 9.0) > of(2.0, 2.0) > of(1.0, 1.0) > of(6.0, 9.0) > of(3.0, 9.0)
    assert of(3.0, 9.0) > of(1.0, 9.0) > of(1.0, 90.0)
    assert of(9.0, 9.0, shadowed=True) < of(3.0, 9.0)


def test_an_unknown_source_starts_like_other_buffers_and_a_draft_model_higher() -> None:
    calibration = Calibration()
    assert mean(sole(calibration, "ngram-mod", 8)) == mean(sole(calibration, "suffix:open", 8))
    assert mean(sole(calibration, "draft", 0)) == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("said", "expected"), [(0.0, 0.05), (0.33, 0.35), (0.5, 0.55), (1.0, 0.95)]
)
def test_a_sources_own_probability_is_believed_at_first(said: float, expected: float) -> None:
    assert mean(Calibration().own_cell("draft", said)) == pytest.approx(expected)


def test_it_follows_what_was_right() -> None:
    calibration = Calibration()
    cell = sole(calibration, "suffix:project", 2)
    for _ in range(500):
        calibration.observe((cell,), 0.3, 0, True)
    assert mean(cell) > 0.95
    assert calibration.joint(0.3, 0) > 0.9
    assert calibration.joint(0.3, 1) == pytest.approx(0.3, abs=0.02)
    for _ in range(2000):
        calibration.observe((cell,), 0.3, 0, False)
    assert mean(cell) < 0.25


def test_it_forgets() -> None:
    calibration = Calibration()
    cell = sole(calibration, "suffix:project", 2)
    for _ in range(10 * int(MEMORY)):
        calibration.observe((cell,), 0.5, 0, True)
    # The prior is forgotten too, and the weight of all observations is bounded.
    assert cell[1] == pytest.approx(MEMORY, rel=0.01)


@given(st.floats(0.0, 1.0), st.integers(0, 3))
def test_joined_probabilities_are_believed_at_first(probability: float, agreement: int) -> None:
    joint = Calibration().joint(probability, agreement)
    assert 0.0 < joint < 1.0
    assert joint == pytest.approx(min(max(probability, 0.0015), 0.999), abs=0.02)


def test_the_best_probability_of_a_length() -> None:
    calibration = Calibration()
    assert calibration.best_probability(0) == 1.0
    sole(calibration, "suffix:project", 1)
    assert calibration.best_probability(0) == pytest.approx(1.2 * PRIORS["project"][0])
    sole(calibration, "suffix:buffer", 1)
    assert calibration.best_probability(0) == pytest.approx(1.2 * PRIORS["buffer"][0])
    assert calibration.best_probability(5) == pytest.approx(0.98)


def test_what_was_learned_survives() -> None:
    learned = Calibration()
    cell = sole(learned, "suffix:project", 2)
    own = learned.own_cell("draft", 0.7)
    for _ in range(100):
        learned.observe((cell, own), 0.3, 2, True)
    again = Calibration()
    again.take(learned.cells())
    assert again.cells() == learned.cells()
    assert sole(again, "suffix:project", 2) == cell
    assert again.own_cell("draft", 0.7) == own
    assert again.joint(0.3, 2) == learned.joint(0.3, 2) > 0.8


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("", (1.0, 2.0)),
        ("buffer", (1.0, 2.0)),
        ("buffer/1", (1.0, 2.0)),
        ("/1/1", (1.0, 2.0)),
        ("buffer/6/1", (1.0, 2.0)),
        ("buffer/1/14", (1.0, 2.0)),
        ("buffer/1/1010", (1.0, 2.0)),
        ("buffer/-1/1", (1.0, 2.0)),
        ("buffer/x/y", (1.0, 2.0)),
        ("=/4/1", (1.0, 2.0)),
        ("=/1/19", (1.0, 2.0)),
        ("buffer/1/1", (3.0, 2.0)),
        ("buffer/1/1", (0.0, 2.0)),
        ("buffer/1/1", (-1.0, 2.0)),
        ("buffer/1/1", (1.0, math.inf)),
        ("buffer/1/1", (math.nan, 2.0)),
    ],
)
def test_what_can_be_no_cell_is_passed_over(name: str, counts: tuple[float, float]) -> None:
    calibration = Calibration()
    calibration.take({name: counts})
    assert all(
        0.0 < right <= seen < math.inf and right != 1.0
        for right, seen in calibration.cells().values()
    )
    calibration.take({"a/b/1/1": (1.0, 2.0)})
    assert calibration.cells()["a/b/1/1"] == (1.0, 2.0)
