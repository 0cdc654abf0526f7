import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from lsp_wire import FOLDER, URI, LspWire

from speclsp.settings import Settings

CONFIGURABLE = {"workspace": {"configuration": True}}
OTHER = "file:///home/user/other"


def push(wire: LspWire, settings: Any) -> None:
    wire.notify("workspace/didChangeConfiguration", {"settings": settings})


@pytest.mark.parametrize(
    "options",
    [
        {"n_predict": 9},
        {"nPredict": 9},
        {"n-predict": 9},
        {"speclsp": {"n_predict": 9}},
        {"speclsp.n_predict": 9},
    ],
)
async def test_initialization_options_in_every_spelling(options, start):
    wire = await start(initializationOptions=options, base_options={"n_predict": 5, "max_lines": 7})
    assert wire.completer.settings.n_predict == 9
    assert wire.completer.settings.max_lines == 7
    assert wire.shown == []


async def test_command_line_holds_where_the_client_sets_nothing(start):
    wire = await start(base_options={"n_predict": 5})
    assert wire.completer.settings.n_predict == 5


async def test_wrong_values_are_reported_once_by_name(connect):
    wire = connect()
    wrong = {"n_predict": "many", "modell": "x", "top_k": 3}
    await wire.initialize(initializationOptions=wrong)
    assert wire.completer.settings.n_predict == 128
    assert wire.completer.settings.top_k == 3
    assert len(wire.shown) == 2
    assert any("n_predict" in m and "'many'" in m and "128" in m for m in wire.shown)
    assert any("unknown setting 'modell'" in m for m in wire.shown)
    push(wire, {"speclsp": {"max_lines": 3}})
    await wire.until(lambda: wire.completer.applied)
    assert len(wire.shown) == 2


@pytest.mark.parametrize("options", [[1], "x", 5, True])
async def test_options_that_are_no_object(options, start):
    wire = await start(initializationOptions=options)
    (message,) = wire.shown
    assert "initializationOptions" in message


@pytest.mark.parametrize("section", [5, "x", [1], True])
async def test_a_section_that_is_no_object_is_reported(section, wire):
    push(wire, {"speclsp": section})
    await wire.until(lambda: wire.shown)
    (message,) = wire.shown
    assert "didChangeConfiguration" in message
    assert repr(section) in message
    push(wire, {"speclsp": section})
    push(wire, {"speclsp": {"max_lines": 3}})
    await wire.until(lambda: wire.completer.applied)
    assert len(wire.shown) == 1


async def test_settings_are_pulled_before_the_completer_is_made(start):
    wire = await start(
        CONFIGURABLE,
        initializationOptions={"n_predict": 9, "top_k": 2},
        configuration=[{"n_predict": 11}],
    )
    assert wire.completer.settings.n_predict == 11
    assert wire.completer.settings.top_k == 2
    assert wire.completer.applied == []
    (asked,) = wire.params_of("workspace/configuration")
    assert asked == {"items": [{"scopeUri": FOLDER, "section": "speclsp"}]}


@pytest.mark.parametrize("answer", [None, [None], [], {}, [5], "x", RuntimeError("no")])
async def test_useless_answers_to_the_pull(answer, start):
    wire = await start(CONFIGURABLE, initializationOptions={"n_predict": 9}, configuration=answer)
    assert wire.completer.settings.n_predict == 9


async def test_late_settings_apply_unless_newer_ones_are_asked_for(connect, monkeypatch):
    monkeypatch.setattr("speclsp.lsp.session._CONFIGURATION_TIMEOUT_S", 0.01)
    wire = connect()
    wire.unanswered.add("workspace/configuration")
    await wire.initialize(CONFIGURABLE, initializationOptions={"n_predict": 9})
    assert wire.completer.settings.n_predict == 9
    push(wire, None)
    await wire.until(lambda: len(wire.params_of("workspace/configuration")) == 2)
    asked = [m for m in wire.messages if m.get("method") == "workspace/configuration"]
    for message, n_predict in ((asked[1], 12), (asked[0], 11)):
        result = [{"n_predict": n_predict}]
        wire.raw(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())
    await wire.until(lambda: wire.completer.applied)
    await asyncio.sleep(0)
    assert wire.completer.settings.n_predict == 12


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0,), (0, 1), (1, 0)])
async def test_an_answer_holds_until_a_newer_request_is_answered(order, connect):
    wire = connect()
    wire.unanswered.add("workspace/configuration")
    await wire.initialize_only(CONFIGURABLE)
    push(wire, None)
    await wire.until(lambda: len(wire.params_of("workspace/configuration")) == 2)
    asked = [m for m in wire.messages if m.get("method") == "workspace/configuration"]
    settings = ({"n_predict": 11, "model": "/big.gguf"}, {"n_predict": 12})
    for n in order:
        reply = {"jsonrpc": "2.0", "id": asked[n]["id"], "result": [settings[n]]}
        wire.raw(json.dumps(reply).encode())
    await wire.until(lambda: wire.server.session.window is not None)
    newest = settings[max(order)]
    assert wire.completer.settings.n_predict == newest["n_predict"]
    assert wire.completer.settings.model == newest.get("model", "")


