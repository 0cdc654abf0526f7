"""What the user accepted in each workspace: texts to draft from, and counts of their n-grams.

A thread of its own reads and writes the stores and tokenises.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from speclsp.drafting.protocol import EMPTY_TOKENS, TokenArray
from speclsp.engine.models import Tokenizer
from speclsp.errors import StoreError
from speclsp.events import EventQueue
from speclsp.ngrams.files import add_counts
from speclsp.ngrams.learned import Counted, LearnedCounts, count_accepted, tables_of
from speclsp.prompt.protocol import Vocabulary
from speclsp.request import AcceptedText
from speclsp.secrets.masked_text import holds_secret
from speclsp.secrets.paths import is_secret_path
from speclsp.settings import Settings
from speclsp.storage.accepted_store import MAX_TEXTS, AcceptedStore, KeptText
from speclsp.storage.database import BusyError

_N_DRAFTED_FROM: Final = 500
"""Latest accepted texts per workspace that are drafted from as texts; all of them are counted."""
_MAX_NGRAMS: Final = 200_000
"""Pairs of n-gram and follower counted per workspace."""

_READ_S: Final = 1.0
"""Most seconds that a workspace's first request waits for its texts."""
_CLOSE_S: Final = 5.0

_Result = TypeVar("_Result")


def updated_file(settings: Settings) -> Path | None:
    """Return the statistics file to which accepted n-grams are added; None for none."""
    if not settings.lookup_cache_update or not settings.lookup_cache_dynamic:
        return None
    return Path(settings.lookup_cache_dynamic[0]).expanduser()


@dataclass(slots=True, eq=False)
class AcceptedTokens:
    """What was accepted in one workspace, by one vocabulary."""

    vocabulary: Vocabulary
    parts: deque[TokenArray] = field(default_factory=lambda: deque(maxlen=_N_DRAFTED_FROM))
    tokens: TokenArray = field(default_factory=lambda: EMPTY_TOKENS)
    """The parts, joined."""
    counts: LearnedCounts | None = None
    """None until they are read."""


