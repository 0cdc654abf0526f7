from typing import Any

import pytest
import pytest_asyncio
from lsp_wire import INLINE, URI, LspWire, span

METHOD = "textDocument/completion"


def at(line: int, character: int) -> dict[str, Any]:
    return {"textDocument": {"uri": URI}, "position": {"line": line, "character": character}}


@pytest_asyncio.fixture
async def plain(start: Any) -> LspWire:
    """Return a client without inline completion."""
    return await start({"textDocument": {}})


async def test_one_item(plain):
    plain.open("import os\nos.pa\n")
    plain.completer.script = lambda asked: asked.answer("th.join(a)")
    assert await plain.ask(METHOD, at(1, 5)) == {
        "isIncomplete": True,
        "items": [
            {
                "label": "path.join(a)",
                "kind": 1,
                "detail": "speclsp",
                "preselect": True,
                "sortText": " ",
                "filterText": "path.join(a)",
                "insertTextFormat": 1,
                "insertTextMode": 1,
                "textEdit": {"range": span(1, 3, 5), "newText": "path.join(a)"},
                "command": {
                    "title": "Accepted",
                    "command": "speclsp.accepted",
                    "arguments": ["completion-1"],
                },
            }
        ],
    }
    # The word is the popup's business; the completer gets the text up to the cursor.
    assert plain.completer.asked[0].request.prefix == "import os\nos.pa"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
async def test_lines_end_as_the_files_do(plain, newline):
    plain.open(f"x = 1{newline}def f():{newline}")
    plain.completer.script = lambda asked: asked.answer("\n    a = 1\n    return a")
    (item,) = (await plain.ask(METHOD, at(1, 8)))["items"]
    assert item["textEdit"]["newText"] == f"{newline}    a = 1{newline}    return a"
    assert item["label"] == "a = 1"
    assert item["documentation"]["kind"] == "markdown"
    assert item["documentation"]["value"].startswith("```python\n")


async def test_range_replaces_what_the_completer_says(plain):
    plain.open("𝒳é = f()")
    plain.completer.script = lambda asked: asked.answer("(a)", n_replaced=2)
    (item,) = (await plain.ask(METHOD, at(0, 7)))["items"]
    assert item["textEdit"] == {"range": span(0, 6, 9), "newText": "f(a)"}


@pytest.mark.parametrize(
    ("text", "n_replaced", "new_text", "n_behind"),
    [
        ('"a")', 1, '"a"', 0),
        ('"a"):', 2, '"a"', 0),
        ('"a", 2)', 2, '"a", 2)', 2),
        (")", 1, ")", 1),
        ('"a"\n)', 1, '"a"\n', 0),
    ],
)
async def test_what_stands_behind_the_cursor_stays_where_it_can(
    text, n_replaced, new_text, n_behind, plain
):
    plain.open("if f():")
    plain.completer.script = lambda asked: asked.answer(text, n_replaced=n_replaced)
    (item,) = (await plain.ask(METHOD, at(0, 5)))["items"]
    assert item["textEdit"] == {"range": span(0, 5, 5 + n_behind), "newText": new_text}


@pytest.mark.parametrize("reason", ["loading", "empty", "disabled"])
async def test_nothing_to_offer(reason, plain):
    plain.open("x")
    plain.completer.engine_state = "loading" if reason == "loading" else "ready"
    plain.completer.script = lambda asked: asked.answer("")
    if reason == "disabled":
        await plain.ask("workspace/executeCommand", {"command": "speclsp.toggle"})
    assert await plain.ask(METHOD, at(0, 1)) == {"isIncomplete": True, "items": []}


async def test_newer_request_ends_the_older(plain):
    plain.open("x")
    first = await plain.hold(at(0, 1), METHOD)
    second = plain.request(METHOD, at(0, 0))
    assert (await plain.answer(first))["error"]["code"] == -32800
    await plain.until(lambda: len(plain.completer.asked) == 2)
    plain.completer.asked[1].answer("y")
    assert len((await plain.answer(second))["result"]["items"]) == 1


@pytest.mark.parametrize("first", ["ghost text", "popup"])
async def test_ghost_text_and_popup_at_one_cursor_are_asked_for_once(first, start):
    wire = await start(base_options={"log_level": "debug"})
    wire.open("total = 1\nret\n")
    ghost_text = {**at(1, 3), "context": {"triggerKind": 2}}
    wire.completer.script = lambda asked: None
    asks = {
        "ghost text": lambda: wire.request(INLINE, ghost_text),
        "popup": lambda: wire.request(METHOD, at(1, 3)),
    }
    order = sorted(asks, key=lambda name: name != first)
    ids = {name: asks[name]() for name in order}
    await wire.until(lambda: wire.completer.asked)
    # Who asked first goes; the other one waits for the same text.
    wire.notify("$/cancelRequest", {"id": ids[order[0]]})
    await wire.answer(ids[order[0]])
    (asked,) = wire.completer.asked
    assert not asked.cancel.cancelled
    ids[order[0]] = asks[order[0]]()
    await wire.settle()
    asked.answer("urn total")
    (ghost,) = (await wire.answer(ids["ghost text"]))["result"]["items"]
    (item,) = (await wire.answer(ids["popup"]))["result"]["items"]
    assert (ghost["insertText"], item["textEdit"]["newText"]) == ("urn total", "return total")
    assert len(wire.completer.asked) == 1
    assert wire.logged.count("completion ") == 1


async def test_an_answer_that_nobody_waits_for_any_more_is_cancelled(wire):
    wire.open("total = 1\nif ")
    wire.completer.script = lambda asked: None
    ids = (
        wire.request(INLINE, {**at(1, 3), "context": {"triggerKind": 2}}),
        wire.request(METHOD, at(1, 3)),
    )
    await wire.until(lambda: wire.completer.asked)
    for msg_id in ids:
        wire.notify("$/cancelRequest", {"id": msg_id})
        await wire.answer(msg_id)
    await wire.settle()
    (asked,) = wire.completer.asked
    assert asked.cancel.cancelled


async def test_who_asks_by_hand_gets_several_texts_of_their_own(wire):
    wire.open("total = 1\nif ")
    await wire.hold(at(1, 3), METHOD)
    wire.request(INLINE, {**at(1, 3), "context": {"triggerKind": 2}})
    wire.request(INLINE, {**at(1, 3), "context": {"triggerKind": 1}})
    await wire.until(lambda: len(wire.completer.asked) == 2)
    assert [asked.request.plain.n_candidates for asked in wire.completer.asked] == [1, 3]
