"""Whether the cursor stands in code, in a comment or in a string.

The only importer of Pygments.  A probe word is written at the cursor, the text before it is lexed,
and the probe's token tells.  Lexers recognise many strings and comments only as a whole, so what
would close one that may be open is written behind the probe.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

# Pygments comes without types.
from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers import (  # type: ignore[import-untyped]
    get_lexer_by_name,
    get_lexer_for_filename,
)
from pygments.token import Comment, String  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]

CursorScope = Literal["code", "comment", "string"]

_PROBE: Final = "qzprobezq"

_N_CHARS: Final = 4000
"""Characters before the cursor that are lexed: a few milliseconds' worth."""

_ALIASES: Final = {
    "csharp": "csharp",
    "dockerfile": "docker",
    "javascriptreact": "jsx",
    "jsonc": "json",
    "makefile": "make",
    "objective-c": "objectivec",
    "objective-cpp": "objectivec++",
    "perl6": "raku",
    "plaintext": "",
    "restructuredtext": "rst",
    "shellscript": "bash",
    "typescriptreact": "tsx",
    "vb": "vbnet",
    "vue": "html",
    "svelte": "html",
    "": "",
}
"""LSP language ids that Pygments calls otherwise; "" stands for none."""

_PAIRED: Final = (("/*", "*/"), ("<!--", "-->"), ("(*", "*)"), ("{-", "-}"), ("--[[", "]]"))
_QUOTES: Final = ('"', "'", "`")
_TRIPLES: Final = ('"""', "'''")


def cursor_scope(language_id: str, path: str, prefix: str) -> CursorScope:
    """Where the cursor behind ``prefix`` stands; ``code`` where that cannot be told."""
    try:
        lexer = _lexer(language_id, path.rsplit("/", 1)[-1])
        if lexer is None:
            return "code"
        text = _window(prefix)
        for ending in _endings(text):
            scope = _scope_of_probe(lexer, text + _PROBE + ending, len(text))
            if scope != "code":
                return scope
    except Exception:  # noqa: BLE001 - some lexer's fault must not cost the completion
        return "code"
    return "code"


def _window(prefix: str) -> str:
    """The text before the cursor, from a line's start on."""
    if len(prefix) <= _N_CHARS:
        return prefix
    window = prefix[-_N_CHARS:]
    return window[window.find("\n") + 1 :]


def _endings(text: str) -> Iterator[str]:
    """Texts to write behind the probe: what could be open at the cursor, and how it would end."""
    yield "\n"
    for opening, closing in _PAIRED:
        opened = text.rfind(opening)
        if opened >= 0 and text.find(closing, opened + len(opening)) < 0:
            yield closing
    for quote in _TRIPLES:
        if quote in text:
            yield quote
    line = text[text.rfind("\n") + 1 :]
    for quote in _QUOTES:
        if quote in line or (quote == "`" and quote in text):
            yield quote


def _scope_of_probe(lexer: Lexer, text: str, index: int) -> CursorScope:
    for start, kind, value in lexer.get_tokens_unprocessed(text):
        if start + len(value) <= index:
            continue
        if kind in Comment.Preproc or kind in Comment.PreprocFile:
            return "code"
        if kind in Comment:
            return "comment"
        if kind in String.Doc and not any(quote in text[:index] for quote in _TRIPLES):
            # Documentation comments: only some languages write documentation as strings.
            return "comment"
        return "string" if kind in String and kind not in String.Symbol else "code"
    return "code"


def _lexer(language_id: str, file_name: str) -> Lexer | None:
    """A lexer by language id, else by file name; None where neither is known."""
    name = _ALIASES.get(language_id, language_id)
    if name:
        try:
            return get_lexer_by_name(name)
        except ClassNotFound:
            pass
    try:
        return get_lexer_for_filename(file_name) if file_name else None
    except ClassNotFound:
        return None
