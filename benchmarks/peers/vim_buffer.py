"""A buffer as Vim has it, and what llama.vim shows in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

N_PREFIX_LINES: Final = 256
N_SUFFIX_LINES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class VimBuffer:
    """Lines without their ends, and the cursor: ``row`` and ``column`` count from 0.

    Characters are counted where Vim counts bytes.
    """

    file: str
    lines: tuple[str, ...]
    row: int
    column: int

    @property
    def line(self) -> str:
        """The cursor's line."""
        return self.lines[self.row]

    def rows(self, first: int, end: int) -> list[str]:
        """Return the lines of rows ``first`` up to ``end``, those of them that there are."""
        return list(self.lines[max(0, first) : max(0, end)])

    def row_text(self, row: int) -> str:
        """Return a row's line, empty behind the last."""
        return self.lines[row] if row < len(self.lines) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalContext:
    """What a request says about the text around the cursor."""

    prefix: str
    """Whole lines before the cursor's."""
    middle: str
    """The cursor's line up to the cursor."""
    suffix: str
    """The rest of the cursor's line, and lines behind it."""
    indent: int
    """Characters of the cursor's line's indentation."""
    n_chars_after: int
    """Characters of the cursor's line behind the cursor."""


def vim_buffer(file: str, before: str, after: str) -> VimBuffer:
    """Return a text with the cursor between ``before`` and ``after`` as Vim has it.

    A line end at the text's end begins no line, unless the cursor stands there.
    """
    before, after = _unix(before), _unix(after)
    row = before.count("\n")
    lines = (before + after).split("\n")
    if len(lines) > row + 1 and not lines[-1]:
        lines.pop()
    return VimBuffer(
        file=file, lines=tuple(lines), row=row, column=len(before) - (before.rfind("\n") + 1)
    )


def local_context(buffer: VimBuffer) -> LocalContext:
    """Return the context at the cursor.

    A line of blanks alone counts as not written yet.
    """
    line, row = buffer.line, buffer.row
    is_blank = not line.strip(" \t")
    middle, rest = ("", "") if is_blank else (line[: buffer.column], line[buffer.column :])
    return LocalContext(
        prefix=_text(buffer.rows(row - N_PREFIX_LINES, row)),
        middle=middle,
        suffix=rest + "\n" + _text(_lines_after(buffer)),
        indent=0 if is_blank else len(line) - len(line.lstrip(" \t")),
        n_chars_after=len(rest),
    )


def context_ahead(buffer: VimBuffer, shown: list[str], indent: int) -> LocalContext:
    """Return the context behind a suggestion as if it had been taken.

    ``shown`` are the lines on the screen, the last with what stands behind the cursor.  The plugin
    puts them behind the whole of the cursor's line, what stands behind the cursor included.
    """
    first = buffer.line + shown[0]
    before = buffer.rows(buffer.row - N_PREFIX_LINES + len(shown) - 1, buffer.row)
    if len(shown) > 1:
        before += [first, *shown[1:-1]]
    return LocalContext(
        prefix=_text(before),
        middle=first if len(shown) == 1 else shown[-1],
        suffix="\n" + _text(_lines_after(buffer)),
        indent=indent,
        n_chars_after=0,
    )


def _lines_after(buffer: VimBuffer) -> list[str]:
    return buffer.rows(buffer.row + 1, buffer.row + 1 + N_SUFFIX_LINES)


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A suggestion on the screen."""

    lines: list[str]
    """As they would stand in the buffer from the cursor on, the cursor's line's rest included."""
    text: str
    """What taking it inserts at the cursor; empty where that is nothing, or not an insertion."""
    can_be_taken: bool
    """Whether the plugin would let it be taken.  Where it would not, its next answer is shown."""


def shown_suggestion(answer: str, buffer: VimBuffer) -> Shown:
    """Return what is shown for an answer at the cursor.

    Line ends at its end go, blanks that a blank line has already go, and what only says again
    what stands behind the cursor goes as a whole.
    """
    lines = answer.rstrip("\n").split("\n")
    line, column = buffer.line, buffer.column
    fits = True
    if not line.strip(" \t"):
        n_lead = min(len(lines[0]) - len(lines[0].lstrip(" \t")), len(line))
        line, lines[0] = lines[0][:n_lead], lines[0][n_lead:]
        # Taking it would remove blanks before the cursor, which insertion cannot express.
        fits = n_lead >= column
    before, after = line[:column], line[column:]
    if _repeats(lines, before, after, buffer):
        lines = [""]
    text = "\n".join(lines)
    shown = [*lines[:-1], lines[-1] + after]
    # Blanks on one line are nothing; those over line ends are a suggestion to the plugin.
    can_be_taken = bool(answer.strip("\n")) and (len(shown) > 1 or bool(shown[0].strip(" \t")))
    return Shown(lines=shown, text=text if can_be_taken and fits else "", can_be_taken=can_be_taken)


def _repeats(lines: list[str], before: str, after: str, buffer: VimBuffer) -> bool:
    """Whether a suggestion says nothing that the text behind the cursor does not say."""
    row = buffer.row
    if len(lines) == 1 and lines[0] == after:
        return True
    if len(lines) > 1 and not lines[0] and lines[1:] == buffer.rows(row + 1, row + len(lines)):
        return True
    next_row = row + 1
    while next_row < len(buffer.lines) - 1 and not buffer.lines[next_row].strip(" \t"):
        next_row += 1
    if before + lines[0] != buffer.row_text(next_row):
        return False
    if len(lines) == 1:
        return True
    if len(lines) == 2:
        return buffer.row_text(next_row + 1).startswith(lines[1])
    return lines[1:] == buffer.rows(next_row + 1, next_row + len(lines))
