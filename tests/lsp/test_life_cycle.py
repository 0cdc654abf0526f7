import asyncio
import json
from pathlib import Path

import pytest
import pytest_lsp
from lsp_wire import FOLDER, INLINE, URI, LspWire, at
from lsprotocol import converters, types

from speclsp import __version__
from speclsp.errors import ModelNotFoundError
from speclsp.lsp.capabilities import answer_to_initialize
from speclsp.seam.completer import Completer
from speclsp.seam.events import LogLine
from speclsp.settings import Settings

CLIENTS = sorted((Path(pytest_lsp.__file__).parent / "clients").glob("*.json"))


async def test_capabilities(connect):
    wire = connect()
    result = await wire.initialize({"notebookDocument": {"synchronization": {}}})
    assert result["serverInfo"] == {"name": "speclsp", "version": __version__}
    able = result["capabilities"]
    assert able["inlineCompletionProvider"] == {}
    assert "completionProvider" not in able
    assert able["textDocumentSync"] == {
        "openClose": True,
        "change": 2,
        "save": {"includeText": False},
    }
    assert able["notebookDocumentSync"] == {"notebookSelector": [{"notebook": "*"}], "save": True}
    assert able["workspace"]["workspaceFolders"]["changeNotifications"] is True
    assert able["executeCommandProvider"]["commands"] == [
        "speclsp.accepted",
        "speclsp.acceptedEdit",
        "speclsp.declinedEdit",
        "speclsp.showStatistics",
        "speclsp.reindex",
        "speclsp.toggle",
        "speclsp.models",
        "speclsp.pullModel",
        "speclsp.useModel",
        "speclsp.snooze",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"id": True},
        {"id": None},
        {"id": 1.5},
        {"id": "\ud800"},
        {"jsonrpc": "1.0"},
        {"method": "shutdown"},
        {"params": None},
        {"params": {"capabilities": None}},
        {"params": {"capabilities": {"general": {"positionEncodings": "utf-8"}}}},
        {"params": {"capabilities": {}, "workspaceFolders": [{"name": "a"}]}},
    ],
)
def test_what_is_no_valid_initialize_gets_no_early_answer(change):
    params = {"capabilities": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params, **change}
    assert answer_to_initialize(json.dumps(message).encode(), {}) is None


async def test_an_empty_section_may_be_an_array(connect):
    able = (await connect().initialize({"window": [], "textDocument": {"inlineCompletion": []}}))[
        "capabilities"
    ]
    assert "completionProvider" not in able


@pytest.mark.parametrize("text_document", [{}, {"inlineCompletion": None}, None, []])
async def test_clients_without_inline_completion_are_offered_both(text_document, connect):
    wire = connect()
    able = (await wire.initialize({"textDocument": text_document}))["capabilities"]
    assert able["completionProvider"]["triggerCharacters"]
    assert able["inlineCompletionProvider"] == {}  # lsp-mode asks without saying that it can


@pytest.mark.parametrize(
    ("wanted", "client", "offered"),
    [
        ({}, {"name": "Neovim", "version": "0.12.4"}, True),
        ({}, {"name": "Visual Studio Code"}, False),
        ({}, None, False),
        ({"completion_items": "never"}, {"name": "Neovim"}, False),
        ({"speclsp": {"completionItems": "never"}}, {"name": "Neovim"}, False),
        ({"completion_items": "always"}, None, True),
        ({"completion_items": "often"}, {"name": "Neovim"}, True),
    ],
)
async def test_completion_items_beside_ghost_text(wanted, client, offered, connect):
    able = {"textDocument": {"inlineCompletion": {}}}
    params = {"capabilities": able, "clientInfo": client, "initializationOptions": wanted}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    answered = answer_to_initialize(json.dumps(message).encode(), {})
    assert answered is not None
    wire = connect()
    result = await wire.answer(wire.request("initialize", params))
    assert json.loads(answered[1])["result"] == result["result"]
    assert ("completionProvider" in result["result"]["capabilities"]) is offered
    from_command_line = answer_to_initialize(
        json.dumps(message | {"params": {"capabilities": able}}).encode(),
        {"completion_items": "always"},
    )
    assert b"completionProvider" in from_command_line[1]


async def test_never_offers_no_items_to_clients_without_ghost_text(connect):
    wire = connect(base_options={"completion_items": "never"})
    assert "completionProvider" not in (await wire.initialize({}))["capabilities"]


async def test_requests_before_initialize(connect):
    wire = connect()
    wire.open("x")
    for method in (INLINE, "shutdown", "workspace/executeCommand", "no/such"):
        assert await wire.refusal(method, {}) == -32002
    await wire.initialize()
    assert list(wire.server.session.documents) == []


async def test_second_initialize_is_refused(wire):
    assert await wire.refusal("initialize", {"capabilities": {}}) == -32600


async def test_shutdown_closes_the_completer_and_refuses_what_follows(wire):
    wire.open("x")
    pending = await wire.hold()
    shutdown = wire.request("shutdown")
    late = wire.request(INLINE, at(0, 1))
    assert (await wire.answer(pending))["error"]["code"] == -32800
    assert (await wire.answer(late))["error"]["code"] == -32600
    assert (await wire.answer(shutdown))["result"] is None
    assert wire.completer.calls[-1] == ("close",)
    assert await wire.refusal("shutdown") == -32600
    wire.notify("exit")
    wire.notify("exit")
    await wire.conversation.until_over()
    assert await wire.conversation.close() == 0
    assert [len(wire.answers_to(i)) for i in (pending, shutdown, late)] == [1, 1, 1]
    assert wire.completer.calls.count(("close",)) == 1


