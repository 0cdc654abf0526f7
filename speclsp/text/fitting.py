"""Fit a completion to the text around the cursor: remove repeated text and unbalanced brackets.

:func:`trimmed` looks at the cursor's line, :func:`balanced` at the whole document: a text that
leaves more brackets or strings without a partner than there were is cut before the bracket or
quote that causes it, repeatedly until it fits.  How the text ended does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, TypeAlias

from speclsp.text.code_reader import (
    AUTO_CLOSERS,
    CLOSERS,
    MAX_AUTO_CLOSERS,
    OUTSIDE,
    PAIRS,
    CodeState,
    Mark,
    read_code,
)
from speclsp.text.languages import PROSE
from speclsp.text.rules import StopRules, indent_width

_WORD_START: Final = re.compile(r"\w+", re.ASCII)
_WORD_END: Final = re.compile(r"\w+\Z", re.ASCII)

_N_LONG_LINE: Final = 12
"""Least letters and digits of a line that counts as the same at another depth."""

_N_OVERLAP_CHARS: Final = 3
"""Shorter overlaps happen by chance."""


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Text that replaces ``n_replaced`` characters behind the cursor."""

    text: str
    n_replaced: int = 0


Fit: TypeAlias = Callable[[str], Trimmed]
"""Fits a beginning of a text to the text around the cursor."""

_NOTHING: Final = Trimmed("")

_UNPAIRED_LANGUAGES: Final = PROSE | {"", "shellscript"}
"""Languages in which brackets and apostrophes need no partner."""

_NO_STRINGS: Final = "plaintext"
"""A language in which quotes begin no strings."""

_CONNECTORS: Final = " \t,.+-*/%=&|([{"
"""Characters to remove where a text is cut."""

_N_CUTS: Final = 5
"""A text that does not fit after so many cuts is dropped."""

_QUOTE: Final = re.compile("\"\"\"|'''|[\"'`]")


def trimmed(text: str, rules: StopRules) -> Trimmed:
    """Fit a completion (LF line ends) to the text around the cursor.

    The result is a beginning of ``text`` with the file's line ends.  It is empty rather than only
    white space, and replaces no more than the rest of the line.
    """
    text = _without_blank_end(text, rules.line_after)
    if not text.strip():
        return _NOTHING
    fitted = fitted_to_line(text, rules.line_before, rules.line_after)
    if not fitted.text.strip():
        return _NOTHING
    if fitted.n_replaced == 0 and _runs_into_a_word(fitted.text, rules):
        return _NOTHING
    return Trimmed(fitted.text.replace("\n", rules.newline), fitted.n_replaced)


def is_same_line(line: str, others: Sequence[str]) -> bool:
    """Whether ``line`` is one of ``others``, white space inside it not compared.

    The depth of short lines has to be the same.
    """
    dense = "".join(line.split())
    is_long = sum(character.isalnum() for character in dense) >= _N_LONG_LINE
    return any(
        dense == "".join(other.split()) and (is_long or indent_width(line) == indent_width(other))
        for other in others
    )


def _runs_into_a_word(text: str, rules: StopRules) -> bool:
    """Whether the text's last word and the one after the cursor make one that occurs nowhere near.

    Only ASCII words count: other scripts do not all separate words.
    """
    head = _WORD_START.match(rules.line_after)
    tail = _WORD_END.search(rules.line_before + text)
    if not head or not tail or "\n" in text[-1:]:
        return False
    return not rules.has_word(tail.group() + head.group())


def has_only_closers(line_after: str) -> bool:
    """Whether the rest of the line may have been inserted by an editor."""
    return bool(line_after.strip()) and not set(line_after.rstrip()) - AUTO_CLOSERS


