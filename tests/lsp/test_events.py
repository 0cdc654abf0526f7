import dataclasses
import logging
from typing import Any

import msgspec
from lsp_wire import LspWire, at
from scripted_completer import Asked

from speclsp.errors import EngineError, SettingsError
from speclsp.log import RecordLog
from speclsp.seam.events import LoadedModel, LogLine, Problem, Progress, StateChanged
from speclsp.seam.statistics import RequestStats

ABLE = {"window": {"workDoneProgress": True}}


def steps(token: str = "index") -> list[Progress]:
    return [
        Progress(token=token, stage="begin", title="Indexing", percentage=0),
        Progress(token=token, stage="report", message="half", percentage=50),
        Progress(token=token, stage="end", message="done"),
    ]


def values(wire: LspWire) -> list[Any]:
    return [p["value"] for p in wire.params_of("$/progress")]


async def test_progress_is_created_before_it_is_used(start):
    wire = await start(ABLE)
    for step in steps():
        wire.completer.emit(step)
    await wire.until(lambda: [v for v in values(wire) if v["kind"] == "end"])
    methods = [m.get("method") for m in wire.messages]
    assert methods.index("window/workDoneProgress/create") < methods.index("$/progress")
    assert values(wire)[0] == {"kind": "begin", "title": "Indexing", "percentage": 0}
    assert values(wire)[-1] == {"kind": "end", "message": "done"}
    assert {p["token"] for p in wire.params_of("$/progress")} == {"index"}


async def test_progress_goes_on_under_an_accepted_token(start):
    wire = await start(ABLE)
    begin, report, end = steps()
    wire.completer.emit(begin)
    await wire.until(lambda: values(wire))
    wire.completer.emit(report)
    wire.completer.emit(end)
    wire.completer.emit(report)
    await wire.until(lambda: len(values(wire)) == 3)
    await wire.settle()
    assert [v["kind"] for v in values(wire)] == ["begin", "report", "end"]
    # The token can be used again.
    for step in steps():
        wire.completer.emit(step)
    await wire.until(lambda: len([v for v in values(wire) if v["kind"] == "end"]) == 2)


async def test_clients_without_progress_hear_none(wire):
    for step in steps():
        wire.completer.emit(step)
    wire.completer.emit(LogLine(level="info", message="after"))
    await wire.until(lambda: "after" in wire.logged)
    assert wire.params_of("window/workDoneProgress/create") == []
    assert values(wire) == []


async def test_refused_progress_is_dropped(connect):
    wire = connect()
    wire.answers["window/workDoneProgress/create"] = RuntimeError("no")
    await wire.initialize(ABLE)
    for step in steps():
        wire.completer.emit(step)
    wire.completer.emit(LogLine(level="info", message="after"))
    await wire.until(lambda: "after" in wire.logged)
    await wire.settle()
    assert values(wire) == []


async def test_problem_is_shown_once_with_its_remedy(wire):
    for _ in range(3):
        wire.completer.emit(Problem(message="The model is gone.", remedy="Set model."))
    wire.completer.emit(LogLine(level="info", message="after"))
    await wire.until(lambda: "after" in wire.logged)
    assert wire.shown == ["The model is gone. Set model."]


async def test_what_was_shown_is_logged_for_no_request(wire):
    wire.open("a")
    broken = SettingsError("The model is gone.", remedy="Set model.")
    wire.completer.emit(Problem(message=broken.message, remedy=broken.remedy))
    await wire.until(lambda: wire.shown)
    for error in (broken, EngineError("It hangs.")):
        wire.completer.script = lambda asked, error=error: asked.future.set_exception(error)
        assert await wire.ghost(0, 0) == []
    assert "completion failed: It hangs." in wire.logged
    assert "completion failed: The model" not in wire.logged


async def test_state_is_told(wire):
    wire.completer.emit(StateChanged(state="unloaded", message="idle"))
    await wire.until(lambda: wire.params_of("$/speclsp/status"))
    assert wire.params_of("$/speclsp/status") == [{"state": "unloaded", "message": "idle"}]
    assert "engine unloaded: idle" in wire.logged


MODEL = LoadedModel(title="Coder 7B Q4_K_M", layers={"CUDA0": 20, "CPU": 9})


async def test_status_tells_the_model(wire):
    wire.completer.emit(StateChanged(state="ready", message="Coder", model=MODEL))
    (status,) = await wire.until(lambda: wire.params_of("$/speclsp/status"))
    assert status["model"] == {
        "title": "Coder 7B Q4_K_M",
        "layers": {"CUDA0": 20, "CPU": 9},
        "is_trial": False,
        "shortfall": "",
    }
    assert wire.shown == []


