"""The regions of lines that the user edited last; they move with further edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from speclsp.seam.documents import Document, TextEdit

MAX_REGIONS: Final = 24
_NEAR_LINES: Final = 3
"""Edits no farther apart than this belong to one region."""
_MAX_LINES: Final = 40
"""A larger change counts as a replaced file."""
_CONTEXT_LINES: Final = 2


@dataclass(frozen=True, slots=True)
class EditedRegion:
    """Lines ``first_line`` to ``end_line`` (exclusive, from 0) of a document."""

    uri: str
    path: str
    first_line: int
    end_line: int
    number: int
    """Identifies the region while it grows and moves."""

    def text(self, lines: Sequence[str]) -> tuple[int, str]:
        """Return the first line and the text of the region with two lines around it."""
        first = max(0, self.first_line - _CONTEXT_LINES)
        end = min(len(lines), self.end_line + _CONTEXT_LINES)
        return first, "\n".join(lines[first:end]).rstrip() + "\n"


class EditedRegions:
    """The last edits of all documents.  Not thread-safe."""

    def __init__(self) -> None:
        self._regions: list[EditedRegion] = []
        self._n_edits = 0

    def take(self, former: Document, edit: TextEdit) -> None:
        """Note an edit of a document; ``former`` is the version before it."""
        removed = former.text[edit.start : edit.end]
        if removed == edit.text:
            return
        before = former.text[max(0, edit.start - 1) : edit.start]
        is_whole_lines = all(not t or t.endswith("\n") for t in (before, removed, edit.text))
        uri, path = former.uri, former.path
        first = former.text.count("\n", 0, edit.start)
        old_end = first + removed.count("\n") + (not is_whole_lines)
        shift = edit.text.count("\n") - removed.count("\n")
        if max(old_end, old_end + shift) - first > _MAX_LINES:
            self.forget(uri)
            return
        self._n_edits += 1
        number = self._n_edits
        kept: list[EditedRegion] = []
        for region in self._regions:
            if region.uri != uri or region.end_line + _NEAR_LINES < first:
                kept.append(region)
            elif region.first_line > old_end + _NEAR_LINES:
                moved = (region.first_line + shift, region.end_line + shift)
                kept.append(replace(region, first_line=moved[0], end_line=moved[1]))
            else:
                first, old_end = min(first, region.first_line), max(old_end, region.end_line)
                number = min(number, region.number)
        if old_end + shift - first <= _MAX_LINES:
            kept.append(EditedRegion(uri, path, first, old_end + shift, number))
        self._regions = kept[-MAX_REGIONS:]

    def forget(self, uri: str) -> None:
        """Forget a document's edits."""
        self._regions = [region for region in self._regions if region.uri != uri]

    def newest_first(self) -> list[EditedRegion]:
        """Return the regions."""
        return self._regions[::-1]