def fitted_to_line(text: str, line_before: str, line_after: str) -> Trimmed:
    """Remove what the text and the rest of the cursor's line have in common from one of them."""
    rest = line_after.rstrip()
    if not rest.strip():
        return Trimmed(text)
    first_line = text.partition("\n")[0]
    if has_only_closers(rest):
        n_replaced = n_closers_replaced(text, line_before, rest)
        return Trimmed(text.rstrip() if n_replaced == len(rest) else text, n_replaced)
    if text.endswith(rest) and _is_cut_clean(text, len(text) - len(rest)):
        return Trimmed(text[: len(text) - len(rest)])
    if _contains(first_line, rest):
        return Trimmed(text, len(rest))
    return Trimmed(text[: len(text) - _n_overlap(text, rest)])


def n_closers_replaced(text: str, line_before: str, rest: str) -> int:
    """Return how many characters of ``rest`` the completion ``text`` contains already.

    ``rest``, the cursor's line after the cursor, consists of closing brackets, quotes and
    punctuation.  As many are replaced as leave the fewest brackets and quotes without a partner,
    then the fewest brackets where those in strings count, too.
    """

    def n_unpaired(n_replaced: int) -> tuple[int, int]:
        line = line_before + text + rest[n_replaced:] + "\n"
        return _unpaired(read_code("", line)).n_marks, _unpaired(
            read_code(_NO_STRINGS, line)
        ).n_marks

    said = set(text) | {" ", "\t"}
    ends = [n for n in range(1, len(rest[:MAX_AUTO_CLOSERS]) + 1) if not rest[n - 1].isspace()]
    n_replaced = min([0, *(n for n in ends if said.issuperset(rest[:n]))], key=n_unpaired)
    remaining = rest[n_replaced:].strip()
    if remaining and (n_replaced or remaining[0] in ";:,>"):
        for part in (text, text.partition("\n")[0]):
            if part.rstrip().endswith(remaining):
                return len(rest)
    return n_replaced


def _contains(line: str, rest: str) -> bool:
    """Whether ``line`` contains ``rest``, white space not compared."""
    dense_rest = "".join(rest.split())
    dense_line = "".join(line.split())
    found = dense_line.rfind(dense_rest)
    if found < 0 or not _is_cut_clean(dense_line, found):
        return False
    is_at_end = found + len(dense_rest) == len(dense_line)
    return len(dense_rest) >= (_N_OVERLAP_CHARS - 1 if is_at_end else _N_OVERLAP_CHARS)


def _n_overlap(text: str, rest: str) -> int:
    """Return how many characters at the end of ``text`` are the first of ``rest``."""
    for n_chars in range(min(len(text), len(rest)), _N_OVERLAP_CHARS - 1, -1):
        is_long_enough = len(rest[:n_chars].strip()) >= _N_OVERLAP_CHARS
        is_same = text.endswith(rest[:n_chars])
        is_clean = _is_cut_clean(text, len(text) - n_chars) and _is_cut_clean(rest, n_chars)
        if is_same and is_long_enough and is_clean:
            return n_chars
    return 0


def _is_cut_clean(text: str, index: int) -> bool:
    """Whether a cut at ``index`` divides no word."""
    around = text[max(0, index - 1) : index + 1]
    return len(around) < 2 or not (_is_word(around[0]) and _is_word(around[1]))


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _without_blank_end(text: str, line_after: str) -> str:
    """Remove white space at the end, except what separates the text from the rest of the line.

    Only a line end separates it from closing brackets, if the text has several lines.
    """
    kept = text.rstrip()
    is_parted = line_after.strip() and ("\n" in kept or not has_only_closers(line_after))
    return text if is_parted else kept


@dataclass(frozen=True, slots=True)
class _Unpaired:
    """The marks of a document without a partner."""

    openers: Sequence[Mark]
    closers: Sequence[Mark]
    quotes: Sequence[Mark]

    @property
    def n_marks(self) -> int:
        return len(self.openers) + len(self.closers) + len(self.quotes)