async def test_a_prompt_that_was_evaluated_in_part_is_asked_for_again(wire):
    def too_slow(asked: Asked) -> None:
        stats = RequestStats(n_prompt=9, n_prompt_evaluated=4)
        asked.future.set_result(
            msgspec.structs.replace(asked.request.plain.empty("deadline"), stats=stats)
        )

    wire.completer.script = too_slow
    wire.open("a = ")
    for n_asked_again in (1, 2, 2):  # a third time the prompt would have been evaluated
        assert not await wire.ghost(0, 4)
        said = [status.get("ask_again") for status in wire.params_of("$/speclsp/status")]
        assert said == [True] * n_asked_again


async def test_a_late_answer_to_two_requests_is_told_once(wire):
    wire.open("a = ")
    inline = await wire.hold(at(0, 4))
    items = wire.request("textDocument/completion", at(0, 4))
    await wire.settle()
    (asked,) = wire.completer.asked
    asked.future.set_result(asked.request.plain.empty("deadline"))
    await wire.answer(inline)
    await wire.answer(items)
    assert [said.get("ask_again") for said in wire.params_of("$/speclsp/status")] == [True]


async def test_times_are_those_of_the_model_in_use(wire):
    wire.open("a = ")
    wire.completer.emit(StateChanged(state="ready", model=MODEL))
    assert await wire.ghost(0, 4)
    wire.completer.emit(StateChanged(state="unloaded", model=MODEL))
    wire.completer.emit(StateChanged(state="ready", model=MODEL))
    await wire.until(lambda: len(wire.params_of("$/speclsp/status")) == 3)
    assert len((await wire.ask("speclsp/statistics"))["answer_ms"]) == 1
    wire.completer.emit(StateChanged(state="loading"))
    wire.completer.emit(
        StateChanged(state="ready", model=dataclasses.replace(MODEL, title="Coder 1.5B"))
    )
    await wire.until(lambda: len(wire.params_of("$/speclsp/status")) == 5)
    stats = await wire.ask("speclsp/statistics")
    assert stats["answer_ms"] == []
    assert "answer" not in stats["latency"]
    assert stats["n_completions"] == 1


async def test_what_did_not_fit_is_a_warning_once(wire):
    model = dataclasses.replace(MODEL, shortfall="9 of 29 layers did not fit; lower ctx_size")
    for state in ("ready", "unloaded", "ready"):
        wire.completer.emit(StateChanged(state=state, model=model))  # type: ignore[arg-type]
    await wire.until(lambda: len(wire.params_of("$/speclsp/status")) == 3)
    assert wire.shown == ["speclsp: 9 of 29 layers did not fit; lower ctx_size"]
    assert [p["type"] for p in wire.params_of("window/showMessage")] == [2]


async def test_log_lines_respect_the_level(wire):
    wire.completer.emit(LogLine(level="debug", message="whisper"))
    wire.completer.emit(LogLine(level="warning", message="shout"))
    await wire.until(lambda: "shout" in wire.logged)
    assert "whisper" not in wire.logged
    assert wire.params_of("window/logMessage")[-1] == {"type": 2, "message": "shout"}


async def test_python_logging_reaches_the_log(wire):
    logging.getLogger("speclsp.somewhere").info("ours")
    logging.getLogger("somebody.else").warning("theirs")
    logging.getLogger("somebody.else").info("their chatter")
    await wire.until(lambda: "theirs" in wire.logged)
    assert "ours" in wire.logged
    assert "somebody.else: theirs" in wire.logged
    assert "chatter" not in wire.logged


async def test_nothing_is_said_before_initialize_is_answered(connect):
    wire = connect()
    logging.getLogger("speclsp").info("early")
    await wire.settle()
    assert wire.messages == []
    await wire.initialize()
    assert "early" in wire.logged
    assert "result" in wire.messages[0]


async def test_events_do_not_stop_when_one_cannot_be_told(wire):
    wire.completer.emit(LogLine(level="loud", message="odd"))  # type: ignore[arg-type]
    wire.completer.emit(LogLine(level="info", message="after"))
    await wire.until(lambda: "after" in wire.logged)


async def test_log_record_with_wrong_arguments_is_no_harm():
    heard: list[tuple[str, str]] = []
    log = RecordLog(lambda level, text: heard.append((level, text)))
    log.handle(logging.LogRecord("x", logging.ERROR, "", 1, "%d is no text", ("broken",), None))
    assert heard == [("error", "x: '%d is no text' ('broken',)")]
