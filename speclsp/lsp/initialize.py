"""``initialize`` and ``initialized``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from lsprotocol import types

if TYPE_CHECKING:
    from speclsp.lsp.server import SpecLanguageServer
    from speclsp.lsp.text_buffer import PositionEncoding


def initialize(ls: SpecLanguageServer, params: types.InitializeParams, encoding: str) -> None:
    """Take the client's folders, settings and position encoding."""
    session = ls.session
    session.encoding = cast("PositionEncoding", encoding)
    session.editor.capabilities = params.capabilities
    session.settings.set_initialization(params.initialization_options)
    session.editor.log_level = session.settings.current.log_level
    for uri in folder_uris(params):
        session.folders.add(uri)


def initialized(ls: SpecLanguageServer, _: types.InitializedParams) -> None:
    """Start to work."""
    ls.session.begin()


def folder_uris(params: types.InitializeParams) -> list[str]:
    """Return the workspace folders; older clients name one root by URI, or by path."""
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
