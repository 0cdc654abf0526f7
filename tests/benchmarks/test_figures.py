"""Medians, ratios, and who is best, from rounds."""

from typing import Literal

import pytest

from benchmarks.figures import (
    Column,
    Figures,
    Spread,
    best_sides,
    figures_of,
    host_ms_per_step,
    ratios,
    side_named,
)
from speclsp.seam.statistics import DrafterStats, RequestStats


def column(better: Literal["least", "most", ""], n_digits: int = 1) -> Column[float]:
    return Column("x", "x", lambda one: one, better, n_digits)


def side(name: str, *values: float | None) -> Figures:
    return Figures(name, {"x": values})


def test_a_figure_is_the_rounds_median():
    found = figures_of("one", [column("least")], [3.0, 1.0, 2.0])
    assert found.spread("x") == Spread(2.0, 1.0, 3.0, 3)
    assert side("two", None, None).median("x") is None
    assert figures_of("three", [column("least")], [1.0], "it fell over.").median("x") is None


def test_the_best_are_those_that_look_best():
    sides = [side("a", 2.01, 2.0, 2.02), side("b", 1.98), side("c", 2.2), side("d", None)]
    assert best_sides(column("least"), sides) == {"a", "b"}  # both are shown as 2.0
    assert best_sides(column("least", n_digits=2), sides) == {"b"}
    assert best_sides(column("most"), sides) == {"c"}
    assert best_sides(column(""), sides) == set()
    assert best_sides(column("most"), [side("d", None)]) == set()


def test_who_did_not_run_is_not_found_by_its_name():
    sides = [side("a", 1.0), Figures("b", {}, "it fell over.")]
    assert side_named(sides, "a") is sides[0]
    assert side_named(sides, "b") is None


def test_what_is_hypothetical_is_best_of_nothing():
    sides = [side("a", 1.0), Figures("b", {"x": [9.0]}, is_hypothetical=True)]
    assert best_sides(column("most"), sides) == {"a"}
    assert best_sides(column("most"), sides[1:]) == set()


def test_ratios_are_taken_round_by_round():
    ours, theirs = side("ours", 1.0, 2.0, 3.0), side("theirs", 2.0, 2.0, 12.0)
    assert ratios(ours, theirs, "x") == Spread(0.5, 0.25, 1.0, 3)
    assert ratios(ours, side("theirs", 4.0, 0.0, None), "x") == Spread(0.25, 0.25, 0.25, 1)
    assert ratios(ours, side("theirs", 0.0), "x") is None
    assert ratios(ours, Figures("theirs", {}, "it did not start."), "x") is None


def test_what_both_models_decode_is_not_the_hosts():
    stats = RequestStats(
        n_target_passes=10,
        n_decode_passes=9,
        ms_predict=100.0,
        ms_draft=30.0,
        ms_verify=65.0,
        ms_decode=63.0,
        drafters={
            "draft": DrafterStats(ms_draft=28.0, ms_decode=27.0),
            "suffix": DrafterStats(ms_draft=2.0),
        },
    )
    assert host_ms_per_step(stats) == pytest.approx((100.0 - 63.0 - 27.0) / 10)


def test_an_answer_of_the_prompts_last_pass_alone_tells_nothing():
    # A server that does not tell the time within would look as if it took none.
    assert host_ms_per_step(RequestStats(n_target_passes=1, ms_predict=0.25)) is None


def test_it_is_not_told_where_the_time_within_is_not():
    assert host_ms_per_step(RequestStats()) is None
    untold = RequestStats(n_target_passes=9, n_decode_passes=8, ms_predict=100.0, ms_verify=90.0)
    assert host_ms_per_step(untold) is None
