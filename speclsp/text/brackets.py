"""Closing brackets and quotes that an editor wrote behind the cursor on its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_PAIRS: Final = {"(": ")", "[": "]", "{": "}"}
_CLOSING: Final = frozenset(_PAIRS.values())
_QUOTES: Final = frozenset("\"'`")
_MARK: Final = re.compile(r"\\.|[\"'`()\[\]{}\n]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Scan:
    """Brackets without a partner: closers with their places, and what would close the openers."""

    closers: tuple[tuple[str, int], ...]
    wanted: tuple[str, ...]
    """Innermost first."""


def n_closers_replaced(text: str, line_before: str, rest: str) -> int:
    """How many characters of ``rest`` the completion ``text`` already brings along.

    ``rest``, the cursor's line after the cursor, is of closing brackets, quotes and punctuation.
    Of the closers that ``text`` has too many, the first close what ``line_before`` opens beyond
    those that ``rest`` closes; the others stand for those of ``rest``.
    """
    code = rest.lstrip()
    quote = code[0] if code[:1] in _QUOTES else ""
    surplus = list(_scan(text, quote).closers)
    n_own = sum(character in _CLOSING for character in rest)
    n_missing = max(0, len(_scan(line_before, "").wanted) - n_own) if not quote else 0
    surplus = surplus[n_missing:]
    n_replaced = 0
    end = 0
    for index, character in enumerate(rest):
        if character.isspace():
            continue
        if not surplus or surplus[0][0] != character:
            break
        end = surplus.pop(0)[1] + 1
        n_replaced = index + 1
    remaining = rest[n_replaced:].strip()
    if n_replaced and remaining:
        if remaining[0] in _QUOTES and line_before.count(remaining[0]) % 2 == 1:
            # Behind a field of a template the text is in the string again, whose end follows.
            n_parting = len(rest[n_replaced:]) - len(rest[n_replaced:].lstrip())
            n_more = n_closers_replaced(text[end:], "", rest[n_replaced + n_parting :])
            return n_replaced + n_parting + n_more if n_more else n_replaced
        if text[end:].lstrip(" \t").startswith(remaining):
            return len(rest)
    return n_replaced


def n_before_foreign_closer(text: str, code_before: str, rest: str) -> int:
    """How many characters of ``text`` stand before a closing bracket that closes nothing.

    Round and square brackets only, which open near enough to be seen.  ``rest``, the cursor's line
    after the cursor, closes what it closes itself: the text may not do that before it.
    """
    wanted = list(_scan(code_before, "").wanted)
    line_before = code_before.rpartition("\n")[2]
    if any(line_before.count(quote) % 2 for quote in _QUOTES):
        return len(text)
    n_taken = len(_scan(rest, "").closers)
    n_free = len(_scan(line_before, "").wanted) - n_taken if n_taken else len(wanted)
    for closer, index in _scan(text, "").closers:
        is_wanted = bool(wanted) and wanted.pop(0) == closer
        if closer in ")]" and (n_free <= 0 or not is_wanted):
            return index
        n_free -= 1
    return len(text)


def n_before_open_bracket(text: str, line_before: str, rest: str) -> int:
    """How many characters of ``text`` stand before a bracket that it opens and nothing closes.

    ``rest`` is the cursor's line after the cursor, whose closers close the innermost first.
    """
    opened: list[int] = []
    for character, index in _brackets(line_before + text, ""):
        if character in _PAIRS:
            opened.append(index - len(line_before))
        elif opened:
            opened.pop()
    n_left = len(opened) - len(_scan(rest, "").closers)
    return next((index for index in opened[: max(0, n_left)] if index >= 0), len(text))


def unpaired_brackets(text: str) -> tuple[int, bool]:
    """How many closing brackets have no partner in ``text``, and whether one is open at its end."""
    scan = _scan(text, "")
    return len(scan.closers), bool(scan.wanted)


def has_open_bracket(text: str) -> bool:
    """Whether a bracket that ``text`` opens is still open at its end."""
    return bool(_scan(text, "").wanted)


def bracket_marks(text: str) -> list[tuple[str, int]]:
    """Return the brackets of ``text`` outside strings, each with its place, by their looks."""
    return _brackets(text, "")


def _scan(text: str, quote: str) -> _Scan:
    """Pair the brackets of ``text``, which starts inside a string where ``quote`` is not empty."""
    closers: list[tuple[str, int]] = []
    wanted: list[str] = []
    for character, index in _brackets(text, quote):
        if character in _PAIRS:
            wanted.append(_PAIRS[character])
        elif wanted and wanted[-1] == character:
            wanted.pop()
        else:
            closers.append((character, index))
    return _Scan(tuple(closers), tuple(reversed(wanted)))


def _brackets(text: str, quote: str) -> list[tuple[str, int]]:
    """The brackets outside strings, and the quote that ends the string the text starts in.

    That quote is none where the text opens another string like it and leaves it open.
    """
    open_quote = quote
    first_end: int | None = None
    brackets: list[tuple[str, int]] = []
    for match in _MARK.finditer(text):
        mark, index = match.group(), match.start()
        is_inside_first = bool(quote) and first_end is None
        if open_quote:
            if mark == open_quote and is_inside_first:
                first_end = index
            # No string of one line goes on behind it: that was an apostrophe.
            is_over = mark == open_quote or (mark == "\n" and not is_inside_first)
            open_quote = "" if is_over else open_quote
        elif mark in _QUOTES:
            open_quote = mark
        elif mark in _PAIRS or mark in _CLOSING:
            brackets.append((mark, index))
    if first_end is not None and open_quote != quote:
        brackets.insert(0, (quote, first_end))
    return brackets
