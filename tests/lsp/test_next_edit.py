"""``textDocument/copilotInlineEdit``: one edit or none, in the client's units, and reports."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from lsp_wire import FOLDER, URI
from scripted_completer import Asked

from speclsp.errors import EngineError, EngineUnavailableError
from speclsp.lsp.text_buffer import TextBuffer
from speclsp.seam.documents import TextEdit, edit_between
from speclsp.seam.edit import EditResult
from speclsp.seam.statistics import RequestStats, SessionStats

METHOD = "textDocument/copilotInlineEdit"
TEXT = "s = '😋'\r\nt = '😋'\r\nu\r\n"


def at(line: int, character: int, version: int = 1) -> dict[str, Any]:
    return {
        "textDocument": {"uri": URI, "version": version},
        "position": {"line": line, "character": character},
    }


def proposing(*edits: TextEdit, **fields: Any) -> Callable[[Asked], None]:
    def script(asked: Asked) -> None:
        asked.future.set_result(
            EditResult(
                completion_id=asked.completion_id,
                finish_reason="stop",
                stats=RequestStats(n_prompt=9),
                hunks=edits,
                **fields,
            )
        )

    return script


EDITED = {
    "line": ("a = 'é'\nb = '😋é' + x\nc\n", "a = 'é'\nb = '😋ü' + x\nc\n"),
    "no newline at the end": ("a\nb = '😋é' + x", "a\nb = '😋ü' + x"),
    "behind the end": ("a\nb = '😋é' + x\n", "a\nb = '😋é' + x\nc = '😋é'\n"),
    "deleted": ("a\n'😋'\n'é'\n", "a\n'é'\n"),
}


@pytest.mark.parametrize("negotiated", ["utf-8", "utf-16", "utf-32"])
async def test_an_edit_is_right_in_whatever_units_a_client_counts(negotiated, start):
    wire = await start(encoding=negotiated)
    for newline, (text, wanted) in itertools.product(("\n", "\r\n"), EDITED.values()):
        wire.open(text.replace("\n", newline))
        wire.completer.script = proposing(edit_between(text, wanted))
        ((edit,),) = (await wire.ask(METHOD, at(0, 0))).values()
        assert edit["range"]["start"]["character"] == 0
        assert "\r" not in edit["text"] + "".join(hunk["text"] for hunk in edit["hunks"])
        # copilot-lsp counts in UTF-16 whatever was negotiated.
        for counted in (negotiated, "utf-16"):
            buffer = TextBuffer(URI, "python", 1, text)
            first, end = (
                buffer.cursor_at(place["line"], place["character"], counted)
                for place in (edit["range"]["start"], edit["range"]["end"])
            )
            buffer.replace(first, end, edit["text"])
            assert buffer.text == wanted


async def test_the_members_of_an_edit(start):
    wire = await start(encoding="utf-16")
    wire.open(TEXT)
    start = len("s = '😋'\n")
    line = TextEdit(start, start + len("t = '😋'\n"), "t = 'x'\nnew\n")
    wire.completer.script = proposing(line, probability=0.5, is_far=True)
    (edit,) = (await wire.ask(METHOD, at(1, 7)))["edits"]
    assert edit["range"] == {
        "start": {"line": 1, "character": 0},
        "end": {"line": 2, "character": 0},
    }
    assert edit["text"] == "t = 'x'\nnew\n"
    assert edit["textDocument"] == {"uri": URI, "version": 1}
    assert edit["command"] == {
        "title": "Accept the edit",
        "command": "speclsp.acceptedEdit",
        "arguments": [edit["id"]],
    }
    assert edit["hunks"] == [{"range": edit["range"], "text": edit["text"]}]
    assert (edit["isFar"], edit["probability"]) == (True, 0.5)
    request = wire.completer.asked[0].request
    assert request.text[: request.cursor] == "s = '😋'\nt = '😋"


async def test_no_edit_is_an_empty_list(wire):
    nothing = {"edits": []}
    assert await wire.ask(METHOD, at(0, 0)) == nothing  # not open
    wire.open(TEXT)
    wire.completer.script = proposing()
    assert await wire.ask(METHOD, at(0, 0)) == nothing
    for error in (EngineUnavailableError("loading."), EngineError("broken."), ValueError("?")):
        wire.completer.script = lambda asked, error=error: asked.future.set_exception(error)
        assert await wire.ask(METHOD, at(0, 0)) == nothing
    await wire.ask("workspace/executeCommand", {"command": "speclsp.toggle", "arguments": [False]})
    wire.completer.script = proposing(TextEdit(0, 1, "x"))
    assert await wire.ask(METHOD, at(0, 0)) == nothing


@pytest.mark.parametrize(
    "params", [None, {}, {"textDocument": {"uri": 1}, "position": {}}, at(0, 0) | {"position": 3}]
)
async def test_malformed_params_are_refused(wire, params):
    wire.open(TEXT)
    assert await wire.refusal(METHOD, params) == -32602


async def test_a_cancelled_request_is_answered_so(wire):
    wire.open(TEXT)
    msg_id = await wire.hold(at(0, 0), METHOD)
    wire.notify("$/cancelRequest", {"id": msg_id})
    answer = await wire.answer(msg_id)
    assert answer["error"]["code"] == -32800
    assert wire.completer.asked[0].cancel.cancelled


@pytest.mark.parametrize("how", ["supersede", "close", "close and open"])
async def test_a_request_that_the_server_ends_is_answered_with_no_edit(how, wire):
    """Clients of Copilot's method show errors to the user."""
    wire.open(TEXT)
    msg_id = await wire.hold(at(0, 0), METHOD)
    if how == "supersede":
        wire.request(METHOD, at(1, 0))
    else:
        wire.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
    if how == "close and open":
        wire.open(TEXT)
    assert (await wire.answer(msg_id))["result"] == {"edits": []}
    assert wire.completer.asked[0].cancel.cancelled


