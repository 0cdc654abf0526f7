"""What the user accepted, counted: in memory for the drafters, on disk for the next session."""

from __future__ import annotations

import numpy as np

from speclsp.completer.events import EventQueue
from speclsp.completer.kept_store import KeptStore
from speclsp.ngrams.learned import LearnedCounts, count_accepted
from speclsp.prompt.protocol import Vocabulary
from speclsp.storage.learned_store import MAX_NGRAMS, LearnedStore, Sighting

MAX_UNSAVED = 64
"""Accepted texts whose counts wait while another process writes."""


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
