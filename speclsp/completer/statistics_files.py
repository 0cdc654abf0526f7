"""The statistics files of the settings, read on a thread of its own and again when they change."""

from __future__ import annotations

import threading
from collections.abc import Iterator, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final

from speclsp.drafting.ngram_cache import STATIC_ORDER
from speclsp.drafting.protocol import NO_STATISTICS, NgramCounts, Statistics
from speclsp.drafting.registry import uses_statistics
from speclsp.engine.models import Tokenizer
from speclsp.errors import StoreError
from speclsp.events import EventQueue
from speclsp.ngrams.files import Role, StatisticsFile, open_statistics
from speclsp.prompt.protocol import Vocabulary
from speclsp.settings import Settings, named_path

_SETTLED_S: Final = 0.2
"""A file that has not changed for so many seconds is complete."""

_CLOSE_WAIT_S: Final = 1.0
"""How long closing waits for the files that are being read, so that a wrong one is reported."""

_FileState = tuple[int, int, int] | None
"""Size, time of the last change and inode of a file; None if there is none."""

OpenedFiles = MutableMapping[tuple[Path, Role, _FileState, str], StatisticsFile]
"""Opened files by path, role, state and vocabulary, which windows share."""


_Entry = tuple[_FileState, StatisticsFile | None]
"""The state of a file when it was opened, and the file; None if it was refused."""


class StatisticsFiles:
    """The usable files of the settings.

    A file that cannot be used is reported once, until it or the vocabulary changes.  One that
    another program is writing is opened when it is complete.
    """

    def __init__(self, settings: Settings, events: EventQueue, opened: OpenedFiles) -> None:
        self._settings = settings
        self._opened = opened
        self._events = events
        self._closing = threading.Event()
        self._thread = ThreadPoolExecutor(1, "speclsp-statistics")
        self._vocabulary: Vocabulary | None = None
        self._entries: dict[tuple[Path, Role], _Entry] = {}
        self._statistics = NO_STATISTICS
        self._is_loading = False
        self._loads: list[Future[None]] = []
        """The last load, and those before it that have not ended."""

    def take_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Read the files for another vocabulary."""
        self._vocabulary = tokenizer.vocabulary
        self._entries = {}
        self._statistics = NO_STATISTICS
        self._load_soon()

    def apply_settings(self, settings: Settings) -> None:
        """Take new settings."""
        self._settings = settings
        self._load_soon()

    def current(self) -> Statistics:
        """Return the files' counts; nothing while they are being read.  Does not wait."""
        if not uses_statistics(self._settings):
            return NO_STATISTICS
        if any(_state_of(path) != state for (path, _), (state, _) in self._entries.items()):
            if not self._is_loading:
                self._load_soon()
            return NO_STATISTICS
        return self._statistics

    def close(self) -> None:
        """Read no more files; report those that were being read."""
        self._closing.set()
        wait(self._loads, _CLOSE_WAIT_S)
        self._thread.shutdown(wait=False, cancel_futures=True)

    # --- the thread of its own ------------------------------------------------------------------

    def _load_soon(self) -> None:
        self._is_loading = True
        load = self._thread.submit(self._events.guard, "the statistics", self._load)
        self._loads = [*(earlier for earlier in self._loads if not earlier.done()), load]

    def _load(self) -> None:
        settings, vocabulary = self._settings, self._vocabulary
        entries: dict[tuple[Path, Role], _Entry] = {}
        if uses_statistics(settings) and vocabulary is not None:
            for path, role in _wanted(settings):
                entries[path, role] = self._entry(path, role, vocabulary)
        if vocabulary is self._vocabulary:  # else they are read once more
            self._statistics = Statistics(
                static=_counts(entries, "static"), dynamic=_counts(entries, "dynamic")
            )
            self._entries = entries
            self._is_loading = False

    def _entry(self, path: Path, role: Role, vocabulary: Vocabulary) -> _Entry:
        state = _state_of(path)
        known = self._entries.get((path, role))
        if known is not None and known[0] == state:
            return known
        key = path, role, state, vocabulary.fingerprint
        opened = self._opened.get(key)
        try:
            file = opened if opened is not None else open_statistics(path, vocabulary, role)
        except StoreError as error:
            if state is not None or not self._settings.lookup_cache_update:
                self._report(error, path, state)
            return state, None
        self._opened[key] = file
        sizes = ", ".join(f"{n:,} of order {order}" for order, n in file.n_ngrams.items())
        self._events.log("info", f"{role} statistics {path}: n-grams: {sizes or 'none'}")
        unread = [str(order) for order in file.n_ngrams if order != STATIC_ORDER]
        if role == "static" and unread:
            orders = ", ".join(unread)
            self._events.log(
                "warning",
                f"{path}: static statistics are read for order {STATIC_ORDER} only, not for order "
                f"{orders}: name the file in `lookup_cache_dynamic` (`-lcd`) to draft from these",
            )
        return state, file

    def _report(self, error: StoreError, path: Path, state: _FileState) -> None:
        """Report a file that was in ``state``, unless another program is writing it.

        Its state then differs from ``state``, and the next request has it read again.
        """
        if state is not None:
            self._closing.wait(_SETTLED_S)
        if _state_of(path) == state:
            self._events.problem(error.message, error.remedy)


def _wanted(settings: Settings) -> Iterator[tuple[Path, Role]]:
    for name in settings.lookup_cache_static:
        yield named_path(name), "static"
    for name in settings.lookup_cache_dynamic:
        yield named_path(name), "dynamic"


def _counts(entries: dict[tuple[Path, Role], _Entry], role: Role) -> tuple[NgramCounts, ...]:
    files = (file for (_, of_role), (_, file) in entries.items() if of_role == role)
    return tuple(file.tables for file in files if file is not None)


def _state_of(path: Path) -> _FileState:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ino)
