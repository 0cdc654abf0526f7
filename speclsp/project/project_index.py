"""Keeps the tokens and outlines of a workspace folder's files up to date on a background thread.

The thread does one task after another: scan the folder, or read a batch of changed files.  Between
two files it pauses while a completion is computed.  Files can be searched before the first scan
ends.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from speclsp.drafting.drafter import TokenArray, TokenCorpus
from speclsp.errors import SpecLspError
from speclsp.project.ignore import IGNORE_FILE, IgnoreRules
from speclsp.project.indexed_files import IndexedFiles, Outlines
from speclsp.project.scan import MAX_FILES, FoundFile, ScanTally, examine, scan
from speclsp.project.source_text import SourceText
from speclsp.project.watch import Watcher, plan_watches
from speclsp.seam.documents import WorkspaceFolder
from speclsp.seam.events import (
    Event,
    EventQueue,
    LogLevel,
    LogLine,
    Problem,
    Progress,
    ProgressReport,
)
from speclsp.seam.statistics import IndexStats
from speclsp.settings import Settings
from speclsp.storage.token_store import TokenStore

_SWEEP_S: Final = 600.0
"""Seconds between two scans for changes that watching missed."""
_POLL_S: Final = 60.0
"""Seconds between two scans where folders cannot be watched."""

_QUIET_S: Final = 0.15
_LONGEST_QUIET_S: Final = 1.0
"""Changes are read after a short quiet or a longer wait, so that a branch switch is one task."""
_MANY_CHANGES: Final = 200
"""With more changed paths, scanning the whole folder is cheaper than examining each."""

_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 0.25
"""Indexing waits at most this long for a busy engine, and then works as long before it waits."""

_MAX_WAITING_CHARS: Final = 32 * 2**20
"""Maximum characters of outlined texts that wait to be tokenised."""

_JOIN_S: Final = 5.0
_MAX_FAILURES: Final = 3


class _ClosingError(Exception):
    """The index closes: the current task ends."""


class ProjectIndex:
    """The index of one folder.  Methods may be called from any thread and return at once.

    ``tokenize`` must be safe to call from another thread; ``fingerprint`` identifies its
    vocabulary.  ``busy`` returns whether a completion is being computed, for which indexing pauses.
    ``readers`` are the events of the windows that use the index; see :meth:`join`.
    ``open_store`` is called by the index's thread, which closes the store when it stops.
    Its many attributes are the state of one thread; most change together under one lock.
    """

    def __init__(
        self,
        folder: WorkspaceFolder,
        tokenize: Callable[[str], TokenArray],
        fingerprint: str,
        *,
        settings: Settings,
        readers: list[EventQueue],
        open_store: Callable[[], TokenStore] | None,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._root = os.path.realpath(folder.root)
        self._name = folder.name
        self._readers = readers
        self._reporting = threading.Lock()
        """Held while events are sent or the readers change."""
        self._begun: Progress | None = None
        """The beginning of the progress that the readers see now; None for none."""
        self._busy = busy
        self._settings = settings
        self._files = IndexedFiles(
            self._root, tokenize, fingerprint, settings, open_store, self._log
        )
        self._opened: frozenset[str] = frozenset()
        self._wake = threading.Condition()
        # Guarded by _wake.
        self._is_scan_due = True
        self._changes: dict[str, None] = {}
        self._first_change_s = self._last_change_s = 0.0
        self._closing = False
        self._scanning = False
        self._reading = False
        """Whether found files have not been outlined yet."""
        self._n_waiting = 0
        """Requests that wait for the first scan: it does not pause for them."""
        self._is_scanned = False
        self._is_outlined = False
        """Whether all files were outlined at least once."""
        self._n_left_out = 0
        # Used by the thread only.
        self._rules = IgnoreRules(Path(self._root), settings.exclude)
        self._warned: set[str] = set()
        self._sweep_at_s = time.monotonic() + _SWEEP_S
        self._no_pause_until_s = 0.0
        self._watcher: Watcher | None = Watcher(self.changed)
        self._thread = threading.Thread(target=self._run, name="speclsp-index", daemon=True)

    def start(self) -> None:
        """Begin to index the folder."""
        self._thread.start()

    def join(self, events: EventQueue) -> None:
        """Add a reader; progress that goes on begins for it, too."""
        with self._reporting:
            if self._begun is not None and events not in self._readers:
                events.emit(self._begun)
            self._readers.append(events)

    def leave(self, events: EventQueue) -> bool:
        """Remove a reader, and end the progress that it sees; return whether others are left.

        The last one stays: events that end the index's work are still to come.
        """
        with self._reporting:
            if len(self._readers) == 1:
                return False
            self._readers.remove(events)
            if self._begun is not None and events not in self._readers:
                events.emit(Progress(token=self._begun.token, stage="end"))
            return True

    def reindex(self) -> None:
        """Scan the folder again."""
        with self._wake:
            self._is_scanned = False
            self._is_scan_due = True
            self._wake.notify_all()

    def set_open(self, paths: frozenset[str]) -> None:
        """Set the files open in buffers: the index hides their text on disk.

        For one thread.  Resolving links may take a while; the same set again costs nothing.
        """
        if paths is not self._opened:
            self._opened = paths
            self._files.set_open(frozenset(map(os.path.realpath, paths)))

    def changed(self, path: str) -> None:
        """Examine a path soon, because it was written, created, moved or removed."""
        with self._wake:
            self._last_change_s = time.monotonic()
            if not self._changes:
                self._first_change_s = self._last_change_s
            self._changes[path] = None
            self._wake.notify_all()

    def corpora(self) -> tuple[TokenCorpus, ...]:
        """Return the corpora that can be searched now."""
        corpus = self._files.corpus
        return (corpus,) if corpus.n_visible_tokens else ()

    def outlines(self, *, current: bool) -> Outlines | None:
        """Return the outlines of the folder's files; None while they are being read.

        With ``current``, None is also returned while changes are waiting to be read.
        """
        with self._wake:
            if not self._thread.is_alive():
                return Outlines()
            is_outdated = self._is_scan_due or self._changes or self._reading
            if not self._is_outlined or (current and is_outdated):
                return None
        return self._files.outlines()

    def text(self, relative: str) -> str | None:
        """Return the text of an outlined file; None if it can no longer be read."""
        return self._files.text(relative)

    def stats(self) -> IndexStats:
        """Return the index's counts."""
        with self._wake:
            is_busy = self._is_scan_due or self._scanning
        building = is_busy and self._thread.is_alive()
        if not self._settings.index_project:
            return IndexStats(building=building)
        return IndexStats(
            n_files=self._files.n_files,
            n_tokens=self._files.corpus.n_tokens,
            n_skipped=self._files.n_skipped + self._n_left_out,
            building=building,
        )

    def wait_built(self, timeout_s: float) -> None:
        """Wait until the folder's scan has ended, ``timeout_s`` at most."""
        with self._wake:
            self._n_waiting += 1
            self._wake.wait_for(
                lambda: (
                    not (
                        (self._is_scan_due or self._scanning)
                        and self._thread.is_alive()
                        and not self._closing
                    )
                ),
                timeout_s,
            )
            self._n_waiting -= 1

    def stop(self) -> None:
        """Stop soon; does not wait."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()

    def close(self) -> None:
        """Stop; waits for the thread, 5 s at most."""
        self.stop()
        self._thread.join(_JOIN_S)

    # --- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        n_failures = 0
        while not self._closing and n_failures < _MAX_FAILURES:
            try:
                self._next_work()
            except _ClosingError:
                break
            except Exception as error:  # noqa: BLE001  the thread must not end unreported
                n_failures += 1
                reindex = "reindex the project or " if n_failures < _MAX_FAILURES else ""
                self._emit(
                    Problem(
                        message=f"Indexing the project failed: {type(error).__name__}: {error}.",
                        remedy=f"Completion goes on; {reindex}restart the server.",
                    )
                )
        if self._watcher is not None:
            self._watcher.close()
        self._files.close()
        with self._wake:
            self._closing, self._scanning = True, False
            self._wake.notify_all()

    def _next_work(self) -> None:
        """Wait for a task and do it."""
        with self._wake:
            self._scanning = self._reading = False
            self._wake.notify_all()
            while not (self._closing or self._seconds_to_work() == 0):
                self._wake.wait(self._seconds_to_work())
            if time.monotonic() >= self._sweep_at_s:
                sweep_s = _POLL_S if self._watcher is None else _SWEEP_S
                self._sweep_at_s = time.monotonic() + sweep_s
                self._is_scan_due = True
            is_scan, self._is_scan_due = self._is_scan_due, False
            changes: list[str] = []
            if not is_scan:
                changes = list(self._changes)
                self._changes.clear()
            self._scanning = is_scan
            self._reading = is_scan or bool(changes)
        if is_scan:
            try:
                self._scan()
            except Exception:
                # Callers must not wait for outlines that may never be complete.
                self._is_outlined = True
                raise
        elif changes and self._apply(changes):
            with self._wake:
                self._is_scan_due = True

    def _seconds_to_work(self) -> float:
        if self._is_scan_due:
            return 0.0
        due_s = self._sweep_at_s
        if self._changes:
            quiet_s = min(self._last_change_s + _QUIET_S, self._first_change_s + _LONGEST_QUIET_S)
            due_s = min(due_s, quiet_s)
        return max(0.0, due_s - time.monotonic())

    def _pause(self) -> None:
        """Wait while a completion is computed, for at most half of the time.

        Raises _ClosingError where the index closes.
        """
        start_s = time.monotonic()
        while start_s >= self._no_pause_until_s and self._is_disturbing():
            if time.monotonic() >= start_s + _LONGEST_PAUSE_S:
                self._no_pause_until_s = time.monotonic() + _LONGEST_PAUSE_S
                break
            time.sleep(_PAUSE_S)
        if self._closing:
            raise _ClosingError

    def _is_disturbing(self) -> bool:
        """Whether a completion is being computed that does not wait for the index."""
        return self._busy() and not (self._n_waiting or self._closing)

    # --- scanning the whole folder --------------------------------------------------------------

    def _scan(self) -> None:
        """Bring the index up to date.  A scan that fails keeps the files that it has read."""
        progress, n_read = None, 0
        if not self._is_scanned:
            token = f"speclsp/index/{uuid.uuid4().hex}"
            # Without an index the files are read for what they define, which the prompt takes.
            verb = "Indexing" if self._settings.index_project else "Reading"
            progress = ProgressReport(self._emit, token, f"{verb} {self._name}")
            self._files.forget_skipped()
        try:
            self._rules = IgnoreRules(Path(self._root), self._settings.exclude)
            tally = ScanTally()
            found = self._found(tally)
            # Watching begins before reading, so that no change is missed in between.
            self._watch(tally.folders)
            self._n_left_out = tally.n_skipped
            self._warn(tally)
            present = {file.path for file in found}
            self._files.forget([path for path in self._files.paths() if path not in present])
            news = [file for file in found if self._files.has_changed(file)]
            n_read = len(news)
            self._read(news, progress)
            self._is_scanned = True
            self._files.note_use()
        finally:
            if progress is not None:
                progress.end(f"{n_read} files")

    def _read(self, news: Sequence[FoundFile], progress: ProgressReport | None = None) -> None:
        """Read new and changed files: outline all of them first, then tokenise them.

        Outlining takes a tenth of the time, and headless requests wait for it.
        """
        waiting: list[tuple[FoundFile, SourceText]] = []
        numbers = itertools.count(1)

        def note_done() -> None:
            n_done = next(numbers)
            if progress is not None:
                progress.report(n_done / len(news), f"{n_done}/{len(news)} files")

        def tokenise() -> None:
            for file, source in waiting:
                self._pause()
                self._files.tokenise(file, source)
                note_done()
                if self._files.is_flush_due():
                    self._files.flush(self._pause)
            waiting.clear()

        n_chars = 0
        for file in news:
            self._pause()
            source = self._files.take(file)
            if source is None:
                note_done()
                continue
            waiting.append((file, source))
            n_chars += len(source.text)
            if n_chars >= _MAX_WAITING_CHARS:
                tokenise()
                n_chars = 0
        self._is_outlined = True
        self._reading = False
        tokenise()
        self._files.flush(self._pause)

    def _found(self, tally: ScanTally) -> list[FoundFile]:
        files = scan(Path(self._root), self._rules, tally, pause=self._pause)
        # Files next to the open ones are the most likely sources of drafts.
        near = {path.rpartition("/")[0] for path in self._files.open_paths}
        return sorted(files, key=lambda file: file.path.rpartition("/")[0] not in near)

    def _watch(self, folders: Mapping[str, bool]) -> None:
        """Watch the scanned folders, each with whether it contains one that was not scanned."""
        if self._watcher is None:
            return
        try:
            self._watcher.set_places(plan_watches(self._root, folders))
        except SpecLspError as error:
            self._watcher = None
            self._sweep_at_s = time.monotonic() + _POLL_S
            self._emit(Problem(message=error.message, remedy=error.remedy))

    # --- changed paths --------------------------------------------------------------------------

    def _apply(self, changes: Sequence[str]) -> bool:
        """Read changed files, or return True where the folder must be scanned instead."""
        paths = [_without_links(path) for path in changes]
        start = self._root.rstrip(os.sep) + os.sep
        inside = [path for path in paths if path.startswith(start)]
        if self._root in paths or len(inside) > _MANY_CHANGES:
            return True
        news: list[FoundFile] = []
        gone: list[str] = []
        for path in inside:
            relative = Path(path).relative_to(self._root).as_posix()
            is_folder = os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114  no exception
            is_rules = Path(path).name == IGNORE_FILE
            judged = f"{relative}/" if is_folder else relative
            if is_rules:  # read even where it is ignored itself, but not in an ignored folder
                judged = judged.removesuffix(IGNORE_FILE)
            if judged and self._rules.ignored_or_within(judged):
                continue
            # A path that is a file or missing now may have been a folder.
            if is_folder or is_rules or self._files.holds_below(path):
                return True
            file = examine(Path(self._root), relative)
            if file is None:
                gone.append(path)
            elif self._files.has_changed(file):
                news.append(file)
        self._files.forget(gone)
        known = set(self._files.paths())
        added = [file for file in news if file.path not in known]
        skipped = added[max(0, MAX_FILES - len(known)) :]
        self._read([file for file in news if file not in skipped])
        return False

    # --- reports --------------------------------------------------------------------------------

    def _warn(self, tally: ScanTally) -> None:
        """Log a scan's problems, each once."""
        warnings = [f"exclude: {text!r} is no pattern" for text in self._rules.bad_patterns]
        warnings += self._rules.too_large
        if tally.truncated:
            text = f"only the first {MAX_FILES} files are indexed; `exclude` leaves files out"
            warnings.append(text)
        if tally.n_unreadable:
            warnings.append(f"{tally.n_unreadable} folders cannot be read")
        for warning in warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                self._log("warning", f"{self._name}: {warning}")

    def _log(self, level: LogLevel, message: str) -> None:
        self._emit(LogLine(level=level, message=message))

    def _emit(self, event: Event) -> None:
        with self._reporting:
            if isinstance(event, Progress) and event.stage != "report":
                self._begun = event if event.stage == "begin" else None
            # A window that opens the index again is a reader twice until it leaves it once.
            for events in dict.fromkeys(self._readers):
                events.emit(event)


def _without_links(path: str) -> str:
    """Resolve the links in a path except in its last part, which may be a link itself."""
    folder, name = os.path.split(path)
    return str(Path(os.path.realpath(folder), name))
