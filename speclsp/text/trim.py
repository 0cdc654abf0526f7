"""What is left of a completion where it meets the text around the cursor."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from speclsp.text.code_reader import CLOSERS, OUTSIDE, QUOTES, CodeState, Mark, read_code
from speclsp.text.rules import StopRules, indent_width

_EDITORS_CLOSERS: Final = frozenset(")]}\"'`;:,> \t")
"""What an editor may have written behind the cursor on its own."""

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


Fit: TypeAlias = Callable[[str], Trimmed]
"""Fits a beginning of a text to the text around the cursor."""

_NOTHING: Final = Trimmed("")


def trimmed(text: str, rules: StopRules) -> Trimmed:
    """Fit a completion (LF line ends) to the text around the cursor.

    The result begins with what ``text`` begins with, in the file's line ends; it is
    empty rather than only white space, and never replaces more than the rest of the line.
    """
    text = _without_blank_end(text, rules.line_after)
    if not text.strip():
        return _NOTHING
    fitted = fitted_to_line(text, rules.line_before, rules.line_after)
    if not fitted.text.strip() or _changes_nothing(fitted, rules):
        return _NOTHING
    if fitted.n_replaced == 0 and _runs_into_a_word(fitted.text, rules):
        return _NOTHING
    return Trimmed(fitted.text.replace("\n", rules.newline), fitted.n_replaced)


def _changes_nothing(fitted: Trimmed, rules: StopRules) -> bool:
    """Whether the text says what it replaces."""
    return fitted.text.strip() == rules.line_after[: fitted.n_replaced].strip()


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
    return bool(line_after.strip()) and not set(line_after.rstrip()) - _EDITORS_CLOSERS


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


def n_closers_replaced(text: str, line_before: str, rest: str, language_id: str = "") -> int:
    """How many characters of ``rest`` the completion ``text`` already brings along.

    ``rest``, the cursor's line after the cursor, is of closing brackets, quotes and punctuation.
    Of the closers that ``text`` has too many, the first close what ``line_before`` opens beyond
    those that ``rest`` closes; the others stand for those of ``rest``.
    """
    code = rest.lstrip()
    before = read_code(language_id, line_before)
    if code[:1] in QUOTES:
        quote, n_open = code[0], 0
    elif before.innermost in QUOTES and before.innermost not in rest:
        quote, n_open = before.innermost, len(before.brackets) + 1
    else:
        quote, n_open = "", len(before.brackets)
    n_own = sum(character in CLOSERS for character in rest)
    surplus = _surplus_closers(text, quote, language_id)[max(0, n_open - n_own) :]
    n_replaced = 0
    end = 0
    for index, character in enumerate(rest):
        if character.isspace():
            continue
        if not surplus or surplus[0].kind != character:
            break
        end = surplus.pop(0).index + 1
        n_replaced = index + 1
    remaining = rest[n_replaced:].strip()
    if n_replaced and remaining:
        if remaining[0] in QUOTES and line_before.count(remaining[0]) % 2 == 1:
            # Behind a field of a template the text is in the string again, whose end follows.
            n_parting = len(rest[n_replaced:]) - len(rest[n_replaced:].lstrip())
            rest = rest[n_replaced + n_parting :]
            n_more = n_closers_replaced(text[end:], "", rest, language_id)
            return n_replaced + n_parting + n_more if n_more else n_replaced
        if text[end:].lstrip(" \t").startswith(remaining):
            return len(rest)
    return n_replaced


def _surplus_closers(text: str, quote: str, language_id: str) -> list[Mark]:
    """The closers that nothing in ``text`` opens, which starts in a string where there is a quote.

    The end of that string is none where the text opens another like it and leaves it open.
    """
    before = CodeState((Mark(quote, -1),)) if quote else OUTSIDE
    after = read_code(language_id, text, state=before)
    is_in_string_again = after.innermost == quote
    return [c for c in after.closers if not (is_in_string_again and c.kind == quote)]


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


def _without_blank_end(text: str, line_after: str) -> str:
    """Without white space at the end, but for what parts the text from the line's rest.

    A closing bracket is parted by a line end where the text has several lines, and by no space.
    """
    kept = text.rstrip()
    if not line_after.strip() or (has_only_closers(line_after) and "\n" not in kept):
        return kept
    parting = _PARTING.match(text, len(kept))
    return text[: parting.end()] if parting else kept
