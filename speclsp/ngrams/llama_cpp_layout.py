"""llama.cpp's layout of statistics files (``llama-lookup-create``, ``-lcs``, ``-lcd``).

A file is a sequence of unsorted records of native 32-bit numbers, without a header::

    tokens[4] (unused: −1)   n   n × (token, count)

A static file holds n-grams of two tokens, a dynamic one of one to four.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.drafter import TokenArray
from speclsp.errors import StoreError
from speclsp.ngrams.counting import Observations, table_of
from speclsp.ngrams.reading import OTHER_MODEL, REBUILD, damaged
from speclsp.ngrams.table import NgramTables, TableArrays

STATIC_ORDER: Final = 2
MAX_ORDER: Final = 4
ALL_ORDERS: Final = range(1, MAX_ORDER + 1)

_HEADER: Final = MAX_ORDER + 1
"""Words of a record before its pairs."""
_UNUSED: Final = -1
_GAP: Final = "an n-gram's unused tokens do not stand at its end"
_WORD_BYTES: Final = 4
_LARGEST_VOCABULARY: Final = 2**23
"""More tokens than any model has; used where the vocabulary is unknown."""

_ROWS_AT_ONCE: Final = 2**18
"""Most n-grams, and followers of several n-grams, that are encoded at once, in about 30 MB."""

_Words = NDArray[np.int32]
_Indices = NDArray[np.int64]


def parse(
    path: Path, data: bytes, n_vocab: int | None, orders: Collection[int] = ALL_ORDERS
) -> NgramTables:
    """Read a file's content and check it.

    Token ids of ``n_vocab`` or more and orders other than ``orders`` are errors.  Counts of
    repeated n-grams are added up.  Raises StoreError with the offset of the first error.
    """
    n_vocab = _LARGEST_VOCABULARY if n_vocab is None else n_vocab
    words = np.frombuffer(data, dtype=np.int32, count=len(data) // _WORD_BYTES)
    starts, end = _record_starts(words)
    places = starts[:, None] + np.arange(MAX_ORDER)
    grams = words[places]
    n_followers = words[starts + MAX_ORDER].astype(np.int64)
    # The indices of all pairs.
    n_before = np.cumsum(n_followers) - n_followers
    pairs = np.repeat(starts + _HEADER - 2 * n_before, n_followers)
    pairs += 2 * np.arange(len(pairs))
    tokens, counts = words[pairs], words[pairs + 1]

    used = grams != _UNUSED
    n_tokens = used.sum(axis=1)
    has_gap = (used[:, 1:] & ~used[:, :-1]).any(axis=1)
    names = " to ".join(map(str, sorted({min(orders), max(orders)})))
    problems: list[tuple[int, str, str]] = []

    def check(
        places: _Indices, bad: NDArray[np.bool_], reason: Callable[[int], str], remedy: str
    ) -> None:
        if bad.any():
            row = int(bad.argmax())
            problems.append((int(places[row]), reason(row), remedy))

    ids = grams.ravel()
    bad = (ids < _UNUSED) | (ids >= n_vocab)
    check(places.ravel(), bad, lambda row: _foreign(ids[row], n_vocab), OTHER_MODEL)
    check(starts, has_gap, lambda _: _GAP, REBUILD)
    check(
        starts,
        ~np.isin(n_tokens, list(orders)),
        lambda row: f"an n-gram has {n_tokens[row]} tokens, and {names} are expected",
        "Name files of order 2 in lookup_cache_static and others in lookup_cache_dynamic.",
    )
    bad = (tokens < 0) | (tokens >= n_vocab)
    check(pairs, bad, lambda row: _foreign(tokens[row], n_vocab), OTHER_MODEL)
    check(pairs + 1, counts < 1, lambda row: f"a count is {counts[row]}", REBUILD)
    if _WORD_BYTES * end < len(data):
        problems.append((end, _broken_record(words[end:], len(data), end, n_vocab), REBUILD))
    if problems:
        place, reason, remedy = min(problems)
        raise damaged(path, _WORD_BYTES * place, reason, remedy)

    tables = {}
    for order in orders:
        is_order = n_tokens == order
        if is_order.any():
            of_order = np.repeat(is_order, n_followers)
            rows = np.repeat(grams[is_order, :order], n_followers[is_order], axis=0)
            tables[order] = table_of(Observations(rows, tokens[of_order], counts[of_order]))
    return NgramTables(tables)


def write(tables: Mapping[int, TableArrays], stream: BinaryIO) -> None:
    """Write canonical tables by order.  Raises StoreError for orders that the layout cannot hold.

    ``_ROWS_AT_ONCE`` bounds the memory.
    """
    if (max_order := max(tables, default=0)) > MAX_ORDER:
        raise StoreError(
            f"llama.cpp's layout has room for {MAX_ORDER} tokens, not for n-grams of {max_order}.",
            remedy=f"Take --order {MAX_ORDER} or less, or speclsp's own format.",
        )
    for _, table in sorted(tables.items()):
        grams = table.grams
        row = place = 0
        while row < len(grams):
            ends = np.cumsum(table.lengths[row : row + _ROWS_AT_ONCE], dtype=np.int64)
            n_rows = max(1, int(np.searchsorted(ends, _ROWS_AT_ONCE, side="right")))
            rows, pairs = slice(row, row + n_rows), slice(place, place + int(ends[n_rows - 1]))
            words = _records(
                grams[rows], table.lengths[rows], table.tokens[pairs], table.counts[pairs]
            )
            stream.write(words.data)
            row, place = rows.stop, pairs.stop


def _records(
    grams: TokenArray, lengths: NDArray[np.uint32], tokens: TokenArray, counts: NDArray[np.int32]
) -> _Words:
    """Encode n-grams with their followers."""
    n_followers = lengths.astype(np.int64)
    starts = _HEADER * np.arange(lengths.size) + 2 * (np.cumsum(n_followers) - n_followers)
    words = np.full(_HEADER * lengths.size + 2 * tokens.size, _UNUSED, dtype=np.int32)
    for column, ids in enumerate(grams.T):
        words[starts + column] = ids
    words[starts + MAX_ORDER] = lengths
    pairs = _HEADER * (np.repeat(np.arange(lengths.size), n_followers) + 1)
    pairs += 2 * np.arange(tokens.size)
    words[pairs] = tokens
    words[pairs + 1] = counts
    return words


def _record_starts(words: _Words) -> tuple[_Indices, int]:
    """Return the indices of the records' first words, and the end of the last complete one."""
    view = words.data
    n_words = len(words)
    starts = array("q")
    place = 0
    while place + _HEADER <= n_words:
        n_pairs = view[place + MAX_ORDER]
        end = place + _HEADER + 2 * n_pairs
        if n_pairs < 1 or end > n_words:
            break
        starts.append(place)
        place = end
    return np.array(starts, dtype=np.int64), place


def _foreign(token: int, n_vocab: int) -> str:
    return f"token {token} is not in a vocabulary of {n_vocab:,} tokens"


def _broken_record(rest: _Words, n_bytes: int, end: int, n_vocab: int) -> str:
    """Return what is wrong with the words after the last complete record."""
    n_left = n_bytes - _WORD_BYTES * end
    if len(rest) < _HEADER:
        return f"the file is truncated: {n_left} bytes of a record are left"
    n_pairs = int(rest[MAX_ORDER])
    if n_pairs < 1:
        return f"an n-gram claims {n_pairs} followers"
    if n_pairs > n_vocab:
        return f"an n-gram claims {n_pairs:,} followers, more than there are tokens"
    n_wanted = _WORD_BYTES * (_HEADER + 2 * n_pairs)
    return f"the file is truncated: of a record's {n_wanted} bytes {n_left} are left"
