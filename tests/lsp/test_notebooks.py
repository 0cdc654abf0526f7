from typing import Any

from lsp_wire import LspWire, span

NOTEBOOK = "file:///home/user/project/nb/study.ipynb"


def cell_uri(name: str) -> str:
    return f"vscode-notebook-cell:/home/user/project/nb/study.ipynb#{name}"


def cell(name: str, kind: int = 2) -> dict[str, Any]:
    return {"kind": kind, "document": cell_uri(name)}


def item(name: str, text: str, language: str = "python") -> dict[str, Any]:
    return {"uri": cell_uri(name), "languageId": language, "version": 1, "text": text}


def open_study(wire: LspWire) -> None:
    params = {
        "notebookDocument": {
            "uri": NOTEBOOK,
            "notebookType": "jupyter-notebook",
            "version": 1,
            "cells": [cell("a"), cell("m", 1), cell("sql"), cell("b"), cell("c")],
        },
        "cellTextDocuments": [
            item("a", "import os\r\nx = 1"),
            item("m", "# Heading", "markdown"),
            item("sql", "select 1", "sql"),
            item("b", "y = "),
            item("c", "print(y)"),
        ],
    }
    wire.notify("notebookDocument/didOpen", params)


def change(wire: LspWire, cells: dict[str, Any]) -> None:
    document = {"uri": NOTEBOOK, "version": 2}
    wire.notify(
        "notebookDocument/didChange", {"notebookDocument": document, "change": {"cells": cells}}
    )


async def around(wire: LspWire, name: str, character: int) -> tuple[str, str]:
    await wire.ghost(0, character, uri=cell_uri(name))
    request = wire.completer.asked[-1].request
    return request.prefix, request.suffix


async def test_cells_above_are_prefix_and_cells_below_suffix(wire):
    open_study(wire)
    assert await around(wire, "b", 4) == ("import os\nx = 1\ny = ", "\nprint(y)")
    request = wire.completer.asked[-1].request
    assert (request.path, request.repo_name) == ("nb/study.py", "project")
    assert request.file == "/home/user/project/nb/study.ipynb"
    assert wire.completer.documents[cell_uri("b")].file == request.file
    assert request.uri == cell_uri("b")
    (found,) = await wire.ghost(0, 4, uri=cell_uri("b"))
    assert found["range"] == span(0, 4, 4)


async def test_other_languages_and_markdown_stay_apart(wire):
    open_study(wire)
    assert await around(wire, "sql", 8) == ("select 1", "")
    assert wire.completer.asked[-1].request.path == "nb/study.sql"
    assert await around(wire, "m", 9) == ("# Heading", "")


async def test_text_and_kind_change(wire):
    open_study(wire)
    edit = {"range": span(1, 4, 5), "text": "42"}
    document = {"uri": cell_uri("a"), "version": 2}
    change(wire, {"textContent": [{"document": document, "changes": [edit]}]})
    assert (await around(wire, "b", 4))[0] == "import os\nx = 42\ny = "
    change(wire, {"data": [cell("a", 1)]})
    assert (await around(wire, "b", 4))[0] == "y = "


async def test_cells_come_move_and_go(wire):
    open_study(wire)
    array = {"start": 0, "deleteCount": 1, "cells": [cell("n"), cell("a")]}
    change(wire, {"structure": {"array": array, "didOpen": [item("n", "new = 0")]}})
    assert (await around(wire, "b", 4))[0] == "new = 0\nimport os\nx = 1\ny = "
    gone = {"array": {"start": 1, "deleteCount": 1}, "didClose": [{"uri": cell_uri("a")}]}
    change(wire, {"structure": gone})
    assert (await around(wire, "b", 4))[0] == "new = 0\ny = "
    assert ("close_document", cell_uri("a")) in wire.completer.calls


async def test_closed_notebook_is_forgotten(wire):
    open_study(wire)
    wire.notify("notebookDocument/didSave", {"notebookDocument": {"uri": NOTEBOOK}})
    closed = [{"uri": cell_uri(name)} for name in ("a", "m", "sql", "b", "c")]
    params = {"notebookDocument": {"uri": NOTEBOOK}, "cellTextDocuments": closed}
    wire.notify("notebookDocument/didClose", params)
    assert await wire.ghost(0, 4, uri=cell_uri("b")) == []
    assert wire.completer.documents == {}
    assert ("save_document", NOTEBOOK) in wire.completer.calls


async def test_cells_of_clients_without_notebook_sync_are_documents(wire):
    wire.open("z = ", uri=cell_uri("z"))
    assert await around(wire, "z", 4) == ("z = ", "")
