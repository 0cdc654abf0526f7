"""Brackets and strings of a whole text: what it leaves open, or closes once too often.

The measure is the document around the cursor.  A text that leaves more brackets or strings of it
without a partner than there were before is cut in front of the mark that is to blame, and again
until it fits.  How the text came to its end does not matter: a rule, an end token or a deadline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from speclsp.text.brackets import bracket_marks, unpaired_brackets
from speclsp.text.nesting import TextNesting
from speclsp.text.rules import StopRules
from speclsp.text.syntax import SyntaxMark, syntax_marks
from speclsp.text.trim import Trimmed, trimmed

_CLOSED_BY: Final = {"(": ")", "[": "]", "{": "}", "${": "}", "#{": "}"}
_CLOSERS: Final = frozenset(_CLOSED_BY.values())
_QUOTES: Final = frozenset("\"'`")
_STRING_ENDS: Final = {"string_end": "string_start"}
_KINDS: Final = frozenset((*_CLOSED_BY, *_CLOSERS, *_QUOTES, *_STRING_ENDS, *_STRING_ENDS.values()))

_LONG_STRINGS: Final = frozenset(("php", "ruby", "rust"))
"""Languages whose ordinary strings may have several lines."""

_UNPAIRED_LANGUAGES: Final = frozenset(
    ("", "git-commit", "latex", "markdown", "plaintext", "restructuredtext", "shellscript")
)
"""Languages with brackets and apostrophes that need no partner."""

_LEADS_ON: Final = frozenset("([{,+*/%=&|<>:?\\")
"""What a line ends with behind which an open bracket is meant to stay open."""

_CONNECTORS: Final = " \t,.+-*/%=&|([{"
"""What is worth nothing at the end of a text that lost what it leads to."""

_N_CUTS: Final = 5
"""A text that does not fit after so many cuts is given up."""


@dataclass(frozen=True, slots=True)
class _Unpaired:
    """The marks of a piece of code that have no partner."""

    openers: Sequence[SyntaxMark]
    closers: Sequence[SyntaxMark]
    quotes: Sequence[SyntaxMark]

    @property
    def n_marks(self) -> int:
        return len(self.openers) + len(self.closers) + len(self.quotes)


def balanced(text: str, rules: StopRules, nesting: TextNesting) -> Trimmed:
    """Fit a completion (LF line ends) to the text around the cursor, and balance it.

    The result is what :func:`~speclsp.text.trim.trimmed` makes of a beginning of ``text``.
    """
    trim = trimmed(text, rules)
    unchanged: _Unpaired | None = None
    for _ in range(_N_CUTS):
        fitted = trim.text.replace(rules.newline, "\n")
        if rules.language_id in _UNPAIRED_LANGUAGES or _is_even(fitted):
            return trim
        if unchanged is None:
            unchanged = _unpaired(_marks(rules, rules.code_before + _after(rules, 0)), rules)
        kept = _kept(fitted, _after(rules, trim.n_replaced), unchanged, rules)
        # Lexing for prose costs more than parsing: only what is about to be cut is worth it.
        if kept == fitted or nesting.stands_in_prose():
            return trim
        if not any(character.isalnum() for character in kept):
            break
        trim = trimmed(kept, rules)
    return Trimmed("")


def _is_even(text: str) -> bool:
    """Whether no look at the document is needed: all that the text opens it closes itself."""
    n_closers, is_open = unpaired_brackets(text)
    has_odd_line = any(line.count(quote) % 2 for line in text.split("\n") for quote in _QUOTES)
    return not n_closers and not is_open and not has_odd_line and '"""' not in text


def _kept(text: str, after: str, unchanged: _Unpaired, rules: StopRules) -> str:
    """The text, or what of it stands before the mark that is to blame."""
    start = len(rules.code_before)
    marks = _marks(rules, rules.code_before + text + after)
    changed = _unpaired(marks, rules)
    has_more_quotes = len(changed.quotes) > len(unchanged.quotes)
    has_more_closers = len(changed.closers) > len(unchanged.closers)
    n_more_openers = len(changed.openers) - len(unchanged.openers)
    own = [mark for mark in marks if start <= mark.index < start + len(text)]
    own_unpaired = _unpaired(own, rules)
    leads_on = _leads_on(text, after)
    blamed = [m for m in own_unpaired.openers if not leads_on and not _ends_line(text, m, start)]
    if changed.n_marks < unchanged.n_marks or not (
        has_more_quotes or has_more_closers or (n_more_openers > 0 and blamed)
    ):
        return text
    if has_more_quotes:
        own_quotes = [mark for mark in own if _is_quote(mark)]
        lone = [mark for mark in own_quotes if mark in changed.quotes] or own_quotes[-1:]
        if lone:
            return _before_quote(text, lone[0], lone[0].index - start)
    if has_more_closers:
        # One that is left open takes the closer that was meant for another.
        blamed = [*own_unpaired.openers, *own_unpaired.closers]
    if not blamed:
        return text
    last = max(blamed, key=_index)
    if last.kind in _CLOSERS:
        return _before_line_or(text, last.index - start, "")
    return _before_opener(text, last.index - start)


