"""Where the user edited last: regions of lines that follow further edits, and how they were before.

Keystrokes near each other are one region.  A region that is as it was before is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from typing import Final

MAX_REGIONS: Final = 24
_NEAR_LINES: Final = 3
"""Edits as near as this are one region."""
_MAX_LINES: Final = 40
"""A larger change is taken as a replaced file, not as an edit."""
_CONTEXT_LINES: Final = 2


@dataclass(frozen=True, slots=True)
class EditedRegion:
    """Lines ``first_line`` to ``end_line`` (exclusive) of a document, and those before the edit."""

    uri: str
    path: str
    first_line: int
    end_line: int
    before: tuple[str, ...]
    number: int
    """Keeps it apart from all other regions, however it grows and moves."""

    def text(self, lines: Sequence[str]) -> tuple[int, str]:
        """Return the region as it is now, with some lines around it, and its first line."""
        first = max(0, self.first_line - _CONTEXT_LINES)
        end = min(len(lines), self.end_line + _CONTEXT_LINES)
        return first, "\n".join(lines[first:end]).rstrip() + "\n"

    def diff(self, lines: Sequence[str]) -> str:
        """Return what was taken out and put in, as a unified diff without its headers."""
        now = lines[self.first_line : self.end_line]
        changes = list(unified_diff(self.before, now, lineterm="", n=1))[3:]
        return "\n".join(changes) + "\n" if changes else ""

    @property
    def replaces(self) -> bool:
        """Whether lines were taken out or rewritten, not only put in."""
        return any(line.strip() for line in self.before)


class EditTrail:
    """The last edits of all documents, the newest last.  Not thread-safe."""

    def __init__(self) -> None:
        self._regions: list[EditedRegion] = []
        self._n_edits = 0

    def take(self, uri: str, path: str, old: Sequence[str], new: Sequence[str]) -> None:
        """Note that a document's lines have changed."""
        n_max = min(len(old), len(new))
        n_head = next((i for i in range(n_max) if old[i] != new[i]), n_max)
        n_tail = next(
            (i for i in range(n_max - n_head) if old[-1 - i] != new[-1 - i]), n_max - n_head
        )
        first, old_end, new_end = n_head, len(old) - n_tail, len(new) - n_tail
        if first == old_end == new_end:
            return
        if max(old_end, new_end) - first > _MAX_LINES:
            self.forget(uri)
            return
        self._n_edits += 1
        before = tuple(old[first:old_end])
        edited = EditedRegion(uri, path, first, new_end, before, self._n_edits)
        self._merge(edited, old, old_end, new_end - old_end)

    def forget(self, uri: str) -> None:
        """Forget a document's edits."""
        self._regions = [region for region in self._regions if region.uri != uri]

    def newest_first(self) -> Iterator[EditedRegion]:
        """Iterate over the regions."""
        return reversed(self._regions)

    def _merge(self, edited: EditedRegion, old: Sequence[str], old_end: int, shift: int) -> None:
        kept: list[EditedRegion] = []
        first, before, number = edited.first_line, list(edited.before), edited.number
        for region in self._regions:
            if region.uri != edited.uri or region.end_line + _NEAR_LINES < first:
                kept.append(region)
            elif region.first_line > old_end + _NEAR_LINES:
                moved = (region.first_line + shift, region.end_line + shift)
                kept.append(replace(region, first_line=moved[0], end_line=moved[1]))
            else:
                # The lines between the two stand as they are in the text before this edit.
                start, end = min(first, region.first_line), max(old_end, region.end_line)
                inside = old[start : region.first_line], old[region.end_line : end]
                if region.first_line <= first and old_end <= region.end_line:
                    before = list(region.before)
                else:
                    before = [*inside[0], *region.before, *inside[1]]
                first, old_end, number = start, end, min(number, region.number)
        merged = replace(
            edited, first_line=first, end_line=old_end + shift, before=tuple(before), number=number
        )
        if merged.end_line - merged.first_line <= _MAX_LINES:
            kept.append(merged)
        self._regions = kept[-MAX_REGIONS:]
