"""Grows and shrinks a corpus: new files make new segments, and segments are merged to stay few."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from speclsp.drafting.corpus import SegmentedCorpus, SegmentView
from speclsp.drafting.merge_policy import best_run, run_to_settle
from speclsp.drafting.protocol import TokenArray
from speclsp.drafting.segment import FileKey, Segment
from speclsp.drafting.segment_building import build_segment
from speclsp.drafting.segment_slot import SegmentSlot

MAX_SEGMENTS: Final = 8
"""Most segments of a corpus: a search costs time in each."""

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
        self._slots: list[SegmentSlot] = []
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
        self._slots[:0] = [SegmentSlot.adopted(segment) for segment in segments]

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
            self._slots.append(SegmentSlot(self._build(list(self._pending.items()), interrupted)))
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
        while (run := run_to_settle(self._sizes())) is not None:
            self._replace(*run, interrupted)

    def snapshot(self) -> SegmentedCorpus:
        """Return what can be searched now."""
        return SegmentedCorpus(self.views())

    def views(self) -> list[SegmentView]:
        """Return the segments as they can be searched now, the oldest first."""
        return [slot.view() for slot in self._slots]

    def _slot_of(self, key: FileKey) -> SegmentSlot | None:
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
        merged = [SegmentSlot(self._build(files, interrupted))] if files else []
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
            run = best_run(self._sizes())
            if run is None:
                break
            self._replace(*run, interrupted)

    def _sizes(self) -> list[int | None]:
        return [None if slot.is_held else slot.n_living_tokens for slot in self._slots]
