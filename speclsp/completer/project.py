"""The workspace folders' files: what the index holds of them, and which are ignored."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from speclsp.documents import Documents
from speclsp.drafting.protocol import TokenCorpus
from speclsp.engine.models import Tokenizer
from speclsp.errors import StoreError
from speclsp.events import EventQueue
from speclsp.project.ignore import IgnoredFiles
from speclsp.project.indexed_files import Outlines
from speclsp.project.project_index import ProjectIndex
from speclsp.request import IndexStats, WorkspaceFolder
from speclsp.secrets.masked_text import RULES_VERSION
from speclsp.settings import Settings
from speclsp.storage.token_store import TokenStore


class Project:
    """Folders and open files.  Each vocabulary has a :class:`ProjectIndex` of its own."""

    def __init__(
        self,
        settings: Settings,
        events: EventQueue,
        documents: Documents,
        *,
        busy: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._events = events
        self._documents = documents
        self._busy = busy
        self._lock = threading.RLock()
        self._folders: dict[str, WorkspaceFolder] = {}
        self._ignored = IgnoredFiles(settings.exclude)
        self._open_files: frozenset[str] = frozenset()
        self._are_excluded = True
        """Whether the index has been told which files are open."""
        self._tokenizer: Tokenizer | None = None
        self._index: ProjectIndex | None = None
        self._store: TokenStore | None = None

    def take_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Index all folders with another vocabulary."""
        with self._lock:
            self._close_index()
            self._tokenizer = tokenizer
            self._open_index()

    def apply_settings(self, settings: Settings) -> None:
        """Take new settings."""
        with self._lock:
            former, self._settings = self._settings, settings
            self._ignored.renew(settings.exclude)
            if _is_index_wanted(settings) != _is_index_wanted(former):
                self._close_index()
                self._open_index()
            elif self._index is not None:
                self._index.apply_settings(settings)

    def open_folder(self, folder: WorkspaceFolder) -> None:
        """Index a folder in the background."""
        with self._lock:
            self._folders[folder.root] = folder
            if self._index is not None:
                self._index.open_folder(folder)

    def close_folder(self, root: str) -> None:
        """Forget a folder."""
        with self._lock:
            self._folders.pop(root, None)
            if self._index is not None:
                self._index.close_folder(root)

    def reindex(self) -> None:
        """Scan all folders again."""
        with self._lock:
            self._ignored.renew(self._settings.exclude)
            if self._index is not None:
                self._index.reindex()

    def documents_changed(self) -> None:
        """Note that documents were opened or closed: of open files, the buffers' text counts."""
        with self._lock:
            files = frozenset(d.file for d in self._documents.newest() if d.file)
            if files != self._open_files:
                self._open_files = files
                self._are_excluded = False
                self._ignored.renew(self._settings.exclude)

    def saved(self, file: str) -> None:
        """Read a file ("" for none) again: its buffer was saved or closed."""
        with self._lock:
            if file and self._index is not None:
                self._index.changed(file)

    def root_of(self, file: str) -> str:
        """Return the innermost folder that a file lies in, or "" for none."""
        with self._lock:
            roots = [r for r in self._folders if file.startswith(r.rstrip(os.sep) + os.sep)]
        return max(roots, key=len, default="")

    def is_ignored(self, file: str) -> bool:
        """Whether .gitignore or the setting ``exclude`` leaves out a file of a folder."""
        root = self.root_of(file)
        with self._lock:
            return bool(root) and self._ignored.is_ignored(root, file)

    def corpora(self) -> tuple[TokenCorpus, ...]:
        """Return the index without the open files, for the engine thread."""
        with self._lock:
            index, files, are_excluded = self._index, self._open_files, self._are_excluded
            self._are_excluded = True
        if index is None:
            return ()
        if not are_excluded:
            index.set_open(files)  # resolves links, which who opens a file must not wait for
        return index.corpora()

    def outlines(self, root: str, *, current: bool) -> Outlines | None:
        """Return the outlines of a folder's files; None while they are being read."""
        with self._lock:
            index = self._index
            is_coming = self._tokenizer is None and _is_index_wanted(self._settings)
        if index is None:
            return None if is_coming and root in self._folders else Outlines()
        return index.outlines(root, current=current)

    def text(self, root: str, relative: str) -> str | None:
        """Return the text of an outlined file; None where it cannot be read any more."""
        index = self._index
        return None if index is None else index.text(root, relative)

    def stats(self) -> IndexStats:
        """Return what the index holds."""
        index = self._index
        return IndexStats() if index is None else index.stats()

    def close(self) -> None:
        """Stop the threads."""
        with self._lock:
            self._close_index()

    def _open_index(self) -> None:
        tokenizer, settings = self._tokenizer, self._settings
        if tokenizer is None or not _is_index_wanted(settings):
            return
        self._store = self._open_store() if settings.persist and settings.index_project else None
        index = ProjectIndex(
            tokenizer.vocabulary.tokenize,
            tokenizer.vocabulary.fingerprint + _masking_of(settings),
            settings=settings,
            emit=self._events.emit,
            token_store=self._store,
            busy=self._busy,
        )
        self._are_excluded = False
        for folder in self._folders.values():
            index.open_folder(folder)
        self._index = index

    def _open_store(self) -> TokenStore | None:
        try:
            return TokenStore.open(report=self._events.warn)
        except StoreError as error:
            self._events.log("warning", f"tokens are not kept between sessions: {error}")
            return None

    def _close_index(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None
        if self._store is not None:
            self._store.close()
            self._store = None


def _is_index_wanted(settings: Settings) -> bool:
    """Whether files are drafted from or shown in prompts."""
    return settings.index_project or settings.n_context != 0


def _masking_of(settings: Settings) -> str:
    """Return a suffix for the vocabulary's fingerprint: other masking makes other tokens."""
    return f"/masked-{RULES_VERSION}" if settings.mask_secrets else "/unmasked"
