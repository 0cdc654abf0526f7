"""Counts the n-grams of accepted text in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from speclsp.drafting.drafter import TokenArray
from speclsp.ngrams.counting import joined, observed, table_of
from speclsp.ngrams.table import NgramTable, NgramTables

MAX_ORDER: Final = 4
"""Tokens of the longest counted n-grams."""

Counted = Mapping[tuple[tuple[int, ...], int], int]
"""Count by (n-gram, follower)."""


def count_accepted(tokens: TokenArray, n_known: int) -> Counted:
    """Count the n-grams whose follower is accepted text: at position ``n_known`` or later.

    Tokens before ``n_known`` are the text in front of the cursor.
    """
    counts: Counter[tuple[tuple[int, ...], int]] = Counter()
    for order in range(1, MAX_ORDER + 1):
        seen = observed(tokens, order, n_known)
        grams = map(tuple, seen.grams.tolist())
        counts.update(zip(grams, seen.tokens.tolist(), strict=True))
    return counts


def tables_of(texts: Sequence[tuple[TokenArray, int]]) -> NgramTables:
    """Count texts, given with their ``n_known``, as tables for a statistics file."""
    tables: dict[int, NgramTable] = {}
    for order in range(1, MAX_ORDER + 1):
        seen = joined([observed(tokens, order, n_known) for tokens, n_known in texts])
        if seen.tokens.size:
            tables[order] = table_of(seen)
    return NgramTables(tables)


class LearnedCounts:
    """The counts of one workspace; implements the drafters' ``NgramCounts``.

    One thread may add while others look up.  When there are more than ``max_ngrams`` pairs of an
    n-gram and a follower, all counts are halved and zeros removed.
    """

    def __init__(self, max_ngrams: int) -> None:
        self._max_ngrams = max_ngrams
        self._n_ngrams = 0
        # The inner mappings are replaced, never changed, so look-ups need no lock.
        self._counts: dict[tuple[int, ...], Mapping[int, int]] = {}

    @property
    def max_order(self) -> int:
        """Tokens of the longest n-grams; 0 if there are none."""
        return MAX_ORDER if self._counts else 0

    def followers(self, ngram: tuple[int, ...]) -> Mapping[int, int]:
        """Return how often each token followed an n-gram; empty if it is unknown."""
        return self._counts.get(ngram, {})

    def add(self, counted: Iterable[tuple[tuple[tuple[int, ...], int], int]]) -> None:
        """Add counts, given as ((n-gram, follower), count)."""
        for (ngram, follower), count in counted:
            known = self._counts.get(ngram, {})
            self._n_ngrams += follower not in known
            self._counts[ngram] = {**known, follower: known.get(follower, 0) + count}
        while self._n_ngrams > self._max_ngrams:
            self._halve()

    def _halve(self) -> None:
        halved: dict[tuple[int, ...], Mapping[int, int]] = {}
        for ngram, followers in self._counts.items():
            left = {token: count // 2 for token, count in followers.items() if count > 1}
            if left:
                halved[ngram] = left
        self._counts = halved
        self._n_ngrams = sum(map(len, halved.values()))
