"""The token sequences that a request searches for its context, concatenated in one array.

::

    −1 … −1 │ oldest buffer │ … │ oldest generated │ … │ oldest deleted │ … │ suffix │ prefix →

with −1 at each border.

One vectorised pass over the array finds every place.  The separators equal no token, so that no
match crosses from one sequence into the next.  A few places are compared one by one, since after a
target pass NumPy's code is in no CPU cache and takes longer.  Later places take precedence: what
was just written, then the rest of this buffer, then the most recently used buffers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from speclsp.drafting.drafter import Candidate, DraftContext, TokenArray

_SEPARATOR = -1
_ROOM = 512
_N_ONE_BY_ONE = 32
"""Most places, or tokens, that are compared one by one."""
_NO_PLACES = np.zeros(0, dtype=np.int64)


class Continuation(NamedTuple):
    """The tokens that followed at one text place."""

    tokens: tuple[int, ...]
    source: str
    ends_at_cursor: bool = False
    """Whether there are fewer tokens than wanted because the text ends at the cursor."""


class LookupText:
    """The text at the cursor, and everything that is searched for it.

    ``n_max`` is the most tokens of context that a match counts.
    """

    def __init__(self, context: DraftContext, n_max: int) -> None:
        self._n_max = n_max
        separator = np.array([_SEPARATOR], dtype=np.int32)
        parts: list[TokenArray] = [np.full(n_max, _SEPARATOR, dtype=np.int32)]
        ends: list[int] = []
        n_tokens = n_max
        others = (
            *(("open", tokens) for tokens in reversed(context.buffers)),
            *(("generated", tokens) for tokens in reversed(context.generated)),
            *(("deleted", tokens) for tokens in reversed(context.deleted)),
            ("buffer", context.suffix),
        )
        for _, tokens in others:
            parts += [tokens, separator]
            ends.append(n_tokens + tokens.size)
            n_tokens += tokens.size + 1
        parts += [context.prefix, np.empty(_ROOM, dtype=np.int32)]
        self._tokens: TokenArray = np.concatenate(parts, dtype=np.int32)
        self._items = self._tokens.data
        """The same memory, whose items are read several times faster than the array's."""
        self._ends = ends
        self._sources = [*(source for source, _ in others), "buffer"]
        """The source of each sequence, the text at the cursor included."""
        self._start = n_tokens
        self._n_tokens = self._n_before = n_tokens + context.prefix.size
        self._places: dict[int, tuple[NDArray[np.int64], int]] = {}
        """By token: its places, and how much of the text was searched for it."""
        self._best: list[tuple[int, int]] = []
        """The last matches, the longest first: their lengths, and where they end."""
        self._n_known = self._n_tokens
        """Length of the text at that time."""

    def extend_to(self, generated: Sequence[int]) -> None:
        """Append the tokens of ``generated`` that the text at the cursor lacks."""
        tokens = generated[self._n_tokens - self._n_before :]
        end = self._n_tokens + len(tokens)
        if end > self._tokens.size:
            grown = np.empty(end + max(_ROOM, end // 4), dtype=np.intc)
            grown[: self._n_tokens] = self._tokens[: self._n_tokens]
            self._tokens = grown
            self._items = grown.data
        self._items[self._n_tokens : end] = array("i", tokens)
        self._n_tokens = end

    def tail(self) -> TokenArray:
        """Return the last ``n_max`` tokens at the cursor."""
        return self._tokens[max(self._start, self._n_tokens - self._n_max) : self._n_tokens]

    def continuations(self, n: int, n_wanted: int, n_places: int) -> list[Continuation]:
        """Return up to ``n_wanted`` tokens after ``n_places`` places of the last n tokens.

        First come the places before the cursor and then those after it, both the nearest first;
        then other open buffers, the most recently used first.
        """
        last = self._n_tokens - 1
        if self._n_tokens - self._start < n or n_wanted < 1:
            return []
        places = self._places_of(self._items[last])
        for back in range(1, n):
            places = places[self._tokens[places - back] == self._items[last - back]]
        first_after = self._ends[-2] if len(self._ends) > 1 else 0
        before, after = places >= self._start, places > first_after
        nearest_first = np.concatenate(
            (places[before][::-1], places[after & ~before], places[~after][::-1])
        )
        found: list[Continuation] = []
        for place in nearest_first[:n_places].tolist():
            sequence = bisect_left(self._ends, place)
            is_before = sequence == len(self._ends)
            end = self._n_tokens if is_before else self._ends[sequence]
            tokens = tuple(self._items[place + 1 : min(end, place + 1 + n_wanted)])
            is_short = len(tokens) < n_wanted
            found.append(Continuation(tokens, self._sources[sequence], is_before and is_short))
        return found

    def followers(self, ngram: Sequence[int]) -> Iterator[tuple[int, TokenArray]]:
        """Yield k and the tokens that followed the last k tokens of ``ngram``, the longest first.

        ``ngram`` has at most ``n_max`` tokens.  A generator, since a line end has thousands of
        places, which are gathered only if nothing longer is sure enough.
        """
        by_length = [self._places_of(ngram[-1])] if ngram else []
        for length in range(2, len(ngram) + 1):
            places = by_length[-1]
            places = places[self._tokens[places - (length - 1)] == ngram[-length]]
            if not places.size:
                break
            by_length.append(places)
        for length in range(len(by_length), 0, -1):
            if by_length[length - 1].size:
                yield length, self._tokens[by_length[length - 1] + 1]

    def candidates(self, n_min: int, n_tokens: int, n_places: int) -> list[Candidate]:
        """Return at most ``n_tokens`` tokens from each of the ``n_places`` best places.

        Matches have at least ``n_min`` tokens.  The longest come first, and of equal ones the
        latest.  Places of one source with equal matches and continuations are one candidate.
        """
        n_tail = min(self._n_tokens - self._start, self._n_max)
        if n_tail < max(n_min, 1) or n_tokens < 1:
            return []
        places, n_known = self._promising_places(n_tail, n_min, n_places)
        if not places:
            return []
        items, last = self._items, self._n_tokens - 1
        matches: list[tuple[int, int]] = []
        for place in places:
            length = n_known
            while length < n_tail and items[place - length] == items[last - length]:
                length += 1
            matches.append((length, place))
        best = sorted(matches, reverse=True)[:n_places]
        self._best, self._n_known = best, self._n_tokens
        return self._candidates_at([match for match in best if match[0] >= n_min], n_tokens)

    def sure_candidates(self, n_min: int, n_tokens: int) -> list[Candidate]:
        """Return what follows matches of :meth:`candidates` that the text has continued since.

        While text is copied, its next place is the one after the last: no search is needed, and no
        other place can match as much.  Returns at most ``n_tokens`` tokens of each place, and
        nothing if no match has ``n_min`` tokens.
        """
        following, n_max = self._items, self._n_max
        emitted = following[self._n_known : self._n_tokens].tolist()
        n_emitted = len(emitted)
        best: list[tuple[int, int]] = []
        for length, place in self._best:
            if length + n_emitted < n_min:
                break
            now = place + n_emitted
            if following[place + 1 : now + 1].tolist() == emitted:
                best.append((min(length + n_emitted, n_max), now))
        self._best, self._n_known = best, self._n_tokens
        return self._candidates_at(best, n_tokens)

    def _candidates_at(self, places: Iterable[tuple[int, int]], n_tokens: int) -> list[Candidate]:
        """Return what follows (match length, place) pairs."""
        tokens, ends, n_after = self._items, self._ends, n_tokens + 1
        # Copied code has several places, which count as one candidate.
        n_alike: dict[tuple[int, str, tuple[int, ...]], int] = {}
        for length, place in places:
            sequence = bisect_left(ends, place)
            end = min(ends[sequence] if sequence < len(ends) else self._n_tokens, place + n_after)
            key = (length, self._sources[sequence], tuple(tokens[place + 1 : end]))
            n_alike[key] = n_alike.get(key, 0) + 1
        return [
            Candidate(following, source, length, float(n_equal))
            for (length, source, following), n_equal in n_alike.items()
            if following
        ]

    def _places_of(self, token: int) -> NDArray[np.int64]:
        """Return all places of a token that are not the last of their sequence.

        Results are kept, since the same few tokens are searched again and again.
        """
        end = self._n_tokens - 1
        places, n_searched = self._places.get(token, (_NO_PLACES, 0))
        if n_searched >= self._start and end - n_searched <= _N_ONE_BY_ONE:
            items = self._items
            new = [place for place in range(n_searched, end) if items[place] == token]
            if new:
                places = np.concatenate((places, new))
                self._places[token] = places, end
        elif n_searched < end:
            found = (self._tokens[n_searched:end] == token).nonzero()[0]
            if found.size:
                found += n_searched
                if n_searched < self._start:
                    found = found[self._tokens[found + 1] != _SEPARATOR]
                places = np.concatenate((places, found)) if places.size else found
            self._places[token] = places, end
        return places

    def _promising_places(self, n_tail: int, n_min: int, n_places: int) -> tuple[list[int], int]:
        """Return a few places that include the best ones, and how many tokens all of them match.

        ``n_tail`` tokens at the cursor count.  Places are dropped as long as enough others match
        one more token.
        """
        items, last = self._items, self._n_tokens - 1
        many = self._places_of(items[last])
        length = 1
        while length < n_tail and many.size > _N_ONE_BY_ONE:
            is_longer = self._tokens[many - length] == items[last - length]
            longer = many[is_longer]
            if length >= n_min and longer.size < n_places:
                shorter = many[~is_longer][-n_places:]
                return [*shorter.tolist(), *longer.tolist()], length
            many = longer
            length += 1
        places: list[int] = many.tolist()
        while length < n_tail and len(places) > n_places:
            token = items[last - length]
            longer_ones = [place for place in places if items[place - length] == token]
            if length >= n_min and len(longer_ones) < n_places:
                others = [place for place in places if items[place - length] != token]
                return others[-n_places:] + longer_ones, length
            places = longer_ones
            length += 1
        return (places, length) if length < n_tail else (places[-n_places:], length)
