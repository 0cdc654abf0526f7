"""``initialize``, ``initialized`` and ``shutdown``."""

from __future__ import annotations

from typing import cast
from urllib.parse import quote

from lsprotocol import types

from speclsp.lsp.session import Session
from speclsp.lsp.text_buffer import PositionEncoding


def initialize(session: Session, params: types.InitializeParams, encoding: str) -> None:
    """Store the client's folders, settings and position encoding."""
    session.encoding = cast("PositionEncoding", encoding)
    session.editor.capabilities = params.capabilities
    session.settings.set_initialization(params.initialization_options)
    session.editor.log_level = session.settings.current.log_level
    for uri in folder_uris(params):
        session.folders.add(uri)


def initialized(session: Session, _: types.InitializedParams) -> None:
    """Fetch the settings and start the completer, in the background."""
    session.begin()


async def shutdown(session: Session, _: None) -> None:
    """Log the statistics and stop the completer; the answer is sent when both are done."""
    await session.close()


def folder_uris(params: types.InitializeParams) -> list[str]:
    """Return the URIs of the workspace folders; older clients give one root URI or path."""
    if params.workspace_folders:
        return [folder.uri for folder in params.workspace_folders]
    if params.root_uri:
        return [params.root_uri]
    if params.root_path:
        return [_file_uri(params.root_path)]
    return []


def _file_uri(path: str) -> str:
    slashed = path.replace("\\", "/") if path[1:2] == ":" else path
    return "file://" + quote(slashed if slashed.startswith("/") else f"/{slashed}")
