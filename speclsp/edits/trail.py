"""The trail of edits in a window's documents, for the prompts of next edits.

Edits that follow each other soon and near are one change, as in Zed (a second, eight lines).  What
was undone is no change.  Changes that hold a piece of a secret are forgotten, however the edits cut
it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from speclsp.edits.formats import lines_of
from speclsp.seam.documents import Document, TextEdit
from speclsp.seam.edit import Change
from speclsp.secrets.pieces import Pieces

_N_CHANGES: Final = 16
_N_CHARS: Final = 8192
"""Characters of a change; larger ones, such as a file that was reformatted, are left out."""
_PAUSE_S: Final = 1.0
_N_LINES_APART: Final = 8
_N_CONTEXT_LINES: Final = 3


@dataclass(slots=True)
class _Entry:
    """Lines that changed: ``old`` became ``new``, from ``line`` on."""

    uri: str
    path: str
    file: str
    line: int
    old: list[str]
    new: list[str]
    at: float
    before: list[str]
    after: list[str]
    is_accepted: bool = False

    def holds(self, pieces: Pieces) -> bool:
        """Whether it holds a piece of a secret, before or after the change."""
        texts = ("".join((*self.before, *lines, *self.after)) for lines in (self.old, self.new))
        return any(map(pieces.are_in, texts))


class Trail:
    """The latest changes in all documents, masked.  One thread at a time may call it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: deque[_Entry] = deque(maxlen=_N_CHANGES)

    def changed(self, former: Document, edit: TextEdit) -> None:
        """Note an edit of a document that was ``former``."""
        if edit.text != former.text[edit.start : edit.end]:
            self._add(former, edit)

    def forget(self, pieces: Pieces) -> None:
        """Forget the changes that hold a piece of a secret."""
        kept = (entry for entry in self._entries if not entry.holds(pieces))
        self._entries = deque(kept, maxlen=_N_CHANGES)

    def accepted(self, uri: str, text: str) -> None:
        """Note that a document's latest change is an accepted suggestion that inserted ``text``."""
        entry = next((one for one in reversed(self._entries) if one.uri == uri), None)
        if entry is not None:
            entry.is_accepted = text.strip() in "".join(entry.new)

    def closed(self, uri: str) -> None:
        """Forget a document's changes: opened again, it may be another text."""
        kept = (entry for entry in self._entries if entry.uri != uri)
        self._entries = deque(kept, maxlen=_N_CHANGES)

    def changes(self) -> tuple[Change, ...]:
        """Return the changes, the oldest first; what was undone later is left out."""
        found: list[Change] = []
        for change in map(_trimmed, self._entries):
            if change is None or len(change.old) + len(change.new) > _N_CHARS:
                continue
            undone = next(
                (
                    one
                    for one in reversed(found)
                    if one.path == change.path and (one.old, one.new) == (change.new, change.old)
                ),
                None,
            )
            if undone is not None:
                found.remove(undone)
            else:
                found.append(change)
        return tuple(found)

    def _add(self, former: Document, edit: TextEdit) -> None:
        now = self._clock()
        text = former.text
        # The lines that the edit touches, in the text before it, from offset `start` to `end`.
        start = text.rfind("\n", 0, edit.start) + 1
        end = _below(text, edit.end, 1)
        line = text.count("\n", 0, start)
        n_lines = len(lines_of(text[start:end]))
        new = lines_of(text[start : edit.start] + edit.text + text[edit.end : end])
        for other in self._entries:
            if other.uri == former.uri and other.line > line and other is not self._entries[-1]:
                other.line = max(line, other.line + len(new) - n_lines)
        old = lines_of(text[start:end])
        entry = self._entries[-1] if self._entries else None
        if entry is not None and self._goes_on(entry, former.uri, line, n_lines, now):
            self._entries.pop()
            n_above = max(0, line - entry.line)
            n_below = max(0, entry.line + len(entry.new) - (line + n_lines))
            first = min(line, entry.line)
            start = _above(text, start, n_above)
            end = _below(text, end, n_below)
            every = lines_of(text[start:end])
            old = [
                *every[: entry.line - first],
                *entry.old,
                *every[entry.line + len(entry.new) - first :],
            ]
            new = [*every[: line - first], *new, *every[line + n_lines - first :]]
            line = first
        elif entry is not None and entry.uri == former.uri and entry.line > line:
            entry.line = max(line, entry.line + len(new) - n_lines)
        self._entries.append(
            _Entry(
                uri=former.uri,
                path=former.path,
                file=former.file,
                line=line,
                old=old,
                new=new,
                at=now,
                before=lines_of(text[_above(text, start, _N_CONTEXT_LINES) : start]),
                after=lines_of(text[end : _below(text, end, _N_CONTEXT_LINES)]),
            )
        )

    def _goes_on(self, entry: _Entry, uri: str, line: int, n_lines: int, now: float) -> bool:
        apart = max(line - (entry.line + len(entry.new)), entry.line - (line + n_lines), 0)
        return entry.uri == uri and now - entry.at < _PAUSE_S and apart <= _N_LINES_APART


def _above(text: str, start: int, n_lines: int) -> int:
    """Return the offset of the line ``n_lines`` above the one that begins at ``start``."""
    for _ in range(n_lines):
        if start > 0:
            start = text.rfind("\n", 0, start - 1) + 1
    return start


def _below(text: str, offset: int, n_lines: int) -> int:
    """Return where the ``n_lines`` lines from an offset's on end."""
    for _ in range(n_lines):
        found = text.find("\n", offset)
        offset = len(text) if found < 0 else found + 1
    return offset


def _trimmed(entry: _Entry) -> Change | None:
    """Return the lines that differ, with context; None where none do."""
    old, new = entry.old, entry.new
    least = min(len(old), len(new))
    head = next((n for n in range(least) if old[n] != new[n]), least)
    tail = next((n for n in range(least - head) if old[-1 - n] != new[-1 - n]), least - head)
    if head == len(old) == len(new):
        return None
    before = [*entry.before, *new[:head]][-_N_CONTEXT_LINES:]
    after = [*new[len(new) - tail :], *entry.after][:_N_CONTEXT_LINES]
    return Change(
        path=entry.path,
        file=entry.file,
        line=entry.line + head,
        old=_ended(old[head : len(old) - tail]),
        new=_ended(new[head : len(new) - tail]),
        before=_ended(before),
        after=_ended(after),
        is_accepted=entry.is_accepted,
    )


def _ended(lines: list[str]) -> str:
    text = "".join(lines).replace("\r\n", "\n").replace("\r", "\n")
    return text if not text or text.endswith("\n") else text + "\n"
