"""The statistics files that take what an engine's windows learn."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from speclsp.drafting.drafter import TokenArray
from speclsp.drafting.registry import uses_statistics
from speclsp.errors import StoreError
from speclsp.ngrams.learned_file import LearnedFile
from speclsp.seam.events import EventQueue
from speclsp.secrets.pieces import Pieces
from speclsp.settings import Settings, named_path
from speclsp.storage.locations import WaitLimit
from speclsp.vocabulary_protocol import Vocabulary

FOLD_EVERY_S: Final = 60.0
"""Seconds between two changes of a file; the journal beside it has the rest."""


@dataclass(frozen=True, slots=True)
class LearnInto:
    """Where the settings want what is learned."""

    paths: tuple[Path, ...] = ()
    """The files, of which one takes it."""
    takes: Literal["accepted", "generated"] = "accepted"
    takes_others: bool = False
    """Whether the settings say so, and files that speclsp did not create may take it, too."""


def learn_into(settings: Settings) -> LearnInto:
    """Return the statistics files that may take what is learned, if any."""
    update = settings.lookup_cache_update
    if update == "off" or not settings.lookup_cache_dynamic or not uses_statistics(settings):
        return LearnInto()
    paths = tuple(map(named_path, settings.lookup_cache_dynamic))
    return LearnInto(paths, update or "accepted", takes_others=bool(update))


class LearnedFiles:
    """Statistics files with journals, shared by the windows of an engine.  Any thread may call it.

    What fails is a problem once.
    """

    def __init__(
        self,
        events: EventQueue,
        limit: WaitLimit | None = None,
        targets: Callable[[], Iterable[LearnInto]] = tuple,
    ) -> None:
        """``limit`` bounds waits for other processes; ``targets`` are those of the windows."""
        self._targets = targets
        self._events = events
        self._limit = limit
        self._lock = threading.Lock()
        self._files: dict[Path, LearnedFile] = {}
        self._reported: set[str] = set()
        self._secrets: tuple[str, ...] = ()
        """Secrets of which the files may still have n-grams."""
        self._may_hold: set[LearnInto] = set()
        """Where these were to be learned."""
        self._n_forgetting = 0
        self.n_forgotten = 0
        """How often secrets were taken out of files; what was read before may hold them."""

    def of(self, path: Path) -> LearnedFile:
        """Return a dynamic statistics file."""
        path = Path(os.path.realpath(path))  # resolve() raises for links in a circle
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

        Returns False where that is impossible, and reports why.
        """
        try:
            if not file.append(tokens, n_known, counted_as):
                return False
        except StoreError as error:
            self._report(error)
            return False
        if file.is_due(time.time(), FOLD_EVERY_S):
            self._fold(file)
        return True

    @property
    def is_forgetting(self) -> bool:
        """Whether secrets are being taken out of the files, which no draft comes from meanwhile."""
        return self._n_forgetting > 0

    @property
    def has_secret(self) -> bool:
        """Whether the files may still have n-grams of secrets."""
        return bool(self._secrets)

    def begin_to_forget(self, pieces: Pieces) -> None:
        """Draft from no file until the next :meth:`forget` has ended."""
        targets = {into for into in self._targets() if into.paths}
        with self._lock:
            self._n_forgetting += 1
            if targets or self._files:
                self._secrets = tuple(dict.fromkeys((*self._secrets, *pieces.secrets)))
                self._may_hold |= targets

    def forget(self, vocabulary: Vocabulary | None) -> None:
        """Take the n-grams within secrets out of the files that take what is learned.

        What is left, without a vocabulary or since a file cannot be used, the next call takes.
        """
        with self._lock:
            secrets = self._secrets
        is_changed, is_left = False, True
        try:
            if vocabulary is not None:
                n_failed = 0
                for file in self._learning() if secrets else ():
                    try:
                        is_changed = file.forget(secrets, vocabulary) or is_changed
                    except StoreError as error:
                        is_changed, n_failed = True, n_failed + 1  # it may be read in part
                        self._report(error)
                is_left = n_failed > 0
        finally:
            with self._lock:
                if self._secrets == secrets and not is_left:
                    self._secrets, self._may_hold = (), set()
                self.n_forgotten += is_changed
                self._n_forgetting -= 1

    def report_left(self) -> None:
        """Report the files that may still have n-grams of secrets."""
        for file in self._learning() if self._secrets else ():
            message = f"{file.path} may still hold n-grams of what became a secret."
            remedy = "Remove the file: a new one is created for what is learned."
            self._report(StoreError(message, remedy=remedy))

    def _learning(self) -> list[LearnedFile]:
        """Return the files that have, or may have, what was learned where secrets were to be."""
        with self._lock:
            may_hold = tuple(self._may_hold)
        targets = [self.target(into) for into in may_hold]  # which adds their files to the others
        with self._lock:
            files = tuple(self._files.values())
        return [
            file for file in files if file.path.exists() and (file in targets or file.may_learn())
        ]

    def fold_all(self) -> None:
        """Add the journals to their files."""
        with self._lock:
            files = tuple(self._files.values())
        for file in files:
            self._fold(file)

    def _fold(self, file: LearnedFile) -> None:
        try:
            n_texts = file.fold()
        except StoreError as error:
            self._report(error)
        else:
            if n_texts:
                self._events.log("info", f"{file.path}: added the counts of new texts: {n_texts}.")

    def _report(self, error: StoreError) -> None:
        with self._lock:
            is_new = error.message not in self._reported
            self._reported.add(error.message)
        if is_new:
            self._events.problem(error.message, error.remedy)
