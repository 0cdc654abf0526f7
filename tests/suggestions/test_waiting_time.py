from __future__ import annotations

import pytest
from typed_requests import result_of

from speclsp.request import RequestStats
from speclsp.suggestions.waiting_time import MAX_MS, N_KNOWN, WaitingTime


def waiting(*answers_ms: float, **fields) -> WaitingTime:
    time = WaitingTime()
    for ms in answers_ms:
        stats = RequestStats(n_target_passes=1, ms_total=ms + 40, ms_queue=40)
        time.answered(result_of("x", stats=stats, **fields))
    return time


def test_nobody_waits_before_the_speed_is_known() -> None:
    assert waiting(*[900] * (N_KNOWN - 1)).ms(busy=True) == 0
    assert waiting(*[900] * N_KNOWN).ms(busy=False) > 0


@pytest.mark.parametrize(
    ("ms", "idle", "busy"), [(20, 0, 5), (60, 0, 15), (400, 100, 100), (5000, MAX_MS, MAX_MS)]
)
def test_the_wait_follows_the_median_answer(ms: float, idle: float, busy: float) -> None:
    time = waiting(ms, ms, ms, ms, 9000)
    assert (time.ms(busy=False), time.ms(busy=True)) == (idle, busy)


def test_an_interrupted_answer_says_nothing_of_the_speed() -> None:
    assert waiting(*[900] * 9, finish_reason="cancelled").ms(busy=True) == 0


def test_the_latest_answers_count() -> None:
    assert waiting(*[900] * 32, *[20] * 32).ms(busy=False) == 0
