"""The workspace folders' files: what the index holds of them, and which are ignored."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from speclsp.backends.weights import Tokenizer
from speclsp.drafting.drafter import TokenCorpus
from speclsp.errors import SpecLspError
from speclsp.project.ignore import IGNORE_FILE, IgnoredFiles, root_of
from speclsp.project.indexed_files import Outlines
from speclsp.project.project_index import ProjectIndex
from speclsp.seam.documents import WorkspaceFolder
from speclsp.seam.events import EventQueue
from speclsp.seam.open_documents import Documents
from speclsp.seam.statistics import IndexStats
from speclsp.secrets.masked_text import RULES_VERSION
from speclsp.settings import Settings
from speclsp.storage.locations import WaitLimit
from speclsp.storage.token_store import TokenStore

INDEX_SETTINGS: Final = ("index_project", "exclude")
"""Settings that change what is indexed."""


class ProjectIndexes:
    """The indexes of all windows: one for each folder, vocabulary and set of index settings."""

    def __init__(self, busy: Callable[[], bool], limit: WaitLimit | None = None) -> None:
        """``busy`` returns whether a completion is being computed.

        ``limit`` bounds waits for other processes.
        """
        self._busy = busy
        self._limit = limit
        self._lock = threading.Lock()
        self._indexes: dict[tuple[object, ...], ProjectIndex] = {}

    def open(
        self, folder: WorkspaceFolder, tokenizer: Tokenizer, settings: Settings, events: EventQueue
    ) -> ProjectIndex:
        """Return the index of a folder, for the window that takes ``events``.

        Where no window has it, it begins to be made.
        """
        # Other masking makes other tokens.
        masking = f"/masked-{RULES_VERSION}" if settings.mask_secrets else "/unmasked"
        fingerprint = tokenizer.vocabulary.fingerprint + masking
        is_kept = settings.persist and settings.index_project
        of_index = tuple(repr(getattr(settings, name)) for name in INDEX_SETTINGS)
        key = (os.path.realpath(folder.root), fingerprint, is_kept, *of_index)
        with self._lock:
            index = self._indexes.get(key)
            if index is not None:
                index.join(events)
                return index
            readers = [events]
            index = self._indexes[key] = ProjectIndex(
                folder,
                tokenizer.vocabulary.tokenize,
                fingerprint,
                settings=settings,
                readers=readers,
                open_store=partial(_open_store, readers, self._limit) if is_kept else None,
                busy=self._busy,
            )
            index.start()
        return index

    def close(self, index: ProjectIndex, events: EventQueue) -> bool:
        """Take an index from a window; stop it, and return True, where no other window has it."""
        with self._lock:
            if index.leave(events):
                return False
            key = next(key for key, known in self._indexes.items() if known is index)
            del self._indexes[key]
        index.stop()
        return True


def _open_store(readers: Sequence[EventQueue], limit: WaitLimit | None) -> TokenStore:
    def warn(error: SpecLspError) -> None:
        for events in tuple(readers):
            events.warn(error)

    return TokenStore.open(warn, limit)


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
        self._ignored = IgnoredFiles(settings.exclude, events.problem)
        self._open_files: frozenset[str] = frozenset()
        self._tokenizer: Tokenizer | None = None
        self._opened: dict[str, ProjectIndex] = {}
        self._is_awaited = True
        """Whether the next program's request waits for the indexes."""

    def use_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Index all folders with another vocabulary."""
        self._tokenizer = tokenizer
        self._open_indexes()

    def apply_settings(self, settings: Settings) -> None:
        """Take new settings; folders are indexed again where these change what is indexed."""
        with self._lock:
            self._settings = settings
            self._ignored.renew(settings.exclude)
        self._open_indexes()

    def open_folder(self, folder: WorkspaceFolder) -> None:
        """Index a folder in the background."""
        with self._lock:
            self._folders[folder.root] = folder
            self._is_awaited = True
        self._open_indexes()

    def close_folder(self, root: str) -> None:
        """Forget a folder."""
        with self._lock:
            self._folders.pop(root, None)
        self._open_indexes()

    def reindex(self) -> None:
        """Scan all folders again."""
        with self._lock:
            self._ignored.renew(self._settings.exclude)
            for index in self._opened.values():
                index.reindex()

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
            if Path(file).name == IGNORE_FILE:
                self._ignored.renew(self._settings.exclude)
            for index in self._opened.values() if file else ():
                index.changed(file)

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
        for index in opened:
            index.set_open(files)
        return tuple(corpus for index in opened for corpus in index.corpora())

    def wait_built(self, wait_s: float) -> None:
        """Wait until the indexes hold all files, ``wait_s`` at most; once for each new folder."""
        with self._lock:
            is_awaited, self._is_awaited = self._is_awaited, False
            opened = [*self._opened.values()] if is_awaited else []
        until_s = time.monotonic() + wait_s
        for index in opened:
            index.wait_built(until_s - time.monotonic())

    def outlines(self, root: str, *, current: bool) -> Outlines | None:
        """Return the outlines of a folder's files; None while they are being read."""
        with self._lock:
            opened = self._opened.get(root)
            is_coming = self._tokenizer is None and _is_index_wanted(self._settings)
        if opened is None:
            return None if is_coming and root in self._folders else Outlines()
        return opened.outlines(current=current)

    def text(self, root: str, relative: str) -> str | None:
        """Return the text of an outlined file; None where it cannot be read any more."""
        opened = self._opened.get(root)
        return None if opened is None else opened.text(relative)

    def stats(self) -> IndexStats:
        """Return what the indexes hold."""
        every = [index.stats() for index in [*self._opened.values()]]
        return IndexStats(
            n_files=sum(stats.n_files for stats in every),
            n_tokens=sum(stats.n_tokens for stats in every),
            n_skipped=sum(stats.n_skipped for stats in every),
            building=any(stats.building for stats in every),
        )

    def close(self) -> None:
        """Stop the threads of the indexes that no other window uses."""
        with self._lock:
            self._folders = {}
        for index in self._open_indexes():
            index.close()

    def _open_indexes(self) -> list[ProjectIndex]:
        """Open the folders' indexes by the present settings and vocabulary; close all others.

        Returns the indexes that were stopped, since no other window uses them.
        """
        with self._lock:
            tokenizer, settings = self._tokenizer, self._settings
            former, self._opened = self._opened, {}
            if tokenizer is not None and _is_index_wanted(settings):
                self._opened = {
                    root: self._indexes.open(folder, tokenizer, settings, self._events)
                    for root, folder in self._folders.items()
                }
        # Afterwards, so that an index that stays open goes on.
        return [index for index in former.values() if self._indexes.close(index, self._events)]


def _is_index_wanted(settings: Settings) -> bool:
    """Whether files are drafted from or shown in prompts."""
    return settings.index_project or settings.n_context != 0
