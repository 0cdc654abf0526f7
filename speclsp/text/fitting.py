"""Fit a completion to the text around the cursor: remove repeated text and unbalanced brackets.

:func:`trimmed` looks at the cursor's line, :func:`balanced` at the whole document: a text that
leaves more brackets or strings without a partner than there were is cut to its longest beginning
that does not.  How the text ended does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from operator import le
from typing import Final, TypeAlias

from speclsp.text.code_reader import (
    AUTO_CLOSERS,
    CLOSERS,
    MAX_AUTO_CLOSERS,
    PAIRS,
    TRIPLES,
    CodeState,
    inside_of,
    read_code,
)
from speclsp.text.languages import PROSE
from speclsp.text.rules import StopRules, indent_width

_WORD_START: Final = re.compile(r"\w+", re.ASCII)
_WORD_END: Final = re.compile(r"\w+\Z", re.ASCII)

_INSIDE_WORD: Final = re.compile(r"(?<=\w)(?=\w)")

_N_OVERLAP_CHARS: Final = 3
"""Shorter overlaps happen by chance."""


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Text that replaces ``n_replaced`` characters after the cursor, on its line."""

    text: str
    n_replaced: int = 0


Fit: TypeAlias = Callable[[str], Trimmed]
"""Fits a beginning of a text to the text around the cursor."""

_NOTHING: Final = Trimmed("")

_UNPAIRED_LANGUAGES: Final = PROSE | {"", "shellscript"}
"""Languages in which brackets and apostrophes need no partner."""

_NO_STRINGS: Final = "plaintext"
"""A language in which quotes begin no strings."""

CONNECTORS: Final = " \t,.+-*/%=&|([{"
"""Characters to remove where a text is cut."""

_N_CUTS: Final = 8
"""A text that does not fit after so many cuts is dropped."""

_LONG_QUOTES: Final = ('"""', "'''")
_FEW_QUOTES: Final = re.compile(r"(?<![\"'])(?:\"{1,2}|'{1,2})\Z")
_MARK: Final = re.compile(r"\"\"\"|'''|[\"'`()\[\]{}]")


def trimmed(text: str, rules: StopRules) -> Trimmed:
    """Fit a completion (LF line ends) to the text around the cursor.

    The result is a beginning of ``text`` with the file's line ends.  It is empty rather than only
    white space, and replaces no more than the rest of the line.
    """
    text = _without_blank_end(text, rules.line_after)
    if not text.strip():
        return _NOTHING
    innermost = rules.state_before.innermost
    fitted = fitted_to_line(text, rules.line_before, rules.line_after, innermost)
    if not fitted.text.strip() or _runs_into_quotes(fitted, rules):
        return _NOTHING
    if fitted.n_replaced == 0 and _runs_into_a_word(fitted.text, rules):
        return _NOTHING
    return Trimmed(fitted.text.replace("\n", rules.newline), fitted.n_replaced)


def is_same_line(line: str, others: Sequence[str]) -> bool:
    """Whether ``line`` is one of ``others``, white space after the indentation not compared."""
    depth, dense = indent_width(line), "".join(line.split())
    return any(dense == "".join(other.split()) and depth == indent_width(other) for other in others)


def _runs_into_quotes(fitted: Trimmed, rules: StopRules) -> bool:
    """Whether a long string of the text ends before another quote."""
    is_ended = fitted.text.endswith(_LONG_QUOTES)
    return is_ended and rules.line_after.startswith(fitted.text[-1], fitted.n_replaced)


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


def fitted_to_line(text: str, line_before: str, line_after: str, innermost: str = "") -> Trimmed:
    """Remove what the text and the rest of the cursor's line have in common from one of them.

    ``innermost`` is the innermost mark that is open at the cursor.
    """
    rest = line_after.rstrip()
    if not rest.strip():
        return Trimmed(text)
    first_line = text.partition("\n")[0]
    if has_only_closers(rest):
        n_replaced = n_closers_replaced(text, line_before, rest, innermost)
        return Trimmed(text.rstrip() if n_replaced == len(rest) else text, n_replaced)
    if text.endswith(rest) and _is_cut_clean(text, len(text) - len(rest)):
        return Trimmed(text[: len(text) - len(rest)])
    if _contains(first_line, rest):
        return Trimmed(text, len(rest))
    return Trimmed(text[: len(text) - _n_overlap(text, rest)])


