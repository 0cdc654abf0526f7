"""A statistics file that takes what is learned, first in a journal beside it.

Engines of several processes may share the file.  Each appends what it learns to the journal, and
any of them adds the journal's counts to the file.  A text counts once whenever a process ends: it
leaves the journal and enters the file under one lock, and where a process ended in between, the
journal tells whether the file has the text.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final
from weakref import WeakSet

import numpy as np

from speclsp.drafting.drafter import TokenArray
from speclsp.errors import StoreError
from speclsp.ngrams import files, journal, own_layout
from speclsp.ngrams.counting import merge
from speclsp.ngrams.files import StatisticsFile
from speclsp.ngrams.journal import Folded, Learned
from speclsp.ngrams.learned import (
    MAX_ORDER,
    Counted,
    LearnedCounts,
    count_accepted,
    tables_of,
    without_secrets,
)
from speclsp.ngrams.own_layout import FileHeader, VocabularyIdentity
from speclsp.ngrams.reading import damaged, read_bytes, state_of
from speclsp.ngrams.table import NgramTables
from speclsp.storage.locations import WaitLimit, locked, workspace_id
from speclsp.vocabulary_protocol import Vocabulary

_LOCK_WAIT_S: Final = 30.0
"""The lock is held while counts are added: 2.5 s for a file of 98 MB."""
_MAX_NGRAMS: Final = 200_000
"""Pairs of n-gram and follower that are counted beside a file."""


class LearnedFile:
    """A statistics file and its journal.  Any thread may call it; methods raise StoreError."""

    def __init__(
        self,
        path: Path,
        report: Callable[[StoreError], None],
        limit: WaitLimit | None = None,
    ) -> None:
        """``report`` gets problems that were dealt with; ``limit`` bounds waits for the lock."""
        self.path = path
        self._report = report
        self._limit = limit
        self._journal = self.path.with_name(f".{self.path.name}.journal")
        self._lock_path = self.path.with_name(f".{self.path.name}.lock")
        self._lock = threading.Lock()
        self._vocabulary: VocabularyIdentity | None = None
        """That of the latest :meth:`begin`; None if there was no file yet."""
        self._opened: WeakSet[LearnedCounts] = WeakSet()
        """The journal's counts beside the tables that were read here."""

    def is_own(self) -> bool:
        """Whether speclsp created the file for what it learns, or may, since there is none."""
        if state_of(self.path) is None:
            return True
        header = own_layout.read_header(self.path)
        return header is not None and bool(header.learned_id)

    def may_learn(self) -> bool:
        """Whether :meth:`begin` took the file, or it is speclsp's own or cannot be read."""
        try:
            return self._vocabulary is not None or self.is_own()
        except StoreError:
            return True

    def begin(self, vocabulary: VocabularyIdentity) -> str:
        """Create the file if there is none, and return the id of the texts that it counts.

        That a file was there before and is not any more is reported.
        """
        if state_of(self.path) is None:
            with self._locked(self.path):
                if state_of(self.path) is None:
                    was_there = self._vocabulary is not None  # before others find the new file
                    self._journal.unlink(missing_ok=True)  # of a file that was removed
                    new_id = secrets.token_hex(16)
                    files.write(self.path, {}, "speclsp", vocabulary, learned_id=new_id)
                    if was_there:
                        self._report_removed()
        header = own_layout.read_header(self.path)
        if header is not None:
            files.check_vocabulary(self.path, header, vocabulary)
        self._vocabulary = vocabulary
        return self._id(header)

    def append(self, tokens: TokenArray, n_known: int, counted_as: str) -> bool:
        """Count a text after :meth:`begin`; it is on the disk when the call returns.

        The first arguments are those of :class:`~speclsp.ngrams.journal.Learned`.  Returns False
        if the file's id is not ``counted_as`` any more, since another one took its place.
        """
        assert self._vocabulary is not None
        n_left_out = max(0, n_known - MAX_ORDER)
        text = Learned(
            vocabulary=self._vocabulary.fingerprint,
            tokens=tokens[n_left_out:].tolist(),
            n_known=n_known - n_left_out,
        )
        with self._lock, self._locked(self._journal):
            if self._id(own_layout.read_header(self.path)) != counted_as:
                return False
            journal.append(self._journal, text)
            counted = _counted([text])
            for counts in self._opened:
                counts.add(counted.items())
        return True

    def open(self, vocabulary: VocabularyIdentity) -> StatisticsFile:
        """Read and check the file, with the counts of its journal, which :meth:`append` adds to."""
        with self._lock:
            data, kept = self._read()
            file = files.parse_statistics(self.path, data, vocabulary, "dynamic")
            learned = LearnedCounts(_MAX_NGRAMS)
            learned.add(_counted(self._texts(kept, data, vocabulary)).items())
            self._opened.add(learned)
        return replace(file, counted_as=self._id(file.header), learned=learned)

    def is_due(self, now_s: float, every_s: float) -> bool:
        """Whether to :meth:`fold`: the file is ``every_s`` seconds old, and small for the journal.

        So a large file is rewritten for many texts only.  A journal that is half full does not
        wait, since the texts that it has no room for would be lost.
        """
        state, kept = state_of(self.path), state_of(self._journal)
        if state is None or kept is None:
            return False
        is_new = 0 <= now_s - state[1] / 1e9 < every_s
        return kept[0] >= (journal.MAX_BYTES // 2) or (not is_new and kept[0] >= state[0] // 16)

    def fold(self) -> int:
        """Add the journal's counts to the file, and return of how many texts they are."""
        vocabulary = self._vocabulary
        if vocabulary is None or state_of(self._journal) is None:
            return 0
        with self._lock, self._locked(self._journal):
            file, texts = self._whole(vocabulary)
            if texts:
                self._replace(file, _with_texts(file, texts), vocabulary)
            self._journal.unlink(missing_ok=True)
        return len(texts)

    def forget(self, secrets: Sequence[str], vocabulary: Vocabulary) -> bool:
        """Take the n-grams within secrets out of the file and its journal; return if it had any.

        Nothing is done where there is no file.
        """
        if state_of(self.path) is None:
            return False
        with self._lock, self._locked(self._journal):
            file, texts = self._whole(vocabulary)
            tables = _with_texts(file, texts) if texts else file.tables
            left = without_secrets(tables, secrets, vocabulary.piece)
            if left is tables:
                return False
            self._replace(file, left, vocabulary)
            self._journal.unlink(missing_ok=True)
        return True

    def _whole(self, vocabulary: VocabularyIdentity) -> tuple[StatisticsFile, list[Learned]]:
        """Return the file, and the journal's texts that it lacks; the locks are held."""
        data, kept = read_bytes(self.path), journal.read(self._journal)
        file = files.parse_statistics(self.path, data, vocabulary, "dynamic")
        return file, self._texts(kept, data, vocabulary)

    def _replace(
        self,
        file: StatisticsFile,
        tables: NgramTables,
        vocabulary: VocabularyIdentity,
    ) -> None:
        """Replace the file by one that counts the journal's texts, too; the locks are held."""

        def ready(new_file: Path) -> None:
            journal.append(self._journal, Folded(file_hash=_hash_of(new_file.read_bytes())))

        learned_id = "" if file.header is None else file.header.learned_id
        files.write(
            self.path,
            tables.by_order,
            file.layout,
            vocabulary,
            learned_id=learned_id,
            ready=ready,
        )

    @contextmanager
    def _locked(self, written: Path) -> Iterator[None]:
        """Hold the lock; an OSError means that ``written`` cannot be written."""
        try:
            if not self.path.parent.is_dir():  # the lock would create it
                raise StoreError(
                    f"{written} cannot be written: there is no folder {self.path.parent}.",
                    remedy="Create the folder, or correct the path.",
                )
            with locked(self._lock_path, _LOCK_WAIT_S, self._limit):
                yield
        except OSError as error:  # filelock's Timeout, too
            raise files.unwritable(written, error) from error

    def _read(self) -> tuple[bytes, bytes]:
        """Return the content of file and journal as of one moment; without a broken journal."""
        if state_of(self._journal) is not None:
            try:
                with self._locked(self._journal):
                    return read_bytes(self.path), journal.read(self._journal)
            except StoreError as error:
                data = read_bytes(self.path)
                self._report(error)
                return data, b""
        return read_bytes(self.path), b""

    def _texts(self, kept: bytes, data: bytes, vocabulary: VocabularyIdentity) -> list[Learned]:
        """Return the texts of a journal that the file lacks and can count."""
        texts, n_damaged = journal.parse(kept, lambda: _hash_of(data))
        if n_damaged:
            self._report(
                damaged(
                    self._journal,
                    None,
                    f"{n_damaged} of its lines cannot be read and do not count",
                    "There is nothing to do: the other lines count.",
                )
            )
        return [
            text
            for text in texts
            if text.vocabulary == vocabulary.fingerprint
            and max(text.tokens, default=0) < vocabulary.n_tokens
        ]

    def _id(self, header: FileHeader | None) -> str:
        """Return the file's id, which a copy keeps; of a file of others one of its path."""
        own = "" if header is None else header.learned_id
        return own or workspace_id(str(self.path)).hex()

    def _report_removed(self) -> None:
        self._report(
            StoreError(
                f"{self.path} was removed, and its counts with it; a new, empty one takes its "
                "place.",
                remedy="To have the counts back, restore a copy of the file.",
            )
        )


def _with_texts(file: StatisticsFile, texts: Sequence[Learned]) -> NgramTables:
    learned = tables_of([(_tokens_of(text), text.n_known) for text in texts])
    return merge([file.tables, learned])


def _counted(texts: Sequence[Learned]) -> Counted:
    counted: Counter[tuple[tuple[int, ...], int]] = Counter()
    for text in texts:
        counted.update(count_accepted(_tokens_of(text), text.n_known))
    return counted


def _tokens_of(text: Learned) -> TokenArray:
    return np.array(text.tokens, dtype=np.int32)


def _hash_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
