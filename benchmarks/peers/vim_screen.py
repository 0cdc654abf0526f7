"""What llama.vim makes of a server's answer before it is shown."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.peers.vim_buffer import VimBuffer


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
