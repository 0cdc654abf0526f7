from __future__ import annotations

import math

import pytest

from speclsp.text.acceptance import (
    COST,
    EDGES,
    HIGHEST_EDGE,
    MAX_CHARS,
    PRIOR,
    AcceptanceModel,
    Outcomes,
    bucket_of,
)


def bar(model: AcceptanceModel) -> float:
    return round(math.exp(model.threshold()), 6)


@pytest.mark.parametrize(
    ("probability", "bucket"), [(0.0001, 0), (0.1001, 1), (0.49, 7), (0.51, 8), (1.0, 12)]
)
def test_buckets(probability: float, bucket: int) -> None:
    assert bucket_of(math.log(probability)) == bucket
    assert len(PRIOR) == len(EDGES) + 1


def test_the_prior_decides_first() -> None:
    assert AcceptanceModel().expected_chars() == pytest.approx(list(PRIOR))
    assert bar(AcceptanceModel()) == 0.15


def test_rejections_raise_the_bar() -> None:
    model = AcceptanceModel()
    for _ in range(16):
        model.note(2, 0)
    assert bar(model) == 0.2
    for _ in range(200):
        for bucket in range(2, 7):
            model.note(bucket, 0)
        model.note(9, 20)
    assert bar(model) == 0.35


def test_what_the_model_is_sure_of_is_always_shown() -> None:
    model = AcceptanceModel({bucket: Outcomes(1e6, 0.0) for bucket in range(len(PRIOR))})
    assert bar(model) == HIGHEST_EDGE


def test_acceptances_lower_the_bar_for_what_is_not_shown() -> None:
    model = AcceptanceModel()
    for _ in range(10):
        model.note(8, 20)  # 200 characters where 25 were to be expected
    assert bar(model) == 0.1
    height = (50 + 200) / (50 + 25)
    assert model.expected_chars()[:3] == pytest.approx([height * prior for prior in PRIOR[:3]])


def test_acceptances_in_low_buckets_pull_higher_ones_along() -> None:
    model = AcceptanceModel({3: Outcomes(200, 1200), 4: Outcomes(200, 0)})
    expected = model.expected_chars()
    assert expected == sorted(expected)
    assert expected[3] == expected[4]
    assert bar(model) <= 0.15


def test_one_long_suggestion_counts_as_a_short_one() -> None:
    long, short = AcceptanceModel(), AcceptanceModel()
    long.note(2, 5000)
    short.note(2, MAX_CHARS)
    assert long.expected_chars() == short.expected_chars()


def test_everything_is_shown_to_whom_everything_is_worth_it() -> None:
    model = AcceptanceModel({0: Outcomes(50, 50 * COST * 3)})
    assert model.threshold() == -math.inf


def test_counts_of_another_version_are_left_out() -> None:
    assert bar(AcceptanceModel({99: Outcomes(5, 5), -1: Outcomes(5, 5)})) == 0.15
