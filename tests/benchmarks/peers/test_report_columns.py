"""What the columns of a comparison say of rounds."""

import pytest

from benchmarks.decoding import DECODE_COLUMNS, Decoded
from benchmarks.figures import Percentiles, figures_of, tokens_per_s
from benchmarks.peers.report import TYPED_COLUMNS
from benchmarks.peers.typed_rounds import TypedRound
from benchmarks.typing_session import TypedSession
from speclsp.statistics import RequestStats, SessionStats


def test_decoding_counts_what_comes_behind_the_prompts_last_batch():
    stats = RequestStats(
        n_predicted=48, n_prefill_predicted=3, n_target_passes=10, n_decode_passes=9,
        n_drafted=50, n_accepted=38, ms_predict=900.0, ms_decode=890.0,
    )  # fmt: skip
    plain = RequestStats(n_predicted=48, n_target_passes=48, n_decode_passes=47, ms_predict=4700.0)
    ours, theirs = (
        figures_of(name, DECODE_COLUMNS, [[Decoded(stats=one, is_same=True)] * 2])
        for name, one in (("ours", stats), ("theirs", plain))
    )
    assert ours.by_round == {
        "tokens_per_s": [pytest.approx(50.0)],
        "tokens_per_pass": [4.8],
        "acceptance": [76.0],
        "drafted": [5.0],
        "host_ms": [pytest.approx(1.0)],
    }
    # A server that does not tell what the prompt's batch gave gave one token by it.
    assert theirs.by_round["tokens_per_s"] == [pytest.approx(10.0)]
    assert theirs.by_round["acceptance"] == [None]
    assert theirs.by_round["host_ms"] == [None]
    assert tokens_per_s(RequestStats(n_predicted=1, ms_predict=0.1), n_requests=1) is None
    assert figures_of("none", DECODE_COLUMNS, [[]]).median("tokens_per_s") is None


def test_a_session_without_a_request_to_the_model_has_no_prompts():
    empty = TypedRound(
        session=TypedSession(), own_work=SessionStats(), resident_mib=7.0, host_ms=None
    )
    found = figures_of("one", TYPED_COLUMNS, [empty])
    assert empty.counts.ms["all"] == Percentiles()
    assert found.by_round["evaluated"] == found.by_round["tokens_per_s"] == [None]
    assert found.by_round["resident_mib"] == [7.0]
    assert found.by_round["evaluated_per_char"] == [0.0]
