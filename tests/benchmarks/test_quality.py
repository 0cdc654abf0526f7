"""Scores of judged cases, their intervals, and the comparison with a baseline."""

import json
import math

import pytest

from benchmarks.askers import Answer
from benchmarks.quality import QualityRun, compare, groups_table, quality_figures, quality_table
from benchmarks.quality_scores import (
    SCORES,
    JudgedCase,
    JudgedPlace,
    comparison,
    defect_counts,
    estimates,
    score_sums,
)
from benchmarks.report import as_json
from tests.benchmarks.case_folders import case


def place(text: str = "x", *, exact: bool = False, saved: int = 0, defects: tuple[str, ...] = ()):
    return JudgedPlace(
        n_typed=0,
        answer=Answer(text=text),
        has_line=True,
        is_exact=exact,
        similarity=0.5 if text else 0.0,
        n_chars_saved=saved,
        defects=frozenset(defects),  # type: ignore[arg-type]
    )


def judged(*places: JudgedPlace) -> JudgedCase:
    return JudgedCase(case=case("x" * 10), places=places)


TWO = [
    judged(place(exact=True, saved=4), place(defects=("broken_word",))),
    judged(place(""), place(exact=True), place("")),
]


def test_scores_are_ratios_of_sums():
    values = {name: one.value for name, one in estimates(score_sums(TWO), 0).items()}
    assert values == {
        "exact": 2 / 5,
        "exact_at_start": 1 / 2,
        "similarity": 0.5,
        "saved": 4 / 20,
        "defects": pytest.approx(100 / 3),
        "shown": 3 / 5,
    }
    assert defect_counts(TWO) == {
        "repeated_suffix": 0, "unbalanced_bracket": 0, "wrong_indentation": 0, "broken_word": 1,
    }  # fmt: skip


def test_an_interval_holds_the_value_and_narrows_with_the_cases():
    few, many = (estimates(score_sums(TWO * n), 0)["exact"] for n in (2, 50))
    assert few.low <= few.value <= few.high
    assert many.low <= many.value <= many.high
    assert many.high - many.low < few.high - few.low
    assert estimates(score_sums(TWO), 0) == estimates(score_sums(TWO), 0)


def test_a_way_compared_with_itself_is_even_with_certainty():
    sums = score_sums(TWO * 5)
    for one in comparison(sums, sums, 0).values():
        assert (one.value, one.low, one.high) == (1.0, 1.0, 1.0)


def test_nothing_to_divide_by_is_no_number():
    none = score_sums([judged(place(""), place(""))])
    assert math.isnan(estimates(none, 0)["defects"].value)
    assert math.isnan(comparison(score_sums(TWO[:1]), none, 0)["exact"].value)


def test_the_baseline_is_the_one_that_saves_more():
    ours = QualityRun(name="ours", judged=[judged(place(exact=True, saved=6))])
    worse = QualityRun(name="worse", judged=[judged(place(saved=2, defects=("broken_word",)))])
    better = QualityRun(name="better", judged=[judged(place(saved=3), place(""))])
    compared = compare(ours, [worse, better], 0)
    assert compared.baseline is better
    assert compared.ratios["saved"].value == pytest.approx(2.0)
    assert [row[0] for row in quality_table(compared).rows][3] == "characters saved, %"
    assert len(quality_table(compared).rows) == len(SCORES)
    groups = groups_table(compared)
    assert [tuple(row[:4]) for row in groups.rows] == [
        ("–", "1", "60.0", "30.0"), ("python", "1", "60.0", "30.0"),
    ]  # fmt: skip
    data = json.loads(as_json(quality_figures(compared)))
    assert data["ratios"]["exact"] == {"value": None, "low": None, "high": None}
    assert data["runs"]["worse"]["cases"][0]["places"][0]["defects"] == ["broken_word"]
