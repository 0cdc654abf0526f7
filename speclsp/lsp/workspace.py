"""``workspace/didChangeConfiguration`` and ``workspace/didChangeWorkspaceFolders``."""

from __future__ import annotations

from lsprotocol import types

from speclsp.lsp.locations import folder_on_disk
from speclsp.lsp.session import Session


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
        if folder is not None and folder.place.file_path and window is not None:
            session.tell("close_folder", window.completer.close_folder, folder.place.file_path)
    session.tell_moved()
    added = [uri.uri for uri in params.event.added if session.folders.add(uri.uri) is not None]
    session.spawn(_open_folders(session, added))


async def _open_folders(session: Session, added: list[str]) -> None:
    for folder in session.folders.all_folders:
        if folder.uri not in added:
            continue
        named = await session.folders.learn_name(folder)
        if named is not None and named.place.file_path and session.window is not None:
            session.tell("open_folder", session.window.completer.open_folder, folder_on_disk(named))
    session.tell_moved()
    await session.pull_settings()
