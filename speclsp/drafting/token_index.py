"""A suffix array over token sequences: finds the longest match of a context.

The files' tokens are concatenated with a separator between files, and the whole text is reversed,
so that the tokens *before* a place *follow* it and its context is a suffix of the reversed text.
The places are sorted by their contexts (Manber and Myers 1993).  The longest match of a query is
next to the rank where the query would be inserted, and all places that share a match of n tokens
are one range of ranks.  The text is big-endian, so that comparing bytes compares tokens.

Memory per token: 4 bytes of text and 4 of suffix array.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.drafter import TokenArray

DEPTH: Final = 48
"""Tokens of context by which places are sorted: the longest match."""

MAX_TOKEN: Final = 2**24 - 1
"""Largest token id: sorting makes a table of all ids up to the largest."""

FileKey: TypeAlias = bytes
"""The hash of a file's content."""

_TOKEN_BYTES: Final = 4
_SEPARATOR: Final = 0
"""Separates files in the reversed text, where tokens are one more than their ids."""
_END: Final = bytes(_TOKEN_BYTES)
_PIECE: Final = 1 << 17
"""Items assigned at a time: meanwhile no other thread runs, look-ups included."""

_Places: TypeAlias = NDArray[np.int32]


class Match(NamedTuple):
    """Places whose contexts share ``n_tokens`` tokens with a query."""

    n_tokens: int
    low: int
    high: int
    """The places of ranks ``low`` to ``high - 1`` share the match, removed files' included."""
    places: Sequence[int]
    """Some of the places in living files, the newest first; at least one."""


