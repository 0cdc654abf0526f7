"""The statistics files that take what an engine's windows learn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from speclsp.drafting.protocol import TokenArray
from speclsp.drafting.registry import uses_statistics
from speclsp.errors import StoreError
from speclsp.events import EventQueue
from speclsp.ngrams.learned_file import LearnedFile
from speclsp.prompt.protocol import Vocabulary
from speclsp.settings import Settings, named_path
from speclsp.storage.locations import WaitLimit

FOLD_EVERY_S: Final = 60.0
"""Seconds between two changes of a file; the journal beside it has the rest."""
_CLOSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class LearnInto:
    """Where the settings want what is learned."""

    paths: tuple[Path, ...]
    """The files, of which one takes it."""
    takes: Literal["accepted", "generated"]
    takes_others: bool
    """Whether the settings say so, and files that speclsp did not create may take it, too."""


def learn_into(settings: Settings) -> LearnInto | None:
    """Return the statistics files that may take what is learned; None for none."""
    update = settings.lookup_cache_update
    if update == "off" or not settings.lookup_cache_dynamic or not uses_statistics(settings):
        return None
    paths = tuple(map(named_path, settings.lookup_cache_dynamic))
    return LearnInto(paths, "accepted" if update == "auto" else update, update != "auto")


class LearnedFiles:
    """Statistics files with journals, shared by the windows of an engine.  Any thread may call it.

    What fails is a problem once.
    """

    def __init__(self, events: EventQueue, limit: WaitLimit | None = None) -> None:
        """``limit`` bounds waits for other processes."""
        self._events = events
        self._limit = limit
        self._lock = threading.Lock()
        self._files: dict[Path, LearnedFile] = {}
        self._reported: set[str] = set()
        self._thread = ThreadPoolExecutor(1, "speclsp-learned")
        """Adds journals to files, which may take seconds; meanwhile texts reach the journals."""
        self._latest: Future[None] | None = None

    def of(self, path: Path) -> LearnedFile:
        """Return a dynamic statistics file."""
        path = path.resolve()
        with self._lock:
            if path not in self._files:
                self._files[path] = LearnedFile(path, self._report, self._limit)
            return self._files[path]

    def target(self, into: LearnInto) -> LearnedFile | None:
        """Return the file that takes what is learned; None for none.

        It is the first one that speclsp created, or may create, else the first one if the settings
        say so.
        """
        files = [self.of(path) for path in into.paths]
        for file in files:
            with suppress(StoreError):  # who reads the files reports it
                if file.is_own():
                    return file
        return files[0] if into.takes_others else None

    def begin(self, into: LearnInto, vocabulary: Vocabulary) -> tuple[LearnedFile, str] | None:
        """Return the file that takes what is learned, and its id; None where it cannot be used."""
        with suppress(StoreError):  # who reads the files reports it
            if (file := self.target(into)) is not None:
                return file, file.begin(vocabulary)
        return None

    def add(self, file: LearnedFile, tokens: TokenArray, n_known: int, counted_as: str) -> bool:
        """Count a text in a file after :meth:`begin`, see :meth:`LearnedFile.append`.

        Returns False, and reports why, where that is impossible.
        """
        try:
            file.append(tokens, n_known, counted_as)
        except StoreError as error:
            self._report(error)
            return False
        if _is_due(file):
            self._fold_soon(file, lambda: _is_due(file))  # another fold may be under way
        return True

    def fold_all(self) -> None:
        """Begin to add the journals to their files."""
        with self._lock:
            files = tuple(self._files.values())
        for file in files:
            self._fold_soon(file, lambda: True)

    def wait_done(self, timeout_s: float) -> bool:
        """Wait until nothing is being added; return False after ``timeout_s``."""
        return self._latest is None or not wait((self._latest,), timeout_s).not_done

    def close(self) -> None:
        """Add the journals to their files; further calls do not."""
        self.fold_all()
        self._thread.shutdown(wait=False)
        self.wait_done(_CLOSE_S)

    def _fold_soon(self, file: LearnedFile, is_due: Callable[[], bool]) -> None:
        guard = self._events.guard
        with suppress(RuntimeError):  # closed
            self._latest = self._thread.submit(guard, "statistics", self._fold, file, is_due)

    def _fold(self, file: LearnedFile, is_due: Callable[[], bool]) -> None:
        if not is_due():
            return
        try:
            n_texts = file.fold()
        except StoreError as error:
            self._report(error)
        else:
            if n_texts:
                self._events.log("info", f"counts of {n_texts} texts were added to {file.path}.")

    def _report(self, error: StoreError) -> None:
        with self._lock:
            is_new = error.message not in self._reported
            self._reported.add(error.message)
        if is_new:
            self._events.problem(error.message, error.remedy)


def _is_due(file: LearnedFile) -> bool:
    return file.is_due(time.time(), FOLD_EVERY_S)