async def test_an_edit_of_a_text_that_changed_meanwhile_is_dropped(wire):
    wire.open(TEXT)
    asked: list[Asked] = []
    wire.completer.script = asked.append
    msg_id = wire.request(METHOD, at(0, 0))
    await wire.until(lambda: asked)
    start = {"line": 0, "character": 0}
    wire.change(2, {"range": {"start": start, "end": start}, "text": "x"})
    proposing(TextEdit(0, 1, "y"))(asked[0])
    assert (await wire.answer(msg_id))["result"] == {"edits": []}


async def test_a_completion_does_not_end_an_edit(wire):
    wire.open("a = 1\n")
    asked: list[Asked] = []
    wire.completer.script = asked.append
    msg_id = wire.request(METHOD, at(0, 0))
    await wire.until(lambda: asked)
    wire.completer.script = lambda one: one.answer("completed")
    await wire.ghost(0, 5)
    assert not asked[0].cancel.cancelled
    proposing(TextEdit(0, 1, "b"))(asked[0])
    assert len((await wire.answer(msg_id))["result"]["edits"]) == 1


async def test_reports_of_an_edit_are_counted_once(wire):
    wire.open("a = 1\nb = 2\n")
    wire.completer.script = proposing(TextEdit(6, 12, "b = 3\n"))

    async def proposed() -> dict[str, Any]:
        (edit,) = (await wire.ask(METHOD, at(0, 0)))["edits"]
        for _ in range(2):
            wire.notify("textDocument/didShowInlineEdit", {"item": {"command": edit["command"]}})
        return edit

    async def run(command: str, edit: dict[str, Any]) -> None:
        params = {"command": command, "arguments": [edit["id"]]}
        await wire.ask("workspace/executeCommand", params)

    first, second, _third = [await proposed() for _ in range(3)]
    await run("speclsp.acceptedEdit", first)
    await run("speclsp.acceptedEdit", first)
    await run("speclsp.declinedEdit", second)
    edits = (await wire.ask("speclsp/statistics"))["edits"]
    names = ("n_asked", "n_proposed", "n_shown", "n_accepted", "n_declined")
    assert [edits[name] for name in names] == [3, 3, 3, 1, 1]
    assert [text.text for text in wire.completer.learned] == ["3"]
    await asyncio.sleep(0)
    await wire.ask(METHOD, at(0, 0))
    assert wire.completer.asked[-1].request.plain.declined == (("b = 2\n", "b = 3\n"),)


async def test_every_request_is_in_the_statistics(wire):
    wire.open("a = 1\nb = 2\n")
    wire.completer.script = proposing(TextEdit(6, 12, "b = 3\n"))
    await wire.ask(METHOD, at(0, 0))
    start, end = ({"line": 1, "character": character} for character in (4, 5))
    wire.change(2, {"range": {"start": start, "end": end}, "text": ""})
    ((edit,),) = (await wire.ask(METHOD, at(1, 4, 2))).values()
    assert edit["text"] == "b = 3"
    wire.completer.script = proposing(withheld="undoes")
    await wire.ask(METHOD, at(0, 1, 2))
    wire.completer.script = proposing()
    await wire.ask(METHOD, at(0, 2, 2))
    wire.completer.script = lambda asked: asked.future.set_exception(EngineError("broken."))
    await wire.ask(METHOD, at(0, 3, 2))
    wire.completer.script = lambda asked: None
    for _ in range(2):
        msg_id = wire.request(METHOD, at(0, 0, 2))
    await wire.until(lambda: len(wire.completer.asked) == 6)
    wire.notify("$/cancelRequest", {"id": msg_id})
    await wire.answer(msg_id)
    edits = (await wire.ask("speclsp/statistics"))["edits"]
    names = ("n_asked", "n_proposed", "n_kept", "withheld")
    assert [edits[name] for name in names] == [
        7,
        1,
        1,
        {"undoes": 1, "refused": 1, "failed": 1, "cancelled": 2},
    ]


