"""What is left of a completion where it meets the text after the cursor."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from speclsp.text.brackets import (
    has_open_bracket,
    n_closers_replaced,
    unpaired_brackets,
)
from speclsp.text.rules import StopRules
from speclsp.text.whitespace import indent_width, with_indent_style

_CLOSERS: Final = frozenset(")]}\"'`;:,> \t")

_PARTING: Final = re.compile(r"[ \t]*(?:\n[ \t]*)?")

_WORD_START: Final = re.compile(r"\w+", re.ASCII)
_WORD_END: Final = re.compile(r"\w+\Z", re.ASCII)

_N_LONG_LINE: Final = 12
"""Letters and digits of a line that is known again at another depth."""

_N_OVERLAP_CHARS: Final = 3
"""Fewer characters that stand on both sides of the cut do so by chance."""


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Text to insert at the cursor after ``n_replaced`` characters behind it are taken out."""

    text: str
    n_replaced: int = 0


_NOTHING = Trimmed("")


def trimmed(text: str, rules: StopRules) -> Trimmed:
    """Fit a completion (LF line ends) to the text around the cursor.

    The result begins with what ``text`` begins with, in the file's line ends and indentation; it is
    empty rather than only white space, and never replaces more than the rest of the line.
    """
    text = _without_blank_end(_without_next_lines(text, rules.next_lines), rules.line_after)
    if not text.strip():
        return _NOTHING
    text = without_closers_below(text, rules.line_before, rules.line_after, rules.next_lines)
    fitted = fitted_to_line(text, rules.line_before, rules.line_after)
    if not fitted.text.strip() or _only_closes_the_closed(fitted, rules):
        return _NOTHING
    if fitted.n_replaced == 0 and _runs_into_a_word(fitted.text, rules):
        return _NOTHING
    styled = with_indent_style(fitted.text, rules.indent, line_before=rules.line_before)
    return Trimmed(styled.replace("\n", rules.newline), fitted.n_replaced)


def _only_closes_the_closed(fitted: Trimmed, rules: StopRules) -> bool:
    """Whether the text says what it replaces, or closing brackets that nothing has opened."""
    code = fitted.text.strip()
    if code == rules.line_after[: fitted.n_replaced].strip():
        return True
    return not code.strip(")]}") and not has_open_bracket(rules.code_before)


def is_same_line(line: str, others: Sequence[str]) -> bool:
    """Whether ``line`` is one of ``others``, white space inside it aside.

    Its depth counts, unless it is so long that it hardly stands twice by chance.
    """
    dense = "".join(line.split())
    is_long = sum(character.isalnum() for character in dense) >= _N_LONG_LINE
    return any(
        dense == "".join(other.split()) and (is_long or indent_width(line) == indent_width(other))
        for other in others
    )


def _runs_into_a_word(text: str, rules: StopRules) -> bool:
    """Whether the text's last word and the one after the cursor make one that nobody wrote.

    Only of letters that words are parted from by spaces.
    """
    head = _WORD_START.match(rules.line_after)
    tail = _WORD_END.search(rules.line_before + text)
    if not head or not tail or "\n" in text[-1:]:
        return False
    word = re.compile(rf"\b{tail.group()}{head.group()}\b", re.ASCII)
    return not any(word.search(code) for code in (rules.code_before, *rules.next_lines))


def has_only_closers(line_after: str) -> bool:
    """Whether the rest of the line is what an editor may have written on its own."""
    return bool(line_after.strip()) and not set(line_after.rstrip()) - _CLOSERS


def fitted_to_line(text: str, line_before: str, line_after: str) -> Trimmed:
    """Let the text and the rest of the cursor's line not say the same twice."""
    rest = line_after.rstrip()
    if not rest.strip():
        return Trimmed(text)
    first_line = text.partition("\n")[0]
    if has_only_closers(rest):
        n_replaced = n_closers_replaced(text, line_before, rest)
        if n_replaced == 0 and first_line.rstrip().endswith(rest.strip()):
            n_replaced = len(rest) if rest.strip()[0] in ";:,>" else 0
        return Trimmed(text.rstrip() if n_replaced == len(rest) else text, n_replaced)
    if text.endswith(rest) and _is_cut_clean(text, len(text) - len(rest)):
        return Trimmed(text[: len(text) - len(rest)])
    if _says_all_of(first_line, rest):
        return Trimmed(text, len(rest))
    return Trimmed(text[: len(text) - _n_overlap(text, rest)])


def without_closers_below(
    text: str, line_before: str, line_after: str, next_lines: Sequence[str]
) -> str:
    """Return the text without the closing brackets at its end that the next line begins with.

    Behind ``f(`` and before a line that is ``)`` the call is closed already.
    """
    closing_line = next_lines[0].strip() if next_lines else ""
    if "\n" in text or line_after.strip() or not closing_line[:1] or closing_line[0] not in ")]}":
        return text
    if indent_width(next_lines[0]) != indent_width(line_before):
        return text
    kept = text.rstrip().removesuffix(";")
    n_unpaired, _ = unpaired_brackets(kept)
    if n_unpaired == 1 and kept.endswith(closing_line[0]):
        return kept[:-1].rstrip()
    return text


def _says_all_of(line: str, rest: str) -> bool:
    """Whether ``rest`` stands in ``line``, white space aside."""
    dense_rest = "".join(rest.split())
    dense_line = "".join(line.split())
    found = dense_line.rfind(dense_rest)
    if found < 0 or not _is_cut_clean(dense_line, found):
        return False
    is_at_end = found + len(dense_rest) == len(dense_line)
    return len(dense_rest) >= (_N_OVERLAP_CHARS - 1 if is_at_end else _N_OVERLAP_CHARS)


def _n_overlap(text: str, rest: str) -> int:
    """How many characters at the end of ``text`` are those at the start of ``rest``."""
    for n_chars in range(min(len(text), len(rest)), _N_OVERLAP_CHARS - 1, -1):
        is_long_enough = len(rest[:n_chars].strip()) >= _N_OVERLAP_CHARS
        is_same = text.endswith(rest[:n_chars])
        is_clean = _is_cut_clean(text, len(text) - n_chars) and _is_cut_clean(rest, n_chars)
        if is_same and is_long_enough and is_clean:
            return n_chars
    return 0


def _is_cut_clean(text: str, index: int) -> bool:
    """Whether a cut at ``index`` goes through no word."""
    around = text[max(0, index - 1) : index + 1]
    return len(around) < 2 or not (_is_word(around[0]) and _is_word(around[1]))


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _without_next_lines(text: str, next_lines: tuple[str, ...]) -> str:
    """Without last lines that are the next lines after the cursor."""
    lines = text.rstrip().split("\n")
    for n_lines in range(min(len(lines) - 1, len(next_lines)), 0, -1):
        pairs = zip(lines[-n_lines:], next_lines[:n_lines], strict=True)
        if all(is_same_line(line, (next_line,)) for line, next_line in pairs):
            return "\n".join(lines[:-n_lines])
    return text


def _without_blank_end(text: str, line_after: str) -> str:
    """Without white space at the end, but for what parts the text from the line's rest.

    A closing bracket is parted by a line end where the text has several lines, and by no space.
    """
    kept = text.rstrip()
    if not line_after.strip() or (has_only_closers(line_after) and "\n" not in kept):
        return kept
    parting = _PARTING.match(text, len(kept))
    return text[: parting.end()] if parting else kept
