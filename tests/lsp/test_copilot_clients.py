"""What clients of Copilot's language server send for next edits, replayed over stdio.

sidekick.nvim applies all edits of an answer and runs their commands, and does not report what it
shows.  copilot-lsp applies the first, which it reports as shown, and runs no command.  Their
sequences follow their sources; the plugins themselves do not run here.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from lsprotocol import types

from tests.support.recording_server import RecordingServer, recording_server
from tests.support.server_process import ServerProcess
from tests.support.server_process import _plain as plain

pytestmark = pytest.mark.real

NEXT_EDIT = "textDocument/copilotInlineEdit"
BEFORE = "# 😀\ndef total(prices):\n    for price in prices: print('😀', prices)\n"
AFTER = BEFORE.replace("(prices)", "(amounts)", 1)
WANTED = BEFORE.replace("prices", "amounts")
OPTIONS = {"engine": "own", "persist": False, "idle_work": "never", "index_project": False}


def answer(prompt: str) -> str:
    region = prompt.partition("<<<<<<< CURRENT\n")[2].partition("=======\n<[fim-middle]>")[0]
    rewritten = region.replace("<|user_cursor|>", "").replace("prices", "amounts")
    return rewritten + ">>>>>>> UPDATED\n" if region else ""


@pytest.fixture
def model() -> Iterator[RecordingServer]:
    with recording_server("zeta-2", "") as server:
        server.answer = answer
        yield server


@pytest_asyncio.fixture
async def server(
    tmp_path: Path, model: RecordingServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ServerProcess]:
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    folder = tmp_path / "project"
    folder.mkdir()
    server = ServerProcess()
    await server.start(
        [sys.executable, "-m", "speclsp", "serve"],
        folder,
        options={**OPTIONS, "engine_url": model.address, "engine_kind": "openai"},
        encoding=types.PositionEncodingKind.Utf16,
    )
    server.open(folder / "a.py", BEFORE)
    server.change(AFTER)
    yield server
    await server.shutdown()


def utf16_offset(text: str, position: dict[str, int]) -> int:
    """Return the code points before a position, as a client in UTF-16 counts it."""
    lines = text.splitlines(keepends=True)
    column = lines[position["line"]].encode("utf-16-le")[: 2 * position["character"]]
    return sum(map(len, lines[: position["line"]])) + len(column.decode("utf-16-le"))


def applied(text: str, edit: dict[str, Any]) -> str:
    start, end = (utf16_offset(text, edit["range"][name]) for name in ("start", "end"))
    return text[:start] + edit["text"] + text[end:]


def change(server: ServerProcess, text: str) -> None:
    """Replace the whole text, since :meth:`ServerProcess.change` counts code points."""
    server._version += 1
    server._text = text
    document = types.VersionedTextDocumentIdentifier(version=server._version, uri=server._uri)
    whole = types.TextDocumentContentChangeWholeDocument(text)
    server._client.text_document_did_change(types.DidChangeTextDocumentParams(document, [whole]))


class Client:
    """The requests that both clients send."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.protocol: Any = server._client.protocol
        self.document = {"uri": server._uri, "version": server._version}

    async def ready(self) -> None:
        for _ in range(600):
            if (await self.server.execute_command("speclsp.showStatistics"))["state"] == "ready":
                return
            await asyncio.sleep(0.05)
        raise AssertionError("the engine is not ready")

    async def ask(self, **more: Any) -> list[dict[str, Any]]:
        position = {"line": 1, "character": 12}
        params = {"textDocument": self.document, "position": position, **more}
        answered = await self.protocol.send_request_async(NEXT_EDIT, params)
        edits: list[dict[str, Any]] = plain(answered)["edits"]
        return edits

    async def edits_stats(self) -> dict[str, Any]:
        stats = await self.server.execute_command("speclsp.showStatistics")
        found: dict[str, Any] = stats["edits"]
        return found


async def sidekick(client: Client) -> str:
    """Focus, ask by a trigger, apply all edits and run their commands."""
    client.protocol.notify(
        "textDocument/didFocus", {"textDocument": {"uri": client.document["uri"]}}
    )
    edits = await client.ask(context={"triggerKind": 2})
    text = AFTER
    for edit in edits:
        text = applied(text, edit)
    change(client.server, text)
    for edit in edits:
        command = edit["command"]
        await client.server.execute_command(command["command"], command["arguments"])
    return text


async def copilot_lsp(client: Client) -> str:
    """Ask, show the first edit alone, and apply it."""
    edit, *_ = await client.ask()
    assert edit["textDocument"] == client.document
    client.protocol.notify(
        "textDocument/didShowInlineEdit",
        {"item": {"command": edit["command"]}},
    )
    text = applied(AFTER, edit)
    change(client.server, text)
    return text


@pytest.mark.parametrize("replay", [sidekick, copilot_lsp], ids=lambda replay: replay.__name__)
async def test_the_sequence_applies_one_edit_and_counts_it(
    replay: Callable[[Client], Any], server: ServerProcess
) -> None:
    client = Client(server)
    await client.ready()
    assert await replay(client) == WANTED
    stats = await client.edits_stats()
    assert (stats["n_asked"], stats["n_shown"], stats["n_accepted"]) == (1, 1, 1)
    change(server, AFTER)  # undone
    assert (await client.edits_stats())["n_declined"] == 1
    client.document = {"uri": server._uri, "version": server._version}
    assert await client.ask() == []


async def test_an_answer_is_a_list_of_one_or_none(server: ServerProcess) -> None:
    client = Client(server)
    await client.ready()
    (edit,) = await client.ask()
    await server.execute_command("speclsp.declinedEdit", [edit["id"]])
    assert await client.ask() == []
