"""Comments of languages, and the words that begin, divide and end blocks."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final, TypeAlias

_CommentMarks: TypeAlias = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]

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
PROSE: Final = frozenset(
    ("git-commit", "latex", "markdown", "plaintext", "quarto", "restructuredtext", "rst", "tex")
)

FENCED: Final = PROSE | {"julia", "mdx"}
"""Languages in which three backticks may stand in a line of code."""

UNREAD: Final = PROSE | {"", "haskell"}
"""Languages in which ``return`` and the like may be other words."""

INDENTED: Final = _PYTHON
"""Languages whose blocks are marked by indentation only."""

_HASHED: Final = frozenset(
    (
        "bash", "bazel", "cmake", "coffeescript", "crystal", "cython", "dockerfile", "elixir",
        "fish", "gdscript", "graphql", "julia", "makefile", "mojo", "nim", "perl", "powershell",
        "python", "r", "ruby", "sh", "shellscript", "starlark", "terraform", "toml", "yaml", "zsh",
    )
)  # fmt: skip
_COMMENTS: Final[tuple[tuple[frozenset[str], _CommentMarks], ...]] = (
    (frozenset(("",)), ((), ())),
    (frozenset(("latex", "tex")), (("%",), ())),
    (PROSE | {"html", "svelte", "vue", "xml"}, ((), (("<!--", "-->"),))),
    (_HASHED, (("#",), ())),
    (frozenset(("lua", "luau")), (("--",), (("--[[", "]]"),))),
    (frozenset(("elm", "haskell")), (("--",), (("{-", "-}"),))),
    (frozenset(("ada", "sql", "vhdl")), (("--",), (("/*", "*/"),))),
    (frozenset(("ocaml", "pascal")), ((), (("(*", "*)"),))),
    (frozenset(("fsharp",)), (("//",), (("(*", "*)"),))),
    (frozenset(("erlang", "matlab", "prolog")), (("%",), ())),
    (frozenset(("clojure", "lisp", "scheme")), ((";",), ())),
    (frozenset(("php",)), (("//", "#"), (("/*", "*/"),))),
)
"""Languages, marks of line comments, pairs of marks of block comments; the first match counts."""

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
    (PROSE, re.compile(r"(?!)")),
    (_PYTHON, re.compile(f"{_BRACKET}|{_PYTHON_OPENER}")),
    (_INDENTED, re.compile(f"{_BRACKET}|[-=]>$|:$")),
    (_ARROWED, re.compile(f"{_BRACKET}|->$|{_KEYWORD_OPENER}")),
    (_KEYWORDED, re.compile(f"{_BRACKET}|{_KEYWORD_OPENER}")),
    (frozenset(("",)), re.compile(f"{_BRACKET}|{_LABEL}|{_PYTHON_OPENER}")),
)
"""Languages and the pattern of lines that open a block; the first match counts."""

_OTHER_OPENER: Final = re.compile(f"{_BRACKET}|{_LABEL}")

CONTINUATION_WORDS: Final = frozenset(
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
"""Words by which a line at the depth of the block's head continues it."""
CLOSING_WORDS: Final = frozenset(("done", "end", "endif", "esac", "fi", "until"))

_FIRST_WORD: Final = re.compile(r"\s*(\w*)(?!\w)")

_DEFINITION: Final = re.compile(
    r"\s*(?:(?:abstract|async|default|export|final|internal|open|private|protected|public"
    r"|pub(?:\([\w: ]*\))?|sealed|static|unsafe)\s+)*"
    r"(?:class|def|defmodule|defp|fn|fun|func|function|impl|interface|trait)\b(?=.)"
)


LANGUAGES: Final = {
    ".c": "c", ".cc": "cpp", ".cpp": "cpp", ".cs": "csharp", ".dart": "dart", ".ex": "elixir",
    ".go": "go", ".h": "c", ".hpp": "cpp", ".hs": "haskell", ".java": "java", ".js": "javascript",
    ".jsx": "javascriptreact", ".kt": "kotlin", ".lua": "lua", ".mjs": "javascript",
    ".php": "php", ".py": "python", ".pyi": "python", ".rb": "ruby", ".rs": "rust",
    ".scala": "scala", ".sh": "shellscript", ".bash": "shellscript", ".sql": "sql",
    ".swift": "swift", ".ts": "typescript", ".tsx": "typescriptreact", ".zig": "zig",
}  # fmt: skip
"""LSP's language ids by file name suffix; a language's usual suffix comes first."""
_METHOD: Final = re.compile(
    r"\s*(?!\s|(?:catch|do|else|for|foreach|if|lock|loop|match|return|switch|synchronized|try|unsafe"
    r"|using|while|with)\b)[^=;}]*[\w$~]\s*\([^;]*$"
)


def language_of(language_id: str, path: str) -> str:
    """Return the language id; if the client gives none, that of the path's suffix."""
    return language_id or LANGUAGES.get(PurePosixPath(path).suffix.lower(), "")


def comment_marks(language_id: str) -> _CommentMarks:
    """Return the marks of line comments, and the pairs of marks of block comments."""
    for language_ids, marks in _COMMENTS:
        if language_id in language_ids:
            return marks
    return ("//",), (("/*", "*/"),)


def heads_definition(language_id: str, line: str) -> bool:
    """Whether ``line`` is the head of a definition."""
    if language_id in PROSE:
        return False
    return bool(_DEFINITION.match(line)) or bool(_METHOD.match(line))


def opens_block(language_id: str, line: str) -> bool:
    """Whether ``line``, the line up to the cursor, opens a block on the next lines."""
    code = line.rstrip()
    for language_ids, opener in _OPENERS:
        if language_id in language_ids:
            return bool(opener.search(code))
    return bool(_OTHER_OPENER.search(code))


def closes_block(line: str) -> bool:
    """Whether ``line`` only closes blocks: ``}``, ``});``, ``end``."""
    code = line.strip()
    return bool(code) and (code.rstrip(";,") in CLOSING_WORDS or not code.strip(")]};,"))


def continues_block(line: str) -> bool:
    """Whether ``line`` closes a block or goes on with its statement: ``}``, ``else:``, ``case``."""
    word = _FIRST_WORD.match(line)
    is_closer = line.lstrip()[:1] in tuple(")]}") or closes_block(line)
    return is_closer or (word is not None and word.group(1) in CONTINUATION_WORDS)
