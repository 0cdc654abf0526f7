"""The client's workspace folders, with the repository name that stands in prompts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

from speclsp.lsp.locations import Folder, document_key, folder_at
from speclsp.project.repository import repository_name
from speclsp.request import WorkspaceFolder

logger = logging.getLogger(__name__)


class WorkspaceFolders:
    """Folders by URI, in the order in which they came.

    Iteration gives those with files that can be indexed, as the completer takes them.
    """

    def __init__(self) -> None:
        self._by_key: dict[str, Folder] = {}

    @property
    def all_folders(self) -> tuple[Folder, ...]:
        """All folders."""
        return tuple(self._by_key.values())

    def __iter__(self) -> Iterator[WorkspaceFolder]:
        return (folder_on_disk(f) for f in self.all_folders if f.place.file_path)

    def add(self, uri: str) -> Folder | None:
        """Take a folder; None where it is there already."""
        key = _key(uri)
        if key in self._by_key:
            return None
        folder = folder_at(uri)
        self._by_key[key] = folder
        return folder

    async def learn_name(self, folder: Folder) -> Folder | None:
        """Give a folder its repository's name, which is read from disk.

        Returns the folder as it is now, None where it was dropped meanwhile.
        """
        name = folder.name
        if folder.place.file_path:
            try:
                name = await asyncio.to_thread(_name_on_disk, Path(folder.place.file_path))
            except (OSError, ValueError) as error:
                logger.debug("no repository name for %s: %s", folder.uri, error)
        key = _key(folder.uri)
        if self._by_key.get(key) is not folder:
            return None
        self._by_key[key] = Folder(folder.uri, folder.place, name or folder.name)
        return self._by_key[key]

    def remove(self, uri: str) -> Folder | None:
        """Drop a folder; None where it was not there."""
        return self._by_key.pop(_key(uri), None)


def folder_on_disk(folder: Folder) -> WorkspaceFolder:
    """Return a folder as the completer takes it."""
    return WorkspaceFolder(root=folder.place.file_path, name=folder.name)


def _name_on_disk(root: Path) -> str:
    """Return the name of the repository in a folder, empty where there is no such folder.

    A path of another system would be looked for below this process's folder.
    """
    return repository_name(root) if root.is_dir() else ""


def _key(uri: str) -> str:
    return document_key(uri).rstrip("/")
