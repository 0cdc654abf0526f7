"""Session sums: counts, percentiles over bounded samples, suggestions told apart."""

import msgspec
import pytest
from msgspec import structs

from speclsp.reporting.session import N_LATENCIES, SessionRecorder, percentiles, summed
from speclsp.seam.completion import CompletionResult, GeneratedText
from speclsp.seam.request import FinishReason
from speclsp.seam.statistics import (
    DrafterStats,
    IndexStats,
    Percentiles,
    RequestStats,
    SessionStats,
)

READY = SessionStats(state="ready")


def result(
    text: str = "x", finish_reason: FinishReason = "stop", stats: RequestStats | None = None
) -> CompletionResult:
    generated = GeneratedText(completion_id="id", text=text, finish_reason=finish_reason)
    return CompletionResult(generated=generated, stats=stats or RequestStats())


def passes(ms_total: float = 1.0, **values) -> RequestStats:
    return RequestStats(n_target_passes=2, n_decode_passes=1, ms_total=ms_total, **values)


@pytest.fixture
def recorder():
    return SessionRecorder()


def test_each_request_is_counted_once_and_in_one_way(recorder):
    recorder.add(result())
    recorder.add(result(finish_reason="length"))
    recorder.add(result(text=""))
    recorder.add(result(finish_reason="cancelled"))
    recorder.add(result(finish_reason="deadline"))
    recorder.failed()
    stats = recorder.snapshot(READY)
    assert stats.n_requests == 6
    assert (stats.n_completions, stats.n_empty, stats.n_cancelled, stats.n_failed) == (3, 1, 1, 1)


def test_sums_go_over_every_field():
    numbers = {name: 2 for name in RequestStats.__dataclass_fields__ if name != "drafters"}
    left = RequestStats(**numbers, drafters={"a": DrafterStats(n_drafts=1, n_drafted_at=(1, 1))})
    right = RequestStats(
        **numbers,
        drafters={
            "a": DrafterStats(n_drafts=2, n_drafted_at=(2, 1, 1), ms_draft=0.5),
            "b": DrafterStats(n_drafts=5),
        },
    )
    both = summed(left, right)
    assert all(getattr(both, name) == 4 for name in numbers)
    assert both.drafters["a"] == DrafterStats(n_drafts=3, n_drafted_at=(3, 2, 1), ms_draft=0.5)
    assert both.drafters["b"] == DrafterStats(n_drafts=5)


def test_percentiles_are_nearest_ranks():
    assert percentiles([]) == Percentiles()
    assert percentiles([7.0]) == Percentiles(n=1, p50=7.0, p95=7.0, p99=7.0)
    assert percentiles([float(n) for n in range(200, 0, -1)]) == Percentiles(
        n=200, p50=100.0, p95=190.0, p99=198.0
    )


def test_latencies_are_those_of_the_latest_requests(recorder):
    for number in range(3 * N_LATENCIES):
        recorder.add(result(stats=passes(ms_total=float(number))))
    total = recorder.snapshot(READY).latency["total"]
    assert total.n == N_LATENCIES
    assert total.p50 == 2 * N_LATENCIES + N_LATENCIES / 2 - 1


def test_stages_that_a_request_did_not_reach_do_not_dilute_the_percentiles(recorder):
    recorder.add(result(text="", stats=RequestStats(ms_total=0.1)))
    assert recorder.snapshot(READY).latency == {}
    recorder.add(result(stats=RequestStats(n_target_passes=1, ms_total=3.0)))
    latency = recorder.snapshot(READY).latency
    assert set(latency) == {"queue", "tokenize", "prompt", "total"}
    recorder.add(result(stats=passes(drafters={"a": DrafterStats()}, ms_draft=1.0)))
    latency = recorder.snapshot(READY).latency
    assert {stage: p.n for stage, p in latency.items()} == {
        "queue": 2,
        "tokenize": 2,
        "prompt": 2,
        "draft": 1,
        "verify": 1,
        "predict": 1,
        "total": 2,
    }


def test_times_to_answers_are_those_of_the_latest_and_stand_first(recorder):
    recorder.add(result(stats=passes(ms_total=1.0)))
    for ms in range(N_LATENCIES + 1):
        recorder.answered(float(ms))
    stats = recorder.snapshot(READY)
    assert stats.answer_ms == tuple(map(float, range(1, N_LATENCIES + 1)))
    assert stats.latency["answer"].n == N_LATENCIES
    assert next(iter(stats.latency)) == "answer"


def test_the_snapshot_says_what_the_engine_tells_and_survives_json(recorder):
    recorder.add(result(stats=passes(drafters={"a": DrafterStats(n_drafted_at=(1,))})))
    in_vain = RequestStats(n_predicted=5)
    engine = SessionStats(
        model="m", layers={"CPU": 3}, index=IndexStats(n_files=2), n_coalesced=1, totals=in_vain
    )
    stats = recorder.snapshot(engine)
    assert (stats.model, stats.layers, stats.index.n_files, stats.n_coalesced) == (
        "m", {"CPU": 3}, 2, 1,
    )  # fmt: skip
    assert (stats.totals.n_predicted, stats.totals.n_target_passes) == (5, 2)
    assert msgspec.json.decode(msgspec.json.encode(stats), type=SessionStats) == stats


def test_a_snapshot_does_not_change_later(recorder):
    before = recorder.snapshot(READY)
    recorder.add(result(stats=passes(n_predicted=5)))
    assert (before.n_requests, before.totals.n_predicted) == (0, 0)


def test_what_the_model_was_spared_is_counted_apart(recorder):
    memory = structs.replace(result("abc", stats=RequestStats(ms_total=0.5)), source="memory")
    recorder.add(memory)
    recorder.add(structs.replace(result(""), source="filter"))
    in_vain = SessionStats(n_coalesced=1, totals=RequestStats(n_predicted=5))
    recorder.prefetched(RequestStats(n_predicted=7))
    recorder.prefetch_used()
    stats = recorder.snapshot(in_vain)
    assert (stats.n_requests, stats.n_completions, stats.n_empty) == (2, 1, 1)
    assert (stats.n_memory, stats.n_filtered, stats.n_coalesced) == (1, 1, 1)
    assert (stats.n_prefetches, stats.n_prefetches_used) == (1, 1)
    assert (stats.totals.n_predicted, stats.prefetch.n_predicted) == (5, 7)
    assert (stats.latency["memory"].n, stats.latency["memory"].p50) == (1, 0.5)
    assert "total" not in stats.latency
