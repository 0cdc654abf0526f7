"""Counts in parts on disk, which are summed one range of n-grams at a time.

A part is a folder with the arrays of an :class:`~speclsp.ngrams.table.NgramTable` for each order,
as ``.npy`` files that can be mapped.  A corpus of any size is counted in three steps:

1. :func:`store` writes the counts of some files as a part.
2. :func:`boundaries` cuts an order's n-grams into ranges with about the same number of rows, and
   :func:`sum_range` adds up one range of all parts, which :func:`store` writes as a part again.
3. :func:`joined_parts` puts the ranges' sums together in temporary files: they are the table of
   the whole corpus.

The tasks of the first two steps are independent: each may run in any process that sees the
folders, at any time and more than once.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.drafter import TokenArray
from speclsp.ngrams.counting import Observations, joined, rows_of, table_of
from speclsp.ngrams.table import JoinedTable, NgramTables

_ARRAYS: Final = ("grams", "ends", "tokens", "counts")
"""The arrays of a stored table; ``ends`` are those of the n-grams' followers in the last two."""
_SAMPLES_PER_RANGE: Final = 64

Gram = tuple[int, ...]
Range = tuple[Gram | None, Gram | None]
"""The first n-gram of the range, and the first one after it; None for no limit."""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """The table of one order in a part."""

    part: Path
    order: int

    def mapped(self, name: str) -> NDArray[Any]:
        """Map one of ``_ARRAYS``."""
        # A plain array is faster to index than a `numpy.memmap`.
        return np.asarray(np.load(self._path(name), mmap_mode="r"))

    def read(self, name: str) -> NDArray[Any]:
        """Read one of ``_ARRAYS``; unlike a map it keeps no file open."""
        array: NDArray[Any] = np.load(self._path(name))
        return array

    def exists(self) -> bool:
        """Whether the part has n-grams of this order.  Raises OSError where there is no part."""
        if not (self.part / "tally.npy").exists():
            raise FileNotFoundError(errno.ENOENT, "A part of the counts is missing", str(self.part))
        return self._path("grams").exists()

    def _path(self, name: str) -> Path:
        return self.part / f"{name}_{self.order}.npy"


def store(part: Path, tables: NgramTables, tally: Sequence[int] = ()) -> None:
    """Write a part and its ``tally`` atomically; an existing part is kept.  Raises OSError."""
    with TemporaryDirectory(
        prefix=f"{part.name}.", dir=part.parent, ignore_cleanup_errors=True
    ) as folder:
        partial = Path(folder)
        for order, table in tables.by_order.items():
            for name in _ARRAYS:
                _save(partial / f"{name}_{order}.npy", getattr(table, name))
        _save(partial / "tally.npy", np.array(tally, dtype=np.int64))
        try:
            partial.rename(part)
        except OSError:
            if not part.exists():  # else another run of this task was faster
                raise


def stored_tally(part: Path) -> tuple[int, ...] | None:
    """Return the tally of a part; None where there is no such part."""
    if not part.exists():
        return None
    return tuple(np.load(part / "tally.npy").tolist())


def boundaries(parts: Sequence[Path], order: int, n_rows: int) -> list[Range]:
    """Return ascending ranges of n-grams that have about ``n_rows`` rows each."""
    tables = [table for part in parts if (table := StoredTable(part, order)).exists()]
    if not tables:
        return []
    step = max(1, n_rows // _SAMPLES_PER_RANGE)
    samples = np.concatenate([_sampled(table, step) for table in tables])
    n_samples = n_rows // step
    samples = samples[np.lexsort(samples.T[::-1])][n_samples::n_samples]
    cuts: list[Gram | None] = list(dict.fromkeys(map(tuple, samples.tolist())))
    return list(zip([None, *cuts], [*cuts, None], strict=True))


def _sampled(table: StoredTable, step: int) -> TokenArray:
    """Return the n-gram of every ``step``-th row; shape [n_samples, order]."""
    ends = table.mapped("ends")
    rows = np.arange(step // 2, int(ends[-1]), step)
    sampled: TokenArray = table.mapped("grams")[np.searchsorted(ends, rows, side="right")]
    return sampled


def sum_range(
    parts: Sequence[Path], order: int, within: Range, *, min_count: int, n_rows: int
) -> NgramTables:
    """Add up a range of n-grams over all parts; keep followers seen ``min_count`` times or more.

    About 2 × ``n_rows`` rows are in memory at a time.
    """
    pending: list[Observations] = []
    n_pending = 0
    for part in parts:
        table = StoredTable(part, order)
        if not table.exists():
            continue
        pending.append(_rows_within(table, within))
        n_pending += pending[-1].tokens.size
        # Merging bounds the rows: an n-gram has at most as many followers as the vocabulary.
        if n_pending > 2 * n_rows:
            pending = [rows_of(table_of(joined(pending)))]
            n_pending = pending[0].tokens.size
    if not n_pending:
        return NgramTables({})
    summed = table_of(joined(pending))
    if min_count > 1:
        rows = rows_of(summed)
        kept = rows.counts >= min_count
        if not kept.any():
            return NgramTables({})
        summed = table_of(Observations(rows.grams[kept], rows.tokens[kept], rows.counts[kept]))
    return NgramTables({order: summed})


def joined_parts(parts: Sequence[Path], order: int, folder: Path) -> JoinedTable | None:
    """Return the table of consecutive ranges' parts; None where none has n-grams.

    One array of a part is in memory at a time; ``folder`` is for the temporary files.
    Raises OSError.
    """
    stored = [table for part in parts if (table := StoredTable(part, order)).exists()]
    if not stored:
        return None
    ends = (table.read("ends") for table in stored)
    return JoinedTable(
        grams=_in_file((table.read("grams") for table in stored), folder),
        lengths=_in_file((np.diff(each, prepend=0).astype(np.uint32) for each in ends), folder),
        tokens=_in_file((table.read("tokens") for table in stored), folder),
        counts=_in_file((table.read("counts") for table in stored), folder),
    )


def _in_file(arrays: Iterable[NDArray[Any]], folder: Path) -> NDArray[Any]:
    """Concatenate arrays in a file without a name, and map it."""
    with TemporaryFile(dir=folder) as stream:
        for array in arrays:
            stream.write(array.data)
        stream.flush()
        return np.memmap(stream, array.dtype, mode="r").reshape(-1, *array.shape[1:])


def _rows_within(table: StoredTable, within: Range) -> Observations:
    """Read the rows of a range."""
    grams, ends, tokens, counts = map(table.mapped, _ARRAYS)

    def row_of(bound: Gram) -> int:
        return bisect_left(range(len(grams)), bound, key=lambda row: tuple(grams[row].tolist()))

    low, high = within
    first = 0 if low is None else row_of(low)
    last = len(grams) if high is None else row_of(high)
    begin, end = (int(ends[row - 1]) if row else 0 for row in (first, last))
    lengths = np.diff(ends[first:last], prepend=begin)
    return Observations(
        np.repeat(grams[first:last], lengths, axis=0),
        np.array(tokens[begin:end]),
        np.array(counts[begin:end]),
    )


def _save(path: Path, array: NDArray[Any]) -> None:
    with path.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)
        stream.flush()
        os.fsync(stream.fileno())
