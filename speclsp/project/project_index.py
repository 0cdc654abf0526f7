"""Keeps the tokens and outlines of the workspace folders' files up to date on a background thread.

Files change outside of the editor at any time, so a request starts another scan of the folders
where the last one is some seconds old: it compares sizes and times, and reads what differs.
Nothing is scanned while nobody asks.  Between two files the thread pauses while a completion is
computed, and it abandons a scan that has become obsolete.  Files can be searched before the first
scan ends.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from speclsp.drafting.protocol import TokenArray, TokenCorpus
from speclsp.project.ignore import IgnoreRules
from speclsp.project.indexed_files import IndexedFiles, Outlines
from speclsp.project.scan import FoundFile, ScanTally, scan
from speclsp.project.source_text import SourceText
from speclsp.request import Event, IndexStats, LogLevel, LogLine, Problem, Progress, WorkspaceFolder
from speclsp.settings import Settings
from speclsp.storage.token_store import TokenStore

_LEAST_REST_S: Final = 5.0
"""Least seconds between two scans.  Comparing 6,551 files takes 0.16 s of processor time."""
_REST: Final = 100
_REST_AFTER_WRITE: Final = 10
"""Time between two scans as a multiple of the last one's processor time; less where the editor
wrote or closed a file."""

_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 0.25
"""Indexing waits this long at most for a busy engine, and then works as long before it waits."""

_PROGRESS_INTERVAL_S: Final = 0.2

_MAX_WAITING_CHARS: Final = 32 * 2**20
"""Characters of outlined texts that wait to be tokenised."""

_JOIN_S: Final = 5.0
_MAX_FAILURES: Final = 3

_INDEX_SETTINGS: Final = (
    "index_project",
    "max_file_size",
    "max_files",
    "exclude",
    "max_index_tokens",
)


class _ObsoleteError(Exception):
    """The current task is obsolete: the index closes, or the folder or settings changed."""


@dataclass(slots=True, eq=False)
class _Folder:
    """An open workspace folder.  ``root`` is absolute and without links."""

    root: str
    name: str
    is_scanned: bool = False
    is_outlined: bool = False
    """Whether all files were outlined at least once."""
    n_left_out: int = 0
    walk_s: float = 0.0
    """Processor time of the last comparison of all files."""
    warned: set[str] = field(default_factory=set)


class ProjectIndex:
    """Methods may be called from any thread and return at once; ``close`` waits up to 5 s.

    ``tokenize`` must be safe to call from another thread; ``fingerprint`` identifies its
    vocabulary.  ``busy`` tells whether a completion is being computed, for which indexing pauses.
    The caller closes the token store, after the index.
    """

    def __init__(
        self,
        tokenize: Callable[[str], TokenArray],
        fingerprint: str,
        *,
        settings: Settings,
        emit: Callable[[Event], None],
        token_store: TokenStore | None,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._emit = emit
        self._busy = busy
        self._settings = settings
        self._files = IndexedFiles(tokenize, fingerprint, token_store, self._log)
        self._wake = threading.Condition()
        # Guarded by _wake.
        self._folders: dict[str, _Folder] = {}
        self._to_scan: dict[str, None] = {}
        self._to_forget: dict[str, None] = {}
        self._scan_due_s = math.inf
        """When a request starts the next scan."""
        self._write_due_s = 0.0
        """The same after a file was written."""
        self._closing = False
        self._reading = False
        """Whether found files have not been outlined yet."""
        # Used by the thread only.
        self._no_pause_until_s = 0.0
        self._is_obsolete: Callable[[], bool] = lambda: self._closing
        self._scan_numbers = itertools.count(1)
        self._thread = threading.Thread(target=self._run, name="speclsp-index", daemon=True)
        self._thread.start()

    def open_folder(self, folder: WorkspaceFolder) -> None:
        """Index a folder in the background, unless it is already open."""
        root = os.path.realpath(folder.root)
        with self._wake:
            if root not in self._folders:
                self._to_forget.pop(root, None)
                self._folders[root] = _Folder(root, folder.name)
                self._to_scan[root] = None
                self._wake.notify()

    def close_folder(self, root: str) -> None:
        """Remove a folder; files that also lie in another open folder stay indexed."""
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
        """Apply new settings; scans again if they affect the index."""
        former, self._settings = self._settings, settings
        if any(getattr(former, name) != getattr(settings, name) for name in _INDEX_SETTINGS):
            self.reindex()

    def set_open(self, paths: frozenset[str]) -> None:
        """Set the files open in buffers: the index hides their text on disk."""
        self._files.set_open(frozenset(map(os.path.realpath, paths)))

    def changed(self) -> None:
        """Let the next request scan the folders: a file was written or closed."""
        with self._wake:
            self._scan_due_s = min(self._scan_due_s, self._write_due_s)

    def corpora(self) -> tuple[TokenCorpus, ...]:
        """Return the corpora that can be searched now, and scan where a scan is due."""
        self._scan_if_due()
        corpus = self._files.corpus
        return (corpus,) if corpus.n_visible_tokens else ()

    def outlines(self, root: str, *, current: bool) -> Outlines | None:
        """Return the outlines of a folder's files; None while they are being read.

        With ``current``, None is also returned while a scan is under way.
        """
        root = os.path.realpath(root)
        self._scan_if_due()
        with self._wake:
            folder = self._folders.get(root)
            if folder is None or not self._thread.is_alive():
                return Outlines()
            is_behind = root in self._to_scan or self._reading
            if not folder.is_outlined or (current and is_behind):
                return None
        return self._files.outlines(root)

    def text(self, root: str, relative: str) -> str | None:
        """Return the text of an outlined file; None where it can no longer be read."""
        return self._files.text(os.path.realpath(root), relative, self._settings)

    def stats(self) -> IndexStats:
        """Return the index's counts."""
        with self._wake:
            n_left_out = sum(folder.n_left_out for folder in self._folders.values())
            building = any(not folder.is_scanned for folder in self._folders.values())
        if not self._settings.index_project:
            return IndexStats(building=building)
        return IndexStats(
            n_files=self._files.n_files,
            n_tokens=self._files.corpus.n_tokens,
            n_skipped=self._files.n_skipped + n_left_out,
            building=building,
        )

    def close(self) -> None:
        """Stop; waits for the thread, 5 s at most."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(_JOIN_S)

    def _scan_if_due(self) -> None:
        with self._wake:
            if time.monotonic() >= self._scan_due_s:
                self._scan_due_s = math.inf
                self._to_scan.update(dict.fromkeys(self._folders))
                self._wake.notify()

    # --- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        n_failures = 0
        while not self._closing and n_failures < _MAX_FAILURES:
            try:
                self._next_work()
            except _ObsoleteError:
                continue
            except Exception as error:  # noqa: BLE001  the thread must not end unreported
                n_failures += 1
                self._emit(
                    Problem(
                        message=f"Indexing the project failed: {type(error).__name__}: {error}.",
                        remedy="Completion goes on; reindex the project or restart the server.",
                    )
                )

    def _next_work(self) -> None:
        """Wait for a task and do it."""
        with self._wake:
            self._reading = False
            while not (self._closing or self._to_scan or self._to_forget):
                self._wake.wait()
            forgotten, self._to_forget = self._to_forget, {}
            root = next(iter(self._to_scan), None)
            folder = None if root is None else self._folders[root]
            self._to_scan.pop(root or "", None)
            settings, self._reading = self._settings, folder is not None
        self._is_obsolete = lambda: self._closing
        for gone in forgotten:
            self._files.forget(gone, self._files.paths(gone))
            self._files.flush(self._pause)
        if folder is None:
            return
        self._is_obsolete = lambda: (
            self._closing
            or self._folders.get(folder.root) is not folder
            or self._settings is not settings
        )
        try:
            self._scan(folder, settings)
        except _ObsoleteError:
            with self._wake:
                if self._folders.get(folder.root) is folder:
                    self._to_scan[folder.root] = None
        except Exception:
            # Callers must not wait for outlines that may never be complete.
            folder.is_outlined = folder.is_scanned = True
            raise
        finally:
            self._plan_next_scan()

    def _plan_next_scan(self) -> None:
        with self._wake:
            if not self._to_scan:
                now_s = time.monotonic()
                walk_s = sum(folder.walk_s for folder in self._folders.values())
                self._write_due_s = now_s + _REST_AFTER_WRITE * walk_s
                self._scan_due_s = now_s + max(_LEAST_REST_S, _REST * walk_s)

    def _pause(self) -> None:
        """Wait while a completion is computed, for at most half of the time.

        Raises _ObsoleteError if the current task has become obsolete.
        """
        start_s = time.monotonic()
        while start_s >= self._no_pause_until_s and self._busy() and not self._closing:
            if time.monotonic() >= start_s + _LONGEST_PAUSE_S:
                self._no_pause_until_s = time.monotonic() + _LONGEST_PAUSE_S
                break
            time.sleep(_PAUSE_S)
        if self._is_obsolete():
            raise _ObsoleteError

    # --- scanning a whole folder ----------------------------------------------------------------

    def _scan(self, folder: _Folder, settings: Settings) -> None:
        """Bring a folder up to date.  An interrupted scan keeps what it has read."""
        if not settings.index_project:
            self._files.forget(folder.root, self._files.paths(folder.root))
        with self._progress(folder) as progress:
            if not folder.is_scanned:
                self._files.forget_skipped(folder.root)
            started_s = time.thread_time()
            rules = IgnoreRules(Path(folder.root), settings.exclude)
            tally = ScanTally()
            found = self._found(folder, rules, settings, tally)
            folder.n_left_out = tally.n_skipped
            self._warn(folder, rules, settings, tally)
            present = {file.path for file in found}
            known = self._files.paths(folder.root)
            self._files.forget(folder.root, [path for path in known if path not in present])
            news = [file for file in found if self._files.is_news(folder.root, file)]
            folder.walk_s = time.thread_time() - started_s
            self._read(folder, news, settings, progress)
            folder.is_scanned = True
            self._files.note_use(folder.root)

    def _read(
        self,
        folder: _Folder,
        news: Sequence[FoundFile],
        settings: Settings,
        progress: Callable[[int, int], None],
    ) -> None:
        """Read new and changed files: outline all of them first, then tokenise them.

        Outlining takes a tenth of the time, and headless requests wait for it.
        """
        waiting: list[tuple[FoundFile, SourceText]] = []
        n_done = itertools.count(1)

        def tokenise() -> None:
            for file, source in waiting:
                self._pause()
                self._files.tokenise(folder.root, file, source, settings)
                progress(next(n_done), len(news))
                if self._files.is_flush_due():
                    self._files.flush(self._pause)
            waiting.clear()

        n_chars = 0
        for file in news:
            self._pause()
            source = self._files.take(folder.root, file, settings)
            if source is None:
                progress(next(n_done), len(news))
                continue
            waiting.append((file, source))
            n_chars += len(source.text)
            if n_chars >= _MAX_WAITING_CHARS:
                tokenise()
                n_chars = 0
        folder.is_outlined = True
        self._reading = False
        tokenise()
        self._files.flush(self._pause)

    def _found(
        self, folder: _Folder, rules: IgnoreRules, settings: Settings, tally: ScanTally
    ) -> list[FoundFile]:
        files = scan(
            Path(folder.root),
            rules,
            tally,
            max_file_size=settings.max_file_size,
            max_files=settings.max_files,
            pause=self._pause,
        )
        # Files next to the open ones are the most likely sources of drafts.
        near = {path.rpartition("/")[0] for path in self._files.open_paths}
        return sorted(files, key=lambda file: file.path.rpartition("/")[0] not in near)

    # --- reports --------------------------------------------------------------------------------

    @contextmanager
    def _progress(self, folder: _Folder) -> Iterator[Callable[[int, int], None]]:
        """Report the progress of a folder's first scan: call with files done and files in all."""
        token = f"speclsp/index/{os.getpid()}/{next(self._scan_numbers)}"
        due_s, n_files_in_all = 0.0, 0

        def report(n_done: int, n_files: int) -> None:
            nonlocal due_s, n_files_in_all
            n_files_in_all = n_files
            if time.monotonic() >= due_s:
                due_s = time.monotonic() + _PROGRESS_INTERVAL_S
                message = f"{n_done}/{n_files} files"
                percentage = 100 * n_done // n_files
                self._emit(
                    Progress(token=token, stage="report", message=message, percentage=percentage)
                )

        if folder.is_scanned:
            yield lambda _n_done, _n_files: None
            return
        title = f"Indexing {folder.name}"
        self._emit(Progress(token=token, stage="begin", title=title, percentage=0))
        try:
            yield report
        finally:
            self._emit(Progress(token=token, stage="end", message=f"{n_files_in_all} files"))

    def _warn(
        self, folder: _Folder, rules: IgnoreRules, settings: Settings, tally: ScanTally
    ) -> None:
        """Log a scan's problems, each once per folder."""
        warnings = [f"exclude: {text!r} is no pattern" for text in rules.bad_patterns]
        if tally.truncated:
            warnings.append(f"only the first {settings.max_files} files are indexed (max_files)")
        if tally.n_unreadable:
            warnings.append(f"{tally.n_unreadable} folders cannot be read")
        for warning in warnings:
            if warning not in folder.warned:
                folder.warned.add(warning)
                self._log("warning", f"{folder.name}: {warning}")

    def _log(self, level: LogLevel, message: str) -> None:
        self._emit(LogLine(level=level, message=message))