class TokenIndex:
    """The tokens of some files.  Any thread may search it; only its owner hides files."""

    def __init__(
        self,
        files: Sequence[tuple[FileKey, TokenArray]],
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        """Sort the files' tokens, the oldest file first.

        ``pause`` is called before each round of sorting.  What it raises is passed on.
        """
        separator = np.zeros(1, dtype=np.uint32)
        parts = [separator]
        self._starts: list[int] = []
        self._numbers: dict[FileKey, int] = {}
        n_tokens = 1
        for key, tokens in reversed(files):
            self._numbers[key] = len(self._starts)
            self._starts.append(n_tokens)
            parts += [tokens[::-1].astype(np.uint32) + np.uint32(1), separator]
            n_tokens += len(tokens) + 1
        self._starts.append(n_tokens)
        text = np.concatenate(parts)
        places = _sorted_places(text, pause)
        # A place counts if its file has a token before and after it.
        counts = text.take(places) != _SEPARATOR
        counts &= text.take(places - np.int32(1), mode="wrap") != _SEPARATOR
        self._places: _Places = places[counts]
        self._ranked = self._places.data
        """The same memory, read item by item several times faster than the array."""
        self._text = text.astype(">u4").tobytes()
        self._is_living = bytearray(b"\1") * len(files)
        self.sizes = {key: len(tokens) for key, tokens in files}
        """Tokens of each file, removed ones included."""
        self.n_tokens = sum(self.sizes.values())

    @property
    def n_bytes(self) -> int:
        """Memory of the text and the suffix array."""
        return len(self._text) + self._places.nbytes

    def set_living(self, key: FileKey, *, is_living: bool) -> None:
        """Set whether searches find a file.  Raises KeyError."""
        self._is_living[self._numbers[key]] = is_living

    def files(self) -> Iterator[tuple[FileKey, TokenArray]]:
        """Iterate over all files, the oldest first, removed ones included."""
        for key, number in reversed(self._numbers.items()):
            start, end = self._starts[number], self._starts[number + 1] - 1
            part = self._text[start * _TOKEN_BYTES : end * _TOKEN_BYTES]
            yield key, np.frombuffer(part, dtype=">u4")[::-1].astype(np.int32) - np.int32(1)

    def longest_match(self, query: bytes, n_min: int, n_places: int) -> Match | None:
        """Find the longest match of at least ``n_min`` tokens in the living files.

        ``query`` is a result of :func:`query_of`.  Returns at most ``n_places`` places, spread
        evenly over the ranks: neighbouring ranks have similar earlier contexts.
        """
        low = high = self._bisect(query, 0, len(self._ranked))
        while True:
            n_shared = max(self._n_shared(query, low - 1), self._n_shared(query, high))
            if n_shared < n_min:
                return None
            low, high = self._widened(query[: n_shared * _TOKEN_BYTES], low, high)
            places = self._living(low, high, n_places)
            if places:
                return Match(n_shared, low, high, places)

    def texts_after(self, places: Sequence[int], n_tokens: int) -> list[bytes]:
        """Return the reversed text after each place, for :func:`tokens_of`."""
        text, n_bytes = self._text, n_tokens * _TOKEN_BYTES
        ends = [place * _TOKEN_BYTES for place in places]
        return [text[max(0, end - n_bytes) : end] for end in ends]

    def _living(self, low: int, high: int, n_places: int) -> list[int]:
        """Return some of the places of a range that are in living files, the newest first."""
        places: list[int] = self._ranked[low : high : -(-(high - low) // n_places)].tolist()
        starts, is_living = self._starts, self._is_living
        if 0 in is_living:
            places = [place for place in places if is_living[bisect_right(starts, place) - 1]]
            if not places:
                all_places = self._places[low:high]
                numbers = np.searchsorted(np.array(starts), all_places, side="right") - 1
                living = all_places[np.frombuffer(bytes(is_living), np.bool_)[numbers]]
                places = living[:: -(-len(living) // n_places) or 1].tolist()
        # A smaller place is a newer one.
        places.sort()
        return places

    def _widened(self, stem: bytes, low: int, high: int) -> tuple[int, int]:
        """Return the range of ranks whose contexts begin with ``stem``, around a part of it."""
        n_ranks, step = len(self._ranked), 1
        while low >= step and self._context(low - step, len(stem)) == stem:
            low -= step
            step *= 2
        low = self._bisect(stem, max(0, low - step), low)
        step = 1
        while high + step <= n_ranks and self._context(high + step - 1, len(stem)) == stem:
            high += step
            step *= 2
        return low, self._bisect(stem + b"\xff", high, min(n_ranks, high + step))

    def _bisect(self, stem: bytes, low: int, high: int) -> int:
        """First rank in [low, high) whose context, cut to the stem's length, is not below it."""
        text, ranked, n_bytes = self._text, self._ranked, len(stem)

        def context(rank: int) -> bytes:
            start = ranked[rank] * _TOKEN_BYTES
            return text[start : start + n_bytes]

        return bisect_left(range(high), stem, low, high, key=context)

    def _context(self, rank: int, n_bytes: int) -> bytes:
        start = self._ranked[rank] * _TOKEN_BYTES
        return self._text[start : start + n_bytes]

    def _n_shared(self, query: bytes, rank: int) -> int:
        """How many tokens the context of a rank shares with the query; -1 outside the array."""
        if not 0 <= rank < len(self._ranked):
            return -1
        n_bytes = len(query)
        context = self._context(rank, n_bytes).ljust(n_bytes, b"\0")
        difference = int.from_bytes(context, "big") ^ int.from_bytes(query, "big")
        return (8 * n_bytes - difference.bit_length()) // (8 * _TOKEN_BYTES)


def query_of(tail: TokenArray, n_max: int) -> bytes:
    """Return the last ``n_max`` tokens of a text, at most DEPTH, as a query."""
    # Lists: NumPy's code is in no CPU cache after a target pass.
    nearest_first: list[int] = tail[: -min(n_max, DEPTH) - 1 : -1].tolist()
    # A negative id, the end of a sequence, must not match a separator.
    values = [token + 1 if token >= 0 else -1 for token in nearest_first]
    return _struct("i", len(values)).pack(*values)


def tokens_of(text: bytes) -> list[int]:
    """Return the tokens of a reversed text up to the end of its file."""
    values = _struct("I", len(text) // _TOKEN_BYTES).unpack(text)
    tokens = [value - 1 for value in reversed(values)]
    end = _SEPARATOR - 1
    if end in tokens:
        del tokens[tokens.index(end) :]
    return tokens


def favourite(texts: list[bytes], n_tokens: int) -> bytes:
    """Return the text that follows the majority token by token; of equals the first."""
    for position in range(n_tokens):
        if texts.count(texts[0]) == len(texts):
            break
        end = -_TOKEN_BYTES * position or None
        start = -_TOKEN_BYTES * (position + 1)
        following = [text[start:end] for text in texts]
        if _END in following:
            # Files end here: the others go on.
            texts = [text for text in texts if text[start:end] != _END] or texts[:1]
            following = [text[start:end] for text in texts]
        # Of equals max takes the first: the newest.
        token = max(following, key=following.count)
        texts = [text for text in texts if text[start:end] == token]
    return texts[0]


@cache
def _struct(item: str, n_items: int) -> struct.Struct:
    return struct.Struct(f">{n_items}{item}")


def _sorted_places(text: NDArray[np.uint32], pause: Callable[[], None]) -> _Places:
    """Sort all places of a reversed text by DEPTH tokens of context, by prefix doubling.

    Each round sorts only the places that are not yet told apart from their neighbours.
    """
    # Numbered without gaps, several tokens fit into one number.
    occurs = np.zeros(int(text.max()) + 1, dtype=np.uint32)
    occurs[text] = 1
    numbers = np.cumsum(occurs, dtype=np.uint32) - np.uint32(1)
    n_bits = max(1, int(numbers[-1]).bit_length())
    dense = numbers.take(text)
    n_sorted = min(DEPTH, 64 // n_bits)
    keys = dense.astype(np.uint64)
    for token_idx in range(1, n_sorted):
        keys <<= np.uint64(n_bits)
        keys[:-token_idx] |= dense[token_idx:]
    pause()
    order = np.argsort(keys).astype(np.int32)
    keys = keys.take(order)
    rank = np.empty(len(text), dtype=np.uint32)
    # What is not yet told apart: the ranks, and the places that stand there.
    ranks, places = np.arange(len(text), dtype=np.int32), order
    while True:
        is_first = np.ones(len(keys), dtype=np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
        groups = ranks.take(np.flatnonzero(is_first)).take(np.cumsum(is_first) - 1)
        _put(rank, places, groups.astype(np.uint32))
        is_alone = is_first.copy()
        is_alone[:-1] &= is_first[1:]
        open_idxs = np.flatnonzero(~is_alone)
        if n_sorted >= DEPTH or not len(open_idxs):
            return order
        pause()
        ranks, places, groups = (array.take(open_idxs) for array in (ranks, places, groups))
        # Contexts equal in n_sorted tokens are told apart by the rank of what follows these.
        following = rank.take(places + np.int32(n_sorted), mode="clip")
        keys = groups.astype(np.uint64) << np.uint64(32) | following
        within = np.argsort(keys)
        keys, places = keys.take(within), places.take(within)
        _put(order, ranks, places)
        n_sorted *= 2


def _put(
    target: NDArray[np.uint32] | _Places, indices: _Places, values: NDArray[np.uint32] | _Places
) -> None:
    for start in range(0, len(indices), _PIECE):
        piece = slice(start, start + _PIECE)
        target[indices[piece]] = values[piece]