class AcceptedTexts:
    """Accepted texts and their n-grams, by workspace.

    A store that fails is logged once and not used again; texts are then kept in memory only.
    Only texts are stored: their n-grams are counted again in each session.
    """

    def __init__(self, settings: Settings, events: EventQueue) -> None:
        self._masks = settings.mask_secrets
        self._is_kept = settings.persist
        self._events = events
        self._lock = threading.Lock()
        self._vocabulary: Vocabulary | None = None
        self._read: dict[str, tuple[AcceptedTokens, Future[None]]] = {}
        self._thread = ThreadPoolExecutor(1, "speclsp-accepted")
        self._latest: Future[None] | None = None
        self._store: AcceptedStore | None = None
        self._file = updated_file(settings)
        """The statistics file that takes what is counted; None if there is none."""
        self._uncounted: Counter[tuple[tuple[int, ...], int]] = Counter()
        """Counts that it lacks, of the vocabulary ``_counts_of``."""
        self._counts_of: Vocabulary | None = None

    def take_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Tokenise with another vocabulary from now on."""
        with self._lock:
            self._vocabulary = tokenizer.vocabulary
            self._read = {}

    def take(self, accepted: AcceptedText, root: str) -> None:
        """Keep and count a text of a workspace unless it may be secret."""
        before, text, path = accepted.before, accepted.text, accepted.path
        if not text.strip() or is_secret_path(path):
            return
        if self._masks and holds_secret(before + text, path):
            return
        read = self._of_workspace(root)
        self._later(self._add, root, accepted, None if read is None else read[0])

    def of_root(self, root: str) -> AcceptedTokens | None:
        """Return what was accepted in a workspace, for the engine thread.

        None without a vocabulary.
        """
        read = self._of_workspace(root)
        if read is None:
            return None
        accepted, reading = read
        wait((reading,), _READ_S)
        return accepted

    def wait_done(self, timeout_s: float) -> bool:
        """Wait until everything is kept; return whether it is."""
        return self._latest is None or not wait((self._latest,), timeout_s).not_done

    def close(self) -> None:
        """Write what is left and close the stores; further calls do nothing."""
        with suppress(RuntimeError):
            self._later(self._update_file)
            self._later(self._close_store)
        self._thread.shutdown(wait=False)
        self.wait_done(_CLOSE_S)

    def _of_workspace(self, root: str) -> tuple[AcceptedTokens, Future[None]] | None:
        with self._lock:
            if root not in self._read and self._vocabulary is not None:
                accepted = AcceptedTokens(self._vocabulary)
                self._read[root] = accepted, self._later(self._read_texts, root, accepted)
                self._later(self._read_counts, root, accepted)
            return self._read.get(root)

    # --- the thread of its own ------------------------------------------------------------------

    def _later(self, job: Callable[..., None], *arguments: object) -> Future[None]:
        guard = self._events.guard
        self._latest = self._thread.submit(guard, "accepted completions", job, *arguments)
        return self._latest

    def _read_texts(self, root: str, accepted: AcceptedTokens) -> None:
        kept = self._kept(root, _N_DRAFTED_FROM)
        accepted.parts.extend(accepted.vocabulary.tokenize(text) for text, _ in kept)
        accepted.tokens = np.concatenate([EMPTY_TOKENS, *accepted.parts])

    def _read_counts(self, root: str, accepted: AcceptedTokens) -> None:
        counted: Counter[tuple[tuple[int, ...], int]] = Counter()
        for text, n_before in self._kept(root, MAX_TEXTS):
            tokens = accepted.vocabulary.tokenize(text)
            counted.update(_counted(accepted.vocabulary, text[:n_before], tokens))
        counts = LearnedCounts(_MAX_NGRAMS)
        counts.add(counted.items())
        accepted.counts = counts

    def _add(self, root: str, accepted: AcceptedText, known: AcceptedTokens | None) -> None:
        text, n_before = accepted.before + accepted.text, len(accepted.before)
        self._stored(lambda store: store.append(root, text, n_before), None)
        if known is None:
            return
        tokens = known.vocabulary.tokenize(text)
        known.parts.append(tokens)
        known.tokens = np.concatenate(list(known.parts))
        counted = _counted(known.vocabulary, accepted.before, tokens)
        if known.counts is not None:
            known.counts.add(counted.items())
        if self._file is not None:
            if self._counts_of is not known.vocabulary:
                self._update_file()
            self._counts_of = known.vocabulary
            self._uncounted.update(counted)

    def _update_file(self) -> None:
        """Add what was counted to the statistics file."""
        counted, self._uncounted = self._uncounted, Counter()
        if self._file is None or self._counts_of is None or not counted:
            return
        add_counts(self._file, tables_of(counted), self._counts_of)
        self._events.log("info", f"{len(counted):,} counts were added to {self._file}.")

    def _kept(self, root: str, n_texts: int) -> list[KeptText]:
        nothing: list[KeptText] = []
        return self._stored(lambda store: store.recent(root, n_texts), nothing)

    def _stored(self, use: Callable[[AcceptedStore], _Result], otherwise: _Result) -> _Result:
        """Return what ``use`` does with the store, ``otherwise`` if it cannot be used."""
        if not self._is_kept:
            return otherwise
        try:
            if self._store is None:
                self._store = AcceptedStore.open(self._events.warn)
            return use(self._store)
        except BusyError as error:
            self._events.log("info", str(error))
        except StoreError as error:
            self._is_kept = False
            self._close_store()
            self._events.log("warning", f"accepted completions are not kept: {error}")
        return otherwise

    def _close_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()


def _counted(vocabulary: Vocabulary, before: str, tokens: TokenArray) -> Counted:
    """Count the n-grams of ``tokens``, a text that begins with ``before``, behind that."""
    known = vocabulary.tokenize(before)
    n_both = min(known.size, tokens.size)
    # Where the accepted text changes the last token before it, that one is new as well.
    differs = np.flatnonzero(known[:n_both] != tokens[:n_both])
    return count_accepted(tokens, int(differs[0]) if differs.size else n_both)
