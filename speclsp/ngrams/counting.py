"""Counts n-grams in token sequences and merges counts.

The tables are canonical: equal counts give equal arrays.  Rows are sorted by their hashes,
followers by their ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.protocol import TokenArray
from speclsp.errors import StoreError
from speclsp.ngrams.table import (
    MAX_COUNT,
    Keys,
    NgramTable,
    NgramTables,
    bucket_bits,
    bucket_starts,
    buckets_of,
    keys_of,
    tags_of,
)

_SEPARATOR = -1
_MAX_FOLLOWERS = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Observations:
    """Occurrences of n-grams of one order, unsorted and with repetitions."""

    grams: TokenArray
    """Shape [n, order]."""
    tokens: TokenArray
    """The token after each; shape [n]."""
    counts: NDArray[np.integer]
    """Shape [n]."""


def count_tokens(sequences: Iterable[TokenArray], orders: Iterable[int]) -> NgramTables:
    """Count the n-grams of these orders; none spans two sequences."""
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
    """Return each n-gram of a text with the token after it, for tokens from ``n_skipped`` on.

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
    """Merge several statistics; the result is canonical."""
    return summed(list(map(rows_by_order, parts)))


def summed(parts: Sequence[Mapping[int, Observations]]) -> NgramTables:
    """Count observations, given by order."""
    orders = sorted({order for part in parts for order in part})
    return NgramTables(
        {
            order: table_of(_joined([part[order] for part in parts if order in part]))
            for order in orders
        }
    )


def rows_by_order(tables: NgramTables) -> dict[int, Observations]:
    """Return one observation per n-gram and follower, by order."""
    return {order: rows_of(table) for order, table in tables.by_order.items()}


def rows_of(table: NgramTable) -> Observations:
    """Return one observation per n-gram and follower of a table."""
    lengths = table.lengths.astype(np.int64)
    ends = np.cumsum(lengths)
    n_rows = int(ends[-1]) if len(ends) else 0
    offsets = table.begins.astype(np.int64) - (ends - lengths)
    places = np.repeat(offsets, lengths) + np.arange(n_rows)
    rows = np.repeat(np.arange(len(table)), lengths)
    return Observations(
        np.take(table.grams, rows, axis=0), table.tokens[places], table.counts[places]
    )


def table_of(seen: Observations) -> NgramTable:
    """Count observations.  Raises StoreError where they are too many for one table."""
    keys = keys_of([seen.grams[:, column] for column in range(seen.grams.shape[1])])
    rows, is_first = _grouped(keys, seen.grams)
    pairs = (np.cumsum(is_first) - 1).astype(np.uint64) << np.uint64(32)
    pairs |= seen.tokens[rows].astype(np.uint64)
    within = np.argsort(pairs)
    pairs = pairs[within]
    is_new = np.ones(pairs.size, dtype=np.bool_)
    np.not_equal(pairs[1:], pairs[:-1], out=is_new[1:])
    firsts = np.flatnonzero(is_new)
    if firsts.size > _MAX_FOLLOWERS:
        raise StoreError(
            f"{firsts.size:,} followers of n-grams are too many for one file.",
            remedy="Build several files, or a lower order.",
        )
    counts = np.add.reduceat(seen.counts[rows][within].astype(np.int64), firsts)
    group_rows = rows[is_first]
    lengths = np.bincount((pairs[firsts] >> np.uint64(32)).astype(np.int64))
    keys = keys[group_rows]
    n_bits = bucket_bits(keys.size)
    return NgramTable(
        starts=bucket_starts(buckets_of(keys, n_bits), n_bits),
        tags=tags_of(keys),
        grams=np.take(seen.grams, group_rows, axis=0),
        begins=(np.cumsum(lengths) - lengths).astype(np.uint32),
        lengths=lengths.astype(np.uint32),
        tokens=(pairs[firsts] & np.uint64(2**32 - 1)).astype(np.int32),
        counts=np.minimum(counts, MAX_COUNT).astype(np.int32),
    )


def _joined(parts: Sequence[Observations]) -> Observations:
    return Observations(
        np.concatenate([part.grams for part in parts]),
        np.concatenate([part.tokens for part in parts]),
        np.concatenate([part.counts for part in parts]),
    )


def _grouped(keys: Keys, grams: TokenArray) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Sort rows so that equal n-grams are adjacent; mark the first row of each n-gram."""
    rows = np.argsort(keys)
    is_new_key, is_new = _changes(keys, grams, rows)
    if (is_new & ~is_new_key).any():
        # Different n-grams have the same hash: rare, but their rows must not be interleaved.
        rows = np.lexsort((*grams.T[::-1], keys))
        _, is_new = _changes(keys, grams, rows)
    return rows, is_new


def _changes(
    keys: Keys, grams: TokenArray, rows: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return whether each row's key, and whether its n-gram, differs from the previous row's."""
    is_new_key = np.ones(rows.size, dtype=np.bool_)
    is_new = np.ones(rows.size, dtype=np.bool_)
    sorted_keys = keys[rows]
    np.not_equal(sorted_keys[1:], sorted_keys[:-1], out=is_new_key[1:])
    is_new[1:] = is_new_key[1:]
    for column in grams.T:
        values = column[rows]
        is_new[1:] |= values[1:] != values[:-1]
    return is_new_key, is_new
