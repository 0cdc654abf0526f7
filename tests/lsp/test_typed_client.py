"""The server under a client that checks every message against LSP's types."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

SERVER = Path(__file__).parent.parent / "support" / "scripted_server.py"
COMMAND = [sys.executable, str(SERVER), "--stdio"]
URI = "file:///home/user/project/a.py"


@pytest_lsp.fixture(config=ClientServerConfig(server_command=COMMAND))
async def neovim(lsp_client: LanguageClient) -> AsyncIterator[None]:
    """A client that has inline completion, and everything that Neovim has."""
    able = client_capabilities("neovim")
    able.text_document.inline_completion = types.InlineCompletionClientCapabilities()
    await lsp_client.initialize_session(
        types.InitializeParams(capabilities=able, root_uri="file:///home/user/project")
    )
    yield
    await lsp_client.shutdown_session()


@pytest_lsp.fixture(config=ClientServerConfig(server_command=COMMAND))
async def plain(lsp_client: LanguageClient) -> AsyncIterator[None]:
    """A client without inline completion."""
    await lsp_client.initialize_session(
        types.InitializeParams(capabilities=client_capabilities("emacs"))
    )
    yield
    await lsp_client.shutdown_session()


def open_document(client: LanguageClient, text: str) -> None:
    item = types.TextDocumentItem(URI, "python", 1, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))


async def until_ready(client: LanguageClient) -> None:
    while not any("scripted completer made" in m.message for m in client.log_messages):
        await client.wait_for_notification(types.WINDOW_LOG_MESSAGE)


async def test_ghost_text(neovim):
    await until_ready(neovim)
    open_document(neovim, "x = 1\n")
    result = await neovim.text_document_inline_completion_async(
        types.InlineCompletionParams(
            context=types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic),
            text_document=types.TextDocumentIdentifier(URI),
            position=types.Position(0, 5),
        )
    )
    assert isinstance(result, types.InlineCompletionList)
    (item,) = result.items
    assert item.insert_text == " # 5+1"
    params = types.ExecuteCommandParams(item.command.command, item.command.arguments)
    assert await neovim.workspace_execute_command_async(params) is None
    stats = await neovim.workspace_execute_command_async(
        types.ExecuteCommandParams("speclsp.showStatistics")
    )
    assert cast("dict[str, int]", stats)["n_requests"] == 1
    assert any("draft acceptance" in m.message for m in neovim.log_messages)


async def test_popup(plain):
    await until_ready(plain)
    open_document(plain, "x = val")
    result = await plain.text_document_completion_async(
        types.CompletionParams(types.TextDocumentIdentifier(URI), types.Position(0, 7))
    )
    assert isinstance(result, types.CompletionList)
    (item,) = result.items
    assert item.label == "val # 7+0"
    assert item.text_edit == types.TextEdit(
        types.Range(types.Position(0, 4), types.Position(0, 7)), "val # 7+0"
    )
