"""A next edit: how a region changes, and why an edit is withheld."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Final, Literal

from speclsp.common_ends import common_head, common_tail
from speclsp.edits.formats import EditFormat, lines_of
from speclsp.seam.documents import TextEdit, edit_between
from speclsp.seam.edit import Change

Withheld = Literal[
    "unchanged",
    "control-tokens",
    "broken",
    "length-limit",
    "above-cursor",
    "undoes",
    "blanks",
    "declined",
    "no-place",
    "kept",
    "uncertain",
]
"""Why an edit is withheld; the region's having changed meanwhile is seen by the window."""

BROKEN: Final = "\ufffd"
"""What stands for a model's bytes that are no UTF-8."""

_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")
_LEAST_WORD: Final = 2
"""Characters of the shortest word whose replacement is repeated elsewhere."""
_LEAST_WORDS: Final = 3
"""Words of the shortest line whose deletion is repeated elsewhere."""
_SEEN_LINES: Final = 10
"""Lines from the cursor that a model sees in any case."""
_FAR_LINES: Final = 2
"""Line ends between the cursor and an edit above which it is far."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Neighbouring lines that change.  Offsets are the region's."""

    start: int
    end: int
    old: str
    new: str

    def moved(self, start: int) -> TextEdit:
        """Return the change in a document, in which the region begins at ``start``."""
        return TextEdit(self.start + start, self.end + start, self.new)


def hunks(old: str, new: str) -> list[Hunk]:
    """Return the lines that differ, in order."""
    was, now = lines_of(old), lines_of(new)
    starts = list(accumulate(map(len, was), initial=0))
    matcher = SequenceMatcher(None, was, now, autojunk=False)
    return [
        Hunk(starts[first], starts[last], "".join(was[first:last]), "".join(now[start:end]))
        for kind, first, last, start, end in matcher.get_opcodes()
        if kind != "equal"
    ]


def departures(copy: str, answer: str) -> list[int]:
    """Return the offsets in ``answer`` at which it leaves ``copy``, one for each hunk."""
    places: list[int] = []
    shift = 0
    for hunk in hunks(copy, answer):
        places.append(hunk.start + shift + common_head(hunk.old, hunk.new))
        shift += len(hunk.new) - len(hunk.old)
    return places


def smallest_edit(changed: Sequence[TextEdit], old: str) -> TextEdit:
    """Return one replacement for all of the changed lines, of which there is one hunk at least.

    Lines that are only inserted or deleted stay whole; of replaced ones the characters that the
    first and last have in common at the edges are left out.
    """
    start, end = changed[0].start, changed[-1].end
    texts: list[str] = []
    at = start
    for hunk in changed:
        texts += (old[at : hunk.start], hunk.text)
        at = hunk.end
    text, was = "".join(texts), old[start:end]
    if changed[0].start < changed[0].end and changed[0].text:
        n_same = common_head(was, text)
        start, was, text = start + n_same, was[n_same:], text[n_same:]
    if changed[-1].start < changed[-1].end and changed[-1].text:
        n_same = common_tail(was, text)
        end, text = end - n_same, text[: len(text) - n_same]
    return TextEdit(start, end, text)


def whole_lines(edit: TextEdit, text: str) -> TextEdit:
    """Return an edit of ``text`` as a replacement of whole lines with the same outcome.

    It begins at a line's start and ends at another's.  Where it reaches the text's last line end,
    that stays, since editors' buffers do not have the empty line behind it: the edit ends at the
    end of the last line then, and what is to be inserted there repeats that line.
    """
    start = text.rfind("\n", 0, edit.start) + 1
    end, new = edit.end, text[start : edit.start] + edit.text
    if text[end - 1 : end] not in ("", "\n") or (new and not new.endswith("\n")):
        line_end = text.find("\n", end) + 1 or len(text)
        end, new = line_end, new + text[end:line_end]
    if end < len(text) or not new.endswith("\n") or not text.endswith("\n"):
        return TextEdit(start, end, new)
    if start == end:
        start = text.rfind("\n", 0, start - 1) + 1
        new = text[start:end] + new
    return TextEdit(start, end - 1, new.removesuffix("\n"))


def left_after(
    changed: Sequence[TextEdit], text: str, typed: TextEdit
) -> tuple[TextEdit, ...] | None:
    """Return what is left of an edit of ``text`` once the user typed a part of it.

    ``typed`` is an edit of the same text.  Returns None where it does not lie in one hunk or does
    not bring its lines nearer to the new ones.  Other hunks stay.
    """
    shift = len(typed.text) - (typed.end - typed.start)
    for idx, hunk in enumerate(changed):
        if not hunk.start <= typed.start <= typed.end <= hunk.end:
            continue
        old = text[hunk.start : hunk.end]
        now = text[hunk.start : typed.start] + typed.text + text[typed.end : hunk.end]
        before, after = edit_between(old, hunk.text), edit_between(now, hunk.text)
        gone, gone_now = old[before.start : before.end], now[after.start : after.end]
        is_nearer = len(gone_now) + len(after.text) < len(gone) + len(before.text)
        if not (is_nearer and gone.endswith(gone_now)):
            return None
        return (
            *changed[:idx],
            *(one.moved(hunk.start) for one in hunks(now, hunk.text)),
            *(TextEdit(one.start + shift, one.end + shift, one.text) for one in changed[idx + 1 :]),
        )
    return None