def balanced(text: str, rules: StopRules) -> Trimmed:
    """Fit a completion (LF line ends) to the text around the cursor, and balance it.

    The result is what :func:`trimmed` makes of a beginning of ``text``.
    """
    trim = trimmed(text, rules)
    if rules.language_id in _UNPAIRED_LANGUAGES or rules.state_before.scope == "comment":
        return trim
    after_cursor = rules.line_after + rules.code_after
    # If the cursor's string has no end yet, compare with the document in which it has one.
    quote = rules.state_before.innermost if rules.state_before.scope == "string" else ""
    unchanged = min(
        (_unpaired(rules.state_after(end + after_cursor + "\n")) for end in ("", quote)),
        key=lambda unpaired: unpaired.n_marks,
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
    """Return the text up to the bracket or quote that has no partner, or all of it."""
    changed = _unpaired(rules.state_after(text + after + "\n"))
    has_more_quotes = len(changed.quotes) > len(unchanged.quotes)
    has_more_closers = len(changed.closers) > len(unchanged.closers)
    has_more_openers = len(changed.openers) > len(unchanged.openers)
    if changed.n_marks < unchanged.n_marks:
        return text
    if has_more_quotes:
        quote = _lone_quote(text, changed.quotes, len(rules.code_before))
        if quote is not None:
            before = _before_line_or(text, quote.index, _CONNECTORS)
            # A long string may be all of the text.
            return before or text if len(quote.kind) > 1 else before
    own = _own_state(text, rules)
    opens_block = _opens_block(text, after)
    blamed: list[Mark] = [m for m in own.brackets if not opens_block and not _ends_line(text, m)]
    if has_more_closers:
        blamed += [closer for closer in own.closed_brackets if closer.opener is None]
    if not blamed or not (has_more_closers or has_more_openers):
        return text
    last = max(blamed, key=attrgetter("index"))
    return _before_line_or(text, last.index, "" if last.kind in CLOSERS else _CONNECTORS)


def _unpaired(state: CodeState) -> _Unpaired:
    """Return the marks without a partner in the code that ends with a state."""
    return _Unpaired(
        openers=state.brackets,
        closers=[closer for closer in state.closed_brackets if closer.opener is None],
        quotes=[*state.lone_quotes, *(m for m in state.open_marks if m.kind not in PAIRS)],
    )


def _own_state(text: str, rules: StopRules) -> CodeState:
    """Return what the text alone leaves open; it may begin in the cursor's string."""
    before = rules.state_before
    inside = OUTSIDE if before.scope == "code" else CodeState(before.open_marks[-1:])
    own = read_code(rules.language_id, text, state=inside)
    n_outer = sum(mark in inside.open_marks for mark in own.open_marks)
    return CodeState(own.open_marks[n_outer:], own.closers, own.lone_quotes)


def _lone_quote(text: str, quotes: Sequence[Mark], start: int) -> Mark | None:
    """Return the first of the document's lone quotes in the text, else the text's last quote."""
    own = [Mark(m.kind, m.index - start) for m in quotes if 0 <= m.index - start < len(text)]
    if own:
        return own[0]
    found = list(_QUOTE.finditer(text))
    return Mark(found[-1].group(), found[-1].start()) if found else None


def _opens_block(text: str, after: str) -> bool:
    """Whether the text ends with the opening brace of a block."""
    return text.endswith("{") and not after.partition("\n")[0].strip()


def _ends_line(text: str, opener: Mark) -> bool:
    """Whether an opener ends its line and more lines follow."""
    rest, _, following = text[opener.index + len(opener.kind) :].partition("\n")
    return not rest.strip() and bool(following.strip())


def _before_line_or(text: str, index: int, unwanted: str) -> str:
    """Return the lines before that of ``index``, or for the first line the text before ``index``.

    ``unwanted`` characters and blanks at its end are removed.
    """
    head, line_end, _ = text[:index].rpartition("\n")
    if line_end and head.strip():
        return head.rstrip()
    return text[:index].rstrip(unwanted + " \t")
