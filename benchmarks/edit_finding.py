"""The edits that lie between two versions of a text: where something was written, and what.

Lines are compared by :mod:`difflib`.  A line that was changed in one place gives the text of that
place, widened to whole words, as one who changes a word types it anew.  New lines are written from
the end of the line above them, as one opens a line in an editor.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from speclsp.common_ends import common_head, common_tail

EditKind = Literal["within a line", "new line", "new block", "changed lines"]

_N_PAIRED_LINES: Final = 3
"""Runs of at most so many changed lines are compared line by line."""
_LEAST_KEPT: Final = 0.3
"""Share of a changed line that must stay for the change to count as one within the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """``typed`` was written in place of the old text's characters ``start`` to ``end``."""

    start: int
    end: int
    typed: str
    kind: EditKind


def find_edits(old: str, new: str) -> list[Edit]:
    """Return what was written between two versions, in its order.

    Deletions are left out, and so is what came before the first line: no line above it was there
    to open one from.
    """
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    edits: list[Edit] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "insert" and i1:
            edits.append(_inserted(before[i1 - 1], after[j1:j2], starts[i1]))
        elif tag == "replace" and i2 - i1 == j2 - j1 <= _N_PAIRED_LINES:
            pairs = zip(before[i1:i2], after[j1:j2], starts[i1:i2], strict=True)
            edits += [_changed_line(line, changed, start) for line, changed, start in pairs]
        elif tag == "replace":
            edits.append(_replaced(before[i1:i2], after[j1:j2], starts[i1]))
    return [edit for edit in edits if edit.typed]


def _inserted(above: str, lines: list[str], start: int) -> Edit:
    """Lines are opened behind the end of the line above."""
    text = "".join(lines)
    kind = _kind(text)
    line_end = _line_end(above)
    if not text.endswith(line_end):
        # The file's last line, which has no end.
        return Edit(start=start, end=start, typed=text, kind=kind)
    start -= len(line_end)
    return Edit(start=start, end=start, typed=line_end + text.removesuffix(line_end), kind=kind)


def _changed_line(old: str, new: str, start: int) -> Edit:
    """One place within a line, or the line as a whole where little of it is left."""
    n_head = common_head(old, new)
    n_tail = common_tail(old, new, min(len(old), len(new)) - n_head)
    n_kept = len((old[:n_head] + old[len(old) - n_tail :]).strip())
    if n_kept < _LEAST_KEPT * len(old.strip()) or not new.strip():
        return _replaced([old], [new], start)
    if len(old) > n_head + n_tail:
        # Something goes: the word that it belonged to is typed anew.
        while n_head and _is_word(new[n_head - 1]) and _is_word_at(old, n_head):
            n_head -= 1
    while n_tail and _is_word(new[len(new) - n_tail]) and _is_word_at(new, len(new) - n_tail - 1):
        n_tail -= 1
    return Edit(
        start=start + n_head,
        end=start + len(old) - n_tail,
        typed=new[n_head : len(new) - n_tail],
        kind="within a line",
    )


def _replaced(old: list[str], new: list[str], start: int) -> Edit:
    """The old lines go, but for their indentation and the last line end."""
    before, after = "".join(old), "".join(new)
    line_end = _line_end(before)
    if line_end and after.endswith(line_end):
        before, after = before.removesuffix(line_end), after.removesuffix(line_end)
    n_head = 0
    for a, b in zip(before, after, strict=False):
        if a != b or a not in " \t":
            break
        n_head += 1
    return Edit(
        start=start + n_head,
        end=start + len(before),
        typed=after[n_head:],
        kind="changed lines",
    )


def _kind(text: str) -> EditKind:
    return "new line" if len(list(_written_lines(text))) < 2 else "new block"


def _written_lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line.strip())


def _line_end(line: str) -> str:
    for ending in ("\r\n", "\n", "\r"):
        if line.endswith(ending):
            return ending
    return ""


def _is_word_at(text: str, index: int) -> bool:
    return 0 <= index < len(text) and _is_word(text[index])


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
