"""What of a step is the host's: neither the target's decode nor a draft model's."""

from __future__ import annotations

import pytest

from benchmarks.peers.contract import host_ms_per_step
from speclsp.request import DrafterStats, RequestStats


def test_what_both_models_decode_is_not_the_hosts() -> None:
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


def test_an_answer_of_the_prompts_last_pass_alone_tells_nothing() -> None:
    # A server that does not tell the time within would look as if it took none.
    assert host_ms_per_step(RequestStats(n_target_passes=1, ms_predict=0.25)) is None


def test_it_is_not_told_where_the_time_within_is_not() -> None:
    assert host_ms_per_step(RequestStats()) is None
    untold = RequestStats(n_target_passes=9, n_decode_passes=8, ms_predict=100.0, ms_verify=90.0)
    assert host_ms_per_step(untold) is None
