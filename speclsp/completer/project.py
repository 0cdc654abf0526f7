"""The workspace folders' files: what the index holds of them, and which are ignored."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from speclsp.documents import Documents
from speclsp.drafting.protocol import TokenCorpus
from speclsp.engine.models import Tokenizer
from speclsp.errors import SpecLspError, StoreError
from speclsp.events import EventQueue
from speclsp.project.ignore import IgnoredFiles, root_of
from speclsp.project.indexed_files import Outlines
from speclsp.project.project_index import INDEX_SETTINGS, ProjectIndex
from speclsp.request import Event, IndexStats, LogLine, WorkspaceFolder
from speclsp.secrets.masked_text import RULES_VERSION
from speclsp.settings import Settings
from speclsp.storage.token_store import TokenStore


class ProjectIndexes:
    """The indexes of all windows: one for each folder, vocabulary and set of index settings."""

    def __init__(self, busy: Callable[[], bool]) -> None:
        """``busy`` returns whether a completion is being computed."""
        self._busy = busy
        self._lock = threading.RLock()
        self._indexes: dict[_Key, FolderIndex] = {}

    def open(
        self, folder: WorkspaceFolder, tokenizer: Tokenizer, settings: Settings, events: EventQueue
    ) -> FolderIndex:
        """Return the index of a folder, which begins to be made where no window has it."""
        key = _key(folder, tokenizer, settings)
        with self._lock:
            found = self._indexes.get(key)
            if found is None:
                found = FolderIndex(key, folder, tokenizer, settings, self._busy, events)
                self._indexes[key] = found
            else:
                found.readers.append(events)
        return found

    def close(self, index: FolderIndex, events: EventQueue) -> None:
        """Note that a window does not use an index any more; the last one closes it."""
        with self._lock:
            index.readers.remove(events)
            if index.readers:
                return
            del self._indexes[index.key]
        index.close()

    def changed(
        self, index: FolderIndex, tokenizer: Tokenizer, settings: Settings, events: EventQueue
    ) -> FolderIndex:
        """Return the index of a window's new settings, which may be the same one."""
        key = _key(index.folder, tokenizer, settings)
        if key == index.key:
            return index
        with self._lock:
            is_own = index.readers == [events] and key not in self._indexes
            if is_own and key[:3] == index.key[:3]:
                del self._indexes[index.key]
                self._indexes[key] = index
                index.key = key
                index.index.apply_settings(settings)
                return index
        self.close(index, events)
        return self.open(index.folder, tokenizer, settings, events)


class FolderIndex:
    """The index of one folder, and its windows."""

    def __init__(
        self,
        key: _Key,
        folder: WorkspaceFolder,
        tokenizer: Tokenizer,
        settings: Settings,
        busy: Callable[[], bool],
        events: EventQueue,
    ) -> None:
        """``events`` are those of the first window."""
        self.key = key
        self.folder = folder
        self.readers = [events]
        """The events of the windows that use it."""
        is_kept = settings.persist and settings.index_project
        self._store = self._open_store() if is_kept else None
        self._hidden: frozenset[str] = frozenset()
        self.index = ProjectIndex(
            folder,
            tokenizer.vocabulary.tokenize,
            tokenizer.vocabulary.fingerprint + _masking_of(settings),
            settings=settings,
            emit=self._emit,
            token_store=self._store,
            busy=busy,
        )
        self.index.start()

    def corpora(self, open_files: frozenset[str]) -> tuple[TokenCorpus, ...]:
        """Return what can be searched without the open files of a window.

        For the engine thread, which serves one window at a time.
        """
        if open_files is not self._hidden:
            self._hidden = open_files
            self.index.set_open(open_files)  # resolves links, which may take a while
        return self.index.corpora()

    def close(self) -> None:
        """Stop the thread and close the store."""
        self.index.close()
        if self._store is not None:
            self._store.close()

    def _emit(self, event: Event) -> None:
        for events in tuple(self.readers):
            events.emit(event)

    def _open_store(self) -> TokenStore | None:
        def warn(error: SpecLspError) -> None:
            self._emit(LogLine(level="warning", message=str(error)))

        try:
            return TokenStore.open(report=warn)
        except StoreError as error:
            message = f"tokens are not kept between sessions: {error}"
            self._emit(LogLine(level="warning", message=message))
            return None


