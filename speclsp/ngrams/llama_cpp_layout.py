"""Reads and writes llama.cpp's statistics files (``llama-lookup-create``, ``-lcs``, ``-lcd``).

The layout has no header.  Records follow each other, in no order, as native 32-bit numbers::

    tokens[4] (unused: −1)   n   n × (token, count)

A static file holds n-grams of two tokens only, a dynamic one of one to four.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from speclsp.errors import StoreError
from speclsp.ngrams.damage import BUILD_ANEW, OTHER_MODEL, damaged, size_of, unreadable
from speclsp.ngrams.record_starts import HEADER, N_TOKENS, Int32Array, Places, record_starts
from speclsp.ngrams.table import (
    NgramTable,
    NgramTables,
    bucket_bits,
    bucket_starts,
    buckets_of,
    keys_of,
    tags_of,
)

STATIC_ORDER: Final = 2
MAX_ORDER: Final = N_TOKENS
ALL_ORDERS: Final = range(1, MAX_ORDER + 1)

_WORD_BYTES: Final = 4
_LARGEST_VOCABULARY: Final = 2**23
"""No model has more tokens; so a number in the other byte order is seldom taken for a token."""
_MAX_FILE_BYTES: Final = 2**34
_ROWS_AT_ONCE: Final = 2**15


def read(path: Path, n_vocab: int | None, orders: Collection[int] = ALL_ORDERS) -> NgramTables:
    """Read a whole file with n-grams of these orders and no others.

    Token ids are below ``n_vocab``, where that is known.

    Raises StoreError with the offset of the first thing that is wrong.
    """
    words, n_bytes = _words(path)
    n_vocab = _LARGEST_VOCABULARY if n_vocab is None else n_vocab
    try:
        return _Records(path, words, n_bytes, n_vocab).tables(orders)
    except StoreError as error:
        if _is_of_other_byte_order(path, words, n_vocab):
            raise damaged(
                path, 0, "it was written on a machine with the other byte order", BUILD_ANEW
            ) from error
        raise


def write(tables: NgramTables, stream: BinaryIO) -> None:
    """Write canonical tables as llama.cpp does.  Raises StoreError for other orders than 1 to 4."""
    check_orders(tables)
    for order, table in sorted(tables.by_order.items()):
        lengths = table.lengths.astype(np.int64)
        begins = table.begins.astype(np.int64)
        starts = HEADER * np.arange(len(table)) + 2 * begins
        words = np.full(HEADER * len(table) + 2 * table.n_followers, -1, dtype=np.int32)
        for column in range(order):
            words[starts + column] = table.grams[:, column]
        words[starts + N_TOKENS] = lengths
        pairs = HEADER * (np.repeat(np.arange(len(table)), lengths) + 1)
        pairs += 2 * np.arange(table.n_followers)
        words[pairs] = table.tokens
        words[pairs + 1] = table.counts
        stream.write(words.data)


def check_orders(tables: NgramTables) -> None:
    """Raise StoreError where the layout has no room for the tables' orders."""
    if tables.max_order > MAX_ORDER:
        raise StoreError(
            f"llama.cpp's layout has room for {MAX_ORDER} tokens, not for n-grams of "
            f"{tables.max_order}.",
            remedy=f"Take --order {MAX_ORDER} or less, or speclsp's own format.",
        )


def _words(path: Path) -> tuple[Int32Array, int]:
    n_bytes = size_of(path)
    if n_bytes >= _MAX_FILE_BYTES:
        raise damaged(path, 0, "it is larger than 16 GiB", "Use speclsp's own format.")
    try:
        return np.fromfile(path, dtype=np.int32), n_bytes
    except OSError as error:
        raise unreadable(path, error) from error


