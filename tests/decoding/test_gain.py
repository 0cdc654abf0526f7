"""The gain of speculation: the formulas against their sums, and what was measured."""

import pytest
from drafted_session import totals

from speclsp.decoding.gain import Expectation, expectation, measured_speedup, measured_step_speedup
from speclsp.statistics import DrafterStats, RequestStats


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
    p, k, t_draft, t_target = 171 / 240, 297 / 100, (1.2345 + 23.0 + 0.5) / 620, 10.0
    assert found == pytest.approx((p, k, t_draft, t_target))
    n_expected = (1 - p ** (k + 1)) / (1 - p)
    assert found.n_tokens == pytest.approx(n_expected)
    assert found.speedup() == pytest.approx(n_expected / (1 + k * t_draft / t_target))
    assert found.speedup(1.9) == pytest.approx(n_expected / (1.9 + k * t_draft / t_target))
    # 400 tokens less those of the prompts' last passes, at 10 ms each, took 5000 ms.
    assert measured_speedup(stats) == pytest.approx(388 * 10.0 / 5000.0)
    assert measured_speedup(totals(n_prefill_predicted=40)) == pytest.approx(360 * 10.0 / 5000.0)
    # Of these, 117 came from passes without a draft; the others took 3600 ms.
    assert measured_step_speedup(stats) == pytest.approx(271 * 10.0 / 3600.0)


def test_t_draft_is_the_drafters_own_time_for_each_token_that_they_proposed():
    # What was proposed and not verified took its time, too.
    drafters = {
        "draft": DrafterStats(n_proposed=75, ms_begin=0.5, ms_draft=39.0, ms_accept=1.0),
        "suffix": DrafterStats(n_proposed=25, ms_draft=9.5),
    }
    found = expectation(totals(drafters={"draft": drafters["draft"]}, ms_draft=500.0))
    assert found is not None
    assert found.draft_ms == pytest.approx(40.5 / 75)
    both = expectation(totals(drafters=drafters))
    assert both is not None
    assert both.draft_ms == pytest.approx(50.0 / 100)


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
    assert found.target_ms == pytest.approx(4000 / 217)
    assert expectation(RequestStats()) is None
