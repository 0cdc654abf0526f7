"""A reader of brackets, strings and comments: which of them are open at a place in code.

The reader knows how each family of languages writes strings and comments, and nothing else of
their grammars, so that it also reads unfinished code.  :func:`read_code` continues from any state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from speclsp.text.languages import PROSE, comment_marks

CursorScope = Literal["code", "comment", "string"]

PAIRS: Final = {"(": ")", "[": "]", "{": "}", "${": "}"}
CLOSERS: Final = frozenset(PAIRS.values())
AUTO_CLOSERS: Final = frozenset(")]}\"'`;:,> \t")
"""Characters that editors insert after the cursor."""
MAX_AUTO_CLOSERS: Final = 64
"""Most of them, with the line end and indentation before a brace on a line of its own."""
QUOTES: Final = ('"""', "'''", '"', "'", "`")

TRIPLES: Final = frozenset(("cython", "julia", "kotlin", "mojo", "python", "starlark", "swift"))
"""Languages in which three quotes begin a string of several lines."""
_SCRIPTS: Final = frozenset(
    ("javascript", "javascriptreact", "svelte", "typescript", "typescriptreact", "vue")
)
LONG_STRINGS: Final = frozenset(("elixir", "php", "ruby", "rust", "shellscript"))
"""Languages whose ordinary strings may span lines."""
_RAW_BACKTICKS: Final = "go"
_PRIMES: Final = frozenset(
    ("ada", "clojure", "elm", "fsharp", "haskell", "lisp", "ocaml", "rust", "scala", "scheme")
)
"""Languages with apostrophes in names and symbols; only ``'x'`` is a character there."""

_CHARACTER: Final = r"'(?:\\[^'\n]+|[^'\\\n])'"
_REGULAR_EXPRESSION: Final = (
    r"(?:(?<=[(,=:\[!&|?{};])|(?<=[(,=:&|?] )|(?<=return ))[ \t]*/(?![/*])"
    r"(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/"
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A bracket, a quote or the beginning of a comment."""

    kind: str
    index: int
    """Index of its first character (code point)."""


@dataclass(frozen=True, slots=True)
class Closer(Mark):
    """A closing bracket or quote, and what it closes."""

    opener: Mark | None
    """None if it closes nothing."""


@dataclass(frozen=True, slots=True)
class CodeState:
    """What is open at the end of the code, and what has no partner in it."""

    open_marks: tuple[Mark, ...] = ()
    """Innermost last.  Strings and comments are not read, except ``${``."""
    closers: tuple[Closer, ...] = ()
    """Those that close nothing, or something that was open before the code."""
    lone_quotes: tuple[Mark, ...] = ()
    """Quotes of strings of one line that have no end on their line."""

    @property
    def innermost(self) -> str:
        """The kind of the innermost open mark, "" if nothing is open."""
        return self.open_marks[-1].kind if self.open_marks else ""

    @property
    def scope(self) -> CursorScope:
        """Whether the end is in code, in a comment or in a string."""
        innermost = self.innermost
        if not innermost or innermost in PAIRS:
            return "code"
        return "string" if innermost in QUOTES else "comment"

    @property
    def brackets(self) -> tuple[Mark, ...]:
        """The open brackets."""
        return tuple(mark for mark in self.open_marks if mark.kind in PAIRS)

    @property
    def closed_brackets(self) -> tuple[Closer, ...]:
        """The closing brackets among the closers."""
        return tuple(closer for closer in self.closers if closer.kind in CLOSERS)


OUTSIDE: Final = CodeState()
"""The state in which nothing is open."""


def inside_of(kinds: Sequence[str]) -> CodeState:
    """Return the state in which marks of these kinds are open, all before the code."""
    return CodeState(tuple(Mark(kind, -1) for kind in kinds))


@dataclass(frozen=True, slots=True)
class _Syntax:
    """How a language writes strings and comments: the pattern and the end of each state."""

    code: re.Pattern[str]
    inside: dict[str, re.Pattern[str]]
    """Patterns by the kind of the innermost mark."""
    ends: dict[str, str]


def read_code(language_id: str, code: str, start: int = 0, state: CodeState = OUTSIDE) -> CodeState:
    """Read ``code`` (LF line ends) from ``start`` on; ``state`` is the state before.

    Indexes count from the beginning of ``code``.  The result has all marks that are open at the
    end, and the closers and lone quotes from ``start`` on.
    """
    syntax = _syntax(language_id)
    open_marks = list(state.open_marks)
    n_outer = len(open_marks)
    """How many of the open marks were open before."""
    closers: list[Closer] = []
    lone_quotes: list[Mark] = []
    position = start
    while True:
        innermost = open_marks[-1].kind if open_marks else ""
        pattern = syntax.inside.get(innermost, syntax.code)
        match = pattern.search(code, position)
        if match is None:
            return CodeState(tuple(open_marks), tuple(closers), tuple(lone_quotes))
        position, found, index = match.end(), match.group(), match.start()
        if match.lastgroup == "skipped":
            continue
        if found in PAIRS or (pattern is syntax.code and found in syntax.ends):
            open_marks.append(Mark(found, index))
            continue
        if pattern is syntax.code:
            opener_idx = len(open_marks) - 1 if PAIRS.get(innermost) == found else None
        else:
            if found not in {syntax.ends[innermost], "\n"}:
                continue  # an escaped character
            opener_idx = len(open_marks) - 1
            if found != syntax.ends[innermost]:
                lone_quotes.append(open_marks[-1])
        if opener_idx is None or (opener_idx < n_outer and found != "\n"):
            opener = open_marks[opener_idx] if opener_idx is not None else None
            closers.append(Closer(found, index, opener))
        if opener_idx is not None:
            del open_marks[opener_idx]
            n_outer -= opener_idx < n_outer


@cache
def _syntax(language_id: str) -> _Syntax:
    skipped: list[str] = [r"\\."]
    ends: dict[str, str] = {}
    inside: dict[str, str] = {}
    line_marks, block_marks = comment_marks(language_id)
    for opening in line_marks:
        ends[opening], inside[opening] = "\n", r"\n"
    for opening, closing in block_marks:
        ends[opening], inside[opening] = closing, re.escape(closing)
    for quote in _quotes(language_id):
        ends[quote] = quote
        line_end = r"|\n" if len(quote) == 1 and language_id not in LONG_STRINGS else ""
        inside[quote] = rf"\\.|{quote}{line_end}"
    if "`" in ends:
        is_raw = language_id == _RAW_BACKTICKS
        inside["`"] = "`" if is_raw else r"\\.|`|\$\{"
    if language_id in _PRIMES:
        skipped.append(_CHARACTER)
    if language_id == "cpp":
        skipped.append(r"(?<=\d)'(?=\d)")
    if language_id in _SCRIPTS:
        # Text before a tag has apostrophes.
        skipped += [_REGULAR_EXPRESSION, r"(?<=\w)'(?=\w[^'\"`\n]*<)"]
    if language_id in {"shellscript", "yaml"}:
        skipped.append(r"(?<=\S)#")
    if language_id == "php":
        skipped.append(r"#(?=\[)")
    openers = sorted(map(re.escape, ends), key=len, reverse=True)
    skip = f"(?P<skipped>{'|'.join(skipped)})"
    return _Syntax(
        code=re.compile("|".join([skip, *openers, r"[()\[\]{}]"]), re.DOTALL),
        inside={kind: re.compile(pattern, re.DOTALL) for kind, pattern in inside.items()},
        ends=ends,
    )


def _quotes(language_id: str) -> tuple[str, ...]:
    if language_id in PROSE:
        return ()
    if not language_id:
        return ('"', "'", "`")
    quotes = ['"'] if language_id in _PRIMES else ['"', "'"]
    if language_id in TRIPLES:
        quotes += ['"""', "'''"]
    if language_id in _SCRIPTS or language_id == _RAW_BACKTICKS:
        quotes.append("`")
    return tuple(quotes)
