"""Accepted texts of each workspace, to draft from, and counts of their n-grams.

A thread of its own reads and writes the stores and tokenises.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
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
from speclsp.settings import Settings, named_path
from speclsp.storage.accepted_store import MAX_TEXTS, AcceptedStore, KeptText
from speclsp.storage.database import BusyError

_N_DRAFTED_FROM: Final = 500
"""Latest accepted texts per workspace that are drafted from as texts; all texts are counted."""
_MAX_NGRAMS: Final = 200_000
"""Pairs of n-gram and follower counted per workspace."""

_READ_S: Final = 1.0
"""Maximum seconds that a workspace's first request waits for the texts that it drafts from."""
_CLOSE_S: Final = 5.0

_Result = TypeVar("_Result")


def is_learned(accepted: AcceptedText, *, masks: bool) -> bool:
    """Whether to draft from a text: it is not blank and, where ``masks``, holds no secret."""
    if not accepted.text.strip() or is_secret_path(accepted.path):
        return False
    return not (masks and holds_secret(accepted.before + accepted.text, accepted.path))


def updated_file(settings: Settings) -> Path | None:
    """Return the statistics file to which accepted n-grams are added; None for none."""
    if not settings.lookup_cache_update or not settings.lookup_cache_dynamic:
        return None
    return named_path(settings.lookup_cache_dynamic[0])


@dataclass(slots=True, eq=False)
class AcceptedTokens:
    """The accepted texts of one workspace as tokens of one vocabulary."""

    vocabulary: Vocabulary
    parts: deque[TokenArray] = field(default_factory=lambda: deque(maxlen=_N_DRAFTED_FROM))
    tokens: TokenArray = field(default_factory=lambda: EMPTY_TOKENS)
    """The parts, joined."""
    is_ready: threading.Event = field(default_factory=threading.Event)
    """Set when the latest texts were read or could not be, or a request has waited for them."""
    counts: LearnedCounts = field(default_factory=lambda: LearnedCounts(_MAX_NGRAMS))


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
        self._by_root: dict[str, AcceptedTokens] = {}
        self._thread = ThreadPoolExecutor(1, "speclsp-accepted")
        self._latest: Future[None] | None = None
        self._store: AcceptedStore | None = None
        self._uncounted: dict[Path, Counter[tuple[tuple[int, ...], int]]] = {}
        """Counts that statistics files lack, of the vocabulary ``_counts_of``."""
        self._counts_of: Vocabulary | None = None

    def take_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Tokenise with another vocabulary from now on."""
        with self._lock:
            self._vocabulary = tokenizer.vocabulary
            self._by_root = {}

    def take(self, accepted: AcceptedText, root: str, file: Path | None) -> None:
        """Keep and count a text of a workspace unless it may be secret.

        ``file`` is the statistics file that takes its counts later; None for none.
        """
        if not is_learned(accepted, masks=self._masks):
            return
        self._later(self._add, root, accepted, self.begin(root), file)

    def of_root(self, root: str) -> AcceptedTokens | None:
        """Return a workspace's accepted texts; the first call waits for them, 1 s at most.

        None without a vocabulary.
        """
        accepted = self.begin(root)
        if accepted is not None and not accepted.is_ready.wait(_READ_S):
            accepted.is_ready.set()
        return accepted

    def begin(self, root: str) -> AcceptedTokens | None:
        """Begin to read a workspace's accepted texts; does not wait."""
        with self._lock:
            if root not in self._by_root and self._vocabulary is not None:
                self._by_root[root] = AcceptedTokens(self._vocabulary)
                self._later(self._read, root, self._by_root[root])
            return self._by_root.get(root)

    def update_files(self) -> None:
        """Begin to add what was counted to the statistics files."""
        self._later(self._update_files)

    def wait_done(self, timeout_s: float) -> bool:
        """Wait until all texts are stored; return False after ``timeout_s``."""
        return self._latest is None or not wait((self._latest,), timeout_s).not_done

    def close(self) -> None:
        """Write the remaining counts and close the store; further calls do nothing."""
        self.update_files()
        self._later(self._close_store)
        self._thread.shutdown(wait=False)
        self.wait_done(_CLOSE_S)

    # --- the thread of its own ------------------------------------------------------------------

    def _later(self, job: Callable[..., None], *arguments: object) -> None:
        guard = self._events.guard
        with suppress(RuntimeError):  # closed
            self._latest = self._thread.submit(guard, "accepted completions", job, *arguments)

    def _read(self, root: str, accepted: AcceptedTokens) -> None:
        nothing: list[KeptText] = []
        vocabulary = accepted.vocabulary
        counted: Counter[tuple[tuple[int, ...], int]] = Counter()
        try:
            kept = self._stored(lambda store: store.recent(root, MAX_TEXTS), nothing)
            latest = [vocabulary.tokenize(text) for text, _ in kept[-_N_DRAFTED_FROM:]]
            accepted.parts.extend(latest)
            accepted.tokens = np.concatenate([EMPTY_TOKENS, *latest])
        finally:
            accepted.is_ready.set()
        # Requests do not wait for the counts of up to 2,000 texts.
        older = (vocabulary.tokenize(text) for text, _ in kept[: len(kept) - len(latest)])
        for (text, n_before), tokens in zip(kept, chain(older, latest), strict=True):
            counted.update(_counted(vocabulary, text[:n_before], tokens))
        accepted.counts.add(counted.items())

    def _add(
        self, root: str, accepted: AcceptedText, known: AcceptedTokens | None, file: Path | None
    ) -> None:
        text, n_before = accepted.before + accepted.text, len(accepted.before)
        self._stored(lambda store: store.append(root, text, n_before), None)
        if known is None:
            return
        tokens = known.vocabulary.tokenize(text)
        known.parts.append(tokens)
        known.tokens = np.concatenate(list(known.parts))
        counted = _counted(known.vocabulary, accepted.before, tokens)
        known.counts.add(counted.items())
        if file is not None:
            if self._counts_of is not known.vocabulary:
                self._update_files()
            self._counts_of = known.vocabulary
            self._uncounted.setdefault(file, Counter()).update(counted)

    def _update_files(self) -> None:
        """Add what was counted to the statistics files; one that fails leaves the others alone."""
        while self._uncounted:
            self._events.guard("accepted completions", self._update, *self._uncounted.popitem())

    def _update(self, file: Path, counted: Counter[tuple[tuple[int, ...], int]]) -> None:
        if self._counts_of is not None and counted:
            add_counts(file, tables_of(counted), self._counts_of)
            self._events.log("info", f"{len(counted):,} counts were added to {file}.")

    def _stored(self, use: Callable[[AcceptedStore], _Result], otherwise: _Result) -> _Result:
        """Return the result of ``use``, or ``otherwise`` if the store fails or is switched off."""
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
    """Count the n-grams of a text's ``tokens`` that end after ``before``, its beginning."""
    known = vocabulary.tokenize(before)
    n_both = min(known.size, tokens.size)
    # The accepted text may change the last token before it, which then counts as new.
    differs = np.flatnonzero(known[:n_both] != tokens[:n_both])
    return count_accepted(tokens, int(differs[0]) if differs.size else n_both)
