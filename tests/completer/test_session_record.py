"""What is noted of answers, and what is known of a suggestion afterwards."""

from __future__ import annotations

from speclsp.completer.session_record import SessionRecord
from speclsp.request import (
    CompletionRequest,
    CompletionResult,
    IndexStats,
    RequestStats,
    SessionStats,
)

REQUEST = CompletionRequest(uri="u", path="a.py", repo_name="", prefix="x = ", suffix="\n")


def result(completion_id: str, text: str) -> CompletionResult:
    return CompletionResult(
        completion_id=completion_id, text=text, finish_reason="stop", stats=RequestStats()
    )


def statistics(record: SessionRecord) -> SessionStats:
    return record.statistics(state="ready", index=IndexStats(), n_idle_evaluated=3, verify_ms=())


def test_a_suggestion_is_shown_and_taken_in_part_and_whole() -> None:
    record = SessionRecord()
    record.answered(REQUEST, result("1", "load(path)"), None)
    shown = record.shown("1")
    assert shown is not None
    assert (shown.request, shown.text) == (REQUEST, "load(path)")
    assert record.accepted("1", 4) == (shown, "load")
    stats = statistics(record)
    assert (stats.n_shown, stats.n_partially_accepted, stats.n_chars_accepted) == (1, 1, 4)
    assert record.accepted("1", None) == (shown, "load(path)")
    stats = statistics(record)
    assert (stats.n_accepted_items, stats.n_partially_accepted, stats.n_chars_accepted) == (
        1, 0, 10,
    )  # fmt: skip


def test_what_is_not_known_is_neither_shown_nor_taken() -> None:
    record = SessionRecord()
    record.answered(REQUEST, result("1", ""), None)
    assert record.shown("1") is None
    assert record.accepted("2", None) is None
    stats = statistics(record)
    assert (stats.n_requests, stats.n_empty, stats.n_shown, stats.n_accepted_items) == (1, 1, 0, 0)


def test_what_the_engine_tells_is_counted_beside() -> None:
    record = SessionRecord()
    record.loaded(model="m", draft_model="", layers={"CPU": 6}, n_ctx=512)
    record.failed()
    record.went_on()
    record.prefetched(RequestStats(n_predicted=7))
    record.answered(REQUEST, result("1", "a"), None, uses_prefetch=True)
    stats = statistics(record)
    assert (stats.model, stats.n_ctx, stats.n_idle_evaluated) == ("m", 512, 3)
    assert (stats.n_failed, stats.n_gone_on) == (1, 1)
    assert (stats.n_prefetches, stats.n_prefetches_used, stats.prefetch.n_predicted) == (1, 1, 7)
