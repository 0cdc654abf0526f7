"""What the user accepted, counted: in memory for the drafters, on disk for the next session."""

from __future__ import annotations

import numpy as np

from speclsp.completer.events import EventQueue
from speclsp.errors import StoreError
from speclsp.fim.protocol import Vocabulary
from speclsp.index_store.database import BusyError
from speclsp.index_store.learned_store import MAX_NGRAMS, LearnedStore, Sighting
from speclsp.ngram_store.learned import LearnedCounts, count_accepted

MAX_UNSAVED = 64
"""Accepted texts whose counts wait while another process writes."""


class LearnedNgrams:
    """Counts by workspace.  Belongs to one thread, but for :meth:`counts`."""

    def __init__(self, events: EventQueue, *, persist: bool) -> None:
        self._events = events
        self._persist = persist
        self._store: LearnedStore | None = None
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
        try:
            while self._unsaved and (store := self._opened()) is not None:
                store.add(*self._unsaved[0])
                self._unsaved.pop(0)
        except BusyError:
            del self._unsaved[:-MAX_UNSAVED]
        except StoreError as error:
            self._give_up(error)
        if not self._persist:
            self._unsaved.clear()

    def close(self) -> None:
        """Write what is left, and close the store."""
        self.save()
        if self._store is not None:
            self._store.close()
            self._store = None

    def _kept(self, root: str, fingerprint: str) -> list[Sighting]:
        try:
            store = self._opened()
            return [] if store is None else store.load(root, fingerprint)
        except StoreError as error:
            self._give_up(error)
            return []

    def _opened(self) -> LearnedStore | None:
        if self._store is None and self._persist:
            self._store = LearnedStore.open(report=self._report)
        return self._store

    def _report(self, error: StoreError) -> None:
        self._events.log("warning", str(error))

    def _give_up(self, error: StoreError) -> None:
        self._persist = False
        self._store = None
        self._events.log("warning", f"accepted n-grams are not kept: {error}")
