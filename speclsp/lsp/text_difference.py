"""The one edit that makes a text into another: what a client sends of a change."""

from __future__ import annotations

from typing import NamedTuple


class Edit(NamedTuple):
    """``old[:start] + inserted + old[end:] == new``, offsets in code points."""

    start: int
    end: int
    inserted: str


def edit_between(old: str, new: str) -> Edit:
    """Return the edit between the texts' longest common beginning and end."""
    n_common = min(len(old), len(new))
    start = next((i for i in range(n_common) if old[i] != new[i]), n_common)
    n_tail = next(
        (i for i in range(n_common - start) if old[-1 - i] != new[-1 - i]), n_common - start
    )
    return Edit(start, len(old) - n_tail, new[start : len(new) - n_tail])


def line_and_character(text: str, offset: int) -> tuple[int, int]:
    """Return where an offset lies, from 0, in code points; lines end at LF."""
    line_idx = text.count("\n", 0, offset)
    return line_idx, offset - (text.rfind("\n", 0, offset) + 1)