async def test_a_pull_applies_the_settings_once(start, monkeypatch):
    wire = await start(CONFIGURABLE, configuration=[{"max_lines": 4}])
    models, n_resolved = wire.server.session.models, 0
    resolve = models.resolve

    def counting_resolve(settings: Settings) -> Settings:
        nonlocal n_resolved
        n_resolved += 1
        return resolve(settings)

    monkeypatch.setattr(models, "resolve", counting_resolve)
    wire.answers["workspace/configuration"] = [{"max_lines": 5}]
    push(wire, None)
    await wire.until(lambda: wire.completer.applied)
    await wire.settle()
    assert n_resolved == 1


async def test_clients_that_cannot_be_asked_are_not(wire):
    push(wire, {"speclsp": {"max_lines": 3}})
    await wire.until(lambda: wire.completer.applied)
    assert wire.params_of("workspace/configuration") == []


@pytest.mark.parametrize(
    "settings", [{"speclsp": {"max_lines": 3}}, {"max_lines": 3}, {"speclsp.maxLines": 3}]
)
async def test_pushed_settings_take_effect_at_once(settings, wire):
    push(wire, settings)
    await wire.until(lambda: wire.completer.applied)
    assert wire.completer.applied[-1].max_lines == 3
    await wire.until(lambda: "settings changed: max_lines" in wire.logged)


@pytest.mark.parametrize("settings", [None, {}, {"pyright": {"max_lines": 3}}, {"speclsp": None}])
async def test_pushed_nothing(settings, wire):
    push(wire, settings)
    await wire.settle()
    assert wire.completer.applied == []
    assert wire.shown == []


async def test_change_without_settings_pulls_anew(start):
    wire = await start(CONFIGURABLE, configuration=[{"max_lines": 4}])
    wire.answers["workspace/configuration"] = [{"max_lines": 5}]
    push(wire, None)
    await wire.until(lambda: wire.completer.applied)
    assert wire.completer.applied[-1].max_lines == 5


async def test_restart_is_asked_for_where_needed(wire):
    wire.completer.needs_restart = ("persist",)
    push(wire, {"speclsp": {"persist": False}})
    await wire.until(lambda: "after a restart of the server: persist" in wire.logged)


async def test_client_is_asked_to_report_changes(connect):
    wire = connect()
    wire.answers["client/registerCapability"] = RuntimeError("refused, which is no harm")
    await wire.initialize({"workspace": {"didChangeConfiguration": {"dynamicRegistration": True}}})
    (params,) = wire.params_of("client/registerCapability")
    (registration,) = params["registrations"]
    assert registration["method"] == "workspace/didChangeConfiguration"
    assert registration["registerOptions"] == {"section": "speclsp"}


async def test_language_can_be_switched_off(start):
    wire = await start(base_options={"languages": {"markdown": {"enabled": False}}})
    wire.open("x", uri="file:///a.md", language="markdown")
    wire.open("x", uri="file:///a.py")
    assert await wire.ghost(0, 1, uri="file:///a.md") == []
    assert len(await wire.ghost(0, 1, uri="file:///a.py")) == 1
    assert len(wire.completer.asked) == 1