REFUSED = EditResult(completion_id="1", finish_reason="stop", stats=RequestStats())
NONE = SessionStats(state="ready", next_edits="none: the model is not known for them (trial model)")


@pytest.mark.parametrize("explains", [False, True])
async def test_what_is_missing_is_shown_once(explains, connect):
    """Our own plugins say it where the user asks for an edit, and are silent otherwise."""
    wire = connect()
    options = {"explainsNextEdits": True} if explains else {"n_predict": 8}
    await wire.initialize(initializationOptions=options)
    wire.open(TEXT)
    await wire.until(lambda: wire.completers)
    wire.completer.script = lambda asked: asked.future.set_result(REFUSED)
    await wire.ask(METHOD, at(0, 0))
    assert wire.shown == []  # the models are not loaded
    wire.completer.statistics = lambda: NONE  # type: ignore[method-assign]
    wire.completer.script = proposing()
    await wire.ask(METHOD, at(0, 1))
    wire.completer.script = proposing(withheld="unchanged")
    await wire.ask(METHOD, at(0, 0))
    shown = [] if explains else wire.shown[:1]
    assert wire.shown == shown
    assert all("the model is not known for them" in one and "edit_model" in one for one in shown)
    assert len(shown) == (not explains)


OTHER = f"{FOLDER}/other.py"
NO_PLACE = EditResult(
    completion_id="1", finish_reason="stop", stats=RequestStats(), withheld="no-place"
)


def renaming(asked: Asked) -> None:
    """Answer as a model that follows a renaming by analogy: it has places in other documents."""
    text = asked.request.text
    if asked.request.uri == URI:
        asked.future.set_result(NO_PLACE)
        return
    edit = edit_between(text, text.replace("load", "read"))
    start = text.rfind("\n", 0, edit.start) + 1
    end = text.index("\n", edit.end) + 1
    proposing(TextEdit(start, end, text[start:end].replace("load", "read")))(asked)


async def renamed(wire: Any, other: str, **opened: Any) -> list[dict[str, Any]]:
    """Rename a function where another document uses it; return the edits."""
    wire.open("x = 1\nprint(load('😋'))\ny = 2\n", uri=other, **opened)
    wire.open("def load():\n    pass\n")
    start, end = ({"line": 0, "character": character} for character in (4, 8))
    wire.change(2, {"range": {"start": start, "end": end}, "text": "read"})
    wire.completer.script = renaming
    answer: dict[str, list[dict[str, Any]]] = await wire.ask(METHOD, at(0, 8, 2))
    return answer["edits"]


async def test_an_edit_in_another_document_names_it(start):
    wire = await start(initializationOptions={"opensNextEdits": True})
    (edit,) = await renamed(wire, OTHER, version=7)
    assert edit["textDocument"] == {"uri": OTHER, "version": 7}
    assert edit["range"]["start"] == {"line": 1, "character": 0}
    assert edit["text"] == "print(read('😋'))\n"
    assert edit["hunks"] == [{"range": edit["range"], "text": edit["text"]}]
    assert edit["isFar"]
    changed = {"range": edit["range"], "text": edit["text"]}
    wire.change(8, changed, uri=OTHER)
    edits = (await wire.ask("speclsp/statistics"))["edits"]
    assert (edits["n_proposed"], edits["n_accepted"]) == (1, 1)


@pytest.mark.parametrize(
    ("options", "other", "language", "settings"),
    [
        ({"n_predict": 8}, OTHER, "python", {}),  # such clients draw in the document they asked in
        ({"opensNextEdits": True}, "file:///home/user/elsewhere/other.py", "python", {}),
        ({"opensNextEdits": True}, OTHER, "go", {"languages": {"go": {"enabled": False}}}),
    ],
    ids=["the client does not open it", "another folder", "switched off there"],
)
async def test_an_edit_in_another_document_is_left_out(options, other, language, settings, start):
    wire = await start(initializationOptions={**options, **settings})
    assert await renamed(wire, other, language=language) == []
    assert [asked.request.uri for asked in wire.completer.asked] == [URI]