async def test_statistics_are_logged_before_the_completer_closes(wire):
    wire.open("x")
    await wire.ghost(0, 1)
    await wire.ask("shutdown")
    assert "requests = 1" in wire.logged
    assert "draft acceptance" in wire.logged


async def test_exit_behind_a_shutdown_without_an_id(wire):
    wire.notify("shutdown")
    wire.notify("exit")
    await wire.conversation.until_over()
    assert await wire.conversation.close() == 0
    assert wire.completer.closed
    assert "shutdown" not in wire.logged


async def test_exit_without_shutdown(wire):
    wire.notify("exit")
    await wire.conversation.until_over()
    assert await wire.conversation.close() == 1
    assert wire.completer.closed


async def test_hanging_up_closes_the_completer(wire):
    wire.open("x")
    await wire.hold()
    wire.conversation.hang_up()
    await wire.conversation.until_over()
    assert await wire.conversation.close() == 1
    assert wire.completer.closed
    assert wire.completer.asked[0].cancel.cancelled


async def test_exit_before_initialize(connect):
    wire = connect()
    wire.notify("exit")
    await wire.conversation.until_over()
    assert await wire.conversation.close() == 1
    assert wire.completers == []


async def test_shutdown_right_after_initialize(connect):
    wire = connect()
    await wire.initialize_only()
    assert await wire.ask("shutdown") is None
    wire.notify("exit")
    assert await wire.conversation.close() == 0
    assert all(c.closed for c in wire.completers)


@pytest.mark.slow
async def test_documents_opened_before_the_completer_are_told(connect):
    wire = connect()
    wire.unanswered.add("workspace/configuration")
    await wire.initialize_only({"workspace": {"configuration": True}})
    wire.open("early")
    await wire.until(lambda: wire.server.session.window is not None)
    assert wire.completer.calls == [
        ("start",),
        ("open_folder", "/home/user/project", "project"),
        ("open_document", URI),
    ]
    assert wire.completer.documents[URI].text == "early"


async def test_completer_that_cannot_be_made_is_reported_once(connect):
    def factory(settings: Settings) -> Completer:
        raise ModelNotFoundError("There is no model at /x.gguf.", remedy="Set model.")

    wire = connect(factory)
    await wire.initialize_only()
    await wire.until(lambda: wire.shown)
    wire.open("x")
    assert await wire.ghost(0, 1) == []
    assert await wire.ask("workspace/executeCommand", {"command": "speclsp.reindex"}) is None
    assert len(wire.shown) == 1
    assert "There is no model at /x.gguf. Set model." in wire.shown[0]
    assert wire.params_of("$/speclsp/status")[-1]["state"] == "failed"
    assert await wire.ask("shutdown") is None


async def test_changed_settings_give_a_failed_completer_another_try(connect):
    good: list[LspWire] = []

    def factory(settings: Settings) -> Completer:
        if settings.model == "":
            raise ModelNotFoundError("missing")
        return good[0]._make(settings)

    wire = connect(factory)
    good.append(wire)
    await wire.initialize_only()
    await wire.until(lambda: wire.shown)
    settings = {"settings": {"speclsp": {"model": "/y.gguf"}}}
    wire.notify("workspace/didChangeConfiguration", settings)
    await wire.until(lambda: wire.server.session.window is not None)
    assert wire.completer.settings.model == "/y.gguf"


async def test_completer_is_made_off_the_event_loop(connect):
    ticks = 0

    def factory(settings: Settings) -> Completer:
        # The loop goes on meanwhile, or this would never end.
        while ticks < 3:
            pass
        return wire._make(settings)

    wire = connect(factory)
    await wire.initialize_only()
    while wire.server.session.window is None:
        ticks += 1
        await asyncio.sleep(0)
    assert ticks >= 3


async def test_last_words_of_the_completer_reach_the_log(start):
    wire = await start()
    completer = wire.completer
    close = completer.close

    def emit_and_close() -> None:
        completer.emit(LogLine(level="info", message="freed everything"))
        close()

    completer.close = emit_and_close  # type: ignore[method-assign]
    await wire.ask("shutdown")
    assert "freed everything" in wire.logged


@pytest.mark.parametrize("file", CLIENTS, ids=lambda file: file.stem)
async def test_what_real_clients_send_is_answered_early_as_by_the_connection(file, connect):
    params = json.loads(file.read_text(encoding="utf-8"))
    params["workspaceFolders"] = [{"uri": FOLDER, "name": "project"}]
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    msg_id, body = answer_to_initialize(json.dumps(message).encode(), {})
    wire = connect()
    assert msg_id == wire.request("initialize", params)
    answer = json.loads(body)
    assert answer == await wire.answer(msg_id)
    converter = converters.get_converter()
    result = converter.structure(answer["result"], types.InitializeResult)
    assert converter.unstructure(result) == answer["result"]
    assert ("completionProvider" in answer["result"]["capabilities"]) is (
        "inlineCompletion" not in params["capabilities"]["textDocument"]
    )
    wire.notify("initialized", {})
    await wire.until(lambda: wire.server.session.window is not None)
    wire.open("x")
    assert len(await wire.ghost(0, 1)) == 1
