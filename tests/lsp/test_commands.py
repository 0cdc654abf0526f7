import time
from typing import Any

import msgspec
import pytest
from lsp_wire import LspWire, span

from speclsp.lsp import session
from speclsp.seam.statistics import DrafterStats, RequestStats, SessionStats

EXECUTE = "workspace/executeCommand"
SHOW = "textDocument/didShowCompletion"
PARTLY = "textDocument/didPartiallyAcceptCompletion"


def told(wire: LspWire, *names: str) -> list[tuple[Any, ...]]:
    return [c for c in wire.completer.calls if c[0] in names]


async def run(wire: LspWire, command: str, *arguments: Any) -> Any:
    return await wire.ask(EXECUTE, {"command": command, "arguments": list(arguments)})


async def test_command_of_an_item_reports_its_acceptance(wire):
    wire.open("x")
    (item,) = await wire.ghost(0, 1)
    command = item["command"]
    assert await run(wire, command["command"], *command["arguments"]) is None
    assert told(wire, "shown", "accepted") == [
        ("shown", "completion-1"),
        ("accepted", "completion-1", None),
    ]


async def test_statistics_are_returned_and_logged_by_the_command_alone(wire):
    wire.open("x")
    await wire.ghost(0, 1)
    for n_logged, ask in enumerate(
        (lambda: wire.ask("speclsp/statistics", None), lambda: run(wire, "speclsp.showStatistics"))
    ):
        stats = msgspec.convert(await ask(), SessionStats)
        assert stats == wire.server.session.window.statistics()
        assert wire.logged.count("draft acceptance") == n_logged


async def test_advice_is_about_the_clients_settings(start):
    wire = await start(initializationOptions={"drafters": "ngram-mod", "nPredict": 32})
    drafters = {"ngram-mod": DrafterStats(n_draft_calls=62)}
    silent = RequestStats(n_decode_passes=62, drafters=drafters)
    wire.server.session.window.statistics = lambda: SessionStats(n_requests=1, totals=silent)
    await run(wire, "speclsp.showStatistics")
    assert "advice: ngram-mod proposed nothing in 62 of 62 calls" in wire.logged
    assert "raise `n_predict` (32) above `draft_min` (48)" in wire.logged


async def test_statistics_come_every_so_many_completions(wire, monkeypatch):
    monkeypatch.setattr(session, "STATISTICS_EVERY", 2)
    wire.open("x")
    for n_blocks in (0, 1, 1, 2):
        await wire.ghost(0, 1)
        assert wire.logged.count("draft acceptance") == n_blocks
    wire.completer.script = lambda asked: asked.answer("")
    for _ in range(3):
        await wire.ghost(0, 1)
    assert wire.logged.count("draft acceptance") == 2


async def test_reindex_and_toggle(wire):
    assert await run(wire, "speclsp.reindex") is None
    assert told(wire, "reindex") == [("reindex",)]
    wire.open("x")
    assert await run(wire, "speclsp.toggle") == {"enabled": False}
    assert wire.completer.applied[-1].enabled is False
    assert await wire.ghost(0, 1) == []
    assert await run(wire, "speclsp.toggle", True) == {"enabled": True}
    assert await run(wire, "speclsp.toggle", True) == {"enabled": True}
    assert wire.completer.applied[-1].enabled is True
    assert len(wire.completer.applied) == 2
    assert len(await wire.ghost(0, 1)) == 1


def statuses(wire: LspWire) -> list[bool]:
    """Return of each status whether it shows a snooze."""
    return ["snoozed_until" in status for status in wire.params_of("$/speclsp/status")]


async def test_snooze_stops_what_nobody_asked_for(wire):
    wire.open("x")
    before = time.time()
    assert await run(wire, "speclsp.snooze", 5) is None
    (status,) = wire.params_of("$/speclsp/status")
    assert 300 <= status["snoozed_until"] - before < 400
    assert await wire.ghost(0, 1) == []
    assert wire.completer.asked == []
    assert await wire.ghost(0, 1, triggerKind=1) != []
    assert await run(wire, "speclsp.snooze", 0) is None
    assert statuses(wire) == [True, False]
    assert await wire.ghost(0, 1) != []


async def test_snooze_ends_by_itself(wire):
    wire.open("x")
    await run(wire, "speclsp.snooze", 60)
    await run(wire, "speclsp.snooze", 0.001)
    await wire.until(lambda: statuses(wire) == [True, True, False])
    assert await wire.ghost(0, 1) != []


