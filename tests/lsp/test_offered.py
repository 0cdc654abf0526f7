"""Items that an edit puts into the text, where no command tells of it."""

from typing import Any

import pytest
import pytest_asyncio
from lsp_wire import URI, LspWire, span

METHOD = "textDocument/completion"


def change(text: str, where: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"text": text} if where is None else {"text": text, "range": where}


def told(wire: LspWire) -> list[tuple[Any, ...]]:
    return [c for c in wire.completer.calls if c[0] == "accepted"]


def edit(wire: LspWire, *changes: dict[str, Any], version: int = 2) -> None:
    document = {"uri": URI, "version": version}
    params = {"textDocument": document, "contentChanges": list(changes)}
    wire.notify("textDocument/didChange", params)


@pytest_asyncio.fixture
async def offered(start: Any) -> LspWire:
    """Return a client whose popup has ``return total`` behind ``ret``."""
    wire = await start({"textDocument": {}})
    wire.open("total = 1\nret\n")
    wire.completer.script = lambda asked: asked.answer("urn total")
    position = {"line": 1, "character": 3}
    await wire.ask(METHOD, {"textDocument": {"uri": URI}, "position": position})
    return wire


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([change("return total", span(1, 0, 3))], id="replaced"),
        pytest.param(
            [change("", span(1, 0, 3)), change("return total", span(1, 0, 0))], id="in two"
        ),
        pytest.param([change("urn total", span(1, 3, 3))], id="what is missing"),
        pytest.param([change("total = 1\nreturn total\n")], id="whole text"),
        pytest.param([change("total = 1\r\nreturn total\r\n")], id="whole text, CRLF"),
    ],
)
async def test_edit_tells_of_acceptance(offered, changes):
    edit(offered, *changes)
    await offered.until(lambda: told(offered))
    assert told(offered) == [("accepted", "completion-1", None)]


async def test_the_command_behind_the_edit_undo_and_redo_say_nothing_new(offered):
    edit(offered, change("return total", span(1, 0, 3)))
    arguments = {"command": "speclsp.accepted", "arguments": ["completion-1"]}
    await offered.ask("workspace/executeCommand", arguments)
    assert told(offered) == [("accepted", "completion-1", None)]
    edit(offered, change("ret", span(1, 0, 12)), version=3)
    edit(offered, change("return total", span(1, 0, 3)), version=4)
    await offered.ask("speclsp/statistics", None)
    assert told(offered) == [("accepted", "completion-1", None)]


async def test_typed_to_its_end_is_not_accepted(offered):
    for idx, letter in enumerate("urn total"):
        edit(offered, change(letter, span(1, 3 + idx, 3 + idx)), version=2 + idx)
    await offered.ask("speclsp/statistics", None)
    assert told(offered) == []


async def test_other_edits_are_not_acceptance(offered):
    edit(offered, change("return 12345", span(1, 0, 3)))
    edit(offered, change("", span(1, 0, 12)), version=3)
    await offered.ask("speclsp/statistics", None)
    assert told(offered) == []


@pytest.mark.parametrize("is_closed", [False, True], ids=["under another URI", "closed"])
async def test_a_document_opened_anew_has_no_popup(offered, is_closed):
    if is_closed:
        offered.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
    for uri in (URI,) if is_closed else (URI.replace("mod.py", "m%6Fd.py"), URI):
        offered.open("total = 1\nret\n", uri=uri)
    edit(offered, change("return total", span(1, 0, 3)))
    await offered.ask("speclsp/statistics", None)
    assert told(offered) == []
