"""Many files' tokens, searched together: a snapshot of immutable segments.

As in log-structured search engines, files are never changed in place: a removed one is only left
out of the search (a tombstone).  :class:`~speclsp.drafting.corpus_builder.CorpusBuilder` makes the
segments; what it publishes never changes and may be searched from any thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from speclsp.drafting.gaps import Gaps
from speclsp.drafting.protocol import EMPTY_TOKENS, TokenArray
from speclsp.drafting.query import Query
from speclsp.drafting.segment import (
    SEPARATOR_TEXT,
    TOKEN_BYTES,
    FileKey,
    Match,
    Segment,
    tokens_of,
)

MAX_CANDIDATES: Final = 16
"""Most places of a match that are asked for what follows them."""


class Continuations(NamedTuple):
    """What followed the longest match, for one or more of the places that have it."""

    rows: Sequence[list[int]] = ()
    """The tokens after each of the places looked at, the newest place first; none is empty."""
    n_places: int = 0
    """How many places there are, files that were removed included: ``rows`` may be a sample."""
    n_matched: int = 0
    """The match's length in tokens; 0 for no match."""


class _Found(NamedTuple):
    """What followed the longest match as reversed text, the newest place first."""

    texts: list[bytes]
    n_places: int
    n_matched: int


_NOTHING: Final = _Found([], 0, 0)


@dataclass(frozen=True, slots=True)
class SegmentView:
    """A segment without the files that were removed from it."""

    segment: Segment
    removed: frozenset[FileKey]
    gaps: Gaps | None
    """Where the removed files lie; None for none."""
    n_removed_tokens: int

    @property
    def n_files(self) -> int:
        """Files that count."""
        return len(self.segment.spans) - len(self.removed)

    @property
    def n_tokens(self) -> int:
        """Tokens that count."""
        return self.segment.n_tokens - self.n_removed_tokens

    def hiding(self, keys: Collection[FileKey]) -> SegmentView:
        """Return a view that leaves out more files, as far as they are there."""
        spans = self.segment.spans
        hidden = {key: spans[key] for key in keys if key in spans and key not in self.removed}
        if not hidden:
            return self
        return SegmentView(
            segment=self.segment,
            removed=self.removed | hidden.keys(),
            gaps=(self.gaps or Gaps()).widened(hidden.values()),
            n_removed_tokens=self.n_removed_tokens
            + sum(end - start for start, end in hidden.values()),
        )


class SegmentedCorpus:
    """A snapshot of a corpus.  Implements :class:`~speclsp.drafting.protocol.TokenCorpus`."""

    __slots__ = ("_searched", "_views", "n_files", "n_tokens")

    def __init__(self, views: Iterable[SegmentView] = ()) -> None:
        """Look at segments, the oldest first."""
        self._views = tuple(views)
        self.n_files = sum(view.n_files for view in self._views)
        self.n_tokens = sum(view.n_tokens for view in self._views)
        searched = [
            (age, view.segment, view.gaps)
            for age, view in enumerate(reversed(self._views))
            if view.n_files
        ]
        # What is found in a large segment makes the search of the others short.
        self._searched = sorted(searched, key=lambda each: -each[1].n_tokens)

    def hiding(self, keys: Collection[FileKey]) -> SegmentedCorpus:
        """Return the same corpus without some files, for as long as these do not count."""
        return SegmentedCorpus(view.hiding(keys) for view in self._views)

    @property
    def n_segments(self) -> int:
        """Segments that a search looks into."""
        return len(self._searched)

    @property
    def n_bytes(self) -> int:
        """Memory that the segments occupy."""
        return sum(view.segment.n_bytes for view in self._views)

    def continuation(
        self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
    ) -> tuple[TokenArray, int]:
        """Find what followed the longest suffix of ``tail`` in any file.

        The match has at least ``n_min`` tokens and counts up to ``n_max``, at most
        :data:`~speclsp.drafting.suffix_array.DEPTH`.  Of several places with the longest match the
        most frequent continuation wins, token by token, and of equal ones the newest.
        Returns at most ``n_tokens`` tokens and the match's length; (empty, 0) for no match.
        """
        found = self._find(tail, n_min, n_max, n_tokens)
        if not found.n_matched:
            return EMPTY_TOKENS, 0
        tokens = tokens_of(_favourite(found.texts, n_tokens))
        return np.array(tokens, dtype=np.int32), found.n_matched

    def continuations(
        self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
    ) -> Continuations:
        """Find what followed the longest suffix of ``tail`` at each place that has it.

        The match counts as in :meth:`continuation`.  At most :data:`MAX_CANDIDATES` places are
        looked at, from each segment in proportion to how many it has.
        """
        found = self._find(tail, n_min, n_max, n_tokens)
        return Continuations(list(map(tokens_of, found.texts)), found.n_places, found.n_matched)

    def _find(self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int) -> _Found:
        query = Query(tail, n_max)
        n_matched = max(n_min, 1)
        if query.n_tokens < n_matched or n_tokens < 1:
            return _NOTHING
        found: list[tuple[int, Segment, Gaps | None, Match]] = []
        n_places = 0
        for age, segment, gaps in self._searched:
            match = segment.longest_match(query, n_matched, gaps)
            n_shared, low, high = match
            if n_shared > n_matched:
                n_matched = n_shared
                n_places = 0
                found.clear()
            if n_shared:
                n_places += high - low
                found.append((age, segment, gaps, match))
        if not found:
            return _NOTHING
        if len(found) > 1:
            # The newest first: at equal merit the newer place wins.
            found.sort(key=_age)
        texts: list[bytes] = []
        for _, segment, gaps, match in found:
            n_rows = MAX_CANDIDATES * (match.high - match.low) // n_places or 1
            texts += segment.texts_after(segment.places(match, gaps, n_rows), n_tokens)
        return _Found(texts, n_places, n_matched)


_age = itemgetter(0)


def _favourite(texts: list[bytes], n_tokens: int) -> bytes:
    """Return the text that most agree on, token by token; of equals the first.

    Texts are reversed: their first token is the last.
    """
    for position in range(n_tokens):
        if texts.count(texts[0]) == len(texts):
            break
        end = -TOKEN_BYTES * position or None
        start = -TOKEN_BYTES * (position + 1)
        following = [text[start:end] for text in texts]
        if SEPARATOR_TEXT in following:
            # Files end here: the others go on.
            texts = [text for text in texts if text[start:end] != SEPARATOR_TEXT] or texts[:1]
            following = [text[start:end] for text in texts]
        token = following[0]
        if 2 * following.count(token) < len(following):
            # Of equals max takes the first: the newest.
            token = max(following, key=following.count)
        texts = [text for text in texts if text[start:end] == token]
    return texts[0]