WRONG_ARGUMENTS = {
    "speclsp.snooze": [[], [True], ["5"], [-1], [1e9], [5, 5]],
    "speclsp.accepted": [[], [5], ["a", "b"]],
    "speclsp.acceptedEdit": [[], [1], ["a", "b"]],
    "speclsp.declinedEdit": [[], [1], ["a", "b"]],
    "speclsp.pullModel": [[], ["x"], [{}], [{"name": ""}], [{"name": 5}], [{"name": "a"}, 1]],
    "speclsp.useModel": [[], ["x"], [{}], [{"name": ""}], [{"name": 5}], [{"name": "a"}, 1]],
    "speclsp.toggle": [["on"], [True, False]],
    "speclsp.nothing": [[]],
    "": [[]],
}


@pytest.mark.parametrize("command", WRONG_ARGUMENTS)
async def test_wrong_commands(command, wire):
    for arguments in WRONG_ARGUMENTS[command]:
        params = {"command": command, "arguments": arguments}
        assert await wire.refusal(EXECUTE, params) == -32602
    assert "Traceback" not in wire.logged


async def test_statistics_without_a_completer_are_empty(wire):
    wire.server.session.window = None
    assert (await wire.ask("speclsp/statistics", {}))["n_requests"] == 0
    assert (await run(wire, "speclsp.showStatistics"))["n_requests"] == 0
    assert await run(wire, "speclsp.accepted", "x") is None


# --- what the client says of an item --------------------------------------------------------------


async def test_sent_counts_as_shown_until_the_client_says_what_it_shows(wire):
    wire.open("x")
    (first,) = await wire.ghost(0, 1)
    assert told(wire, "shown") == [("shown", "completion-1")]
    wire.notify(SHOW, {"item": first})
    (second,) = await wire.ghost(0, 1)
    assert told(wire, "shown") == [("shown", "completion-1")]
    wire.notify(SHOW, {"item": second})
    wire.notify(SHOW, {"item": second})
    assert told(wire, "shown") == [("shown", "completion-1"), ("shown", "completion-2")]


@pytest.mark.parametrize(
    "item",
    [{"insertText": "completed"}, {"command": {"command": "other", "arguments": ["x"]}}, None],
)
async def test_item_without_its_command_is_reported(item, wire):
    wire.open("x")
    await wire.ghost(0, 1)
    wire.notify(SHOW, {"item": item})
    await wire.until(lambda: "no item of ours" in wire.logged)
    assert told(wire, "shown") == [("shown", "completion-1")]


@pytest.mark.parametrize(("n_units", "n_chars"), [(1, 1), (3, 2), (5, 4), (99, 4), (0, None)])
async def test_partly_accepted_length_is_utf_16(n_units, n_chars, wire):
    wire.open("x")
    wire.completer.script = lambda asked: asked.answer("a😋bc")
    (item,) = await wire.ghost(0, 1)
    wire.notify(PARTLY, {"item": item, "acceptedLength": n_units})
    expected = [] if n_chars is None else [("accepted", "completion-1", n_chars)]
    assert told(wire, "accepted") == expected


async def test_partly_accepted_after_a_selected_item_counts_the_completers_text(wire):
    wire.open("os.pa")
    wire.completer.script = lambda asked: asked.answer(".join")
    selected = {"range": span(0, 3, 5), "text": "path"}
    (item,) = await wire.ghost(0, 5, selectedCompletionInfo=selected)
    assert item["insertText"] == "path.join"
    wire.notify(PARTLY, {"item": item, "acceptedLength": 4})
    wire.notify(PARTLY, {"item": item, "acceptedLength": 6})
    assert told(wire, "accepted") == [("accepted", "completion-1", 2)]


async def test_partly_accepted_with_a_wrong_length(wire):
    wire.open("x")
    (item,) = await wire.ghost(0, 1)
    for length in (None, True, "3", 1.5, -4):
        wire.notify(PARTLY, {"item": item, "acceptedLength": length})
    assert told(wire, "accepted") == []


async def test_save_and_close_are_told(wire):
    uri = "file:///home/user/project/pkg/mod.py"
    wire.open("x")
    wire.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    wire.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    assert told(wire, "save_document", "close_document") == [
        ("save_document", uri),
        ("close_document", uri),
    ]
