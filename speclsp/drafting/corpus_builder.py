"""Grows and shrinks a corpus: new files make new segments, and segments are merged to stay few."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final

from speclsp.drafting.corpus import SegmentedCorpus, SegmentView
from speclsp.drafting.gaps import Gaps
from speclsp.drafting.protocol import TokenArray
from speclsp.drafting.segment import FileKey, Segment, build_segment

MAX_SEGMENTS: Final = 8
"""Most segments of a corpus: a search costs time in each."""

_SETTLED_RATIO: Final = 4
"""In idle time a segment gets this much larger than all newer ones together."""
_LARGE_SHARE: Final = 16
"""Segments with at least one part in so many of all tokens are large."""
_LARGE_SEGMENTS: Final = 3
"""Large segments in idle time: the others are room for files that change."""

_FULL_SEGMENT: Final = 2_000_000
"""Tokens of a segment that is merged only where nothing smaller can be: it takes a second."""

_EAGERNESS: Final = 2.5
"""How much better it is to make few segments of many at once than to merge a few tokens.

Found by simulation: of 1 to 3, this rewrites a token least often while files are replaced.
"""

_FIRST_FLUSH: Final = 8_192
_LARGEST_FLUSH: Final = 3_000_000

Interrupted = Callable[[], bool]
"""Whether to give up what takes long."""


def never() -> bool:
    """Nothing interrupts."""
    return False


def tokens_to_flush(n_searchable: int) -> int:
    """Return how many tokens to let wait while many files come, so that merging stays cheap.

    ``n_searchable`` is how many tokens are searchable already.
    """
    return max(_FIRST_FLUSH, min(_LARGEST_FLUSH, n_searchable // 2))


class CorpusBuilder:
    """Belongs to one thread; its snapshots to everybody.

    Where a method's ``interrupted`` says so, the method raises
    :class:`~speclsp.drafting.suffix_array.SortInterruptedError`; nothing is lost by that, and
    calling it again goes on.
    """

    def __init__(self, max_segments: int = MAX_SEGMENTS) -> None:
        self.max_segments = max_segments
        self._slots: list[_Slot] = []
        self._pending: dict[FileKey, TokenArray] = {}
        self.n_pending_tokens = 0
        self.n_sorted_tokens = 0
        """Tokens that went into new segments since the beginning, merged ones again."""

    def __contains__(self, key: FileKey) -> bool:
        return key in self._pending or self._slot_of(key) is not None

    @property
    def n_indexed_tokens(self) -> int:
        """Tokens in segments, removed ones included."""
        return sum(slot.segment.n_tokens for slot in self._slots)

    @property
    def n_living_tokens(self) -> int:
        """Tokens in segments, removed ones left out."""
        return sum(slot.n_living_tokens for slot in self._slots)

    @property
    def segments(self) -> list[Segment]:
        """All segments, the oldest first."""
        return [slot.segment for slot in self._slots]

    def adopt(self, segments: Iterable[Segment]) -> None:
        """Take in segments built earlier, the oldest first, as the oldest of all.

        Their files are as if removed: each is to be revived once it is known to be there still.
        Until :meth:`release` the segments stay as they are.
        """
        self._slots[:0] = [_Slot.adopted(segment) for segment in segments]

    def release(self) -> None:
        """Let adopted segments be merged: what is going to be revived has been."""
        for slot in self._slots:
            slot.is_held = False

    def add(self, key: FileKey, tokens: TokenArray) -> None:
        """Take in a file; it can be searched after the next :meth:`flush`.

        A file that is there already stays as it is: the key stands for the content.
        """
        if key not in self and not self.revive(key):
            self._pending[key] = tokens
            self.n_pending_tokens += len(tokens)

    def revive(self, key: FileKey) -> bool:
        """Take back a removal, as after a branch was switched to and fro; False if too late."""
        return any(slot.revive(key) for slot in self._slots)

    def remove(self, key: FileKey) -> None:
        """Take out a file; without effect where it is not there."""
        if key in self._pending:
            self.n_pending_tokens -= len(self._pending.pop(key))
        slot = self._slot_of(key)
        if slot is not None:
            slot.remove(key)

    def flush(self, interrupted: Interrupted = never) -> None:
        """Make everything that was added searchable, and tidy up.

        Costs time in proportion to the tokens added, and now and then to those of more segments.
        """
        if self._pending:
            self._slots.append(_Slot(self._build(list(self._pending.items()), interrupted)))
            self._pending.clear()
            self.n_pending_tokens = 0
        self._compact(interrupted)
        self._merge_down_to(self.max_segments, interrupted)

    def settle(self, interrupted: Interrupted = never) -> None:
        """Merge further, in idle time: searches get faster, and replacing files cheaper.

        Of the newest segments those become one of which none is much larger than all newer ones
        together, so that what was merged lately is not merged again for a few files.  Then of the
        large ones those become one that are smallest, until few are left.
        """
        self.flush(interrupted)
        first = self._first_to_settle()
        if first < len(self._slots) - 1:
            self._replace(first, len(self._slots), interrupted)
        while (run := self._large_run()) is not None:
            self._replace(*run, interrupted)

    def snapshot(self) -> SegmentedCorpus:
        """Return what can be searched now."""
        return SegmentedCorpus(self.views())

    def views(self) -> list[SegmentView]:
        """Return the segments as they can be searched now, the oldest first."""
        return [slot.view() for slot in self._slots]

    def _slot_of(self, key: FileKey) -> _Slot | None:
        for slot in self._slots:
            if key in slot.segment.spans and key not in slot.removed:
                return slot
        return None

    def _build(
        self, files: Sequence[tuple[FileKey, TokenArray]], interrupted: Interrupted
    ) -> Segment:
        segment = build_segment(files, interrupted)
        self.n_sorted_tokens += segment.n_tokens
        return segment

    def _replace(self, low: int, high: int, interrupted: Interrupted) -> None:
        """Put one new segment with the living files in the place of segments low … high - 1."""
        files = [file for slot in self._slots[low:high] for file in slot.living()]
        merged = [_Slot(self._build(files, interrupted))] if files else []
        self._slots[low:high] = merged

    def _compact(self, interrupted: Interrupted) -> None:
        """Rebuild segments of which more than half is removed."""
        for idx in reversed(range(len(self._slots))):
            slot = self._slots[idx]
            is_hollow = 2 * slot.n_living_tokens < slot.segment.n_tokens
            if not slot.is_held and (is_hollow or not slot.n_living_files):
                self._replace(idx, idx + 1, interrupted)

    def _merge_down_to(self, n_segments: int, interrupted: Interrupted) -> None:
        while len(self._slots) > n_segments:
            run = self._best_run()
            if run is None:
                break
            self._replace(*run, interrupted)

    def _first_to_settle(self) -> int:
        sizes = [slot.n_living_tokens for slot in self._slots]
        full_size = _full_size(sizes)
        best = first = len(sizes)
        n_merged = 0
        while first > 0 and not self._slots[first - 1].is_held:
            first -= 1
            is_small = sizes[first] < _SETTLED_RATIO * n_merged
            n_merged += sizes[first]
            if n_merged > full_size:
                break
            if is_small:
                best = first
        return best

    def _large_run(self) -> tuple[int, int] | None:
        """Return the cheapest two neighbours of the large segments; None where these are few."""
        sizes = [slot.n_living_tokens for slot in self._slots]
        large = [idx for idx, size in enumerate(sizes) if size * _LARGE_SHARE >= sum(sizes)]
        if len(large) <= _LARGE_SEGMENTS or any(slot.is_held for slot in self._slots):
            return None
        runs = [(low, high + 1) for low, high in pairwise(large)]
        return min(runs, key=lambda run: sum(sizes[slice(*run)]))

    def _best_run(self) -> tuple[int, int] | None:
        """Return the neighbouring segments that it is best to merge: from the first to the second.

        Each token should be merged few times in its life however many files are replaced.  So what
        counts is the cost, which is the tokens to sort, for each segment fewer; and more so the
        more there are, for merging many small ones at once spares merging them one after another.
        Segments stay below the full size unless nothing else can be merged.
        """
        sizes = [slot.n_living_tokens for slot in self._slots]
        full_size = _full_size(sizes)
        best: tuple[bool, float] | None = None
        best_run: tuple[int, int] | None = None
        for low in range(len(sizes) - 1):
            n_tokens = 0
            for high in range(low, len(sizes)):
                if self._slots[high].is_held:
                    break
                n_tokens += sizes[high]
                n_fewer = high - low
                if n_fewer == 0:
                    continue
                score = (n_tokens > full_size, n_tokens / n_fewer**_EAGERNESS)
                if best is None or score < best:
                    best, best_run = score, (low, high + 1)
        return best_run


def _full_size(sizes: Sequence[int]) -> int:
    return max(_FULL_SEGMENT, sum(sizes) // 2)


class _Slot:
    """A segment and what was removed from it."""

    __slots__ = ("_gaps", "_view", "is_held", "n_removed_tokens", "removed", "segment")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.removed: set[FileKey] = set()
        self.n_removed_tokens = 0
        self.is_held = False
        """Whether it must stay as it is for now."""
        self._gaps = Gaps()
        self._view: SegmentView | None = None

    @classmethod
    def adopted(cls, segment: Segment) -> _Slot:
        slot = cls(segment)
        slot.removed.update(segment.spans)
        slot.n_removed_tokens = segment.n_tokens
        slot._gaps = Gaps(segment.spans.values())
        slot.is_held = True
        return slot

    @property
    def n_living_tokens(self) -> int:
        return self.segment.n_tokens - self.n_removed_tokens

    @property
    def n_living_files(self) -> int:
        return len(self.segment.spans) - len(self.removed)

    def remove(self, key: FileKey) -> None:
        start, end = self.segment.spans[key]
        self.removed.add(key)
        self.n_removed_tokens += end - start
        self._gaps.add(start, end)
        self._view = None

    def revive(self, key: FileKey) -> bool:
        if key not in self.removed:
            return False
        start, end = self.segment.spans[key]
        self.removed.discard(key)
        self.n_removed_tokens -= end - start
        self._gaps.discard(start, end)
        self._view = None
        return True

    def living(self) -> list[tuple[FileKey, TokenArray]]:
        """Files that were not removed, the oldest first."""
        segment = self.segment
        # Files lie in the reversed text from the newest to the oldest.
        oldest_first = sorted(segment.spans, key=lambda key: -segment.spans[key][0])
        return [(key, segment.file_tokens(key)) for key in oldest_first if key not in self.removed]

    def view(self) -> SegmentView:
        if self._view is None:
            gaps = self._gaps.widened(()) if self.removed else None
            self._view = SegmentView(
                self.segment, frozenset(self.removed), gaps, self.n_removed_tokens
            )
        return self._view
