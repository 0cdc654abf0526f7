"""Whatever comes in, each request gets one answer and the next one works."""

import asyncio
import json
from typing import Any

import attrs
import pytest
from lsp_wire import INLINE, URI, LspWire, at, span
from lsprotocol import types

from speclsp.lsp.own_methods import OWN_METHODS, OwnMethod

IDENTIFIER = {"uri": URI}
VERSIONED = {"uri": URI, "version": 2}
ITEM = {"uri": URI, "languageId": "python", "version": 1, "text": "x"}
NOTEBOOK = {"uri": "file:///n.ipynb", "notebookType": "jupyter", "version": 1, "cells": []}

# Valid params of every method; each field is then left out, nulled, and given wrong types.
REQUESTS: dict[str, dict[str, Any]] = {
    INLINE: at(0, 1),
    "textDocument/completion": {
        "textDocument": IDENTIFIER,
        "position": {"line": 0, "character": 1},
    },
    "workspace/executeCommand": {"command": "speclsp.reindex"},
}
NOTIFICATIONS: dict[str, dict[str, Any]] = {
    "textDocument/didOpen": {"textDocument": ITEM},
    "textDocument/didChange": {
        "textDocument": VERSIONED,
        "contentChanges": [{"range": span(0, 0, 0), "text": "y"}],
    },
    "textDocument/didSave": {"textDocument": IDENTIFIER},
    "textDocument/didClose": {"textDocument": IDENTIFIER},
    "notebookDocument/didOpen": {"notebookDocument": NOTEBOOK, "cellTextDocuments": []},
    "notebookDocument/didChange": {
        "notebookDocument": {"uri": "file:///n.ipynb", "version": 2},
        "change": {"cells": {"structure": {"array": {"start": 0, "deleteCount": 0}}}},
    },
    "notebookDocument/didSave": {"notebookDocument": {"uri": "file:///n.ipynb"}},
    "notebookDocument/didClose": {
        "notebookDocument": {"uri": "file:///n.ipynb"},
        "cellTextDocuments": [],
    },
    "workspace/didChangeConfiguration": {"settings": {"speclsp": {}}},
    "workspace/didChangeWorkspaceFolders": {"event": {"added": [], "removed": []}},
    "textDocument/didShowCompletion": {"item": {"insertText": "x"}},
    "textDocument/didPartiallyAcceptCompletion": {"item": {"insertText": "x"}, "acceptedLength": 1},
    "$/cancelRequest": {"id": 4711},
    "$/setTrace": {"value": "off"},
    "window/workDoneProgress/cancel": {"token": "t"},
    "initialized": {},
    "$/unknown": {},
    "unknown/notification": {},
}
WRONG: list[Any] = [None, True, -1, 1.5, 2**40, "\ud800", [], [[]], {}, {"uri": 5}, "x" * 500]


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to each field."""
    found: list[tuple[Any, ...]] = []
    entries: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        entries = list(value.items())
    elif isinstance(value, list):
        entries = list(enumerate(value))
    for key, inner in entries:
        found += [(*path, key), *paths(inner, (*path, key))]
    return found


def broken(params: dict[str, Any]) -> list[Any]:
    """Return params with each field left out and replaced by each wrong value."""
    variants: list[Any] = [w for w in WRONG if w != {}]
    for path in paths(params):
        for wrong in [..., *WRONG]:
            copy = json.loads(json.dumps(params))
            inside = copy
            for key in path[:-1]:
                inside = inside[key]
            if wrong is ...:
                del inside[path[-1]]
            else:
                inside[path[-1]] = wrong
            variants.append(copy)
    return variants


async def works(wire: LspWire) -> None:
    """The server still completes."""
    wire.open("abc", uri="file:///probe.py")
    assert len(await wire.ghost(0, 3, uri="file:///probe.py")) == 1


@pytest.mark.parametrize("method", REQUESTS)
async def test_bad_params_of_a_request(method, wire):
    wire.open("x")
    ids = {wire.request(method, params): params for params in broken(REQUESTS[method])}
    for msg_id, params in ids.items():
        answer = await wire.answer(msg_id)
        # Some wrong values are right: a position is moved into the text, extra fields are ignored.
        code = answer.get("error", {}).get("code")
        assert code in {None, -32602, -32800}, (params, answer)
    await wire.settle()
    assert all(len(wire.answers_to(i)) == 1 for i in ids)
    assert sum(wire.answers_to(i)[0].get("error", {}).get("code") == -32602 for i in ids) > 10
    await works(wire)


@pytest.mark.parametrize("method", NOTIFICATIONS)
async def test_bad_params_of_a_notification(method, wire):
    wire.open("x")
    for params in broken(NOTIFICATIONS[method]):
        wire.notify(method, params)
    await works(wire)
    assert not [m for m in wire.messages if "error" in m]
    assert "Traceback" not in wire.logged


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"position": {"line": 0}}, "params.position.character"),
        ({"position": {"line": "0", "character": 0}}, "params.position.line"),
        ({"position": {"line": 0, "character": -1}}, "params.position"),
        ({"textDocument": {"uri": None}}, "params.textDocument.uri"),
        ({"textDocument": {}}, "params.textDocument.uri"),
        ({"context": None}, "params.context"),
        ({"context": {"triggerKind": 99}}, "params.context.triggerKind"),
        ({"context": {"triggerKind": True}}, "params.context.triggerKind"),
    ],
)
async def test_error_names_the_field(params, field, wire):
    wire.open("x")
    answer = await wire.answer(wire.request(INLINE, {**at(0, 0), **params}))
    assert answer["error"]["code"] == -32602
    assert field in answer["error"]["message"]


@pytest.mark.parametrize(
    "params",
    [
        None,
        5,
        [],
        {},
        {"capabilities": None},
        {"capabilities": []},
        {"capabilities": {"window": 5}},
    ],
)
async def test_initialize_with_bad_params_can_be_tried_again(params, connect):
    wire = connect()
    answer = await wire.answer(wire.request("initialize", params))
    if "error" in answer:
        assert answer["error"]["code"] == -32602
        await wire.initialize()
    else:
        wire.notify("initialized", {})
    await wire.until(lambda: wire.server.session.window is not None)
    await works(wire)


async def test_capabilities_from_the_future_do_no_harm(connect):
    wire = connect()
    able = {
        "textDocument": {
            "inlineCompletion": {},
            "completion": {"completionItemKind": {"valueSet": [1, 999]}, "x": []},
            "codeAction": 5,
        },
        "workspace": {"workspaceEdit": {"failureHandling": "prayer"}},
        "experimental": {"anything": [None]},
    }
    await wire.initialize(able)
    await works(wire)


@pytest.mark.parametrize("uri", ["", "x", "file://", "file:///", "http://[", "::", "\x00", "a:b"])
async def test_odd_uris(uri, wire):
    wire.open("abc", uri=uri)
    assert len(await wire.ghost(0, 3, uri=uri)) == 1


@pytest.mark.parametrize("folder", ["", "x", "http://[", "file://", "vscode-vfs://github/a/b"])
async def test_odd_folders(folder, start):
    wire = await start(folders=(folder,))
    await works(wire)


@pytest.mark.parametrize(
    ("body", "code", "msg_id"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"\xff\xfe\xfd", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b"[]", -32600, None),
        (b"5", -32600, None),
        (b"null", -32600, None),
        (b'[{"jsonrpc":"2.0","id":9,"method":"shutdown"}]', -32600, None),
        (b'{"jsonrpc":"2.0","id":9}', -32600, 9),
        (b'{"jsonrpc":"2.0","id":9,"method":5}', -32600, 9),
        (b'{"jsonrpc":"1.0","id":9,"method":"shutdown"}', -32600, 9),
        (b'{"id":9,"method":"shutdown"}', -32600, 9),
        (b'{"jsonrpc":"2.0","id":null,"method":"shutdown"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"shutdown"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"shutdown"}', -32600, None),
        (b'{"jsonrpc":"2.0","method":5}', -32600, None),
        (b'{"jsonrpc":"2.0","id":9,"method":"no/such"}', -32601, 9),
        (b'{"jsonrpc":"2.0","id":"nine","method":"window/logMessage"}', -32601, "nine"),
        (b'{"jsonrpc":"2.0","id":9,"method":"initialize","params":{}}', -32600, 9),
    ],
)
async def test_bad_messages(body, code, msg_id, wire):
    wire.raw(body)
    answer = await wire.answer(msg_id)
    assert answer["error"]["code"] == code
    assert len(wire.answers_to(msg_id)) == 1
    await works(wire)


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":"speclsp-999","result":5}',
        b'{"jsonrpc":"2.0","id":7,"result":5}',
        b'{"jsonrpc":"2.0","id":[],"error":{"code":"x"}}',
        b'{"jsonrpc":"2.0","id":null,"error":null,"result":null}',
        b'{"jsonrpc":"2.0","error":5}',
    ],
)
async def test_answers_that_nobody_asked_for(body, wire):
    n_before = len(wire.messages)
    wire.raw(body)
    await works(wire)
    assert not [m for m in wire.messages[n_before:] if "error" in m]


async def test_answer_with_the_id_of_an_open_request_does_not_answer_it(wire):
    wire.open("x")
    msg_id = await wire.hold()
    wire.raw(json.dumps({"jsonrpc": "2.0", "id": msg_id, "result": "mine"}).encode())
    wire.completer.asked[0].answer("text")
    assert len((await wire.answer(msg_id))["result"]["items"]) == 1


async def test_id_that_is_still_open_is_refused(wire):
    wire.open("x")
    wire.completer.script = lambda asked: None
    body = json.dumps({"jsonrpc": "2.0", "id": "same", "method": INLINE, "params": at(0, 1)})
    wire.raw(body.encode())
    await wire.until(lambda: wire.completer.asked)
    wire.raw(body.encode())
    await wire.until(lambda: wire.answers_to("same"))  # type: ignore[arg-type]
    wire.completer.asked[0].answer("text")
    answers = await wire.until(
        lambda: len(found := wire.answers_to("same")) == 2 and found  # type: ignore[arg-type]
    )
    assert answers[0]["error"]["code"] == -32600
    assert len(answers[1]["result"]["items"]) == 1


async def test_every_method_of_lsp_as_request_and_as_notification(wire):
    wire.open("x")
    methods = sorted(types.METHOD_TO_TYPES.keys() - {"exit", "shutdown"})
    for params in (None, {}, [], "x", {"textDocument": {"uri": URI}}):
        for method in methods:
            wire.notify(method, params)
        ids = [wire.request(method, params) for method in methods]
        for msg_id in ids:
            assert (await wire.answer(msg_id))["error"]["code"] in {-32600, -32601, -32602}
        assert all(len(wire.answers_to(i)) == 1 for i in ids)
    await works(wire)
    assert wire.server.session.encoding == "utf-16"


async def test_requests_as_notifications_and_the_other_way_round(wire):
    wire.notify("shutdown")
    wire.notify("initialize", {"capabilities": {}})
    assert await wire.refusal("exit") == -32600
    assert await wire.refusal("initialized", {}) == -32600
    await works(wire)
    assert not wire.completer.closed


async def test_changes_of_unopened_documents_are_logged(wire):
    wire.change(2, {"text": "x"}, uri="file:///never.py")
    wire.notify("textDocument/didClose", {"textDocument": {"uri": "file:///never.py"}})
    await wire.until(lambda: "file:///never.py, which is not open" in wire.logged)
    await works(wire)


async def test_lone_surrogates_are_replaced(wire):
    wire.open("a\ud800b")
    wire.change(2, {"range": span(0, 3, 3), "text": "\udfff"})
    await wire.until(lambda: wire.completer.documents[URI].text == "a\ufffdb\ufffd")


async def test_nested_jsonrpc_key_is_plain_data(wire):
    params = {"settings": {"speclsp": {"jsonrpc": "2.0"}, "other": {"jsonrpc": "2.0", "id": 1}}}
    wire.notify("workspace/didChangeConfiguration", params)
    await wire.until(lambda: any("jsonrpc" in message for message in wire.shown))
    await works(wire)


# --- methods of our own ---------------------------------------------------------------------------


@attrs.define
class TextParams:
    text_document: types.TextDocumentIdentifier
    how_long: float = 0.0


async def test_a_method_of_our_own_has_typed_params_a_snapshot_and_cancellation(wire, monkeypatch):
    method = "speclsp/text"

    async def text(params: TextParams) -> str:
        await asyncio.sleep(params.how_long)
        buffer = wire.server.session.documents.as_of_arrival(params.text_document.uri)
        return buffer.text

    monkeypatch.setitem(OWN_METHODS, method, OwnMethod(text, TextParams, is_request=True))
    wire.server.feature(method)(text)
    wire.open("x")
    asked = wire.request(method, {"textDocument": IDENTIFIER})
    wire.change(2, {"text": "y"})
    assert (await wire.answer(asked))["result"] == "x"
    for wrong in (None, {}, {"textDocument": {"uri": 5}}, {"textDocument": []}):
        assert await wire.refusal(method, wrong) == -32602
    slow = wire.request(method, {"textDocument": IDENTIFIER, "howLong": 60})
    wire.notify("$/cancelRequest", {"id": slow})
    assert (await wire.answer(slow))["error"]["code"] == -32800
