"""The documents and folders of a window, and which of them its engine has.

What may leave the window is decided here: an engine on another machine gets no path, no folder and
nothing of an ignored file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from speclsp.embedded import with_absolute_paths
from speclsp.engine_process import wire
from speclsp.project.ignore import IgnoredFiles, root_of
from speclsp.project.repository import name_elsewhere
from speclsp.seam.documents import AcceptedText, Document, Ranges, TextEdit, WorkspaceFolder
from speclsp.seam.edit import Change, EditRequest
from speclsp.seam.events import EventQueue
from speclsp.settings import Settings

_T = TypeVar("_T", Document, AcceptedText)


class SharedDocuments:
    """Holds a window's documents and folders, and sends an engine what it may have of them.

    The engine has their latest versions, too, and places the requests in them.
    """

    def __init__(
        self, settings: Settings, send: Callable[[wire.WindowMessage], bool], events: EventQueue
    ) -> None:
        """``send`` returns whether there is an engine."""
        self.settings = settings
        self._send = send
        self._events = events
        self._documents: dict[str, Document] = {}
        """The open documents as they are, by URI, the last used last."""
        self._folders: dict[str, WorkspaceFolder] = {}
        self._ignored = IgnoredFiles((), events.problem)
        self._still_ignored: set[str] = set()
        """Files of documents that were ignored when their folder was closed.

        They stay ignored, also where they are opened again, until a folder around them is opened.
        """
        self._handed: set[str] = set()
        """URIs of the documents that the engine has."""
        self._too_long: set[str] = set()
        """URIs of documents that cannot be sent, which the log names once."""

    def open_folder(self, folder: WorkspaceFolder) -> None:
        """Let the engine index a folder."""
        self._folders[folder.root] = folder
        if not _is_utf8(folder.root):
            self._events.log("warning", f"{folder.root} is not indexed: its path is no UTF-8.")
        self.renew_rules()
        self._send(wire.OpenFolder(folder))

    def close_folder(self, root: str) -> None:
        """Forget a folder."""
        files = {document.file for document in self._documents.values()} | self._still_ignored
        self._still_ignored = {file for file in files if self._is_ignored(file)}
        self._folders.pop(root, None)
        self._send(wire.CloseFolder(root))

    def open(self, document: Document) -> None:
        """Take an opened document."""
        self._documents.pop(document.uri, None)
        self._documents[document.uri] = document
        self._ignored.renew(self.settings.exclude)
        self._share(document, wire.OpenDocument(self.without_path(document)))

    def change(self, document: Document, edit: TextEdit, hidden: Ranges = ()) -> bool:
        """Take the next version of an open document, and which letters are secrets now.

        Return whether the engine gets that as a change, and so learns which letters those are.
        """
        if self._documents.pop(document.uri, None) is None:
            return False
        self._documents[document.uri] = document
        is_change = self.has(document.uri)
        change = wire.ChangeDocument(document.uri, document.version, edit, hidden)
        return self._share(document, change) and is_change

    def save(self, uri: str) -> None:
        """Note that a document was written to its file."""
        self.renew_rules()
        self._share(self._documents.get(uri), wire.SaveDocument(uri))

    def close(self, uri: str) -> None:
        """Forget a document."""
        self._documents.pop(uri, None)
        self._too_long.discard(uri)
        self._withdraw(uri)

    def get(self, uri: str) -> Document | None:
        """Return a document as it is; None where it is not open."""
        return self._documents.get(uri)

    def share(self, uri: str) -> bool:
        """Return whether the engine has a document, once it got what it lacked."""
        return self._share(self._documents.get(uri))

    def has(self, uri: str) -> bool:
        """Whether the engine has a document."""
        return uri in self._handed

    def renew_rules(self) -> None:
        """Read again which files are ignored; withdraw documents that are, share others."""
        self._ignored.renew(self.settings.exclude)
        for document in [*self._documents.values()]:
            self._share(document)

    def hand_over(self) -> Iterable[wire.WindowMessage]:
        """Return what a new engine gets first: the settings, the folders and the documents."""
        self._ignored.renew(self.settings.exclude)
        documents = [
            document
            for document in self._documents.values()
            if len(document.text) <= wire.MAX_CHARS and not self.is_kept_here(document.file)
        ]
        self._handed = {document.uri for document in documents}
        return (
            wire.ApplySettings(self.sent_settings()),
            *map(wire.OpenFolder, self._folders.values()),
            *map(wire.OpenDocument, map(self.without_path, documents)),
        )

    def is_kept_here(self, file: str) -> bool:
        """Whether a file is ignored and the engine, which gets no such path, cannot tell that."""
        return (self.settings.engine_listens or not _is_utf8(file)) and self._is_ignored(file)

    def without_path(self, sent: _T) -> _T:
        """Return a document or text as it is sent: no file's path leaves the machine.

        An engine elsewhere gets a hash that names the folder instead.
        """
        if not self.settings.engine_listens:
            return sent
        return replace(sent, file="", workspace=name_elsewhere(root_of(self._folders, sent.file)))

    def sent_settings(self) -> Settings:
        """Return what the engine gets of the settings: no token and no path leaves the machine."""
        if not self.settings.engine_listens:
            return with_absolute_paths(self.settings)
        return wire.settings_elsewhere(Settings(), self.settings)

    def sent_changes(self, request: EditRequest) -> tuple[Change, ...]:
        """Return what the engine gets of the earlier changes.

        One elsewhere has no folders, so that only those of the document's folder are sent to it.
        """
        if not self.settings.engine_listens:
            return tuple(one for one in request.changes if not self.is_kept_here(one.file))
        root = root_of(self._folders, self._documents[request.uri].file)
        return tuple(
            replace(change, file="")
            for change in request.changes
            if root_of(self._folders, change.file) == root and not self._is_ignored(change.file)
        )

    def _share(self, document: Document | None, change: wire.WindowMessage | None = None) -> bool:
        """Send the engine ``change``, or the whole document where it lacks that.

        Return whether it has the document.  One that is kept here is closed there.
        """
        if document is None:
            return False
        n_chars = len(document.text)
        if self.is_kept_here(document.file) or n_chars > wire.MAX_CHARS:
            self._withdraw(document.uri)
            if n_chars > wire.MAX_CHARS and document.uri not in self._too_long:
                self._too_long.add(document.uri)
                self._events.log(
                    "warning",
                    f"{document.path or document.uri} has {n_chars:,} characters and gets no "
                    f"suggestions: the shared engine takes {wire.MAX_CHARS:,}, and one with "
                    "`engine` set to own takes more.",
                )
            return False
        if document.uri not in self._handed:
            self._handed.add(document.uri)
            change = wire.OpenDocument(self.without_path(document))
        if change is not None:
            self._send(change)
        return True

    def _withdraw(self, uri: str) -> None:
        if uri in self._handed:
            self._handed.discard(uri)
            self._send(wire.CloseDocument(uri))

    def _is_ignored(self, file: str) -> bool:
        root = root_of(self._folders, file)
        return self._ignored.is_ignored(root, file) if root else file in self._still_ignored


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