class _Records:
    """A file's records, checked as they are taken apart."""

    def __init__(self, path: Path, words: Int32Array, n_bytes: int, n_vocab: int) -> None:
        self._path = path
        self._words = words
        self._n_bytes = n_bytes
        self._n_vocab = n_vocab
        self._starts, self._end = record_starts(words)
        self._lengths = words[self._starts + N_TOKENS]
        self._grams = [words[self._starts + column] for column in range(N_TOKENS)]

    def tables(self, wanted: Collection[int]) -> NgramTables:
        """Return the counts by order.  Raises StoreError."""
        orders, problems = self._orders(wanted)
        begins = np.zeros(len(self._starts) + 1, dtype=np.uint32)
        np.cumsum(self._lengths, out=begins[1:])
        tokens, counts, bad_pairs = self._pairs(begins)
        problems += bad_pairs
        if self._end < len(self._words) or self._n_bytes % _WORD_BYTES:
            problems.append((self._end, self._broken_record(), BUILD_ANEW))
        if problems:
            place, reason, remedy = min(problems)
            raise damaged(self._path, _WORD_BYTES * place, reason, remedy)
        return NgramTables(
            {
                order: self._table(
                    np.flatnonzero(orders == order),
                    order,
                    begins,
                    tokens,
                    counts,
                )
                for order in wanted
                if (orders == order).any()
            }
        )

    def _orders(
        self, wanted: Collection[int]
    ) -> tuple[NDArray[np.int8], list[tuple[int, str, str]]]:
        """Count each n-gram's tokens; problems are (word, reason, remedy)."""
        orders = np.zeros(len(self._starts), dtype=np.int8)
        is_gap = np.zeros(len(self._starts), dtype=np.bool_)
        problems: list[tuple[int, str, str]] = []
        for column, tokens in enumerate(self._grams):
            is_used = tokens != -1
            is_gap |= is_used & (orders < column)
            orders += is_used
            problems += self._first(
                self._starts + column,
                (tokens < -1) | (tokens >= self._n_vocab),
                lambda place: self._foreign(int(self._words[place])),
            )
        problems += self._first(
            self._starts,
            is_gap,
            lambda _: ("an n-gram's unused tokens do not stand at its end", BUILD_ANEW),
        )
        problems += self._first(
            self._starts,
            ~np.isin(orders, list(wanted)),
            lambda place: self._unwanted(place, wanted),
        )
        return orders, problems

    def _unwanted(self, place: int, wanted: Collection[int]) -> tuple[str, str]:
        order = int((self._words[place : place + N_TOKENS] >= 0).sum())
        names = " to ".join(map(str, sorted({min(wanted), max(wanted)})))
        return (
            f"an n-gram has {order} tokens, and {names} are expected",
            "Name files of order 2 in lookup_cache_static and others in lookup_cache_dynamic.",
        )

    def _pairs(
        self, begins: NDArray[np.uint32]
    ) -> tuple[Int32Array, Int32Array, list[tuple[int, str, str]]]:
        """Return all records' tokens and counts end to end, and the first thing wrong with them."""
        tokens = np.empty(int(begins[-1]), dtype=np.int32)
        counts = np.empty_like(tokens)
        for part in _parts(len(self._starts)):
            lengths = self._lengths[part]
            first, last = int(begins[part.start]), int(begins[part.stop])
            firsts = begins[part].astype(np.int64) - first
            places = np.repeat(self._starts[part] + HEADER - 2 * firsts, lengths)
            places += 2 * np.arange(last - first)
            tokens[first:last] = self._words[places]
            counts[first:last] = self._words[places + 1]
            problems = self._bad_pairs(places, tokens[first:last], counts[first:last])
            if problems:
                return tokens, counts, problems
        return tokens, counts, []

    def _bad_pairs(
        self, places: Places, tokens: Int32Array, counts: Int32Array
    ) -> list[tuple[int, str, str]]:
        return [
            *self._first(
                places,
                (tokens < 0) | (tokens >= self._n_vocab),
                lambda place: self._foreign(int(self._words[place])),
            ),
            *self._first(
                places + 1,
                counts < 1,
                lambda place: (f"a count is {int(self._words[place])}", BUILD_ANEW),
            ),
        ]

    def _first(
        self, places: Places, is_bad: NDArray[np.bool_], describe: Callable[[int], tuple[str, str]]
    ) -> Iterable[tuple[int, str, str]]:
        """Return the first bad place, if any is."""
        row = int(is_bad.argmax()) if is_bad.size else 0
        if not is_bad.size or not is_bad[row]:
            return []
        place = int(places[row])
        return [(place, *describe(place))]

    def _foreign(self, token: int) -> tuple[str, str]:
        return (
            f"token {token} is not in a vocabulary of {self._n_vocab:,} tokens",
            BUILD_ANEW if token < 0 else OTHER_MODEL,
        )

    def _broken_record(self) -> str:
        """Say why the chain ends before the file does."""
        n_left = self._n_bytes - _WORD_BYTES * self._end
        if n_left < _WORD_BYTES * HEADER:
            return f"the file is truncated: {n_left} bytes of a record are left"
        n_pairs = int(self._words[self._end + N_TOKENS])
        if n_pairs < 1:
            return f"an n-gram claims {n_pairs} followers"
        if n_pairs > self._n_vocab:
            return f"an n-gram claims {n_pairs:,} followers, more than there are tokens"
        n_bytes = _WORD_BYTES * (HEADER + 2 * n_pairs)
        return f"the file is truncated: of a record's {n_bytes} bytes {n_left} are left"

    def _table(
        self,
        rows: Places,
        order: int,
        begins: NDArray[np.uint32],
        tokens: Int32Array,
        counts: Int32Array,
    ) -> NgramTable:
        n_bits = bucket_bits(len(rows))
        buckets = np.empty(len(rows), dtype=np.uint16)
        tags = np.empty(len(rows), dtype=np.uint32)
        grams = np.empty((len(rows), order), dtype=np.int32)
        for part in _parts(len(rows)):
            columns = [column[rows[part]] for column in self._grams[:order]]
            np.stack(columns, axis=1, out=grams[part])
            keys = keys_of(columns)
            buckets[part] = buckets_of(keys, n_bits)
            tags[part] = tags_of(keys)
        # Sixteen bits are sorted by radix, in one pass.
        order_in_table = np.argsort(buckets, kind="stable")
        rows = rows[order_in_table]
        return NgramTable(
            starts=bucket_starts(buckets, n_bits),
            tags=tags[order_in_table],
            grams=np.take(grams, order_in_table, axis=0),
            begins=begins[rows],
            lengths=self._lengths[rows].view(np.uint32),
            tokens=tokens,
            counts=counts,
        )


def _parts(n_rows: int) -> Iterator[slice]:
    """Yield slices that are worked on within the processor's cache: twice as fast as at once."""
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        yield slice(start, min(start + _ROWS_AT_ONCE, n_rows))


def _is_of_other_byte_order(path: Path, words: Int32Array, n_vocab: int) -> bool:
    """Whether the first record makes sense once its bytes are turned round."""
    swapped = words[: HEADER + 2 * n_vocab].byteswap()
    if len(swapped) < HEADER or not 1 <= swapped[N_TOKENS] <= n_vocab:
        return False
    if 1 <= words[N_TOKENS] <= n_vocab:
        return False
    record = swapped[: HEADER + 2 * int(swapped[N_TOKENS])]
    try:
        _Records(path, record, record.nbytes, n_vocab).tables(ALL_ORDERS)
    except StoreError:
        return False
    return True
