"""A segment in a corpus that grows and shrinks, with what was removed from it."""

from __future__ import annotations

from speclsp.drafting.corpus import SegmentView
from speclsp.drafting.gaps import Gaps
from speclsp.drafting.protocol import TokenArray
from speclsp.drafting.segment import FileKey, Segment


class SegmentSlot:
    """Belongs to one thread; its views to everybody."""

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
    def adopted(cls, segment: Segment) -> SegmentSlot:
        """Hold a segment, with all its files as if removed."""
        slot = cls(segment)
        slot.removed.update(segment.spans)
        slot.n_removed_tokens = segment.n_tokens
        slot._gaps = Gaps(segment.spans.values())
        slot.is_held = True
        return slot

    @property
    def n_living_tokens(self) -> int:
        """Tokens of files that were not removed."""
        return self.segment.n_tokens - self.n_removed_tokens

    @property
    def n_living_files(self) -> int:
        """Files that were not removed."""
        return len(self.segment.spans) - len(self.removed)

    def remove(self, key: FileKey) -> None:
        """Take out a file that is there."""
        start, end = self.segment.spans[key]
        self.removed.add(key)
        self.n_removed_tokens += end - start
        self._gaps.add(start, end)
        self._view = None

    def revive(self, key: FileKey) -> bool:
        """Take back a removal; whether there was one."""
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
        """Return the segment as it can be searched now."""
        if self._view is None:
            gaps = self._gaps.widened(()) if self.removed else None
            self._view = SegmentView(
                self.segment, frozenset(self.removed), gaps, self.n_removed_tokens
            )
        return self._view
