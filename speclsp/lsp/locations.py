"""Documents' URIs, their paths and repository names in prompts, and the workspace folders.

URIs are compared as text; only :meth:`WorkspaceFolders.learn_name` reads the disk.  Paths with a
drive letter or a host are compared without regard to case, and so are all paths on systems whose
file names ignore it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from speclsp.project.repository import repository_name
from speclsp.seam.documents import WorkspaceFolder
from speclsp.text.languages import LANGUAGES

logger = logging.getLogger(__name__)

_SUFFIX_OF_LANGUAGE = {
    **{language: suffix for suffix, language in reversed(tuple(LANGUAGES.items()))},
    "cpp": ".cpp",
    "css": ".css",
    "html": ".html",
    "json": ".json",
    "julia": ".jl",
    "markdown": ".md",
    "r": ".r",
    "yaml": ".yaml",
}
"""The usual ending of a file's name by LSP's language id."""
_NO_REPOSITORY = "untitled"
_IGNORES_CASE = sys.platform in {"darwin", "win32"}
_HAS_HOSTS = sys.platform == "win32"
"""Whether this system's paths can name a host."""


@dataclass(frozen=True, slots=True)
class UriParts:
    """A parsed URI; ``path`` has slashes, no trailing slash and a lower-case drive letter."""

    scheme: str
    host: str
    path: str

    @property
    def comparable(self) -> tuple[str, str, str]:
        """A key that is equal for all URIs of one file."""
        has_drive = self.path[:1].isalpha() and self.path[1:2] == ":"
        if has_drive or self.host or _IGNORES_CASE:
            return self.scheme, self.host.casefold(), self.path.casefold()
        return self.scheme, self.host, self.path

    @property
    def file_path(self) -> str:
        """The path in the file system, empty if the URI names no file."""
        if self.scheme != "file" or "\0" in self.host + self.path:
            return ""
        return f"//{self.host}{self.path}" if self.host else self.path

    @property
    def local_file(self) -> str:
        """The absolute path on this system, empty if it is one of another system."""
        path = self.file_path
        is_absolute = os.path.isabs(path)  # noqa: PTH117  text, no file
        return path if is_absolute and (not self.host or _HAS_HOSTS) else ""

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Folder:
    """A workspace folder; ``name`` is the repository name."""

    uri: str
    place: UriParts
    name: str

    @property
    def on_disk(self) -> WorkspaceFolder | None:
        """The folder as the completer takes it, None if it has no files."""
        root = self.place.file_path
        return WorkspaceFolder(root=root, name=self.name) if root else None


@dataclass(frozen=True, slots=True)
class Location:
    """Where a document is: ``path`` is relative to its folder, with slashes.

    ``file`` is the absolute path of its file, empty if it has none on this system.
    """

    folder: Folder | None
    path: str
    repo_name: str
    file: str = ""


def uri_parts(uri: str) -> UriParts:
    """Parse a URI; one that cannot be parsed becomes an opaque path."""
    try:
        parts = urlsplit(uri)
        scheme, host, path = parts.scheme, unquote(parts.netloc), unquote(parts.path)
    except ValueError:
        return UriParts("", "", uri)
    if len(scheme) == 1:  # a bare Windows path: the "scheme" is its drive letter
        scheme, host, path = "file", "", "/" + unquote(uri).replace("\\", "/")
    if host == "localhost":
        host = ""
    if len(path) >= 3 and path[0] == "/" and path[1].isalpha() and path[2] == ":":
        path = path[1].lower() + path[2:]
    if len(path) > 1:
        path = path.rstrip("/") or "/"
    return UriParts(scheme, host, path)


def document_key(uri: str) -> str:
    """Return a URI in its canonical spelling: without escapes, with a lower-case drive letter."""
    scheme, colon, rest = unquote(uri).partition(":")
    if rest[:3] == "///" and rest[4:5] == ":":
        rest = "///" + rest[3].lower() + rest[4:]
    return scheme + colon + rest


def folder_at(uri: str) -> Folder:
    """Return the folder at a URI, named by the last component of the path."""
    place = uri_parts(uri)
    return Folder(uri=uri, place=place, name=place.name or _NO_REPOSITORY)


def locate(uri: str, language_id: str, folders: Iterable[Folder]) -> Location:
    """Return a document's location in the deepest folder that holds it, if any.

    Outside all folders the repository is named after the parent folder.  A document without a file
    belongs to the first folder and gets the suffix of its language.
    """
    place = uri_parts(uri)
    file = place.local_file
    if place.scheme == "untitled" and place.path.startswith("/"):
        place = UriParts("file", "", place.path)  # where VS Code is going to save it
    if place.scheme == "untitled" or not place.path.strip("/"):
        folder = next(iter(folders), None)
        name = place.name or "untitled"
        if "." not in name:
            name += _SUFFIX_OF_LANGUAGE.get(language_id, "")
        return Location(folder, name, folder.name if folder else _NO_REPOSITORY)
    holding = [f for f in folders if _holds(f.place, place)]
    if holding:
        folder = max(holding, key=lambda f: len(f.place.path))
        relative = place.path[len(folder.place.path) :].lstrip("/")
        return Location(folder, relative or place.name, folder.name, file)
    parent = place.path.rpartition("/")[0].rpartition("/")[2]
    return Location(None, place.name, parent or _NO_REPOSITORY, file)


def cell_path(notebook_path: str, language_id: str) -> str:
    """Return the path for a notebook's cells: the notebook's, with the suffix of their language.

    ``.ipynb`` would announce JSON in the prompt, but the cells are plain code.
    """
    suffix = _SUFFIX_OF_LANGUAGE.get(language_id)
    if suffix is None:
        return notebook_path
    folder, slash, name = notebook_path.rpartition("/")
    stem = name.rpartition(".")[0] or name
    return f"{folder}{slash}{stem}{suffix}"


def _holds(folder: UriParts, document: UriParts) -> bool:
    scheme, host, path = document.comparable
    folder_scheme, folder_host, folder_path = folder.comparable
    inside = path == folder_path or path.startswith(folder_path.rstrip("/") + "/")
    return scheme == folder_scheme and host == folder_host and inside


class WorkspaceFolders:
    """The client's workspace folders, in the order in which the client added them."""

    def __init__(self) -> None:
        self._by_key: dict[str, Folder] = {}

    def __iter__(self) -> Iterator[Folder]:
        return iter(tuple(self._by_key.values()))

    def add(self, uri: str) -> Folder | None:
        """Add a folder; return None if it is there already."""
        key = _key(uri)
        if key in self._by_key:
            return None
        folder = folder_at(uri)
        self._by_key[key] = folder
        return folder

    async def learn_name(self, folder: Folder) -> Folder | None:
        """Name a folder after its repository, read from disk.

        Returns the folder with its new name, or None if it was removed meanwhile.
        """
        name, root = folder.name, Path(folder.place.file_path)

        def name_on_disk() -> str:
            # A path of another system would be read relative to the current directory.
            return repository_name(root) if root.is_dir() else ""

        try:
            if folder.place.file_path:
                name = await asyncio.to_thread(name_on_disk)
        except (OSError, ValueError) as error:
            logger.debug("no repository name for %s: %s", folder.uri, error)
        key = _key(folder.uri)
        if self._by_key.get(key) is not folder:
            return None
        self._by_key[key] = Folder(folder.uri, folder.place, name or folder.name)
        return self._by_key[key]

    def remove(self, uri: str) -> Folder | None:
        """Remove and return a folder, or return None if it is not there."""
        return self._by_key.pop(_key(uri), None)


def _key(uri: str) -> str:
    return document_key(uri).rstrip("/")
