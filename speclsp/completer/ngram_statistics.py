"""The n-gram statistics that drafts come from: the settings' files, and what was accepted.

Loading, tokenising and writing happen on a thread of their own; the engine thread takes what is
there.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from speclsp.completer.events import EventQueue
from speclsp.completer.kept_store import KeptStore
from speclsp.drafting.protocol import NO_STATISTICS, NgramCounts, Statistics
from speclsp.drafting.registry import uses_statistics
from speclsp.engine.models import Tokenizer
from speclsp.errors import SpecLspError, StoreError
from speclsp.ngrams.files import Role, StatisticsFile, open_statistics
from speclsp.ngrams.learned import LearnedCounts, count_accepted
from speclsp.prompt.protocol import Vocabulary
from speclsp.settings import Settings
from speclsp.storage.learned_store import MAX_NGRAMS, LearnedStore, Sighting

CLOSE_TIMEOUT_S = 5.0

MAX_UNSAVED = 64
"""Accepted texts whose counts wait while another process writes."""

_SETTLED_S: Final = 0.2
"""Seconds without a change after which nobody writes a file."""

_FileState = tuple[int, int, int] | None
"""Size, time of the last change and inode of a file; None where there is none."""


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


class LearnedNgrams:
    """Counts by workspace.  Belongs to one thread, but for :meth:`counts`."""

    def __init__(self, events: EventQueue, *, persist: bool) -> None:
        self._store = KeptStore(
            LearnedStore.open, events, what="accepted n-grams are", persist=persist
        )
        self._vocabulary: Vocabulary | None = None
        self._counts: dict[str, LearnedCounts] = {}
        self._unsaved: list[tuple[str, str, list[Sighting]]] = []

    def counts(self, root: str) -> LearnedCounts | None:
        """Return what is counted in a workspace, None where it is not loaded; any thread may."""
        return self._counts.get(root)

    def take_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Count tokens of another vocabulary from now on."""
        self._vocabulary = vocabulary
        self._counts = {}

    def load(self, root: str) -> LearnedCounts | None:
        """Make a workspace's counts ready; None while there is no vocabulary."""
        if self._vocabulary is None:
            return None
        if root not in self._counts:
            counts = LearnedCounts(MAX_NGRAMS)
            counts.add(
                ((seen.ngram, seen.follower), seen.n_seen)
                for seen in self._kept(root, self._vocabulary.fingerprint)
            )
            self._counts[root] = counts
        return self._counts[root]

    def learn(self, root: str, before: str, text: str) -> None:
        """Count what was accepted behind ``before``."""
        counts, vocabulary = self.load(root), self._vocabulary
        if counts is None or vocabulary is None:
            return
        known, tokens = vocabulary.tokenize(before), vocabulary.tokenize(before + text)
        n_both = min(known.size, tokens.size)
        # Where the accepted text changes the last token before it, that one is new as well.
        differs = np.flatnonzero(known[:n_both] != tokens[:n_both])
        counted = count_accepted(tokens, int(differs[0]) if differs.size else n_both)
        counts.add(counted.items())
        sightings = [Sighting(*what, count) for what, count in counted.items()]
        self._unsaved.append((root, vocabulary.fingerprint, sightings))
        self.save()

    def save(self) -> None:
        """Write what is not on disk yet, as far as it may and can be."""
        while self._unsaved:
            if not self._store.use(self._saved, otherwise=False):
                break
            self._unsaved.pop(0)
        # What is left waits for another process to have written, as far as there is room.
        del self._unsaved[: -MAX_UNSAVED if self._store.is_kept else None]

    def close(self) -> None:
        """Write what is left, and close the store."""
        self.save()
        self._store.close()

    def _saved(self, store: LearnedStore) -> bool:
        store.add(*self._unsaved[0])
        return True

    def _kept(self, root: str, fingerprint: str) -> list[Sighting]:
        return self._store.use(lambda store: store.load(root, fingerprint), otherwise=[])


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A file as it was when it was opened, or refused: then ``file`` is None."""

    role: Role
    state: _FileState
    fingerprint: str
    file: StatisticsFile | None


class StatisticsFiles:
    """Belongs to one thread, but for :meth:`changed`.

    A file that cannot be used is reported once, until it or the vocabulary changes; one that is
    being written just then is opened when that has ended.
    """

    def __init__(self, events: EventQueue, closing: threading.Event) -> None:
        self._events = events
        self._closing = closing
        self._entries: dict[tuple[Path, Role], _Entry] = {}

    def changed(self) -> bool:
        """Whether a file differs from when it was opened; any thread may ask."""
        entries = self._entries
        return any(_state_of(path) != entry.state for (path, _), entry in entries.items())

    def load(self, settings: Settings, vocabulary: Vocabulary) -> Statistics:
        """Open the files that are new or changed, and return all that can be used."""
        self._entries = {
            (path, role): self._entry(path, role, vocabulary)
            for path, role in _wanted(settings)
            if not self._closing.is_set()
        }
        return self._usable()

    def unload(self) -> None:
        """Close all files."""
        self._entries = {}

    def _entry(self, path: Path, role: Role, vocabulary: Vocabulary) -> _Entry:
        state, fingerprint = _state_of(path), vocabulary.fingerprint
        known = self._entries.get((path, role))
        if known is not None and (known.state, known.fingerprint) == (state, fingerprint):
            return known
        try:
            file = open_statistics(path, vocabulary, role)
        except StoreError as error:
            self._report(error, path, state)
            return _Entry(role, state, fingerprint, None)
        sizes = ", ".join(f"{n:,} of order {order}" for order, n in file.n_ngrams.items())
        self._events.log("info", f"{role} statistics {path}: n-grams: {sizes or 'none'}")
        return _Entry(role, state, fingerprint, file)

    def _report(self, error: StoreError, path: Path, state: _FileState) -> None:
        """Report a file that was in ``state``, unless somebody is just writing it.

        It differs from the state that is noted then, so that the next request has it opened anew.
        """
        self._closing.wait(_SETTLED_S)
        if _state_of(path) == state:
            self._events.problem(error.message, error.remedy)

    def _usable(self) -> Statistics:
        return Statistics(
            static=tuple(self._counts("static")), dynamic=tuple(self._counts("dynamic"))
        )

    def _counts(self, role: Role) -> Iterator[NgramCounts]:
        for entry in self._entries.values():
            if entry.role == role and entry.file is not None:
                yield entry.file.tables


def _wanted(settings: Settings) -> Iterator[tuple[Path, Role]]:
    for name in settings.lookup_cache_static:
        yield Path(name).expanduser(), "static"
    for name in settings.lookup_cache_dynamic:
        yield Path(name).expanduser(), "dynamic"


def _state_of(path: Path) -> _FileState:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ino)