class Project:
    """The folders and open files of one window."""

    def __init__(
        self,
        settings: Settings,
        events: EventQueue,
        documents: Documents,
        indexes: ProjectIndexes,
    ) -> None:
        self._settings = settings
        self._events = events
        self._documents = documents
        self._indexes = indexes
        self._lock = threading.RLock()
        self._folders: dict[str, WorkspaceFolder] = {}
        self._ignored = IgnoredFiles(settings.exclude)
        self._open_files: frozenset[str] = frozenset()
        self._tokenizer: Tokenizer | None = None
        self._opened: dict[str, FolderIndex] = {}

    def take_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Index all folders with another vocabulary."""
        with self._lock:
            self._close_indexes()
            self._tokenizer = tokenizer
            self._open_indexes()

    def apply_settings(self, settings: Settings) -> None:
        """Take new settings."""
        with self._lock:
            former, self._settings = self._settings, settings
            self._ignored.renew(settings.exclude)
            tokenizer = self._tokenizer
            if _is_index_wanted(settings) != _is_index_wanted(former):
                self._close_indexes()
                self._open_indexes()
            elif tokenizer is not None:
                self._opened = {
                    root: self._indexes.changed(index, tokenizer, settings, self._events)
                    for root, index in self._opened.items()
                }

    def open_folder(self, folder: WorkspaceFolder) -> None:
        """Index a folder in the background."""
        with self._lock:
            self._folders[folder.root] = folder
            self._open_indexes()

    def close_folder(self, root: str) -> None:
        """Forget a folder."""
        with self._lock:
            self._folders.pop(root, None)
            index = self._opened.pop(root, None)
        if index is not None:
            self._indexes.close(index, self._events)

    def reindex(self) -> None:
        """Scan all folders again."""
        with self._lock:
            self._ignored.renew(self._settings.exclude)
            for index in self._opened.values():
                index.index.reindex()

    def documents_changed(self) -> None:
        """Note that documents were opened or closed: of open files, the buffers' text counts."""
        with self._lock:
            files = frozenset(d.file for d in self._documents.newest() if d.file)
            if files != self._open_files:
                self._open_files = files
                self._ignored.renew(self._settings.exclude)

    def saved(self, file: str) -> None:
        """Read a file ("" for none) again: its buffer was saved or closed."""
        with self._lock:
            for index in self._opened.values() if file else ():
                index.index.changed(file)

    def roots(self) -> tuple[str, ...]:
        """Return the folders."""
        with self._lock:
            return tuple(self._folders)

    def root_of(self, file: str) -> str:
        """Return the innermost folder that a file lies in, or "" for none."""
        with self._lock:
            return root_of(self._folders, file)

    def is_ignored(self, file: str) -> bool:
        """Whether .gitignore or the setting ``exclude`` leaves out a file of a folder."""
        with self._lock:
            return self._ignored.is_ignored(root_of(self._folders, file), file)

    def corpora(self) -> tuple[TokenCorpus, ...]:
        """Return the indexes without the open files, for the engine thread."""
        with self._lock:
            opened, files = [*self._opened.values()], self._open_files
        return tuple(corpus for index in opened for corpus in index.corpora(files))

    def outlines(self, root: str, *, current: bool) -> Outlines | None:
        """Return the outlines of a folder's files; None while they are being read."""
        with self._lock:
            opened = self._opened.get(root)
            is_coming = self._tokenizer is None and _is_index_wanted(self._settings)
        if opened is None:
            return None if is_coming and root in self._folders else Outlines()
        return opened.index.outlines(current=current)

    def text(self, root: str, relative: str) -> str | None:
        """Return the text of an outlined file; None where it cannot be read any more."""
        opened = self._opened.get(root)
        return None if opened is None else opened.index.text(relative)

    def stats(self) -> IndexStats:
        """Return what the indexes hold."""
        every = [opened.index.stats() for opened in [*self._opened.values()]]
        return IndexStats(
            n_files=sum(stats.n_files for stats in every),
            n_tokens=sum(stats.n_tokens for stats in every),
            n_skipped=sum(stats.n_skipped for stats in every),
            building=any(stats.building for stats in every),
        )

    def close(self) -> None:
        """Stop the threads."""
        with self._lock:
            self._close_indexes()

    def _open_indexes(self) -> None:
        tokenizer, settings = self._tokenizer, self._settings
        if tokenizer is None or not _is_index_wanted(settings):
            return
        for root, folder in self._folders.items():
            if root not in self._opened:
                self._opened[root] = self._indexes.open(folder, tokenizer, settings, self._events)

    def _close_indexes(self) -> None:
        opened, self._opened = self._opened, {}
        for index in opened.values():
            self._indexes.close(index, self._events)


_Key = tuple[str, str, bool, tuple[str, ...]]
"""A folder, its vocabulary and masking, whether tokens are kept, and the index settings."""


def _key(folder: WorkspaceFolder, tokenizer: Tokenizer, settings: Settings) -> _Key:
    return (
        os.path.realpath(folder.root),
        tokenizer.vocabulary.fingerprint + _masking_of(settings),
        settings.persist and settings.index_project,
        tuple(repr(getattr(settings, name)) for name in INDEX_SETTINGS),
    )


def _is_index_wanted(settings: Settings) -> bool:
    """Whether files are drafted from or shown in prompts."""
    return settings.index_project or settings.n_context != 0


def _masking_of(settings: Settings) -> str:
    """Return a suffix for the vocabulary's fingerprint: other masking makes other tokens."""
    return f"/masked-{RULES_VERSION}" if settings.mask_secrets else "/unmasked"
