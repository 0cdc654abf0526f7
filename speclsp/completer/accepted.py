"""Accepted texts of each workspace, to draft from, and counts of their n-grams.

A text counts in the statistics file that the settings name, if it takes what is learned, and for
its workspace otherwise.  A thread of its own reads and writes the stores and tokenises.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Container, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Final, NamedTuple, TypeVar

import numpy as np

from speclsp.backends.weights import Tokenizer
from speclsp.completer.learned_files import LearnedFiles, LearnInto
from speclsp.drafting.drafter import EMPTY_TOKENS, TokenArray
from speclsp.drafting.ngram_mod import n_shared_at_start
from speclsp.errors import StoreError
from speclsp.ngrams.learned import Counted, LearnedCounts, count_accepted
from speclsp.seam.documents import AcceptedText, Range, Ranges, name_of
from speclsp.seam.events import EventQueue
from speclsp.secrets.masked_text import holds_secret
from speclsp.secrets.paths import is_secret_path
from speclsp.secrets.pieces import Pieces
from speclsp.settings import Settings
from speclsp.storage.accepted_store import MAX_TEXTS, AcceptedStore, KeptText
from speclsp.storage.database import BusyError
from speclsp.storage.locations import WaitLimit
from speclsp.vocabulary_protocol import Vocabulary

_N_DRAFTED_FROM: Final = 500
"""Latest accepted texts per workspace that are drafted from as texts; all texts are counted."""
_MAX_NGRAMS: Final = 200_000
"""Pairs of n-gram and follower counted per workspace."""

_READ_S: Final = 1.0
"""Maximum seconds that a workspace's first request waits for the texts that it drafts from."""
_CLOSE_S: Final = 5.0

_LEFT: Final = "Accepted completions may still hold what became a secret."
_LEFT_REMEDY: Final = (
    "It is removed once the store can be written, if that is before the engine ends; `speclsp data "
    "forget --all` removes all of them."
)

_Result = TypeVar("_Result")


def is_learned(accepted: AcceptedText, *, masks: bool) -> bool:
    """Whether to draft from a text: it is not blank and, where ``masks``, holds no secret."""
    if not accepted.text.strip() or is_secret_path(accepted.path, accepted.file):
        return False
    return not (masks and holds_secret(accepted.whole, accepted.path))


@dataclass(slots=True, eq=False)
class AcceptedTokens:
    """The accepted texts of one workspace as tokens of one vocabulary."""

    vocabulary: Vocabulary
    parts: deque[TokenArray] = field(default_factory=lambda: deque(maxlen=_N_DRAFTED_FROM))
    tokens: TokenArray = field(default_factory=lambda: EMPTY_TOKENS)
    """The parts, joined."""
    is_ready: threading.Event = field(default_factory=threading.Event)
    """Set when the latest texts were read or could not be, or a request has waited for them."""
    counts: Mapping[str, LearnedCounts] = field(default_factory=dict)
    """Counts by the id of the statistics file that has the same texts; "" for texts of none."""

    def take(self, tokens: TokenArray) -> None:
        """Draft from a text."""
        self.parts.append(tokens)
        self.tokens = np.concatenate(list(self.parts))

    def count(self, counted_as: str, counted: Counted) -> None:
        """Add counts of texts that the file ``counted_as`` has, too; on one thread."""
        if counted_as not in self.counts:
            self.counts = {**self.counts, counted_as: LearnedCounts(_MAX_NGRAMS)}
        self.counts[counted_as].add(counted.items())

    def counts_without(self, files: Container[str]) -> tuple[LearnedCounts, ...]:
        """Return the counts of the texts that none of these files has."""
        return tuple(counts for of, counts in self.counts.items() if of not in files)


class _Taken(NamedTuple):
    """A text that was accepted in a workspace, and may be in the store by now."""

    root: str
    accepted: AcceptedText
    into: LearnInto
    number: int | None
    """The text's number in the store; None if that does not have it."""


