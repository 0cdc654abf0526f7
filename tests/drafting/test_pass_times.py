"""T(1) from passes of all sizes, and when drafting rests."""

from __future__ import annotations

import pytest

from speclsp.drafting.pass_times import DraftRest, PassTimes


def test_the_single_pass_is_what_a_pass_took_by_its_size() -> None:
    times = PassTimes()
    assert times.in_passes(1.0) == times.overhead == 0.0
    times.started(10.0, 2.0)
    times.ended(16.0)
    assert times.single_s == 3.0
    times.ended(99.0)  # told twice, the first time counts
    assert times.single_s == 3.0
    for _ in range(200):
        times.started(0.0, 1.0)
        times.ended(2.0)
    assert times.single_s == pytest.approx(2.0, rel=0.01)
    assert times.in_passes(1.0) == pytest.approx(0.5, rel=0.01)


def test_a_pause_does_not_pass_for_a_slow_model() -> None:
    times = PassTimes()
    times.started(0.0, 1.0)
    times.ended(1.0)
    times.started(1.0, 1.0)
    times.ended(10_000.0)
    assert times.single_s < 1.2


def test_a_pause_does_not_pass_for_slow_drafters() -> None:
    times = PassTimes()
    times.started(0.0, 1.0)
    times.ended(1.0)
    for _ in range(20):
        times.drafted(0.01)
        times.began(0.02)
    times.drafted(60.0)
    times.began(60.0)
    assert times.overhead < 0.02
    assert times.beginning < 0.04


def test_the_pass_of_another_request_does_not_count() -> None:
    times = PassTimes()
    times.started(0.0, 1.0)
    times.begin(0.0)
    times.ended(5.0)
    assert times.single_s == 0.0


def test_what_others_measured_serves_until_a_pass_was_timed() -> None:
    times = PassTimes()
    times.begin(4.0)
    assert times.in_passes(1.0) == 0.25
    times.started(0.0, 1.0)
    times.ended(2.0)
    times.begin(4.0)
    assert times.single_s == 2.0


def test_the_overhead_follows_what_drafting_takes() -> None:
    times = PassTimes()
    times.started(0.0, 1.0)
    times.ended(1.0)
    times.drafted(0.5)
    assert times.overhead == 0.5
    for _ in range(300):
        times.drafted(0.1)
    assert times.overhead == pytest.approx(0.1, rel=0.01)


def rested(rest: DraftRest, n_passes: int, n_emitted: int, passing: float, drafting: float) -> int:
    n_rested = 0
    for _ in range(n_passes):
        if rest.rests():
            rest.rest()
            n_rested += 1
        else:
            rest.count(n_emitted, passing, drafting)
    return n_rested


def test_what_gains_does_not_rest() -> None:
    assert rested(DraftRest(), 1000, 2, 1.8, 0.1) == 0


def test_what_is_unlucky_rests_longer_each_time() -> None:
    rest = DraftRest()
    shares = [rested(rest, 500, 1, 1.05, 0.0) / 500 for _ in range(4)]
    assert 0.3 < shares[0] < 0.8
    assert 0.85 < max(shares) <= 1.0


@pytest.mark.parametrize("drafting", [0.02, 0.05, 0.2, 0.7])
def test_looking_things_up_takes_a_hundredth_of_the_time_at_most(drafting: float) -> None:
    rest = DraftRest()
    n_passes = 20_000
    n_rested = rested(rest, n_passes, 1, 1.0, drafting)
    assert (n_passes - n_rested) * drafting / n_passes < 0.012
    assert n_passes - n_rested > 20


def test_a_large_loss_ends_the_trial_at_once() -> None:
    rest = DraftRest()
    assert rested(rest, 3, 1, 3.0, 0.5) == 1


def test_it_is_tried_again() -> None:
    rest = DraftRest()
    rested(rest, 5000, 1, 1.05, 0.0)
    rested(rest, 1000, 2, 1.0, 0.1)
    assert rested(rest, 1000, 2, 1.0, 0.1) == 0
