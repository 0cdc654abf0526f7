"""The statistics files of the settings, read on a thread of its own and again when they change."""

from __future__ import annotations

import threading
from collections.abc import Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from speclsp.drafting.protocol import NO_STATISTICS, NgramCounts, Statistics
from speclsp.drafting.registry import uses_statistics
from speclsp.engine.models import Tokenizer
from speclsp.errors import StoreError
from speclsp.events import EventQueue
from speclsp.ngrams.files import Role, StatisticsFile, open_statistics
from speclsp.prompt.protocol import Vocabulary
from speclsp.settings import Settings

_SETTLED_S: Final = 0.2
"""A file that has not changed for so many seconds is complete."""

_FileState = tuple[int, int, int] | None
"""Size, time of the last change and inode of a file; None if there is none."""

OpenedFiles = MutableMapping[tuple[Path, Role, _FileState, str], StatisticsFile]
"""Opened files by path, role, state and vocabulary, which windows share."""


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A file as it was when it was opened, or refused: then ``file`` is None."""

    role: Role
    state: _FileState
    fingerprint: str
    file: StatisticsFile | None


class StatisticsFiles:
    """The usable files of the settings.

    A file that cannot be used is reported once, until it or the vocabulary changes; one that is
    being written just then is opened when that has ended.
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

    def take_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Read the files for another vocabulary."""
        self._vocabulary = tokenizer.vocabulary
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
        if any(_state_of(path) != entry.state for (path, _), entry in self._entries.items()):
            if not self._is_loading:
                self._load_soon()
            return NO_STATISTICS
        return self._statistics

    def close(self) -> None:
        """Read no more files."""
        self._closing.set()
        self._thread.shutdown(wait=False, cancel_futures=True)

    # --- the thread of its own ------------------------------------------------------------------

    def _load_soon(self) -> None:
        self._is_loading = True
        self._thread.submit(self._events.guard, "the statistics", self._load)

    def _load(self) -> None:
        settings, vocabulary = self._settings, self._vocabulary
        entries: dict[tuple[Path, Role], _Entry] = {}
        if uses_statistics(settings) and vocabulary is not None:
            for path, role in _wanted(settings):
                if not self._closing.is_set():
                    entries[path, role] = self._entry(path, role, vocabulary)
        elif vocabulary is not None and any(_wanted(settings)):
            self._events.log(
                "warning", "statistics files are not used: `drafters` has no ngram-cache."
            )
        if vocabulary is self._vocabulary:  # else they are read once more
            self._statistics = Statistics(
                static=_counts(entries, "static"), dynamic=_counts(entries, "dynamic")
            )
            self._entries = entries
            self._is_loading = False

    def _entry(self, path: Path, role: Role, vocabulary: Vocabulary) -> _Entry:
        state, fingerprint = _state_of(path), vocabulary.fingerprint
        known = self._entries.get((path, role))
        if known is not None and (known.state, known.fingerprint) == (state, fingerprint):
            return known
        key = path, role, state, fingerprint
        opened = self._opened.get(key)
        try:
            file = opened if opened is not None else open_statistics(path, vocabulary, role)
        except StoreError as error:
            if state is not None or not self._settings.lookup_cache_update:
                self._report(error, path, state)
            return _Entry(role, state, fingerprint, None)
        self._opened[key] = file
        sizes = ", ".join(f"{n:,} of order {order}" for order, n in file.n_ngrams.items())
        self._events.log("info", f"{role} statistics {path}: n-grams: {sizes or 'none'}")
        return _Entry(role, state, fingerprint, file)

    def _report(self, error: StoreError, path: Path, state: _FileState) -> None:
        """Report a file that was in ``state``, unless another program is writing it.

        It then differs from the state that is noted, and the next request has it read again.
        """
        self._closing.wait(_SETTLED_S)
        if _state_of(path) == state:
            self._events.problem(error.message, error.remedy)


def _wanted(settings: Settings) -> Iterator[tuple[Path, Role]]:
    for name in settings.lookup_cache_static:
        yield Path(name).expanduser(), "static"
    for name in settings.lookup_cache_dynamic:
        yield Path(name).expanduser(), "dynamic"


def _counts(entries: dict[tuple[Path, Role], _Entry], role: Role) -> tuple[NgramCounts, ...]:
    of_role = (entry.file for entry in entries.values() if entry.role == role)
    return tuple(file.tables for file in of_role if file is not None)


def _state_of(path: Path) -> _FileState:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ino)
