"""What a text opens and closes: seen from the cursor on, where the text begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from speclsp.text.brackets import unpaired_brackets
from speclsp.text.rules import StopRules
from speclsp.text.scope import cursor_scope
from speclsp.text.syntax import TextLeaf, syntax_text

_PAIRS: Final = {")": "(", "]": "[", "}": "{"}
_OPENERS: Final = frozenset("([{")
_STRING_ENDS: Final = {"string_start": "string_end", "`": "`", '"""': '"""', "'''": "'''"}
_QUOTES: Final = frozenset((*_STRING_ENDS, *_STRING_ENDS.values(), '"', "'"))
_LINE_QUOTES: Final = frozenset("\"'")
_LONG_STRINGS: Final = frozenset(("php", "ruby", "rust", "shellscript"))
"""Languages whose ordinary strings may have several lines."""

_CLOSING_WORDS: Final = frozenset(("done", "end", "esac", "fi"))


@dataclass(frozen=True, slots=True)
class Nesting:
    """How deep the end of a text lies, compared with the cursor."""

    n_closed: int
    """Brackets and blocks that were open at the cursor and that the text closed."""
    is_open: bool
    """Whether a bracket or a string is open that the text itself opened."""
    is_in_line_string: bool = False
    """Whether a string is open that the text began and that may not go on over a line's end."""
    n_definitions: int = 0
    """Functions, classes and the like that the text begins and ends; 0 where none is known."""


AT_CURSOR: Final = Nesting(n_closed=0, is_open=False)
"""What an empty text has."""


class TextNesting:
    """Tells the nesting of a growing text, by the language's grammar where there is one.

    Where there is none, or where the text has characters that the grammar does not know, brackets
    are counted by their looks.
    """

    def __init__(self, rules: StopRules) -> None:
        self._rules = rules
        self._syntax = syntax_text(rules.language_id, rules.code_before)
        self._is_prose: bool | None = None

    def at_end_of(self, text: str) -> Nesting:
        """Return the nesting at the end of ``text``, which begins at the cursor (LF line ends)."""
        nesting = self._of_code(text)
        if nesting == AT_CURSOR or not self.stands_in_prose():
            return nesting
        return AT_CURSOR

    def _of_code(self, text: str) -> Nesting:
        leaves = self._syntax.leaves(text) if self._syntax is not None else None
        if leaves is not None:
            has_long_strings = self._rules.language_id in _LONG_STRINGS
            return _nesting_of_leaves(leaves, frozenset() if has_long_strings else _LINE_QUOTES)
        n_closed, is_open = unpaired_brackets(text)
        return Nesting(n_closed, is_open)

    def stands_in_prose(self) -> bool:
        """Whether the cursor stands in a comment or a long string, whose end is yet to be written.

        No grammar sees that: it takes what it cannot finish for code.
        """
        if self._is_prose is None:
            rules = self._rules
            is_in_line_string = any(rules.line_before.count(quote) % 2 for quote in "\"'`")
            self._is_prose = not is_in_line_string and (
                cursor_scope(rules.language_id, "", rules.code_before) != "code"
            )
        return self._is_prose


def _nesting_of_leaves(leaves: list[TextLeaf], line_quotes: frozenset[str]) -> Nesting:
    open_marks: list[str] = []
    line_quote = ""
    n_closed = 0
    n_definitions = 0
    for leaf in leaves:
        kind = leaf.kind
        is_in_string = bool(open_marks) and open_marks[-1] in _STRING_ENDS
        if is_in_string:
            if kind == _STRING_ENDS[open_marks[-1]]:
                open_marks.pop()
            continue
        if leaf.began_before_cursor and kind in _QUOTES:
            continue  # The end of the string that the cursor stands in.
        if kind in line_quotes:
            line_quote = "" if kind == line_quote else line_quote or kind
        elif kind in _OPENERS or kind in _STRING_ENDS:
            open_marks.append(kind)
        elif kind in _PAIRS:
            if open_marks and open_marks[-1] == _PAIRS[kind]:
                open_marks.pop()
                n_definitions += leaf.ends_definition
            else:
                n_closed += 1
        elif kind in _CLOSING_WORDS:
            n_closed += leaf.began_before_cursor
            n_definitions += leaf.ends_definition and not leaf.began_before_cursor
    return Nesting(n_closed, bool(open_marks), bool(line_quote), n_definitions)
