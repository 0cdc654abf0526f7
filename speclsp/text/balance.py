"""Brackets and strings of a whole text: what it leaves open, or closes once too often.

The measure is the document around the cursor.  A text that leaves more brackets or strings of it
without a partner than there were before is cut in front of the mark that is to blame, and again
until it fits.  How the text came to its end does not matter: a rule, an end token or a deadline.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from speclsp.text.code_reader import CLOSERS, OUTSIDE, PAIRS, CodeState, Mark, read_code
from speclsp.text.languages import PROSE
from speclsp.text.rules import StopRules
from speclsp.text.trim import Trimmed, trimmed

_UNPAIRED_LANGUAGES: Final = PROSE | {"", "shellscript"}
"""Languages with brackets and apostrophes that need no partner."""

_CONNECTORS: Final = " \t,.+-*/%=&|([{"
"""What is worth nothing at the end of a text that lost what it leads to."""

_N_CUTS: Final = 5
"""A text that does not fit after so many cuts is given up."""

_QUOTE: Final = re.compile("\"\"\"|'''|[\"'`]")


@dataclass(frozen=True, slots=True)
class _Unpaired:
    """The marks of the document that have no partner."""

    openers: Sequence[Mark]
    closers: Sequence[Mark]
    quotes: Sequence[Mark]

    @property
    def n_marks(self) -> int:
        return len(self.openers) + len(self.closers) + len(self.quotes)


def balanced(text: str, rules: StopRules) -> Trimmed:
    """Fit a completion (LF line ends) to the text around the cursor, and balance it.

    The result is what :func:`~speclsp.text.trim.trimmed` makes of a beginning of ``text``.
    """
    trim = trimmed(text, rules)
    if rules.language_id in _UNPAIRED_LANGUAGES or rules.state_before.scope == "comment":
        return trim
    after_cursor = rules.line_after + rules.code_after
    # In a string that its line leaves open, what follows counts as behind the string's end.
    quote = rules.state_before.innermost if rules.state_before.scope == "string" else ""
    unchanged = min(
        (_unpaired(rules, end, after_cursor) for end in ("", quote)), key=lambda u: u.n_marks
    )
    for _ in range(_N_CUTS):
        fitted = trim.text.replace(rules.newline, "\n")
        after = rules.line_after[trim.n_replaced :] + rules.code_after
        kept = _kept(fitted, after, unchanged, rules)
        if kept == fitted:
            return trim
        if not any(character.isalnum() for character in kept):
            break
        trim = trimmed(kept, rules)
    return Trimmed("")


def _kept(text: str, after: str, unchanged: _Unpaired, rules: StopRules) -> str:
    """The text, or what of it stands before the mark that is to blame."""
    changed = _unpaired(rules, text, after)
    has_more_quotes = len(changed.quotes) > len(unchanged.quotes)
    has_more_closers = len(changed.closers) > len(unchanged.closers)
    has_more_openers = len(changed.openers) > len(unchanged.openers)
    if changed.n_marks < unchanged.n_marks:
        return text
    if has_more_quotes:
        quote = _lone_quote(text, changed.quotes, len(rules.code_before))
        if quote is not None:
            return _before_quote(text, quote)
    own = _own_state(text, rules)
    opens_block = _opens_block(text, after)
    blamed: list[Mark] = [m for m in own.brackets if not opens_block and not _ends_line(text, m)]
    if has_more_closers:
        blamed += [closer for closer in own.closed_brackets if closer.opener is None]
    if not blamed or not (has_more_closers or has_more_openers):
        return text
    last = max(blamed, key=_index)
    return _before_line_or(text, last.index, "" if last.kind in CLOSERS else _CONNECTORS)


def _unpaired(rules: StopRules, text: str, after: str) -> _Unpaired:
    """Return what has no partner in the document with ``text`` in it; the end ends all lines."""
    state = rules.state_after(text + after + "\n")
    return _Unpaired(
        openers=state.brackets,
        closers=[closer for closer in state.closed_brackets if closer.opener is None],
        quotes=[*state.lone_quotes, *(m for m in state.open_marks if m.kind not in PAIRS)],
    )


def _own_state(text: str, rules: StopRules) -> CodeState:
    """What the text by itself leaves unpaired; it may begin in the cursor's string."""
    before = rules.state_before
    inside = OUTSIDE if before.scope == "code" else CodeState(before.open_marks[-1:])
    own = read_code(rules.language_id, text, state=inside)
    n_outer = sum(mark in inside.open_marks for mark in own.open_marks)
    return CodeState(own.open_marks[n_outer:], own.closers, own.lone_quotes)


def _lone_quote(text: str, quotes: Sequence[Mark], start: int) -> Mark | None:
    """The first of the document's lone quotes that is the text's, or else the text's last."""
    own = [Mark(m.kind, m.index - start) for m in quotes if 0 <= m.index - start < len(text)]
    if own:
        return own[0]
    found = list(_QUOTE.finditer(text))
    return Mark(found[-1].group(), found[-1].start()) if found else None


def _opens_block(text: str, after: str) -> bool:
    """Whether the text ends where a block of braces is to follow on the next lines."""
    return text.endswith("{") and not after.partition("\n")[0].strip()


def _ends_line(text: str, opener: Mark) -> bool:
    """Whether lines follow that an opener means to keep for itself."""
    rest, _, following = text[opener.index + len(opener.kind) :].partition("\n")
    return not rest.strip() and bool(following.strip())


def _before_quote(text: str, quote: Mark) -> str:
    """The text before a string that has no end, but all of it where it is but a long string."""
    before = text[: quote.index]
    if len(quote.kind) > 1:
        return _before_line_or(text, quote.index, _CONNECTORS) or text
    if before[-2:].isalpha() and len(before) > 1:
        # Behind a letter it is an apostrophe: prose, where code is to be.
        return before.rpartition("\n")[0]
    return _before_line_or(text, quote.index, _CONNECTORS)


def _before_line_or(text: str, index: int, unwanted: str) -> str:
    """The lines before the one at ``index``; of the first line what stands before ``index``.

    That is without ``unwanted`` characters and blanks at its end.
    """
    head, line_end, _ = text[:index].rpartition("\n")
    if line_end and head.strip():
        return head.rstrip()
    return text[:index].rstrip(unwanted + " \t")


def _index(mark: Mark) -> int:
    return mark.index
