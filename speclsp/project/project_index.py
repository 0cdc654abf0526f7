"""The tokens of the workspace folders' files, kept up to date by one background thread.

What is there can be searched from the first files on.  The thread takes one piece of work after
another: a folder to scan, or a batch of changed paths.  Between two files it makes way: for a
completion that is being computed, and for a change of mind.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from speclsp.drafting.protocol import TokenArray, TokenCorpus
from speclsp.errors import SpecLspError
from speclsp.project.changes import ChangeBatch
from speclsp.project.file_indexer import FileIndexer
from speclsp.project.folder_update import Folder, Surroundings, apply_changes, scan_folder
from speclsp.project.freed_memory import give_freed_memory_back
from speclsp.project.ignore import IgnoreRules
from speclsp.project.pace import Pace
from speclsp.project.published_corpus import PublishedCorpus
from speclsp.project.scan_progress import ScanProgress
from speclsp.project.watch import Watcher, plan_watches
from speclsp.request import Event, IndexStats, LogLevel, LogLine, Problem, WorkspaceFolder
from speclsp.settings import Settings
from speclsp.storage.segment_store import SegmentStore
from speclsp.storage.token_store import TokenStore

_SWEEP_S: Final = 600.0
"""Seconds between two scans that find what watching missed."""
_POLL_S: Final = 60.0
"""The same where nothing can be watched."""

_SETTLE_AFTER_S: Final = 30.0
"""Seconds after which changes are merged with what was there, and kept for the next session."""

_JOIN_S: Final = 5.0
_MAX_FAILURES: Final = 3

_INDEX_SETTINGS: Final = (
    "index_project",
    "max_file_size",
    "max_files",
    "exclude",
    "max_index_tokens",
)


class ProjectIndex:
    """Every method returns at once and may be called from any thread; ``close`` waits 5 s at most.

    ``tokenize`` must be safe to call from another thread; ``fingerprint`` names its vocabulary.
    ``busy`` says whether a completion is being computed, which indexing then makes way for.
    The token store stays its owner's to close, after the index.
    """

    def __init__(
        self,
        tokenize: Callable[[str], TokenArray],
        fingerprint: str,
        *,
        settings: Settings,
        emit: Callable[[Event], None],
        token_store: TokenStore | None,
        segment_store: SegmentStore | None = None,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._emit = emit
        self._pace = Pace(busy, lambda: self._closing)
        self._settings = settings
        self._indexer = FileIndexer(
            tokenize, fingerprint, token_store, segment_store, self._log, self._is_given_up
        )
        self._wake = threading.Condition()
        self._folders: dict[str, Folder] = {}
        self._to_scan: dict[str, None] = {}
        self._to_forget: dict[str, None] = {}
        self._changes = ChangeBatch()
        self._closing = False
        self._scanning = False
        self._settle_at_s = math.inf
        self._sweep_at_s = time.monotonic() + _SWEEP_S
        self._watcher: Watcher | None = Watcher(self.changed)
        self._scan_numbers = itertools.count(1)
        self._published = PublishedCorpus(self._indexer)
        self._thread = threading.Thread(target=self._run, name="speclsp-index", daemon=True)
        self._thread.start()

    def open_folder(self, folder: WorkspaceFolder) -> None:
        """Index a folder in the background, unless it is open already."""
        root = os.path.realpath(folder.root)
        with self._wake:
            if root not in self._folders:
                self._to_forget.pop(root, None)
                self._folders[root] = Folder(root, folder.name, IgnoreRules(Path(root), ()))
                self._to_scan[root] = None
                self._wake.notify()

    def close_folder(self, root: str) -> None:
        """Forget a folder; files that lie in another open folder too stay."""
        root = os.path.realpath(root)
        with self._wake:
            if self._folders.pop(root, None) is not None:
                self._to_scan.pop(root, None)
                self._to_forget[root] = None
                self._wake.notify()

    def reindex(self) -> None:
        """Scan all folders again."""
        with self._wake:
            for root, folder in self._folders.items():
                folder.is_scanned = False
                self._to_scan[root] = None
            self._wake.notify()

    def apply_settings(self, settings: Settings) -> None:
        """Take new settings; scans again where they ask for it."""
        former, self._settings = self._settings, settings
        if any(getattr(former, name) != getattr(settings, name) for name in _INDEX_SETTINGS):
            self.reindex()

    def set_open(self, paths: frozenset[str]) -> None:
        """Say which files are open in buffers: what they hold on disk is not drafted from."""
        self._published.set_open(paths)

    def changed(self, path: str) -> None:
        """Look at a file or folder again soon: it was written, made, moved or removed."""
        with self._wake:
            self._changes.add(path, time.monotonic())
            self._wake.notify()

    def corpora(self) -> tuple[TokenCorpus, ...]:
        """Return what can be searched now."""
        corpus = self._published.visible
        return (corpus,) if corpus.n_tokens else ()

    def stats(self) -> IndexStats:
        """Return what the index holds."""
        table = self._indexer.table
        with self._wake:
            n_left_out = sum(folder.n_left_out for folder in self._folders.values())
            building = bool(self._to_scan) or self._scanning
        return IndexStats(
            n_files=table.n_files,
            n_tokens=self._published.everything.n_tokens,
            n_skipped=table.n_skipped + n_left_out,
            building=building,
        )

    def close(self) -> None:
        """Stop; waits for the thread, 5 s at most."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(_JOIN_S)

    # The thread runs what follows.

    def _run(self) -> None:
        n_failures = 0
        is_closed = False
        while not is_closed and n_failures < _MAX_FAILURES:
            try:
                is_closed = self._closing
                if is_closed:
                    self._keep()
                else:
                    self._next_work()
            except Exception as error:  # noqa: BLE001  nothing may end the thread unsaid
                n_failures += 1
                self._emit(
                    Problem(
                        message=f"Indexing the project failed: {type(error).__name__}: {error}.",
                        remedy="Completion goes on; reindex the project or restart the server.",
                    )
                )
        if self._watcher is not None:
            self._watcher.close()
        self._scanning = False

    def _next_work(self) -> None:
        """Wait for a piece of work and do it."""
        with self._wake:
            self._scanning = False
            while not (self._closing or self._is_work_due()):
                self._wake.wait(self._seconds_to_work())
            if time.monotonic() >= self._sweep_at_s:
                self._sweep_at_s = time.monotonic() + (
                    _POLL_S if self._watcher is None else _SWEEP_S
                )
                self._to_scan.update(dict.fromkeys(self._folders))
            forgotten, self._to_forget = self._to_forget, {}
            root = next(iter(self._to_scan), None)
            folder = None if root is None else self._folders[root]
            self._to_scan.pop(root or "", None)
            changes = self._changes.take() if folder is None else []
            self._scanning = folder is not None
        for gone in forgotten:
            self._forget(gone)
        if folder is not None:
            self._scan(folder)
        elif changes:
            self._apply(changes)
        elif not self._closing and time.monotonic() >= self._settle_at_s:
            self._settle()

    def _is_work_due(self) -> bool:
        if self._to_scan or self._to_forget:
            return True
        return self._seconds_to_work() == 0

    def _seconds_to_work(self) -> float:
        ready_s = self._changes.ready_s
        until_s = self._settle_at_s if ready_s is None else ready_s
        return max(0.0, min(until_s, self._sweep_at_s) - time.monotonic())

    def _forget(self, root: str) -> None:
        self._indexer.close_folder(root)
        self._watch()
        self._published.renew()

    def _scan(self, folder: Folder) -> None:
        settings = self._settings
        if not settings.index_project:
            folder.walked = {}
            folder.is_scanned = False
            self._forget(folder.root)
            return
        token = f"speclsp/index/{os.getpid()}/{next(self._scan_numbers)}"
        progress = ScanProgress(
            self._emit, token, f"Indexing {folder.name}", is_first=not folder.is_scanned
        )
        around = self._surroundings(folder, settings)
        with progress:
            is_finished = scan_folder(folder, self._indexer, settings, around, progress)
        self._settle_soon(0.0)
        if not is_finished:
            self._scan_again(folder)

    def _apply(self, changes: list[str]) -> None:
        settings = self._settings
        if not settings.index_project:
            return
        paths = [_without_links(path) for path in changes]
        for folder in list(self._folders.values()):
            start = folder.root.rstrip(os.sep) + os.sep
            inside = [path for path in paths if path == folder.root or path.startswith(start)]
            around = self._surroundings(folder, settings)
            if inside and not apply_changes(folder, self._indexer, settings, around, inside):
                self._scan_again(folder)
        self._settle_soon(_SETTLE_AFTER_S)

    def _settle(self) -> None:
        if not self._indexer.settle(lambda: self._is_given_up() or self._is_hurried()):
            # What came between comes first.
            return
        self._settle_at_s = math.inf
        self._published.renew()
        self._keep()
        give_freed_memory_back()

    def _settle_soon(self, wait_s: float) -> None:
        self._settle_at_s = min(self._settle_at_s, time.monotonic() + wait_s)

    def _is_given_up(self) -> bool:
        """Asked every now and then by what takes long."""
        self._pace.make_way()
        return self._closing

    def _is_hurried(self) -> bool:
        """Whether work is waiting that users notice."""
        return bool(self._to_scan or self._to_forget or self._changes.ready_s is not None)

    def _keep(self) -> None:
        for root, folder in list(self._folders.items()):
            if folder.is_scanned:
                self._indexer.keep(root)

    def _scan_again(self, folder: Folder) -> None:
        with self._wake:
            if self._folders.get(folder.root) is folder:
                self._to_scan[folder.root] = None

    def _surroundings(self, folder: Folder, settings: Settings) -> Surroundings:
        def interrupted() -> bool:
            is_open = self._folders.get(folder.root) is folder
            return self._closing or not is_open or self._settings is not settings

        return Surroundings(
            interrupted=interrupted,
            make_way=self._pace.make_way,
            watch=self._watch,
            publish=self._published.renew,
            warn=lambda text: self._log("warning", text),
            open_paths=self._published.open_paths,
        )

    def _watch(self) -> None:
        if self._watcher is None:
            return
        with self._wake:
            plans = [plan_watches(folder.root, folder.walked) for folder in self._folders.values()]
        try:
            self._watcher.set_places(frozenset().union(*plans))
        except SpecLspError as error:
            self._watcher = None
            self._sweep_at_s = time.monotonic() + _POLL_S
            self._emit(Problem(message=error.message, remedy=error.remedy))

    def _log(self, level: LogLevel, message: str) -> None:
        self._emit(LogLine(level=level, message=message))


def _without_links(path: str) -> str:
    """The path as scanning finds it; the last part stays as it is, for it may be a link itself."""
    folder, name = os.path.split(path)
    return str(Path(os.path.realpath(folder), name))
