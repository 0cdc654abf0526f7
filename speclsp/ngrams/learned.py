"""Counts the n-grams of accepted text in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

import numpy as np

from speclsp.drafting.drafter import TokenArray
from speclsp.ngrams.counting import Observations, joined, observed, rows_of, table_of
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


def without_secrets(
    tables: NgramTables, secrets: Sequence[str], piece: Callable[[int], bytes]
) -> NgramTables:
    """Leave out the n-grams of which two tokens in a row, the follower too, stand so in a secret.

    ``piece`` returns a token's bytes.  Returns the same tables where none is left out.
    """
    texts = tuple(secret.encode("utf-8", "replace") for secret in secrets)
    piece = cache(piece)

    def is_inside(*tokens: int) -> bool:
        return any(b"".join(map(piece, tokens)) in text for text in texts)

    left: dict[int, NgramTable] = {}
    for order, table in tables.by_order.items():
        rows = rows_of(table)
        columns = [*rows.grams.T, rows.tokens]
        known = np.unique(np.concatenate(columns))
        within = known[[is_inside(token) for token in known.tolist()]]
        out: set[int] = set()
        for first, second in pairwise(columns):
            places = np.flatnonzero(np.isin(first, within) & np.isin(second, within)).tolist()
            out.update(n for n in places if is_inside(int(first[n]), int(second[n])))
        if not out:
            left[order] = table
        elif len(out) < rows.tokens.size:
            kept = np.ones(rows.tokens.size, dtype=bool)
            kept[[*out]] = False
            left[order] = table_of(
                Observations(rows.grams[kept], rows.tokens[kept], rows.counts[kept])
            )
    is_same = all(left.get(order) is table for order, table in tables.by_order.items())
    return tables if is_same else NgramTables(left)


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