def n_closers_replaced(text: str, line_before: str, rest: str, innermost: str = "") -> int:
    """Return how many characters of ``rest`` the completion ``text`` contains already.

    ``rest``, the cursor's line after the cursor, consists of closing brackets, quotes and
    punctuation.  As many are replaced as leave the fewest brackets and quotes without a partner,
    then the fewest brackets where those in strings count, too: on the text's first line, or in the
    whole text if none are replaced there.
    ``innermost`` is the innermost mark that is open at the cursor; three quotes are replaced whole.
    """
    states = [(language, read_code(language, line_before)) for language in ("", _NO_STRINGS)]
    n_first = 1
    if innermost in _LONG_QUOTES and rest.startswith(innermost):  # they end the cursor's string
        states, n_first = [("python", inside_of((innermost,)))], 3
    n_most = len(rest[:MAX_AUTO_CLOSERS])
    ends = [n for n in range(n_first, n_most + 1) if not rest[n - 1].isspace()]
    for part in (text.partition("\n")[0], text):

        def n_unpaired(n_replaced: int, part: str = part) -> list[int]:
            code = part + rest[n_replaced:] + "\n"
            return [sum(_n_unpaired(read_code(id_, code, state=before))) for id_, before in states]

        contained = {*part, " ", "\t"}
        allowed = [0, *(n for n in ends if contained.issuperset(rest[:n]))]
        n_replaced = min(allowed, key=n_unpaired)
        remaining = rest[n_replaced:].strip()
        if remaining and remaining[0] in ";:,>" and part.rstrip().endswith(remaining):
            return len(rest)
        if n_replaced:
            return n_replaced
    return 0


def apart_from(closers: str, text: str, line_before: str) -> str:
    """Return a text that was cut before its own closing bracket so that the editor's fits.

    If it has several lines, the bracket that ``closers`` begins with gets a line of its own.
    """
    if closers.lstrip(" \t")[:1] not in CLOSERS or "\n" not in text.strip(" \t"):
        return text
    indent = line_before[: len(line_before) - len(line_before.lstrip())]
    return text.rstrip() + ("\r\n" if "\r\n" in text else "\n") + indent


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
    return _INSIDE_WORD.match(text, index) is None


def _without_blank_end(text: str, line_after: str) -> str:
    """Remove white space at the end, except what separates the text from the rest of the line.

    Only a line end separates it from closing brackets, if the text has several lines.
    """
    kept = text.rstrip()
    is_parted = line_after.strip() and ("\n" in kept or not has_only_closers(line_after))
    return text if is_parted else kept


def balanced(text: str, rules: StopRules) -> Trimmed:
    """Fit a completion (LF line ends) to the text around the cursor, and balance it.

    The result is what :func:`trimmed` makes of the longest beginning of ``text`` that leaves no
    more brackets and strings without a partner than there are without it.
    """
    if leaves_long_string_open(text, rules):
        return _NOTHING
    trim = trimmed(text, rules)
    if rules.language_id in _UNPAIRED_LANGUAGES or rules.state_before.scope == "comment":
        return trim
    # If the cursor's string has no end yet, compare with the document in which it has one.
    quote = rules.state_before.innermost if rules.state_before.scope == "string" else ""
    unchanged = min((_n_unpaired_with(end, 0, rules) for end in ("", quote)), key=sum)
    if _fits(trim, rules, unchanged):
        return trim
    marks = reversed([*_MARK.finditer(text)])
    beginnings = dict.fromkeys(_before_line_or(text, mark.start(), mark[0]) for mark in marks)
    for beginning in islice(beginnings, _N_CUTS):
        shorter = trimmed(beginning, rules)
        if not any(character.isalnum() for character in shorter.text):
            break
        if _fits(shorter, rules, unchanged):
            return shorter
    # A long string may be all of the text.
    return trim if text.lstrip().startswith(_LONG_QUOTES) else _NOTHING


