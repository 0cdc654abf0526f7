"""Many files' tokens, searched together: immutable segments, tombstones, merging.

As in log-structured search engines, files are never changed in place.  A new or replaced file
goes into a new segment, a removed one is only marked (a tombstone), and neighbouring segments are
merged so that few remain.  :class:`CorpusBuilder` does that on one thread; what it publishes, a
:class:`SegmentedCorpus`, never changes and may be searched from any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import numpy as np

from speclsp.drafting.protocol import EMPTY_TOKENS, TokenArray
from speclsp.drafting.segment import FileKey, Places, Query, Segment, Stretches

MAX_SEGMENTS: Final = 8
"""Most segments of a corpus: a search costs time in each."""

_SETTLED_SEGMENTS: Final = 4
"""Segments in idle time: the others are room for files that change."""

_FULL_SEGMENT: Final = 2_000_000
"""Tokens of a segment that is merged no more: sorting takes memory and cannot be interrupted."""

_MAX_CANDIDATES: Final = 16
"""Most places of a match that are asked for what follows them."""


class SegmentedCorpus:
    """A snapshot of a corpus.  Implements :class:`~speclsp.drafting.protocol.TokenCorpus`."""

    __slots__ = ("_removed", "_views", "n_files", "n_tokens")

    def __init__(
        self,
        segments: Sequence[Segment],
        removed: Sequence[Collection[FileKey]],
        hidden: Collection[FileKey] = (),
    ) -> None:
        """Look at segments, the oldest first, without the files removed from each or hidden."""
        self._removed = tuple(zip(segments, removed, strict=True))
        views: list[tuple[Segment, Stretches | None]] = []
        self.n_files = 0
        self.n_tokens = 0
        for segment, gone in self._removed:
            left_out = {key for key in (*gone, *hidden) if key in segment.spans}
            self.n_files += len(segment.spans) - len(left_out)
            self.n_tokens += segment.n_tokens - _n_tokens(segment, left_out)
            if len(left_out) < len(segment.spans):
                views.append((segment, _stretches(segment, left_out)))
        # The newest first: at equal merit the newer place wins.
        self._views = tuple(reversed(views))

    def hiding(self, keys: Collection[FileKey]) -> SegmentedCorpus:
        """Return the same corpus without some files, for as long as these do not count."""
        segments = [segment for segment, _ in self._removed]
        return SegmentedCorpus(segments, [gone for _, gone in self._removed], keys)

    @property
    def n_segments(self) -> int:
        """Segments that a search looks into."""
        return len(self._views)

    @property
    def n_bytes(self) -> int:
        """Memory that the segments occupy."""
        return sum(segment.n_bytes for segment, _ in self._removed)

    def continuation(
        self, tail: TokenArray, n_min: int, n_max: int, n_tokens: int
    ) -> tuple[TokenArray, int]:
        """Find what followed the longest suffix of ``tail`` in any file.

        The match has at least ``n_min`` tokens and counts up to ``n_max``, at most
        :data:`~speclsp.drafting.segment.DEPTH`.  Of several places with the longest match the
        most frequent continuation wins, token by token, and of equal ones the newest.
        Returns at most ``n_tokens`` tokens and the match's length; (empty, 0) for no match.
        """
        query = Query(tail, n_max)
        n_matched = max(n_min, 1)
        if query.n_tokens < n_matched or n_tokens < 1:
            return EMPTY_TOKENS, 0
        found: list[tuple[Segment, Places]] = []
        for segment, stretches in self._views:
            places, n_shared = segment.longest_match(query, n_matched, stretches)
            if n_shared > n_matched:
                n_matched = n_shared
                found.clear()
            if n_shared:
                found.append((segment, places))
        if not found:
            return EMPTY_TOKENS, 0
        return np.array(_favourite(found, n_tokens), dtype=np.int32), n_matched


class CorpusBuilder:
    """Grows and shrinks a corpus.  Belongs to one thread; its snapshots to everybody."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._removed: list[set[FileKey]] = []
        self._pending: dict[FileKey, TokenArray] = {}
        self.n_pending_tokens = 0

    def __contains__(self, key: FileKey) -> bool:
        return key in self._pending or self._segment_of(key) is not None

    @property
    def n_indexed_tokens(self) -> int:
        """Tokens in segments, removed ones included."""
        return sum(segment.n_tokens for segment in self._segments)

    def add(self, key: FileKey, tokens: TokenArray) -> None:
        """Take in a file; it can be searched after the next :meth:`flush`.

        A file that is there already stays as it is: the key stands for the content.
        """
        if key not in self and not self.revive(key):
            self._pending[key] = tokens
            self.n_pending_tokens += len(tokens)

    def revive(self, key: FileKey) -> bool:
        """Take back a removal, as after a branch was switched to and fro; False if too late."""
        for segment, removed in zip(self._segments, self._removed, strict=True):
            if key in removed and key in segment.spans:
                removed.discard(key)
                return True
        return False

    def remove(self, key: FileKey) -> None:
        """Take out a file; without effect where it is not there."""
        if key in self._pending:
            self.n_pending_tokens -= len(self._pending.pop(key))
        segment_idx = self._segment_of(key)
        if segment_idx is not None:
            self._removed[segment_idx].add(key)

    def flush(self) -> None:
        """Make everything that was added searchable, and tidy up.

        Costs time in proportion to the tokens added, and now and then to those of small segments.
        """
        if self._pending:
            self._append(list(self._pending.items()))
            self._pending.clear()
            self.n_pending_tokens = 0
        self._compact()
        self._merge_down_to(MAX_SEGMENTS)

    def settle(self) -> None:
        """Merge further, in idle time: searches get faster, and replacing files cheaper."""
        self.flush()
        self._merge_down_to(_SETTLED_SEGMENTS)

    def snapshot(self) -> SegmentedCorpus:
        """Return what can be searched now."""
        return SegmentedCorpus(self._segments, [frozenset(gone) for gone in self._removed])

    def _segment_of(self, key: FileKey) -> int | None:
        for segment_idx, segment in enumerate(self._segments):
            if key in segment.spans and key not in self._removed[segment_idx]:
                return segment_idx
        return None

    def _append(self, files: list[tuple[FileKey, TokenArray]]) -> None:
        self._segments.append(Segment(files))
        self._removed.append(set())

    def _living(self, segment_idx: int) -> list[tuple[FileKey, TokenArray]]:
        segment, removed = self._segments[segment_idx], self._removed[segment_idx]
        # Files lie in the reversed text from the newest to the oldest.
        oldest_first = sorted(segment.spans, key=lambda key: -segment.spans[key][0])
        return [(key, segment.file_tokens(key)) for key in oldest_first if key not in removed]

    def _replace(self, low: int, high: int) -> None:
        """Put one new segment with the living files in the place of segments low … high - 1."""
        files = [file for idx in range(low, high) for file in self._living(idx)]
        self._segments[low:high] = [Segment(files)] if files else []
        self._removed[low:high] = [set()] if files else []

    def _compact(self) -> None:
        """Rebuild segments of which more than half is removed."""
        for idx in reversed(range(len(self._segments))):
            segment = self._segments[idx]
            if 2 * _n_tokens(segment, self._removed[idx]) > segment.n_tokens or not segment.spans:
                self._replace(idx, idx + 1)

    def _merge_down_to(self, n_segments: int) -> None:
        while len(self._segments) > n_segments:
            self._replace(self._first_to_merge(), len(self._segments))

    def _first_to_merge(self) -> int:
        """Return the segment from which on all newer ones become one.

        As few tokens as possible are merged such that the segment before has twice as many: sizes
        then fall geometrically, and a token is merged a few times in its life however many files
        are replaced.  Segments of the full size stay alone unless nothing else can be merged.
        """
        sizes = [segment.n_tokens for segment in self._segments]
        full_size = max(_FULL_SEGMENT, sum(sizes) // 4)
        first = len(sizes) - 1
        n_merged = sizes[first]
        while first > 0 and sizes[first - 1] < min(2 * n_merged, full_size):
            first -= 1
            n_merged += sizes[first]
        return min(first, len(sizes) - 2)


def _n_tokens(segment: Segment, keys: Iterable[FileKey]) -> int:
    return sum(segment.spans[key][1] - segment.spans[key][0] for key in keys)


def _stretches(segment: Segment, keys: Collection[FileKey]) -> Stretches | None:
    if not keys:
        return None
    spans = np.array(sorted(segment.spans[key] for key in keys), dtype=np.int64)
    return spans[:, 0], spans[:, 1]


def _favourite(found: Sequence[tuple[Segment, Places]], n_tokens: int) -> list[int]:
    """Return the continuation that the places agree on most, token by token.

    ``found`` holds the newest segment first; of equals the newest wins.
    """
    rows: list[list[int]] = []
    n_per_segment = max(1, _MAX_CANDIDATES // len(found))
    for segment, places in found:
        # Too many places are thinned out evenly: they are sorted by what stands further back,
        # so that a run of them would be one-sided.
        thinned = places[:: -(-len(places) // n_per_segment)].tolist()
        rows += [segment.continuation(place, n_tokens) for place in sorted(thinned)]
    for position in range(n_tokens):
        if len(rows) == 1:
            break
        rows = [row for row in rows if len(row) > position] or rows[:1]
        if len(rows) > 1:
            following = [row[position] for row in rows]
            # Of equals max takes the first: the newest.
            token = max(following, key=following.count)
            rows = [row for row in rows if row[position] == token]
    return rows[0]
