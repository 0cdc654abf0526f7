"""Looks n-grams up in a file of our own layout, of which only the buckets' starts are in memory.

A look-up reads a bucket's tags, and where one of them is right, its n-gram, the place of its
followers, and these: some hundred bytes, which the system keeps in memory for all processes.

The file may be cut or overwritten meanwhile.  Whatever is read then leads to followers that are
wrong, or to none: drafts are checked anyway.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.ngram_statistics import NO_FOLLOWERS, Followers
from speclsp.ngrams.file_bytes import FileBytes
from speclsp.ngrams.table import TAG_MASK, key_of

_WORD: Final = Struct("<I")
_TOKEN: Final = Struct("<i")
_WORD_BYTES: Final = _WORD.size
_STORED: Final = np.dtype("<i4")


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlaces:
    """Where a table's arrays lie in a file, in bytes from its beginning, and their lengths."""

    order: int
    n_buckets: int
    n_ngrams: int
    n_followers: int
    starts: int
    tags: int
    grams: int
    begins: int
    lengths: int
    tokens: int
    counts: int


class FileTable:
    """What followed the n-grams of one order, in a file.  Raises OSError where it cannot be read.

    Look-ups are safe from any thread.
    """

    def __init__(self, stored: FileBytes, places: TablePlaces) -> None:
        self._stored = stored
        self._places = places
        data = stored.read(places.starts, 8 * (places.n_buckets + 1))
        if len(data) < 8 * (places.n_buckets + 1):
            raise OSError("it was cut while it was opened")
        self._starts = np.frombuffer(data, dtype="<i8").astype(np.int64).data

    def followers(self, ngram: Sequence[int]) -> Followers:
        """Return what followed an n-gram of this order."""
        key = key_of(ngram)
        bucket = key * self._places.n_buckets >> 64
        low, high = self._starts[bucket], self._starts[bucket + 1]
        if not 0 <= low < high <= self._places.n_ngrams:
            return NO_FOLLOWERS
        wanted = b"".join(map(_TOKEN.pack, ngram))
        try:
            for row in self._rows(low, high, key & TAG_MASK):
                if self._stored.read(self._places.grams + row * len(wanted), len(wanted)) == wanted:
                    return self._followers(row)
        except OSError:
            return NO_FOLLOWERS  # its disk is gone; the next request finds the file changed
        return NO_FOLLOWERS

    def _rows(self, low: int, high: int, tag: int) -> Iterator[int]:
        """Yield the rows of a bucket whose tag is this one."""
        places = self._places
        tags = self._stored.read(places.tags + _WORD_BYTES * low, _WORD_BYTES * (high - low))
        wanted = _WORD.pack(tag)
        at = tags.find(wanted)
        while at >= 0:
            if at % _WORD_BYTES == 0:
                yield low + at // _WORD_BYTES
            at = tags.find(wanted, at + 1)

    def _followers(self, row: int) -> Followers:
        places = self._places
        begin, length = self._number(places.begins, row), self._number(places.lengths, row)
        if begin + length > places.n_followers:
            return NO_FOLLOWERS
        tokens = self._stored.read(places.tokens + _WORD_BYTES * begin, _WORD_BYTES * length)
        counts = self._stored.read(places.counts + _WORD_BYTES * begin, _WORD_BYTES * length)
        if len(tokens) != len(counts) or len(tokens) < _WORD_BYTES * length:
            return NO_FOLLOWERS
        return Followers(_integers(tokens), _integers(counts))

    def _number(self, array: int, row: int) -> int:
        """Return a row's number, 0 where the file is cut."""
        data = self._stored.read(array + row * _WORD_BYTES, _WORD_BYTES)
        return int.from_bytes(data, "little") if len(data) == _WORD_BYTES else 0


class FileTables:
    """Tables in a file by their order; an ``NgramCounts`` of the drafters."""

    def __init__(self, by_order: Mapping[int, FileTable]) -> None:
        self._by_order = by_order

    @property
    def max_order(self) -> int:
        """Tokens of the longest n-grams; 0 where there are none."""
        return max(self._by_order, default=0)

    def followers(self, ngram: tuple[int, ...]) -> Followers:
        """Return what followed an n-gram; nothing where it was never seen."""
        table = self._by_order.get(len(ngram))
        return NO_FOLLOWERS if table is None else table.followers(ngram)


def _integers(data: bytes) -> NDArray[np.int32]:
    numbers = np.frombuffer(data, dtype=_STORED)
    # A copy on big-endian machines only.
    return numbers.view(np.int32) if sys.byteorder == "little" else numbers.astype(np.int32)