def leaves_long_string_open(text: str, rules: StopRules) -> bool:
    """Whether the text makes one or two typed quotes the opener of a long string without an end."""
    typed = _FEW_QUOTES.search(rules.line_before) if rules.language_id in TRIPLES else None
    if typed is None or rules.state_before.innermost in _LONG_QUOTES:
        return False
    opener = typed[0][0] * 3
    n_missing = 3 - len(typed[0])
    return text.startswith(opener[:n_missing]) and opener not in text[n_missing:]


def _fits(trim: Trimmed, rules: StopRules, n_most: tuple[int, int, int]) -> bool:
    """Whether the document with the text in it has at most ``n_most`` marks without a partner.

    A bracket that ends its line may be closed on later ones, which the text need not have yet, and
    so may the cursor's string.
    """
    text = trim.text.replace(rules.newline, "\n")
    has_rest = bool(rules.line_after[trim.n_replaced :].strip())
    n_before = len(rules.code_before)
    state = rules.state_after(text)
    own = [mark for mark in state.brackets if mark.index >= n_before]
    if has_rest or not text.endswith("{"):  # it opens no block
        own = [mark for mark in own if _ends_line(text, mark.index - n_before + len(mark.kind))]
    is_in_string = state.scope == "string" and state.open_marks[-1].index < n_before
    ends = ["".join(PAIRS[mark.kind] for mark in reversed(own))]
    if is_in_string:
        ends.append(state.innermost)
    found = (_n_unpaired_with(text + end, trim.n_replaced, rules) for end in ends)
    return any(all(map(le, counts, n_most)) for counts in found)


def _n_unpaired_with(text: str, n_replaced: int, rules: StopRules) -> tuple[int, int, int]:
    """Return :func:`_n_unpaired` of the document with ``text`` at the cursor."""
    line = rules.state_after(text + rules.line_after[n_replaced:] + "\n")
    kinds = tuple(mark.kind for mark in line.open_marks)
    following = _read_following(rules.language_id, kinds, rules.code_after)
    return _n_unpaired(
        CodeState(
            following.open_marks,
            line.closers + following.closers,
            line.lone_quotes + following.lone_quotes,
        )
    )


@lru_cache(maxsize=8)
def _read_following(language_id: str, kinds: tuple[str, ...], code_after: str) -> CodeState:
    """Read the lines below the cursor's, after open marks of these kinds.

    All beginnings of a text that leave the same marks open share one reading.
    """
    return read_code(language_id, (code_after + "\n")[1:], state=inside_of(kinds))


def _ends_line(text: str, index: int) -> bool:
    """Whether a line ends at ``index``, and more lines follow."""
    rest, _, following = text[index:].partition("\n")
    return not rest.strip() and bool(following.strip())


def _n_unpaired(state: CodeState) -> tuple[int, int, int]:
    """Return how many opening brackets, closing ones and others have no partner in some code.

    ``state`` is the state at its end; the others are quotes and beginnings of comments.
    """
    n_closers = sum(closer.opener is None for closer in state.closed_brackets)
    n_openers = len(state.brackets)
    return n_openers, n_closers, len(state.open_marks) - n_openers + len(state.lone_quotes)


def _before_line_or(text: str, index: int, mark: str) -> str:
    """Return the lines before that of ``index``, or for the first line the text before ``index``.

    Blanks at its end are removed, and connectors before an opener.
    """
    head, line_end, _ = text[:index].rpartition("\n")
    if line_end and head.strip():
        return head.rstrip()
    return text[:index].rstrip(" \t" if mark in CLOSERS else CONNECTORS)
