"""``initialize``, ``initialized``, ``shutdown``, and changes of settings and workspace folders."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import quote

from lsprotocol import types

from speclsp.lsp.capabilities import InitializeParams, initialize_result
from speclsp.lsp.session import Session
from speclsp.lsp.text_buffer import PositionEncoding


def initialize(session: Session, params: InitializeParams) -> dict[str, Any]:
    """Store the client's folders, settings and position encoding; return the capabilities."""
    session.encoding = cast("PositionEncoding", params.capabilities.position_encoding)
    session.editor.capabilities = params.capabilities
    session.settings.set_initialization(params.initialization_options)
    session.editor.log_level = session.settings.current.log_level
    for uri in _folder_uris(params):
        session.folders.add(uri)
    return initialize_result(params, session.settings.current.completion_items)


def initialized(session: Session, _: types.InitializedParams) -> None:
    """Fetch the settings and start the completer, in the background."""
    session.begin()


async def shutdown(session: Session, _: None) -> None:
    """Log the statistics and stop the completer; the answer is sent when both are done."""
    await session.close()


def did_change_configuration(session: Session, params: types.DidChangeConfigurationParams) -> None:
    """Apply the settings that the client pushed, and pull the others again."""
    session.settings.set_pushed(params.settings)
    # Pulling applies both, at once where the client does not answer workspace/configuration.
    session.spawn(session.pull_settings())


def did_change_workspace_folders(
    session: Session, params: types.DidChangeWorkspaceFoldersParams
) -> None:
    """Close the removed folders and open the added ones, then pull the settings again."""
    window = session.window
    for removed in params.event.removed:
        folder = session.folders.remove(removed.uri)
        if folder is not None and folder.on_disk is not None and window is not None:
            session.tell(window.completer.close_folder, folder.on_disk.root)
    session.tell_moved()
    added = [uri.uri for uri in params.event.added if session.folders.add(uri.uri) is not None]
    session.spawn(_open_folders(session, added))


async def _open_folders(session: Session, added: list[str]) -> None:
    for folder in session.folders:
        if folder.uri not in added:
            continue
        named = await session.folders.learn_name(folder)
        if named is not None and named.on_disk is not None and session.window is not None:
            session.tell(session.window.completer.open_folder, named.on_disk)
    session.tell_moved()
    await session.pull_settings()


def _folder_uris(params: InitializeParams) -> list[str]:
    """Return the URIs of the workspace folders; older clients give one root URI or path."""
    if params.workspace_folders:
        return [folder.uri for folder in params.workspace_folders]
    if params.root_uri:
        return [params.root_uri]
    if params.root_path:
        path = params.root_path
        slashed = path.replace("\\", "/") if path[1:2] == ":" else path
        return ["file://" + quote(slashed if slashed.startswith("/") else f"/{slashed}")]
    return []