async def test_language_can_be_switched_on_alone(start):
    languages = {"python": {"enabled": True}}
    wire = await start(base_options={"enabled": False, "languages": languages})
    assert wire.completer.settings.enabled
    wire.open("x", uri="file:///a.md", language="markdown")
    wire.open("x", uri="file:///a.py")
    assert await wire.ghost(0, 1, uri="file:///a.md") == []
    assert len(await wire.ghost(0, 1, uri="file:///a.py")) == 1
    command = {"command": "speclsp.toggle", "arguments": []}
    for enabled in (False, True):
        assert await wire.ask("workspace/executeCommand", command) == {"enabled": enabled}
        assert wire.completer.applied[-1].enabled is enabled
        n_asked = len(wire.completer.asked)
        assert await wire.ghost(0, 1, uri="file:///a.md") == []
        assert len(await wire.ghost(0, 1, uri="file:///a.py")) == enabled
        assert len(wire.completer.asked) == n_asked + enabled


async def test_toggle_switches_on_what_the_settings_have_off(start):
    wire = await start(base_options={"enabled": False})
    wire.open("x")
    command = {"command": "speclsp.toggle", "arguments": []}
    for enabled in (True, False, True):
        assert await wire.ask("workspace/executeCommand", command) == {"enabled": enabled}
        assert len(await wire.ghost(0, 1)) == enabled


async def test_folders_can_differ(connect):
    ours = {"n_predict": 7, "multiline": "never"}
    wire = await in_two_folders(connect, None, ours, {"enabled": False})
    wire.open("x", uri=f"{OTHER}/a.py")
    wire.open("x", uri="file:///elsewhere/a.py")
    await wire.ghost(0, 1)
    await wire.ghost(0, 1, uri=f"{OTHER}/a.py")
    await wire.ghost(0, 1, uri="file:///elsewhere/a.py")
    first, second = (a.request.plain for a in wire.completer.asked)
    assert (first.uri, first.overrides) == (URI, ours)
    assert first.settings == {}
    assert (second.uri, second.overrides) == ("file:///elsewhere/a.py", {})
    assert wire.shown == []


async def in_two_folders(
    connect: Callable[..., LspWire], everywhere: Any, in_first: Any, in_second: Any = None
) -> LspWire:
    scoped = {None: everywhere, FOLDER: in_first, OTHER: in_second}
    wire = connect()
    wire.answers["workspace/configuration"] = lambda params: [
        scoped[i.get("scopeUri")] for i in params["items"]
    ]
    await wire.initialize(CONFIGURABLE, folders=(FOLDER, OTHER))
    wire.open("x")
    return wire


@pytest.mark.parametrize(
    ("name", "everywhere", "in_folder"),
    [
        ("multiline", "never", "auto"),
        ("multiline", "never", "always"),
        ("complete_comments", True, False),
        ("complete_strings", False, True),
        ("n_prompt", 0, 500),
        ("max_lines", 20, 1),
        ("deadline_ms", 3000, 70),
        ("temperature", 0.5, 0.0),
        ("seed", -1, 4),
        ("languages", {"python": {"max_lines": 3}}, {"python": {"max_lines": 4}}),
    ],
)
async def test_what_can_differ_by_folder_travels_with_the_request(
    name, everywhere, in_folder, connect
):
    wire = await in_two_folders(connect, {name: everywhere}, {name: in_folder})
    await wire.ghost(0, 1)
    (request,) = (a.request for a in wire.completer.asked)
    assert request.plain.overrides == {name: in_folder}
    assert getattr(wire.completer.settings, name) == everywhere
    assert wire.shown == []


async def test_what_cannot_differ_by_folder_is_said_once(connect):
    ours = {"model": "other.gguf", "drafters": "prompt-lookup", "speculation": False, "top_k": 3}
    wire = await in_two_folders(connect, {"n_predict": 9}, ours)
    (message,) = wire.shown
    assert "drafters, model, speculation: cannot differ by workspace folder" in message
    assert FOLDER in message
    assert wire.completer.settings.model == ""
    await wire.ghost(0, 1)
    assert wire.completer.asked[-1].request.plain.overrides == {"top_k": 3}
    push(wire, {"speclsp": {"max_lines": 3}})
    await wire.until(lambda: wire.completer.applied)
    assert len(wire.shown) == 1


async def test_one_folder_alone_can_be_on(connect):
    wire = await in_two_folders(connect, {"enabled": False}, {"enabled": True})
    wire.open("x", uri=f"{OTHER}/a.py")
    assert wire.completer.settings.enabled
    assert await wire.ghost(0, 1, uri=f"{OTHER}/a.py") == []
    assert len(await wire.ghost(0, 1)) == 1
    toggle = {"command": "speclsp.toggle", "arguments": []}
    assert await wire.ask("workspace/executeCommand", toggle) == {"enabled": False}
    assert not wire.completer.settings.enabled
    assert await wire.ghost(0, 1) == []
    assert await wire.ask("workspace/executeCommand", toggle) == {"enabled": True}
    assert len(await wire.ghost(0, 1)) == 1
    assert await wire.ghost(0, 1, uri=f"{OTHER}/a.py") == []


