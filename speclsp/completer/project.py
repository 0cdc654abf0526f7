"""The workspace folders' index, which lives as long as the vocabulary it was tokenised with."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from speclsp.completer.events import EventQueue
from speclsp.drafting.protocol import TokenCorpus
from speclsp.engine.models import Tokenizer
from speclsp.errors import StoreError
from speclsp.project.ignore import IgnoredFiles
from speclsp.project.indexed_files import Outlines
from speclsp.project.project_index import ProjectIndex
from speclsp.request import IndexStats, WorkspaceFolder
from speclsp.secrets.masked_text import RULES_VERSION
from speclsp.settings import Settings
from speclsp.storage.token_store import TokenStore

_TOLD_S = 1.0
"""Most seconds that a request waits for links to be resolved."""
_MAX_ROOTS = 1_024
"""Files whose folders are remembered."""


class Project:
    """Folders and open files, handed on to a :class:`ProjectIndex` once there is a vocabulary."""

    def __init__(self, settings: Settings, events: EventQueue, *, busy: Callable[[], bool]) -> None:
        self._settings = settings
        self._events = events
        self._busy = busy
        self._lock = threading.RLock()
        self._folders: dict[str, WorkspaceFolder] = {}
        self._roots: dict[str, str] = {}
        """The latest answers of :meth:`root_of`, which each key press asks for."""
        self._ignored = IgnoredFiles(settings.exclude)
        self._n_open: Counter[str] = Counter()
        """Open buffers by file: a notebook's cells share theirs."""
        self._teller = ThreadPoolExecutor(1, "speclsp-open-files")
        self._telling: Future[None] | None = None
        """Tells the index which files are open."""
        self._tokenizer: Tokenizer | None = None
        self._index: ProjectIndex | None = None
        self._store: TokenStore | None = None

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The vocabulary that the index uses, once one is loaded."""
        return self._tokenizer

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
            self._roots.clear()
            if self._index is not None:
                self._index.open_folder(folder)

    def close_folder(self, root: str) -> None:
        """Forget a folder."""
        with self._lock:
            self._folders.pop(root, None)
            self._roots.clear()
            if self._index is not None:
                self._index.close_folder(root)

    def reindex(self) -> None:
        """Scan all folders again."""
        with self._lock:
            self._ignored.renew(self._settings.exclude)
            if self._index is not None:
                self._index.reindex()

    def opened(self, file: str) -> None:
        """Note an opened buffer ("" for no file): the file's text on disk is not drafted from."""
        with self._lock:
            self._n_open[file] += 1
            if self._n_open[file] == 1:
                self._open_changed()

    def closed(self, file: str) -> None:
        """Note that one of a file's buffers was closed, and read the file again."""
        with self._lock:
            self._n_open[file] -= 1
            if self._n_open[file] <= 0:
                del self._n_open[file]
                self._open_changed()
        self.saved(file)

    def _open_changed(self) -> None:
        self._ignored.renew(self._settings.exclude)
        # Links are resolved for that, which may take long and must not hold up who opens a file.
        telling = self._telling
        if telling is None or telling.running() or telling.done():
            self._telling = self._teller.submit(self._tell_open)

    def _tell_open(self) -> None:
        with self._lock:
            index, files = self._index, self._open_files()
        try:
            if index is not None:
                index.set_open(files)
        except Exception as error:  # noqa: BLE001 - nothing else may fail for it
            self._events.log("error", f"the index cannot be told which files are open: {error!r}")

    def _open_files(self) -> frozenset[str]:
        return frozenset(filter(None, self._n_open))

    def wait_done(self, timeout_s: float) -> bool:
        """Wait until the index knows which files are open; whether that came about."""
        telling = self._telling
        return telling is None or not wait((telling,), timeout_s).not_done

    def saved(self, file: str) -> None:
        """Read a file again that a buffer was written to; "" for none."""
        with self._lock:
            if file and self._index is not None:
                self._index.changed(file)

    def root_of(self, file: str) -> str:
        """Return the innermost folder that a file lies in, or "" for none."""
        with self._lock:
            root = self._roots.get(file)
            if root is None:
                parents = frozenset(Path(file).parents) if file else frozenset[Path]()
                roots = [r for r in self._folders if Path(r) in parents]
                root = max(roots, key=len, default="")
                if len(self._roots) >= _MAX_ROOTS:
                    self._roots.clear()
                self._roots[file] = root
        return root

    def is_ignored(self, file: str) -> bool:
        """Whether the user's patterns leave a file out of its folder."""
        root = self.root_of(file)
        with self._lock:
            return bool(root) and self._ignored.is_ignored(root, file)

    def corpora(self) -> tuple[TokenCorpus, ...]:
        """Return the index without the open files; the engine's thread calls it.

        It waits until the index knows what is open, so that no file is drafted from that a request
        has just opened.
        """
        self.wait_done(_TOLD_S)
        index = self._index
        return () if index is None else index.corpora()

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
        self._teller.shutdown(wait=False, cancel_futures=True)
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
        index.set_open(self._open_files())
        for folder in self._folders.values():
            index.open_folder(folder)
        self._index = index

    def _open_store(self) -> TokenStore | None:
        try:
            return TokenStore.open(report=self._report)
        except StoreError as error:
            self._events.log("warning", f"tokens are not kept between sessions: {error}")
            return None

    def _report(self, error: StoreError) -> None:
        self._events.log("warning", str(error))

    def _close_index(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None
        if self._store is not None:
            self._store.close()
            self._store = None


def _is_index_wanted(settings: Settings) -> bool:
    """Whether files are drafted from, or shown in prompts."""
    return settings.index_project or settings.n_context != 0


def _masking_of(settings: Settings) -> str:
    """Return what tells apart the tokens of texts that were masked by different rules."""
    return f"/masked-{RULES_VERSION}" if settings.mask_secrets else "/unmasked"
