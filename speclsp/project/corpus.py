"""Searches the tokens of many files, which can be added and removed at any time.

The files are in a few :class:`~speclsp.drafting.token_index.TokenIndex`, each more than eight times
as large as the next newer one: new files are sorted into one index together with all indexes that
are not that much larger (Bentley and Saxe's logarithmic method).  A removed file is only marked
until its index is sorted again.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Collection
from typing import Final

import numpy as np

from speclsp.drafting.drafter import EMPTY_TOKENS, Candidate, TokenArray
from speclsp.drafting.token_index import FileKey, Match, TokenIndex, favourite, query_of, tokens_of

SOURCE: Final = "project"

_N_VOTES: Final = 16
"""Most places per index that vote for the most frequent continuation."""
_N_PLACES: Final = 8
"""Most places per index that become candidates.  16 gained nothing on five projects."""
_GROWTH: Final = 8
"""Least ratio of an index's size to that of all newer ones.  More means fewer indexes and more
sorting."""
_MANY_TOKENS: Final = 100_000


class Corpus:
    """One thread adds, removes and flushes files; any thread may search and hide.

    Implements :class:`~speclsp.drafting.drafter.TokenCorpus`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards which files are searchable."""
        self._indexes: tuple[TokenIndex, ...] = ()
        """Sorted by age and size, the oldest and largest first."""
        self._pending: dict[FileKey, TokenArray] = {}
        self._removed: set[FileKey] = set()
        self._hidden: frozenset[FileKey] = frozenset()
        self._sizes: dict[FileKey, int] = {}
        """Tokens of each file that is in an index and not removed."""
        self.n_tokens = 0
        """Searchable tokens, hidden files included."""
        self.n_pending_tokens = 0
        """Tokens that become searchable with the next flush."""
        self.n_sorted_tokens = 0
        """Tokens sorted since the start, counted again each time."""

    def __contains__(self, key: FileKey) -> bool:
        return key in self._pending or key in self._sizes

    @property
    def n_files(self) -> int:
        """Searchable files, hidden ones included."""
        return len(self._sizes)

    @property
    def n_visible_tokens(self) -> int:
        """Searchable tokens, hidden files excluded."""
        return self.n_tokens - sum(self._sizes.get(key, 0) for key in self._hidden)

    @property
    def n_indexes(self) -> int:
        """Indexes that a search visits."""
        return len(self._indexes)

    @property
    def n_bytes(self) -> int:
        """Memory that the indexes occupy."""
        return sum(index.n_bytes for index in self._indexes)

    def add(self, key: FileKey, tokens: TokenArray) -> None:
        """Add a file, which can be searched after the next :meth:`flush`.

        A known key is ignored: it identifies the content.
        """
        if key not in self and not self.revive(key):
            self._pending[key] = tokens
            self.n_pending_tokens += len(tokens)

    def revive(self, key: FileKey) -> bool:
        """Undo a removal, as after switching a branch back; False if the tokens are gone."""
        with self._lock:
            if key not in self._removed:
                return False
            self._removed.discard(key)
            self._sizes[key] = next(i.sizes[key] for i in self._indexes if key in i.sizes)
            self.n_tokens += self._sizes[key]
            self._mark((key,))
        return True

    def remove(self, key: FileKey) -> None:
        """Remove a file at once; unknown keys are ignored."""
        if key in self._pending:
            self.n_pending_tokens -= len(self._pending.pop(key))
        with self._lock:
            if key in self._sizes:
                self.n_tokens -= self._sizes.pop(key)
                self._removed.add(key)
                self._mark((key,))

    def hide(self, keys: Collection[FileKey]) -> None:
        """Exclude exactly these files from searches."""
        with self._lock:
            former, self._hidden = self._hidden, frozenset(keys)
            self._mark(former ^ self._hidden)

    def flush(self, pause: Callable[[], None] = lambda: None) -> None:
        """Make added files searchable.

        ``pause`` is called before each round of sorting; if it raises, nothing changes.
        """
        n_kept, n_new = self._to_keep()
        if n_kept == len(self._indexes) and not self._pending:
            return
        kept, merged = self._indexes[:n_kept], self._indexes[n_kept:]
        files = [file for index in merged for file in index.files() if file[0] in self._sizes]
        new = (TokenIndex([*files, *self._pending.items()], pause),) if n_new else ()
        self.n_sorted_tokens += n_new
        with self._lock:
            self._indexes = (*kept, *new)
            sizes = {key: size for index in self._indexes for key, size in index.sizes.items()}
            self._removed &= sizes.keys()
            self._sizes = {key: sizes[key] for key in sizes.keys() - self._removed}
            self.n_tokens = sum(self._sizes.values())
            self._mark(self._removed | self._hidden)
        self._pending.clear()
        self.n_pending_tokens = 0
        if n_new >= _MANY_TOKENS:
            _give_freed_memory_back()

    def continuation(
        self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
    ) -> tuple[TokenArray, int]:
        """Return what followed the longest suffix of ``tail`` in any file.

        The match has at least ``n_min`` tokens and at most ``n_max`` and DEPTH.  Of several places
        with the longest match the most frequent continuation wins, token by token, and of equal
        ones the newest.  Returns at most ``n_tokens`` tokens and the match's length, or (empty, 0).
        """
        matches = self._longest_matches(query_of(tail, n_max), max(n_min, 1), _N_VOTES)
        if not matches or n_tokens < 1:
            return EMPTY_TOKENS, 0
        # The newest first, which wins among equals.
        texts = [
            text
            for index, match in reversed(matches)
            for text in index.texts_after(match.places, n_tokens)
        ]
        tokens = tokens_of(favourite(texts, n_tokens))
        return np.array(tokens, dtype=np.int32), matches[0][1].n_tokens

    def candidates(
        self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
    ) -> list[Candidate]:
        """Return what followed the longest suffix of ``tail``, of ``n_min`` to ``n_max`` tokens.

        Returns at most ``n_tokens`` tokens per place; places with the same ones are one candidate.
        """
        if n_tokens < 1:
            return []
        matches = self._longest_matches(query_of(tail, n_max), max(n_min, 1), _N_PLACES)
        found: list[Candidate] = []
        for index, match in matches:
            n_each = (match.high - match.low) / len(match.places)
            n_alike: dict[bytes, float] = {}
            for text in index.texts_after(match.places, n_tokens):
                n_alike[text] = n_alike.get(text, 0.0) + n_each
            found += [
                Candidate(tokens_of(text), SOURCE, match.n_tokens, n_places)
                for text, n_places in n_alike.items()
            ]
        return found

    def _longest_matches(
        self, query: bytes, n_min: int, n_places: int
    ) -> list[tuple[TokenIndex, Match]]:
        """Return the indexes that have the longest match of at least ``n_min`` tokens."""
        found: list[tuple[TokenIndex, Match]] = []
        for index in self._indexes:
            match = index.longest_match(query, n_min, n_places)
            if match is None:
                continue
            if match.n_tokens > n_min:
                found.clear()
                n_min = match.n_tokens
            found.append((index, match))
        return found

    def _to_keep(self) -> tuple[int, int]:
        """Return how many of the oldest indexes to keep and how many tokens to sort again."""
        n_kept, n_new, n_seen = len(self._indexes), self.n_pending_tokens, self.n_pending_tokens
        for number in reversed(range(len(self._indexes))):
            index = self._indexes[number]
            n_living = sum(index.sizes[key] for key in index.sizes.keys() - self._removed)
            n_seen += n_living
            if n_living <= _GROWTH * n_new or 2 * n_living < index.n_tokens:
                n_kept, n_new = number, n_seen
        return n_kept, n_new

    def _mark(self, keys: Collection[FileKey]) -> None:
        """Update in the indexes whether these files are searchable."""
        for key in keys:
            is_living = key not in self._removed and key not in self._hidden
            for index in self._indexes:
                if key in index.sizes:
                    index.set_living(key, is_living=is_living)


def _give_freed_memory_back() -> None:
    """Return freed memory to the system, where the C library supports it.

    Sorting temporarily takes 60 bytes a token, and glibc keeps memory that a thread freed for the
    same thread: 20 bytes a token at ten million tokens.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
