"""The n-gram statistics that drafts come from: the settings' files, and what was accepted.

Loading, tokenising and writing happen on a thread of their own; the engine thread takes what is
there.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from speclsp.completer.events import EventQueue
from speclsp.completer.learned import LearnedNgrams
from speclsp.completer.statistics_files import StatisticsFiles
from speclsp.drafting.protocol import NO_STATISTICS, Statistics
from speclsp.drafting.registry import uses_statistics
from speclsp.engine.models import Tokenizer
from speclsp.errors import SpecLspError
from speclsp.settings import Settings

CLOSE_TIMEOUT_S = 5.0


class StatisticsSource:
    """Statistics by workspace.  No method waits, but for :meth:`close`."""

    def __init__(self, settings: Settings, events: EventQueue) -> None:
        self._settings = settings
        self._events = events
        self._closing = threading.Event()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="speclsp-statistics", daemon=True)
        self._files = StatisticsFiles(events, self._closing)
        self._learned = LearnedNgrams(events, persist=settings.persist)
        self._tokenizer: Tokenizer | None = None
        self._of_files = NO_STATISTICS
        self._asked: set[str] = set()
        self._is_reloading = False

    # --- the engine thread, and others -----------------------------------------------------------

    def take_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Take a vocabulary: files are loaded, and what is accepted is counted, with it."""
        if self._thread.ident is None:
            self._thread.start()
        self._jobs.put(lambda: self._use(tokenizer))

    def apply_settings(self, settings: Settings) -> None:
        """Take new settings."""
        self._settings = settings
        self._jobs.put(self._load_files)

    def learn(self, root: str, before: str, text: str) -> None:
        """Count what was accepted behind ``before`` in a file of the workspace ``root``."""
        if self._settings.speculation:
            self._jobs.put(lambda: self._learned.learn(root, before, text))

    def current(self, root: str) -> Statistics:
        """Return what is there for a file of the workspace ``root``; the rest is loaded meanwhile.

        Only the engine thread calls this, for each request.
        """
        if not uses_statistics(self._settings):
            return NO_STATISTICS
        of_files = self._of_files
        if self._files.changed():
            of_files = NO_STATISTICS
            if not self._is_reloading:
                self._is_reloading = True
                self._jobs.put(self._load_files)
        learned = self._learned.counts(root)
        if learned is None:
            if root not in self._asked:
                self._asked.add(root)
                self._jobs.put(lambda: self._load_learned(root))
            return of_files
        return Statistics(static=of_files.static, dynamic=(*of_files.dynamic, learned))

    def close(self) -> None:
        """Write what was learned, and end the thread."""
        self._closing.set()
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join(CLOSE_TIMEOUT_S)

    # --- the thread of its own -------------------------------------------------------------------

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except SpecLspError as error:
                self._events.problem(error.message, error.remedy)
            except Exception as error:  # noqa: BLE001 - the thread must outlive any defect
                self._events.problem(f"the statistics had an internal error: {error!r}.")
        self._learned.close()

    def _use(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._learned.take_vocabulary(tokenizer.vocabulary)
        self._asked.clear()
        self._load_files()

    def _load_learned(self, root: str) -> None:
        if self._learned.load(root) is None:
            self._asked.discard(root)

    def _load_files(self) -> None:
        if self._tokenizer is None:
            return
        settings = self._settings
        if not uses_statistics(settings):
            self._files.unload()
            self._of_files = NO_STATISTICS
            if settings.lookup_cache_static or settings.lookup_cache_dynamic:
                self._events.log(
                    "warning", "statistics files are not used: `drafters` has no ngram-cache."
                )
            return
        self._of_files = self._files.load(settings, self._tokenizer.vocabulary)
        self._is_reloading = False