class AcceptedTexts:
    """Accepted texts and their n-grams, by workspace.

    A store that fails is logged once, and texts are then kept in memory only; what became a secret
    is removed from it as soon as that is possible again.
    Only texts are stored: their n-grams are counted again in each session.
    """

    def __init__(
        self,
        settings: Settings,
        events: EventQueue,
        files: LearnedFiles,
        limit: WaitLimit | None = None,
    ) -> None:
        """``limit`` bounds waits for other processes."""
        self._masks = settings.mask_secrets
        self._is_kept = settings.persist
        self._has_failed = False
        """Whether the store failed, so that no text is read from it or added."""
        self._events = events
        self._files = files
        self._limit = limit
        self._lock = threading.RLock()
        self._vocabulary: Vocabulary | None = None
        self._by_root: dict[str, AcceptedTokens] = {}
        self._thread = ThreadPoolExecutor(1, "speclsp-accepted")
        self._latest: Future[None] | None = None
        self._store: AcceptedStore | None = None
        self._n_unkept = 0
        """Texts that were not stored, since another process wrote, and that the log does not name
        yet."""
        self._busy: BusyError | None = None
        self._is_told = False
        """Whether the user was told that the store holds what became a secret."""
        self._secret = Pieces(())
        """Pieces of secrets that the store may still hold."""
        self._named: deque[tuple[str, Ranges]] = deque(maxlen=MAX_TEXTS)
        """Names of texts that it may still hold, and where there are secrets in them."""
        self._waiting: deque[_Taken] = deque(maxlen=MAX_TEXTS)
        """Texts that were accepted before a vocabulary was loaded."""

    def use_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Tokenise with another vocabulary from now on."""
        with self._lock:
            self._vocabulary = tokenizer.vocabulary
            self._by_root = {}
            self._forget_in_files()
            self._later(self._learn_waiting)

    def take(self, accepted: AcceptedText, root: str, into: LearnInto) -> None:
        """Keep and count a text of a workspace unless it may be secret.

        Before there is a vocabulary it waits for one.
        """
        if is_learned(accepted, masks=self._masks):
            with self._lock:
                self._later(self._add, root, accepted, self.begin(root), into)

    def take_generated(self, generated: AcceptedText, into: LearnInto) -> None:
        """Count a text that the model wrote, unless it may be secret."""
        if self._vocabulary is not None and is_learned(generated, masks=self._masks):
            self._later(self._count_generated, generated, self._vocabulary, into)

    def waits_for_vocabulary(self) -> bool:
        """Whether there are texts that no vocabulary was there for; waits until all are stored."""
        return self.wait_done(_CLOSE_S) and bool(self._waiting)

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

    def forget(self, pieces: Pieces) -> None:
        """Forget the texts with a piece of a secret, and their counts, in memory and on disk.

        Requests wait for that as they do for the texts.  Where these are not stored, all are
        forgotten.
        """
        self._files.begin_to_forget(pieces)
        with self._lock:
            if self._is_kept:
                self._secret = self._secret.joined(pieces)
            roots, self._by_root = [*self._by_root], {}
            self._later(self._forget, pieces)
            for root in roots:
                self.begin(root)

    def forget_learned(self, name: str, ranges: Ranges) -> None:
        """Forget the text of this name, and all with its letters at ``ranges``, as secrets."""
        with self._lock:
            roots, self._by_root = [*self._by_root], {}
            self._later(self._forget_learned, name, ranges)
            for root in roots:
                self.begin(root)

    def update_files(self) -> None:
        """Begin to bring all statistics files up to date."""
        self._forget_in_files()
        self._later(self._files.fold_all)

    def _forget_in_files(self) -> None:
        """Begin to take secrets out of the statistics files where that was impossible before."""
        if self._files.has_secret:
            self._files.begin_to_forget(Pieces(()))
            self._later(self._files.forget, self._vocabulary)

    def wait_done(self, timeout_s: float) -> bool:
        """Wait until all texts are stored; return False after ``timeout_s``."""
        latest = None
        while latest is not self._latest:  # a job may have begun others
            latest = self._latest
            if latest is not None and wait((latest,), timeout_s).not_done:
                return False
        return True

    def close(self) -> None:
        """Bring the statistics files up to date and close the store; further calls do nothing."""
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
        counted: dict[str, Counter[tuple[tuple[int, ...], int]]] = {}
        try:
            self._remove_secret()
            kept = self._stored(lambda store: store.recent(root, MAX_TEXTS), nothing)
            kept = [each for each in kept if not self._secret.are_in(each.text)]
            latest = [vocabulary.tokenize(each.text) for each in kept[-_N_DRAFTED_FROM:]]
            accepted.parts.extend(latest)
            accepted.tokens = np.concatenate([EMPTY_TOKENS, *latest])
        finally:
            accepted.is_ready.set()
        # Requests do not wait for the counts of up to 2,000 texts.
        older = (vocabulary.tokenize(each.text) for each in kept[: len(kept) - len(latest)])
        for each, tokens in zip(kept, chain(older, latest), strict=True):
            n_known = _n_known(vocabulary, each.text[: each.n_before], tokens)
            counted.setdefault(each.counted_as, Counter()).update(count_accepted(tokens, n_known))
        for counted_as, counts in counted.items():
            accepted.count(counted_as, counts)

    def _forget(self, pieces: Pieces) -> None:
        def is_secret(taken: _Taken) -> bool:
            return pieces.are_in(taken.accepted.whole)

        try:
            waiting = (taken for taken in self._waiting if not is_secret(taken))
            self._waiting = deque(waiting, maxlen=MAX_TEXTS)
            self._remove_secret()
        finally:
            self._files.forget(self._vocabulary)

    def _forget_learned(self, name: str, ranges: Ranges) -> None:
        self._named.append((name, ranges))
        self._find_named()

    def _find_named(self) -> None:
        """Forget the letters of secrets in the texts whose names are known; later, as below."""
        texts = [taken.accepted.whole for taken in self._waiting]
        stored = self._stored(AcceptedStore.texts, None, removes=True)
        named: dict[str, set[Range]] = {}
        for name, ranges in self._named:
            named.setdefault(name, set()).update(ranges)
        known = ((text, named.get(name_of(text), ())) for text in (*texts, *(stored or ())))
        secrets = {text[start:end] for text, ranges in known for start, end in ranges}
        if stored is not None or not self._is_kept:
            self._named.clear()
        if pieces := Pieces(sorted(secrets)):
            self.forget(pieces)

    def _remove_secret(self) -> None:
        """Remove from the store what became secret; later, while it cannot be written."""
        if self._named:
            self._find_named()
        secret = self._secret
        if not secret:
            return
        remove = partial(AcceptedStore.remove, is_removed=secret.are_in)
        if self._stored(remove, None, removes=True) is not None:
            with self._lock:
                if self._secret is secret:
                    self._secret = Pieces(())

    def _add(
        self,
        root: str,
        accepted: AcceptedText,
        known: AcceptedTokens | None,
        into: LearnInto,
    ) -> None:
        text, n_before = accepted.whole, len(accepted.before)
        self._remove_secret()
        number = self._stored(lambda s: s.append(root, text, n_before), None, is_text=True)
        taken = _Taken(root, accepted, into, number)
        if known is None:
            self._waiting.append(taken)
        else:
            self._learn(taken, known)

    def _learn(self, taken: _Taken, known: AcceptedTokens) -> None:
        """Draft from a text, and count it."""
        tokens, n_known = _tokens_of(taken.accepted, known.vocabulary)
        known.take(tokens)
        counted_as = self._count_in_file(taken, tokens, n_known, known.vocabulary)
        known.count(counted_as, count_accepted(tokens, n_known))

    def _learn_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque(maxlen=MAX_TEXTS)
        for taken in waiting:
            known = self.begin(taken.root)
            assert known is not None
            if taken.number is None:
                self._later(self._learn, taken, known)
            else:  # the workspace's texts are read from the store next
                tokens, n_known = _tokens_of(taken.accepted, known.vocabulary)
                self._count_in_file(taken, tokens, n_known, known.vocabulary)

    def _count_in_file(
        self, taken: _Taken, tokens: TokenArray, n_known: int, vocabulary: Vocabulary
    ) -> str:
        """Count a text in the statistics file that takes it; return the file's id, "" for none.

        The store is told first: if the process ends in between, the text does not count, but it
        never counts twice.
        """
        into, number = taken.into, taken.number
        begun = self._files.begin(into, vocabulary)
        if begun is None:
            return ""
        file, counted_as = begun
        if number is not None and not self._mark(number, counted_as):
            return ""
        # The model wrote the text, and what it writes is counted then.
        if into.takes == "generated" or self._files.add(file, tokens, n_known, counted_as):
            return counted_as
        if number is not None:
            self._mark(number, "")
        return ""

    def _count_generated(
        self, generated: AcceptedText, vocabulary: Vocabulary, into: LearnInto
    ) -> None:
        begun = self._files.begin(into, vocabulary)
        if begun is not None:
            tokens, n_known = _tokens_of(generated, vocabulary)
            self._files.add(begun[0], tokens, n_known, begun[1])

    def _mark(self, number: int, counted_as: str) -> bool:
        def mark(store: AcceptedStore) -> bool:
            store.mark(number, counted_as)
            return True

        return self._stored(mark, otherwise=False)

    def _stored(
        self,
        use: Callable[[AcceptedStore], _Result],
        otherwise: _Result,
        *,
        is_text: bool = False,
        removes: bool = False,
    ) -> _Result:
        """Return the result of ``use``, or ``otherwise`` if the store fails or is switched off.

        A text that is not kept, since another process writes, is counted for the log.  What
        ``removes`` secrets is tried again on a store that failed.
        """
        if not self._is_kept or (self._has_failed and not removes):
            return otherwise
        try:
            if self._store is None:
                self._store = AcceptedStore.open(self._events.warn, self._limit)
            result = use(self._store)
            if is_text:
                self._tell_unkept()
            return result
        except BusyError as error:
            if is_text:
                self._n_unkept += 1
                self._busy = error
            else:
                self._events.log("info", str(error))
        except StoreError as error:
            self._disconnect()
            if not self._has_failed:
                self._has_failed = True
                self._events.log("warning", f"accepted completions are not kept: {error}")
            if removes and not self._is_told:
                self._is_told = True
                self._events.problem(f"{_LEFT} {error.message}", _LEFT_REMEDY)
        return otherwise

    def _tell_unkept(self) -> None:
        if self._n_unkept:
            text = f"{self._n_unkept} accepted texts are not kept: {self._busy}"
            self._events.log("warning", text)
            self._n_unkept = 0

    def _close_store(self) -> None:
        self._remove_secret()
        self._tell_unkept()
        if self._is_kept and (self._secret or self._named) and not self._is_told:
            self._events.problem(_LEFT, _LEFT_REMEDY)
        self._files.report_left()
        self._disconnect()

    def _disconnect(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()


def _tokens_of(accepted: AcceptedText, vocabulary: Vocabulary) -> tuple[TokenArray, int]:
    """Return the tokens of a text, and how many at their beginning are those before it."""
    tokens = vocabulary.tokenize(accepted.whole)
    return tokens, _n_known(vocabulary, accepted.before, tokens)


def _n_known(vocabulary: Vocabulary, before: str, tokens: TokenArray) -> int:
    """Return how many of a text's ``tokens`` are those of ``before``, its beginning."""
    # The accepted text may change the last token before it, which then counts as new.
    return n_shared_at_start(vocabulary.tokenize(before), tokens)
