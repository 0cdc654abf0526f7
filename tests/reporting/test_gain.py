"""The gain of speculation: the formulas against their sums, and what was measured."""

import pytest
from drafted_session import totals

from speclsp.reporting.gain import Expectation, expectation, measured_speedup, measured_step_speedup
from speclsp.seam.statistics import DrafterStats, RequestStats


@pytest.mark.parametrize("p", [0.0, 0.3, 0.75, 1.0])
@pytest.mark.parametrize("k", [1, 2, 5, 16])
def test_the_expected_counts_are_the_sums_over_the_accepted_tokens(p, k):
    found = Expectation(p, k, 0.5, 10.0)
    exact = sum(p**j * (1 - p) * j for j in range(k)) + p**k * k
    assert found.n_accepted == pytest.approx(exact)
    assert found.n_tokens == pytest.approx(exact + 1)
    assert found.n_accepted_roughly == pytest.approx(sum(p**j for j in range(k)))
    assert exact == pytest.approx(p * found.n_accepted_roughly)


def test_the_speedups_by_hand():
    stats = totals()
    # Of 100 drafts, 31 were right to their end: 171 hits and 69 misses.  T(1) = 10 ms.
    found = expectation(stats)
    assert found is not None
    # Of the 3600 ms of 100 passes with a draft, 60 went into drafting.
    p, k, t_draft, t_target = 171 / 240, 297 / 100, 60.0 / 297, 10.0
    assert found == pytest.approx((p, k, t_draft, t_target, 35.4))
    n_expected = (1 - p ** (k + 1)) / (1 - p)
    assert found.n_tokens == pytest.approx(n_expected)
    assert found.speedup() == pytest.approx(n_expected / (1 + k * t_draft / t_target))
    assert found.speedup(1.9) == pytest.approx(n_expected / (1.9 + k * t_draft / t_target))
    # 400 tokens less those of the prompts' last passes, at 10 ms each, took 5000 ms.
    assert measured_speedup(stats) == pytest.approx(388 * 10.0 / 5000.0)
    assert measured_speedup(totals(n_prefill_predicted=40)) == pytest.approx(360 * 10.0 / 5000.0)
    # Of these, 117 came from passes without a draft; the others took 3600 ms.
    assert measured_step_speedup(stats) == pytest.approx(271 * 10.0 / 3600.0)


def test_where_drafts_are_as_long_and_as_right_as_on_average_what_is_expected_is_measured():
    # Three tokens of three are right in each of 50 steps of 80 ms, whatever the look-ups proposed
    # beside the draft model's draft and did in the 40 passes without one.
    stats = totals(
        n_predicted=242,
        n_prefill_predicted=2,
        n_decode_passes=90,
        n_single_passes=40,
        ms_single_passes=1600.0,
        n_drafted=150,
        n_accepted=150,
        n_draft_passes=50,
        n_tried=150,
        n_draft_depths=150,
        ms_draft=1900.0,
        ms_draft_passes=4000.0,
        ms_drafting=1500.0,
        drafters={
            "draft": DrafterStats(n_proposed=150, ms_draft=1400.0, ms_steps=1400.0),
            "suffix": DrafterStats(n_proposed=9000, ms_draft=400.0, ms_steps=90.0),
        },
    )
    found, measured = expectation(stats), measured_step_speedup(stats)
    assert found is not None
    assert found.draft_ms == pytest.approx(10.0)
    assert measured == pytest.approx(200 * 40.0 / 4000.0)
    assert found.speedup(found.pass_ms / found.target_ms) == pytest.approx(measured)


def test_what_every_draft_token_promises_where_all_are_right():
    found = expectation(totals(n_tried=171))
    assert found is not None
    assert (found.p, found.n_tokens) == (1.0, pytest.approx(3.97))


def test_without_speculation_the_speedup_is_one():
    stats = RequestStats(
        n_predicted=20,
        n_target_passes=20,
        n_decode_passes=19,
        n_prefill_predicted=1,
        n_single_passes=19,
        ms_single_passes=190.0,
        ms_predict=190.0,
        ms_verify=180.0,
    )
    assert measured_speedup(stats) == pytest.approx(1.0)
    assert measured_step_speedup(stats) is None
    assert expectation(stats) is None


def test_what_was_not_measured_is_not_claimed():
    no_singles = totals(n_single_passes=0, ms_single_passes=0.0)
    assert measured_speedup(no_singles) is None
    assert measured_step_speedup(no_singles) is None
    found = expectation(no_singles)
    assert found is not None
    assert found[2:] == (0.0, 0.0, 0.0)
    assert expectation(RequestStats()) is None
