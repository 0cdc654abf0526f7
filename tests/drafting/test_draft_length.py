"""How much of a match is drafted, and what is learned from it."""

from __future__ import annotations

import pytest

from speclsp.drafting.draft_length import (
    PRIORS,
    PROBE_EVERY,
    AcceptanceEstimate,
    best_length,
    bucket,
)


@pytest.mark.parametrize(
    ("length", "expected"),
    [(1, 0), (2, 1), (3, 1), (4, 2), (7, 2), (8, 3), (15, 3), (16, 4), (31, 4), (32, 5), (999, 5)],
)
def test_buckets(length, expected):
    assert bucket(length) == expected


def brute_force(probabilities: list[float], cost: float) -> float:
    rates = [1.0]
    for k in range(1, len(probabilities) + 1):
        survival, expected = 1.0, 1.0
        for p in probabilities[:k]:
            survival *= p
            expected += survival
        rates.append(expected / (1.0 + cost * k))
    return max(rates)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
@pytest.mark.parametrize("cost", [0.05, 0.25, 0.5])
def test_the_length_has_the_best_rate_up_to_the_steps_between_batch_shapes(p, cost):
    probabilities = [p] * 12
    length = best_length(probabilities, cost)
    expected = 1.0 + sum(p**i for i in range(1, length + 1))
    assert expected / (1.0 + cost * length) >= 0.98 * brute_force(probabilities, cost)


def test_no_draft_where_the_first_token_does_not_pay():
    assert best_length([0.2, 0.9, 0.9], 0.25) == 0
    assert best_length([], 0.25) == 0


def test_free_draft_tokens_are_all_taken():
    assert best_length([0.5] * 7, 0.0) == 7


def test_longer_matches_are_drafted_further():
    estimate = AcceptanceEstimate()
    lengths = [estimate.draft_length("buffer", n, 10) for n in (1, 2, 4, 8, 16, 32)]
    assert lengths == sorted(lengths)
    assert 1 <= lengths[1] <= 3
    assert lengths[-1] >= 6


def test_this_buffer_is_trusted_more_than_the_project():
    estimate = AcceptanceEstimate()
    assert estimate.draft_length("buffer", 4, 10) > estimate.draft_length("project", 4, 10)


def test_a_draft_is_never_longer_than_what_there_is():
    estimate = AcceptanceEstimate()
    assert estimate.draft_length("buffer", 32, 3) == 3
    assert estimate.draft_length("buffer", 32, 0) == 0


def test_acceptance_moves_the_estimate_from_the_prior():
    estimate = AcceptanceEstimate()
    prior = estimate.probability("buffer", 4)
    assert prior == pytest.approx(PRIORS["buffer"][2])
    estimate.observe("buffer", 4, n_drafted=1, n_accepted=0)
    lower = estimate.probability("buffer", 4)
    assert lower == pytest.approx(PRIORS["buffer"][2] * 8 / 9)
    for _ in range(300):
        estimate.observe("buffer", 4, n_drafted=3, n_accepted=3)
    assert estimate.probability("buffer", 4) > 0.95
    assert estimate.probability("project", 4) == pytest.approx(PRIORS["project"][2])


def test_each_token_counts_for_the_match_it_had_grown_to():
    estimate = AcceptanceEstimate()
    before = [estimate.probability("buffer", n) for n in (2, 4, 8)]
    # Right at match lengths 3, 4 and 5, wrong at 6; what was drafted behind that tells nothing.
    estimate.observe("buffer", 3, n_drafted=6, n_accepted=3)
    after = [estimate.probability("buffer", n) for n in (2, 4, 8)]
    assert after[0] == pytest.approx((before[0] * 8 + 1) / 9)
    keep = 1 - 1 / 64
    assert after[1] == pytest.approx((before[1] * 8 + keep**2 + keep) / (8 + keep**2 + keep + 1))
    assert after[2] == before[2]


def test_a_bad_spell_does_not_switch_a_source_off_for_good():
    estimate = AcceptanceEstimate()
    for _ in range(200):
        if estimate.draft_length("buffer", 3, 10):
            estimate.observe("buffer", 3, n_drafted=1, n_accepted=0)
    lengths = [estimate.draft_length("buffer", 3, 10) for _ in range(3 * PROBE_EVERY)]
    assert sorted(set(lengths)) == [0, 1]
    assert sum(lengths) == 3
    # Good times come again, and the probes find out.
    for _ in range(2000):
        length = estimate.draft_length("buffer", 3, 10)
        if length:
            estimate.observe("buffer", 3, n_drafted=length, n_accepted=length)
    assert estimate.draft_length("buffer", 3, 10) >= 2
