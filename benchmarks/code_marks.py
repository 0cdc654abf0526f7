"""Brackets, strings and lines of a piece of code, read without a grammar: for finding defects.

The stop and trim rules do not use this module, so that what it finds is not what they saw.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_PAIRS: Final = {")": "(", "]": "[", "}": "{"}
_HASH_COMMENTS: Final = frozenset(
    (
        "coffeescript", "cython", "dockerfile", "elixir", "gdscript", "julia", "makefile", "nim",
        "perl", "python", "r", "ruby", "shellscript", "starlark", "toml", "yaml",
    )
)  # fmt: skip
_DASH_COMMENTS: Final = frozenset(("ada", "elm", "haskell", "lua", "sql", "vhdl"))
_TRIPLES: Final = frozenset(("cython", "julia", "kotlin", "mojo", "python", "starlark", "swift"))


@dataclass(frozen=True, slots=True)
class Opener:
    """A bracket or a quote that was opened and not closed."""

    mark: str
    index: int


@dataclass(slots=True)
class CodeMarks:
    """What is left unpaired in a text, and where its lines begin."""

    closers: list[Opener] = field(default_factory=list)
    """Closing brackets without a partner."""
    openers: list[Opener] = field(default_factory=list)
    """Opening brackets without a partner."""
    quotes: list[Opener] = field(default_factory=list)
    """Quotes of one line that were not closed on it."""
    free_lines: list[int] = field(default_factory=list)
    """Where lines begin that lie in no string, no comment and no round or square bracket."""


def code_marks(text: str, language_id: str) -> CodeMarks:
    """Read ``text`` (LF line ends), which begins outside strings and comments."""
    marks = CodeMarks(free_lines=[0])
    open_brackets: list[Opener] = []
    token = _token_pattern(language_id)
    for found in token.finditer(text):
        mark, index = found.group(), found.start()
        kind = mark[0]
        if kind == "\n":
            if not any(opener.mark in "([" for opener in open_brackets):
                marks.free_lines.append(index + 1)
        elif kind in "([{":
            open_brackets.append(Opener(kind, index))
        elif kind in _PAIRS:
            if open_brackets and open_brackets[-1].mark == _PAIRS[kind]:
                open_brackets.pop()
            else:
                marks.closers.append(Opener(kind, index))
        elif mark in {'"', "'", "`"}:
            # The pattern takes strings as a whole: a lone quote is one that has no end.
            marks.quotes.append(Opener(mark, index))
    marks.openers = open_brackets
    return marks


def _token_pattern(language_id: str) -> re.Pattern[str]:
    """Strings and comments as a whole; brackets, line ends and lone quotes by themselves."""
    parts = []
    if language_id in _TRIPLES:
        parts += [r'"""(?:[^\\]|\\.)*?(?:"""|\Z)', r"'''(?:[^\\]|\\.)*?(?:'''|\Z)"]
    if language_id in _HASH_COMMENTS:
        parts.append(r"#[^\n]*")
    elif language_id in _DASH_COMMENTS:
        parts.append(r"--[^\n]*")
    else:
        parts += [r"//[^\n]*", r"/\*.*?(?:\*/|\Z)"]
    # A lifetime ('a) and a digit separator (1'000) are no characters.
    parts += [r"(?<=\d)'(?=\d)", r"'[a-z_]\w*(?!\w*')"] if language_id in {"rust", "cpp"} else []
    parts += [r'"(?:[^"\\\n]|\\.)*"', r"'(?:[^'\\\n]|\\.)*'", r"`(?:[^`\\]|\\.)*`"]
    parts += [r"\\.", r"[\n()\[\]{}\"'`]"]
    return re.compile("|".join(parts), re.DOTALL)