def is_far(text: str, edit: TextEdit, cursor: int) -> bool:
    """Whether more than two line ends lie between the cursor and the nearest end of an edit."""
    above = text.count("\n", edit.end, cursor)
    below = text.count("\n", cursor, edit.start)
    return max(above, below) > _FAR_LINES


def why_withheld(
    old: str,
    new: str,
    *,
    cursor: int,
    edit_format: EditFormat,
    is_whole: bool,
    changes: Sequence[Change] = (),
    declined: Collection[tuple[str, str]] = (),
) -> Withheld | None:
    """Return why the edit of a region from ``old`` to ``new`` is not shown; None if it is.

    ``cursor`` is an offset in ``old``.  ``is_whole`` is false where the length limit ended the
    answer.  ``changes`` are the trail's of this file; ``declined`` are old and new lines of edits
    that the user declined.
    """
    changed = hunks(old, new)
    # A change may be of several places, with equal lines between them.
    former = [part for change in changes for part in hunks(change.old, change.new)]
    checks: tuple[tuple[Withheld, bool], ...] = (
        ("unchanged", not changed or old.rstrip("\n") == new.rstrip("\n")),
        ("control-tokens", bool(edit_format.mark_in(new))),
        ("broken", any(hunk.new.count(BROKEN) > hunk.old.count(BROKEN) for hunk in changed)),
        ("length-limit", not is_whole),
        ("blanks", all(hunk.old.split() == hunk.new.split() for hunk in changed)),
        ("above-cursor", _is_above(changed, old, cursor)),
        ("undoes", any(_undoes(hunk, part) for hunk in changed for part in former)),
        ("declined", any((hunk.old, hunk.new) in declined for hunk in changed)),
    )
    return next((reason for reason, holds in checks if holds), None)


def repeated(text: str, change: Change) -> str | None:
    """Return ``text`` with the words replaced that ``change`` replaced; None if it has none.

    Only replacements of one word by others are repeated, since insertions name no place.
    """
    replaced = _replaced_words(change)
    pattern = _any_word(replaced)
    found = pattern.sub(lambda match: replaced[match[0]], text) if replaced else text
    return found if found != text else None


def place_to_go_on(text: str, cursor: int, change: Change) -> int | None:
    """Return the offset where an earlier change may have to be made again, far from the cursor.

    That is the nearest line equal to one that the change deleted, of three words or more; else the
    nearest place of a word that it replaced.  Sweep's plugin asks there, too, where nothing is to
    be changed at the cursor.
    """
    new = set(lines_of(change.new))
    gone = [
        line
        for line in lines_of(change.old)
        if line not in new and len(line.split()) >= _LEAST_WORDS
    ]
    lines = [rf"^[ \t]*{re.escape(line.strip())}[ \t]*$" for line in gone]
    patterns = [re.compile(line, re.MULTILINE) for line in lines]
    if replaced := _replaced_words(change):
        patterns.append(_any_word(replaced))
    for pattern in patterns:
        places = [
            found.end() - len(found[0].lstrip())
            for found in pattern.finditer(text)
            if _n_lines_between(text, found.start(), cursor) > _SEEN_LINES
        ]
        if places:
            return min(places, key=lambda place: abs(place - cursor))
    return None


def _n_lines_between(text: str, one: int, other: int) -> int:
    return text.count("\n", min(one, other), max(one, other))


def _any_word(words: Collection[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")


def _replaced_words(change: Change) -> dict[str, str]:
    """Return the words that a change replaced, and by what."""
    was, now = _WORD.findall(change.old), _WORD.findall(change.new)
    replaced = {
        "".join(was[first:last]): "".join(now[start:end])
        for kind, first, last, start, end in SequenceMatcher(
            None, was, now, autojunk=False
        ).get_opcodes()
        if kind == "replace"
    }
    return {
        word: by
        for word, by in replaced.items()
        if len(word) >= _LEAST_WORD and word.isidentifier()
    }


def _is_above(changed: Sequence[Hunk], old: str, cursor: int) -> bool:
    """Whether lines are inserted above the cursor's, which would move under the user's eyes."""
    line_start = old.rfind("\n", 0, cursor) + 1
    line_end = old.find("\n", cursor)
    line = old[line_start : line_end if line_end >= 0 else len(old)]
    return bool(line.strip()) and all(not hunk.old and hunk.start <= line_start for hunk in changed)


def _undoes(hunk: Hunk, change: Hunk) -> bool:
    """Whether a hunk restores what a change replaced or deleted, or deletes what it inserted."""
    was, now = (_lines(text) for text in (hunk.old, hunk.new))
    before, after = (_lines(text) for text in (change.old, change.new))
    if not before:
        return bool(after) and not now and was == after
    if now == before:
        return True
    return bool(after) and _holds(now, before) and _holds(was, after)


def _holds(lines: Sequence[str], part: Sequence[str]) -> bool:
    return any(
        lines[start : start + len(part)] == part for start in range(len(lines) - len(part) + 1)
    )


def _lines(text: str) -> list[str]:
    """Return the lines that are not blank, without their indentation."""
    return [line.strip() for line in text.splitlines() if line.strip()]
