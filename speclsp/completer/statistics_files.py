"""The statistics files of the settings, read on a thread of its own and again when they change."""

from __future__ import annotations

import threading
from collections.abc import Iterator, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from speclsp.backends.weights import Tokenizer
from speclsp.completer.learned_files import LearnedFiles, learn_into
from speclsp.drafting.drafter import NO_STATISTICS, Statistics
from speclsp.drafting.ngram_cache import STATIC_ORDER
from speclsp.drafting.registry import uses_statistics
from speclsp.errors import StoreError
from speclsp.ngrams.files import Role, StatisticsFile, open_statistics
from speclsp.ngrams.reading import FileState, state_of
from speclsp.seam.events import EventQueue
from speclsp.settings import Settings, named_path
from speclsp.vocabulary_protocol import Vocabulary

_SETTLED_S: Final = 0.2
"""A file that has not changed for so many seconds is complete."""

_CLOSE_WAIT_S: Final = 1.0
"""How long closing waits for the files that are being read, so that a wrong one is reported."""

_MISSING: Final = (
    "Correct the path, or name it on the command line or in initializationOptions, where "
    "`lookup_cache_update` is not off: then it is created."
)

OpenedFiles = MutableMapping[tuple[Path, Role, FileState, str], StatisticsFile]
"""Opened files by path, role, state and vocabulary, which windows share."""


@dataclass(frozen=True, slots=True)
class FilesInUse:
    """The counts of the usable files, and which learned texts these count."""

    statistics: Statistics = NO_STATISTICS
    learned_ids: frozenset[str] = frozenset()
    """The files' ids, under which the store of accepted texts knows them."""


_Entry = tuple[FileState, StatisticsFile | None]
"""The state of a file when it was opened, and the file; None if it was refused."""


class StatisticsFiles:
    """The usable files of the settings.

    A file that cannot be used is reported once, until it or the vocabulary changes.  One that
    another program is writing is opened when it is complete; until then the former one is used.
    """

    def __init__(
        self,
        settings: Settings,
        events: EventQueue,
        opened: OpenedFiles,
        learned_files: LearnedFiles,
    ) -> None:
        self._settings = settings
        self._opened = opened
        self._learned_files = learned_files
        self._events = events
        self._closing = threading.Event()
        self._thread = ThreadPoolExecutor(1, "speclsp-statistics")
        self._vocabulary: Vocabulary | None = None
        self._entries: dict[tuple[Path, Role], _Entry] = {}
        self._in_use = FilesInUse()
        self._is_loading = False
        self._are_read = threading.Event()
        """Whether no request waits for files that are being read."""
        self._n_forgotten = learned_files.n_forgotten
        """As of what was read."""
        self._loads: list[Future[None]] = []
        """The last load, and those before it that have not ended."""

    def use_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Read the files for another vocabulary."""
        self._vocabulary = tokenizer.vocabulary
        self._entries = {}
        self._in_use = FilesInUse()
        self._are_read.clear()
        self._load_soon()

    def apply_settings(self, settings: Settings) -> None:
        """Take new settings."""
        self._settings = settings
        self._are_read.clear()
        self._load_soon()

    def current(self, wait_s: float = 0.0) -> FilesInUse:
        """Return the files' counts; those of changed files once they are read.

        None of files that a secret is or was taken out of, until they are read again.
        The first call after the files were named waits for them, ``wait_s`` at most: a file of
        llama.cpp's layout of 5 MB takes 0.3 s, and the first request of two sessions in nine
        drafted from it.
        """
        files = self._learned_files
        if not uses_statistics(self._settings) or files.is_forgetting:
            return FilesInUse()
        if files.n_forgotten != self._n_forgotten:
            if not self._is_loading:
                self._load_soon()
            return FilesInUse()
        if wait_s > 0.0 and self._vocabulary is not None:
            self._are_read.wait(wait_s)
            self._are_read.set()
        if not self._is_loading and any(
            state_of(path) != state for (path, _), (state, _) in self._entries.items()
        ):
            self._load_soon()
        return self._in_use

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
        n_forgotten = self._learned_files.n_forgotten
        entries: dict[tuple[Path, Role], _Entry] = {}
        if uses_statistics(settings) and vocabulary is not None:
            try:
                for path, role in _wanted(settings):
                    entries[path, role] = self._entry(path, role, vocabulary)
            except BaseException:
                self._is_loading = False  # the next request has them read again
                self._are_read.set()
                raise
        if vocabulary is self._vocabulary:  # else they are read once more
            dynamic = _files(entries, "dynamic")
            self._in_use = FilesInUse(
                Statistics(
                    static=tuple(file.tables for file in _files(entries, "static")),
                    dynamic=(
                        *(file.tables for file in dynamic),
                        *(file.learned for file in dynamic if file.learned is not None),
                    ),
                ),
                frozenset(file.counted_as for file in dynamic),
            )
            self._entries = entries
            self._n_forgotten = n_forgotten
            self._is_loading = False
            if settings is self._settings:
                self._are_read.set()

    def _entry(self, path: Path, role: Role, vocabulary: Vocabulary) -> _Entry:
        before = state_of(path)
        known = self._entries.get((path, role))
        if known is not None and known[0] == before:
            return known
        try:
            if role == "dynamic":
                self._begin(path, vocabulary)
            state = state_of(path)
            key = path, role, state, vocabulary.fingerprint
            opened = self._opened.get(key)
            file = opened if opened is not None else self._open(path, role, vocabulary)
        except StoreError as error:
            self._report(error, path, before)
            return before, None
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

    def _begin(self, path: Path, vocabulary: Vocabulary) -> None:
        """Let a file take what is learned if it is to; it is created if it is missing.

        Raises StoreError.
        """
        is_missing = state_of(path) is None
        file = self._learned_files.target(learn_into(self._settings))
        if file is not None and file is self._learned_files.of(path):
            file.begin(vocabulary)
            if is_missing:
                self._events.log("info", f"{path} was created for what is learned.")
        elif is_missing:
            raise StoreError(f"{path} does not exist.", remedy=_MISSING)

    def _open(self, path: Path, role: Role, vocabulary: Vocabulary) -> StatisticsFile:
        if role == "dynamic":
            return self._learned_files.of(path).open(vocabulary)
        return open_statistics(path, vocabulary, role)

    def _report(self, error: StoreError, path: Path, state: FileState) -> None:
        """Report a file that was in ``state``, unless another program is writing it.

        Its state then differs from ``state``, and the next request has it read again.
        """
        if state is not None:
            self._closing.wait(_SETTLED_S)
        if state_of(path) == state:
            self._events.problem(error.message, error.remedy)


def _wanted(settings: Settings) -> Iterator[tuple[Path, Role]]:
    for name in settings.lookup_cache_static:
        yield named_path(name), "static"
    for name in settings.lookup_cache_dynamic:
        yield named_path(name), "dynamic"


def _files(entries: dict[tuple[Path, Role], _Entry], role: Role) -> list[StatisticsFile]:
    files = (file for (_, of_role), (_, file) in entries.items() if of_role == role)
    return [file for file in files if file is not None]
