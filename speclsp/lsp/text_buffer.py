"""An open buffer's text, kept exactly as the client has it.

Lines end where LSP says so: at LF, CRLF and CR, and nowhere else.  (Python's ``str.splitlines``
also splits at form feeds and a few others, which shifts every later edit.)
Columns are code points inside; the wire counts code units of the negotiated encoding.
"""

from __future__ import annotations

from copy import copy
from io import StringIO
from typing import Literal, NamedTuple

PositionEncoding = Literal["utf-8", "utf-16", "utf-32"]


class Cursor(NamedTuple):
    """A position in a buffer: line and column from 0, the column in code points."""

    line: int
    column: int


class TextBuffer:
    """The text of one version of a document, which edits change in place."""

    def __init__(self, uri: str, language_id: str, version: int, text: str) -> None:
        self.opening = object()
        """The same for all versions from the document's opening to its closing."""
        self.uri = uri
        self.language_id = language_id
        self.version = version
        self.replace_all(text)

    def replace_all(self, text: str) -> None:
        """Replace the whole text."""
        self._raw = text
        """The text until its lines are needed."""
        self._split_lines: list[str] | None = None
        self._is_shared = False
        """Whether a snapshot shares the list of lines."""
        self.n_chars = len(text)
        """Characters, line ends included."""
        self._text: str | None = None

    def snapshot(self) -> TextBuffer:
        """Return this version; later edits do not change it."""
        self._is_shared = True  # the next edit copies the list of lines
        return copy(self)

    @property
    def _lines(self) -> list[str]:
        """The lines with their ends; split on first use, which takes 10 ms per MB."""
        if self._split_lines is None:
            self._split_lines = split_lines(self._raw)
            self._raw = ""
        return self._split_lines

    @property
    def n_lines(self) -> int:
        """The number of lines; an empty last line counts."""
        return len(self._lines)

    def line(self, line_idx: int) -> str:
        """Return a line without its end."""
        return self._lines[line_idx].rstrip("\r\n")

    @property
    def newline(self) -> str:
        """The line end of the first line; LF if there is only one line."""
        return self._lines[0][len(self.line(0)) :] or "\n"

    @property
    def text(self) -> str:
        """The whole text, with LF line ends."""
        if self._text is None:
            self._text = with_line_feeds(self._raw or "".join(self._lines))
        return self._text

    def offset(self, cursor: Cursor) -> int:
        """Return the number of characters of :attr:`text` before a cursor."""
        before = "".join(self._lines[: cursor.line]) + self._lines[cursor.line][: cursor.column]
        return len(with_line_feeds(before))

    def cursor_of(self, offset: int) -> Cursor:
        """Return the cursor at a character of :attr:`text`; beyond its end, the end."""
        text = self.text[:offset]
        line = text.count("\n")
        return Cursor(line, min(len(text) - text.rfind("\n") - 1, len(self.line(line))))

    def replace(self, start: Cursor, end: Cursor, text: str) -> None:
        """Replace the text between two cursors.

        One line on each side is split anew too: an edit may join a CR and an LF.
        """
        start, end = min(start, end), max(start, end)
        self._text = None
        if self._is_shared:
            self._split_lines = list(self._lines)
            self._is_shared = False
        first = max(start.line - 1, 0)
        last = min(end.line + 1, len(self._lines) - 1)
        before = "".join(self._lines[first : start.line]) + self._lines[start.line][: start.column]
        after = self._lines[end.line][end.column :] + "".join(self._lines[end.line + 1 : last + 1])
        lines = split_lines(before + text + after)
        if last < len(self._lines) - 1:
            lines.pop()  # the empty string after the region's last line end
        self.n_chars += sum(map(len, lines)) - sum(map(len, self._lines[first : last + 1]))
        self._lines[first : last + 1] = lines

    def cursor_at(self, line_idx: int, character: int, encoding: PositionEncoding) -> Cursor:
        """Return the cursor at an LSP position; outside the text, the nearest end."""
        if line_idx >= len(self._lines):
            last = len(self._lines) - 1
            return Cursor(last, len(self.line(last)))
        return Cursor(line_idx, code_points(self.line(line_idx), character, encoding))

    def character_at(self, cursor: Cursor, encoding: PositionEncoding) -> int:
        """Return a cursor's column in code units of ``encoding``."""
        return code_units(self.line(cursor.line)[: cursor.column], encoding)


def split_lines(text: str) -> list[str]:
    """Return the lines of a text with their ends; the last line, which may be empty, has none."""
    lines = list(StringIO(text, newline=""))  # at these three line ends and no others
    if not lines or lines[-1][-1] in "\r\n":
        lines.append("")
    return lines


def code_units(text: str, encoding: PositionEncoding) -> int:
    """Return the length of ``text`` in code units of ``encoding``."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8"))
    return len(text.encode("utf-16-le")) // 2


def code_points(text: str, n_units: int, encoding: PositionEncoding) -> int:
    """Return how many whole characters lie in the first ``n_units`` code units of ``text``.

    A count beyond the end gives the length of ``text``; a count inside a character leaves it out.
    """
    text = text[:n_units]  # no character is shorter than one unit
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8")[:n_units].decode("utf-8", "ignore"))
    units = text.encode("utf-16-le")
    if len(units) == 2 * len(text):
        return len(text)
    return len(units[: 2 * n_units].decode("utf-16-le", "ignore"))


def with_line_feeds(text: str) -> str:
    """Return ``text`` with LF line ends."""
    if "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n")
