"""Which lines open a block, by family of languages.

Only as much grammar as the choice between one line and several needs.
"""

from __future__ import annotations

import re
from typing import Final

_INDENTED: Final = frozenset(
    ("coffeescript", "gdscript", "haml", "jade", "nim", "pug", "sass", "slim", "stylus", "yaml")
)
_PYTHON: Final = frozenset(("cython", "mojo", "python", "starlark", "bazel"))
_KEYWORDED: Final = frozenset(
    (
        "ada",
        "bash",
        "crystal",
        "elixir",
        "fish",
        "fortran",
        "julia",
        "lua",
        "luau",
        "matlab",
        "pascal",
        "ruby",
        "sh",
        "shellscript",
        "verilog",
        "vb",
        "vhdl",
        "zsh",
    )
)
_ARROWED: Final = frozenset(
    ("coffeescript", "elixir", "elm", "erlang", "fsharp", "haskell", "kotlin", "ocaml", "swift")
)
_PROSE: Final = frozenset(
    ("git-commit", "latex", "markdown", "plaintext", "quarto", "restructuredtext", "rst", "tex")
)

_BRACKET: Final = r"[(\[{]$|=>$"
_PYTHON_OPENER: Final = (
    r"^\s*(?:async|case|class|def|elif|else|except|finally|for|if|match|try|while|with|[)\]}]).*:$"
)
_KEYWORD_OPENER: Final = (
    r"\b(?:begin|do|else|is|loop|of|repeat|then)(?:\s*\|[^|]*\|)?$"
    r"|^\s*(?:class|def|defmodule|for|function|if|local function|module|struct|unless|while)\b"
    r"(?!.*\bend$)"
)
_LABEL: Final = r"^\s*(?:case\b.*|default|private|protected|public)\s*:$"

_OPENERS: Final = (
    (_PROSE, re.compile(r"(?!)")),
    (_PYTHON, re.compile(f"{_BRACKET}|{_PYTHON_OPENER}")),
    (_INDENTED, re.compile(f"{_BRACKET}|[-=]>$|:$")),
    (_ARROWED, re.compile(f"{_BRACKET}|->$|{_KEYWORD_OPENER}")),
    (_KEYWORDED, re.compile(f"{_BRACKET}|{_KEYWORD_OPENER}")),
    (frozenset(("",)), re.compile(f"{_BRACKET}|{_LABEL}|{_PYTHON_OPENER}")),
)
"""Families of language ids and what ends a line that opens a block; the first match counts."""

_OTHER_OPENER: Final = re.compile(f"{_BRACKET}|{_LABEL}")

_CONTINUATION_WORDS: Final = frozenset(
    (
        "and",
        "case",
        "catch",
        "default",
        "elif",
        "else",
        "elseif",
        "elsif",
        "ensure",
        "except",
        "finally",
        "otherwise",
        "rescue",
        "then",
        "when",
        "where",
        "while",
    )
)
_CLOSING_WORDS: Final = frozenset(("done", "end", "endif", "esac", "fi", "until"))


_DEFINITION: Final = re.compile(
    r"\s*(?:(?:abstract|async|default|export|final|internal|open|private|protected|public"
    r"|pub(?:\([\w: ]*\))?|sealed|static|unsafe)\s+)*"
    r"(?:class|def|defmodule|defp|fn|fun|func|function|impl|interface|trait)\b(?=.)"
)
_NO_DEFINITION_WORDS: Final = _PROSE | frozenset(("c", "cpp", "cuda-cpp", "objective-c"))
_PREAMBLE: Final = re.compile(r"\s*(?:@|#|//|/\*|\*|--|\[|$)")


def begins_definition(language_id: str, line: str) -> bool:
    """Whether ``line``, perhaps not whole yet, begins a function, a class or the like."""
    return language_id not in _NO_DEFINITION_WORDS and bool(_DEFINITION.match(line))


def leads_to_definition(line: str) -> bool:
    """Whether ``line`` may belong to a definition below it: blank, a comment, a decorator."""
    return bool(_PREAMBLE.match(line))


def opens_block(language_id: str, line: str) -> bool:
    """Whether what follows ``line``, the text before the cursor, stands on lines of its own."""
    code = line.rstrip()
    for language_ids, opener in _OPENERS:
        if language_id in language_ids:
            return bool(opener.search(code))
    return bool(_OTHER_OPENER.search(code))


def continues_block(word: str) -> bool:
    """Whether a line that begins with ``word``, as deep as the block's opener, goes on with it."""
    return word in _CONTINUATION_WORDS


def may_close(word: str) -> bool:
    """Whether ``word``, which may go on, is the beginning of one that closes a block."""
    return any(closing.startswith(word) for closing in _CLOSING_WORDS)


def may_continue(word: str) -> bool:
    """Whether ``word``, which may go on, is the beginning of one that goes on with a block."""
    return any(continuing.startswith(word) for continuing in _CONTINUATION_WORDS)


def closes_block(line: str) -> bool:
    """Whether ``line`` does nothing but close blocks: ``}``, ``});``, ``end``."""
    code = line.strip()
    return bool(code) and (code.rstrip(";,") in _CLOSING_WORDS or not code.strip(")]};,"))