def _leads_on(text: str, after: str) -> bool:
    """Whether the text's last line goes on in the next."""
    return text[-1:] in _LEADS_ON and not after.partition("\n")[0].strip()


def _ends_line(text: str, opener: SyntaxMark, start: int) -> bool:
    """Whether lines follow that an opener means to keep for itself."""
    rest, _, following = text[opener.index - start + len(opener.kind) :].partition("\n")
    return not rest.strip() and bool(following.strip())


def _is_quote(mark: SyntaxMark) -> bool:
    return mark.kind not in _CLOSED_BY and mark.kind not in _CLOSERS


def _before_quote(text: str, quote: SyntaxMark, index: int) -> str:
    """The text before a string that has no end, but all of it where it is but a long string."""
    before = text[:index]
    if quote.kind == "string_start":
        return _before_line_or(text, index, _CONNECTORS) or text
    if before[-2:].isalpha() and len(before) > 1:
        # Behind a letter it is an apostrophe: prose, where code is to be.
        return before.rpartition("\n")[0]
    return _before_line_or(text, index, _CONNECTORS)


def _before_opener(text: str, index: int) -> str:
    """The text up to its last line that means to leave the bracket open, or without it."""
    end = text.rfind("\n")
    while end > index:
        if text[:end].rstrip()[-1:] in _LEADS_ON:
            return text[:end].rstrip()
        end = text.rfind("\n", 0, end)
    return _before_line_or(text, index, _CONNECTORS)


def _before_line_or(text: str, index: int, unwanted: str) -> str:
    """The lines before the one at ``index``; of the first line what stands before ``index``.

    That is without ``unwanted`` characters and blanks at its end.
    """
    head, line_end, _ = text[:index].rpartition("\n")
    if line_end and head.strip():
        return head.rstrip()
    return text[:index].rstrip(unwanted + " \t")


def _marks(rules: StopRules, code: str) -> list[SyntaxMark]:
    marks = syntax_marks(rules.language_id, code, _KINDS)
    if marks is not None:
        # A lifetime begins with a quote that none ends.
        return [m for m in marks if m.kind != "'"] if rules.language_id == "rust" else marks
    return [SyntaxMark(kind, index, 0) for kind, index in bracket_marks(code)]


def _unpaired(marks: Sequence[SyntaxMark], rules: StopRules) -> _Unpaired:
    open_brackets: list[SyntaxMark] = []
    closers: list[SyntaxMark] = []
    open_quotes: dict[str, SyntaxMark] = {}
    quotes: list[SyntaxMark] = []
    has_long_strings = rules.language_id in _LONG_STRINGS
    for mark in marks:
        if mark.kind in _CLOSED_BY:
            open_brackets.append(mark)
        elif mark.kind in _CLOSERS:
            partners = [
                idx
                for idx, opener in enumerate(open_brackets)
                if _CLOSED_BY[opener.kind] == mark.kind
            ]
            if partners:
                del open_brackets[partners[-1]]
            else:
                closers.append(mark)
        else:
            began = open_quotes.pop(_STRING_ENDS.get(mark.kind, mark.kind), None)
            goes_on = has_long_strings or mark.kind not in "\"'"
            if began is not None and (goes_on or began.line_idx == mark.line_idx):
                continue
            if began is not None:
                quotes.append(began)
            if mark.kind not in _STRING_ENDS:
                open_quotes[mark.kind] = mark
    return _Unpaired(open_brackets, closers, [*quotes, *open_quotes.values()])


def _after(rules: StopRules, n_replaced: int) -> str:
    return rules.line_after[n_replaced:] + rules.code_after


def _index(mark: SyntaxMark) -> int:
    return mark.index
