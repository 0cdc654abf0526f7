"""``workspace/didChangeWorkspaceFolders``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from speclsp.lsp.folders import folder_on_disk

if TYPE_CHECKING:
    from speclsp.lsp.server import SpecLanguageServer
    from speclsp.lsp.session import Session


def did_change_workspace_folders(
    ls: SpecLanguageServer, params: types.DidChangeWorkspaceFoldersParams
) -> None:
    """Drop and take folders, then ask for the settings of those there are."""
    session = ls.session
    for removed in params.event.removed:
        folder = session.folders.remove(removed.uri)
        if folder is not None and folder.place.file_path and session.completer is not None:
            session.tell("close_folder", session.completer.close_folder, folder.place.file_path)
    added = [uri.uri for uri in params.event.added if session.folders.add(uri.uri) is not None]
    session.spawn(_settle(session, added))


async def _settle(session: Session, added: list[str]) -> None:
    for folder in session.folders.all_folders:
        if folder.uri not in added:
            continue
        named = await session.folders.learn_name(folder)
        if named is not None and named.place.file_path and session.completer is not None:
            session.tell("open_folder", session.completer.open_folder, folder_on_disk(named))
    await session.pull_settings()