async def test_log_level_decides_what_is_logged(start):
    wire = await start(base_options={"log_level": "debug"})
    wire.open("x")
    await wire.ghost(0, 1)
    debug = [p for p in wire.params_of("window/logMessage") if p["type"] == 4]
    assert len([p for p in debug if "prompt" in p["message"]]) == 1
    push(wire, {"speclsp": {"log_level": "error"}})
    await wire.until(lambda: wire.completer.applied)
    n_before = len(wire.params_of("window/logMessage"))
    await wire.ghost(0, 1)
    await wire.ask("shutdown")
    assert len(wire.params_of("window/logMessage")) == n_before


FILE = "/home/user/mine.ngrams"
UPDATE = {"lookup_cache_dynamic": [FILE], "lookup_cache_update": "generated"}


def writes(wire: LspWire) -> tuple[list[str], str]:
    settings = wire.completer.settings
    return settings.lookup_cache_dynamic, settings.lookup_cache_update


@pytest.mark.parametrize("source", ["pushed", "pulled", "pulled by folder"])
async def test_a_workspaces_settings_name_no_file_to_write(source, connect):
    wire = connect()
    if source == "pushed":
        await wire.initialize()
        push(wire, {"speclsp": UPDATE})
    else:
        n_folders = 2 if source == "pulled by folder" else 1
        folders = (FOLDER, OTHER)[:n_folders]
        wire.answers["workspace/configuration"] = [UPDATE] if n_folders == 1 else [{}, {}, UPDATE]
        await wire.initialize(CONFIGURABLE, folders=folders)
    await wire.until(lambda: wire.shown)
    (message,) = wire.shown
    assert "lookup_cache_update" in message
    if source == "pulled by folder":
        assert writes(wire) == ([], "")
    else:
        assert "are only read" in message
        assert writes(wire) == ([FILE], "off")


async def test_a_workspaces_path_is_not_written_by_default(start):
    wire = await start(
        CONFIGURABLE,
        base_options={"lookup_cache_dynamic": ["/home/user/other"]},
        configuration=[{"lookup_cache_dynamic": [FILE]}],
    )
    assert writes(wire) == ([FILE], "off")
    assert wire.shown == []


@pytest.mark.parametrize("wanted", ["", "accepted", "generated"])
async def test_the_users_path_is_written_as_the_user_says(wanted, start):
    wire = await start(
        CONFIGURABLE,
        initializationOptions={"lookup_cache_update": wanted},
        base_options={"lookup_cache_dynamic": [FILE]},
        configuration=[UPDATE],
    )
    assert writes(wire) == ([FILE], wanted)
    push(wire, {"speclsp": {"lookup_cache_update": "off"}})
    wire.answers["workspace/configuration"] = [{}]
    await wire.until(lambda: writes(wire) == ([FILE], "off"))


async def test_a_client_may_say_that_no_workspace_chooses_the_machines_settings(start):
    """As VS Code: what it answers has the user's own settings of scope machine."""
    wire = await start(
        CONFIGURABLE, initializationOptions={"machineSettings": True}, configuration=[UPDATE]
    )
    assert writes(wire) == ([FILE], "generated")
    assert wire.shown == []


async def test_an_empty_table_of_lua_is_no_problem(start):
    """It is an empty array in JSON; Neovim's init_options, settings and sections may be empty."""
    wire = await start(CONFIGURABLE, initializationOptions=[], configuration=[[]])
    push(wire, {"speclsp": []})
    push(wire, {"speclsp": {"languages": [], "drafter_options": [], "max_lines": 3}})
    await wire.until(lambda: wire.completer.applied)
    assert wire.server.session.settings.current.max_lines == 3
    assert wire.shown == []


async def test_what_copilots_clients_say_of_their_editor_is_no_setting(connect):
    wire = connect()
    said = {"editorInfo": {"name": "neovim"}, "editorPluginInfo": {"name": "x", "version": "1"}}
    await wire.initialize(initializationOptions=said | {"n_predict": 9})
    await wire.settle()
    assert wire.shown == []
    assert wire.server.session.settings.current.n_predict == 9
