"""Counts n-grams in token sequences, and adds up counts.

Tables are canonical: equal counts give equal arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.drafter import TokenArray
from speclsp.ngrams.table import MAX_COUNT, NgramTable, NgramTables, rows_of_grams

_SEPARATOR = -1


@dataclass(frozen=True, slots=True)
class Observations:
    """N-grams of one order with their followers and counts; rows may repeat and are not sorted."""

    grams: TokenArray
    """Shape [n, order]."""
    tokens: TokenArray
    """The follower of each n-gram; shape [n]."""
    counts: NDArray[np.integer]
    """Shape [n]."""


def count_tokens(sequences: Iterable[TokenArray], orders: Iterable[int]) -> NgramTables:
    """Count the n-grams of the given orders; none spans two sequences."""
    parts: list[TokenArray] = []
    for sequence in sequences:
        parts += [sequence, np.array([_SEPARATOR], dtype=np.int32)]
    text = np.concatenate(parts, dtype=np.int32) if parts else np.zeros(0, dtype=np.int32)
    tables = {}
    for order in orders:
        seen = observed(text, order)
        if seen.tokens.size:
            tables[order] = table_of(seen)
    return NgramTables(tables)


def observed(text: TokenArray, order: int, n_skipped: int = 0) -> Observations:
    """Return each n-gram of a text whose follower is at position ``n_skipped`` or later.

    Negative ids separate sequences.
    """
    n_windows = max(text.size - order, 0)
    first = min(max(n_skipped - order, 0), n_windows)
    inside = np.ones(n_windows - first, dtype=np.bool_)
    for offset in range(order + 1):
        inside &= text[first + offset : n_windows + offset] >= 0
    places = np.flatnonzero(inside) + first
    grams = np.stack([text[places + offset] for offset in range(order)], axis=1)
    return Observations(grams, text[places + order], np.ones(places.size, dtype=np.int64))


def merge(parts: Sequence[NgramTables]) -> NgramTables:
    """Add up the counts of several tables; the result is canonical."""
    orders = sorted({order for part in parts for order in part.by_order})
    return NgramTables(
        {
            order: table_of(
                joined([rows_of(part.by_order[order]) for part in parts if order in part.by_order])
            )
            for order in orders
        }
    )


def rows_of(table: NgramTable) -> Observations:
    """Return one observation per n-gram and follower of a table."""
    return Observations(np.repeat(table.grams, table.lengths, axis=0), table.tokens, table.counts)


def table_of(seen: Observations) -> NgramTable:
    """Sort observations, and add up the counts of equal rows."""
    columns = [*seen.grams.T, seen.tokens]
    # As many tokens as fit into 64 bits are sorted as one number.
    n_bits = max(1, max(int(column.max()) for column in columns).bit_length())
    keys: list[NDArray[np.uint64]] = []
    for idx, column in enumerate(columns):
        if idx % (64 // n_bits) == 0:
            keys.append(column.astype(np.uint64))
        else:
            keys[-1] <<= np.uint64(n_bits)
            keys[-1] |= column.astype(np.uint64)
    rows = np.lexsort(keys[::-1]) if len(keys) > 1 else np.argsort(keys[0])
    is_new, is_new_gram = _changes(keys, rows), _changes(columns[:-1], rows)
    firsts, gram_rows = np.flatnonzero(is_new), np.flatnonzero(is_new_gram)
    counts = np.add.reduceat(seen.counts[rows].astype(np.int64), firsts)
    # Which n-gram each follower belongs to.
    owners = np.cumsum(is_new_gram)[firsts] - 1
    return NgramTable(
        order=seen.grams.shape[1],
        rows=rows_of_grams(np.take(seen.grams, rows[gram_rows], axis=0)),
        lengths=np.bincount(owners).astype(np.uint32),
        tokens=seen.tokens[rows[firsts]],
        counts=np.minimum(counts, MAX_COUNT).astype(np.int32),
    )


def joined(parts: Sequence[Observations]) -> Observations:
    """Concatenate observations of one order."""
    return Observations(
        np.concatenate([part.grams for part in parts]),
        np.concatenate([part.tokens for part in parts]),
        np.concatenate([part.counts for part in parts]),
    )


def _changes(columns: Sequence[NDArray[np.integer]], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each of the sorted rows whether any column differs from the row before."""
    differs = np.zeros(rows.size, dtype=np.bool_)
    differs[0] = True
    for column in columns:
        values = column[rows]
        differs[1:] |= values[1:] != values[:-1]
    return differs
