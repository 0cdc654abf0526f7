"""Checks what opening a statistics file leaves unchecked; a server does so in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from speclsp.errors import StoreError
from speclsp.ngrams.counting import rows_of, table_of
from speclsp.ngrams.damage import BUILD_ANEW
from speclsp.ngrams.files import StatisticsFile
from speclsp.ngrams.table import NgramTable


def verify(file: StatisticsFile, go_on: Callable[[float], bool] = lambda _share: True) -> None:
    """Check checksums, then that each table is what its n-grams make it.

    ``go_on`` is told the share of the checksums that is done.  Raises StoreError.
    """
    if file.own is not None:
        file.own.verify(go_on)
    for order, table in sorted(file.tables().by_order.items()):
        for reason in _flaws(table, None if file.own is None else file.own.header.n_tokens):
            raise _flawed(file.path, order, reason)


def _flaws(table: NgramTable, n_vocab: int | None) -> Iterator[str]:
    """Say what is wrong with a table; nothing counts after the first thing that is."""
    starts = table.starts
    if (np.diff(starts) < 0).any() or starts[0] != 0 or starts[-1] != len(table):
        yield "the buckets do not cover the n-grams"
    ends = table.begins.astype(np.int64) + table.lengths
    if not table.lengths.all() or int(ends.max(initial=0)) > len(table.tokens):
        yield "the n-grams' followers are not all there"
    seen = rows_of(table)
    n_ids = np.iinfo(np.int32).max if n_vocab is None else n_vocab
    lowest = min(seen.grams.min(), seen.tokens.min())
    highest = max(seen.grams.max(), seen.tokens.max())
    if lowest < 0 or highest >= n_ids:
        yield f"token ids reach from {lowest} to {highest}"
    if int(seen.counts.min()) < 1:
        yield f"a count is {int(seen.counts.min())}"
    made = table_of(seen)
    if len(made) != len(table):
        yield f"{len(table) - len(made):,} n-grams stand in it twice"
    if made.n_followers != table.n_followers:
        yield f"{table.n_followers - made.n_followers:,} followers stand in it twice"
    if n_vocab is not None and not _equal(made, table):
        yield "the n-grams do not stand where they are looked up"


def _equal(one: NgramTable, other: NgramTable) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("starts", "tags", "grams", "begins", "lengths", "tokens", "counts")
    )


def _flawed(path: Path, order: int, reason: str) -> StoreError:
    return StoreError(f"{path}, n-grams of {order} tokens: {reason}.", remedy=BUILD_ANEW)
