"""Tree-sitter: what the language's grammar makes of a text that is being written.

The only importer of tree-sitter and its grammars.  A text that is not finished has no complete
tree, and its errors are not where they seem to be.  But what was closed is there: a ``}`` or an
``end`` in the text hangs below the node that it closes, and that node tells where it began.
So only the leaves of the new text are looked at, and below what they hang.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser, Query, Tree, TreeCursor

GRAMMARS: Final = {
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "csharp": ("tree_sitter_c_sharp", "language"),
    "cuda-cpp": ("tree_sitter_cpp", "language"),
    "go": ("tree_sitter_go", "language"),
    "java": ("tree_sitter_java", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "javascriptreact": ("tree_sitter_javascript", "language"),
    "lua": ("tree_sitter_lua", "language"),
    "php": ("tree_sitter_php", "language_php_only"),
    "python": ("tree_sitter_python", "language"),
    "ruby": ("tree_sitter_ruby", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "shellscript": ("tree_sitter_bash", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "typescriptreact": ("tree_sitter_typescript", "language_tsx"),
}
"""The module and the function that a language's grammar comes from, by LSP language id."""

_DEFINITION: Final = re.compile(
    r"(?:async_)?(?:class|constructor|enum|function|generator_function|impl|interface|method|module"
    r"|namespace|singleton_method|struct|trait|type)(?:_(?:declaration|definition|item|specifier))?"
)


_STRING_MARKS: Final = frozenset(("string_start", "string_end"))
_STRING_PREFIX: Final = b"bBfFrRtTuU"
_N_TRIPLE: Final = 3
"""Quotes around a string of several lines."""


@dataclass(frozen=True, slots=True)
class TextLeaf:
    """A token of the text, as the grammar calls it."""

    kind: str
    """A Python string's beginning is ``string_start``, and its quote where it is one of a line."""
    began_before_cursor: bool
    """Whether what it is the last part of began before the text."""
    ends_definition: bool
    """Whether it is the end of a function, a class or the like that began with the text."""


@dataclass(frozen=True, slots=True)
class SyntaxMark:
    """A bracket, or a string's beginning or end, of code that may have errors."""

    kind: str
    """As the grammar calls it."""
    index: int
    """Of its first character (code point)."""
    line_idx: int


class SyntaxText:
    """A text behind a cursor, parsed again as it grows."""

    def __init__(self, parser: Parser, before: str) -> None:
        self._parser = parser
        self._before = before.encode("utf-8", "replace")
        self._data = b""
        self._tree: Tree | None = None

    def leaves(self, text: str) -> list[TextLeaf] | None:
        """Return the leaves of ``text``; None where it has characters that the grammar lacks.

        Comments and the insides of strings may be leaves of their own kinds, or none.
        """
        data = self._before + text.encode("utf-8", "replace")
        known = self._edited(data)
        self._tree = self._parser.parse(data, known) if known else self._parser.parse(data)
        self._data = data
        start = len(self._before)
        found: list[TextLeaf] = []
        for node in _nodes_behind(self._tree.walk(), start):
            if node.type == "ERROR":
                return None
            if node.start_byte >= start and not node.is_missing:
                found.append(_leaf(node, start))
        return found

    def _edited(self, data: bytes) -> Tree | None:
        """The tree of what was parsed before, told of what was added since."""
        if self._tree is None or not data.startswith(self._data):
            return None
        old_end = len(self._data)
        self._tree.edit(
            start_byte=old_end,
            old_end_byte=old_end,
            new_end_byte=len(data),
            start_point=_point(self._data),
            old_end_point=_point(self._data),
            new_end_point=_point(data),
        )
        return self._tree


def syntax_text(language_id: str, before: str) -> SyntaxText | None:
    """A text that begins behind ``before``; None for a language that has no grammar here."""
    language = _language(language_id)
    if language is None:
        return None
    from tree_sitter import Parser  # noqa: PLC0415 (see _language)

    return SyntaxText(Parser(language), before)


def syntax_marks(language_id: str, code: str, kinds: frozenset[str]) -> list[SyntaxMark] | None:
    """The leaves of ``code`` that are of one of ``kinds``, in its order.

    None for a language that has no grammar here.
    """
    query = _query(language_id, kinds)
    language = _language(language_id)
    if query is None or language is None:
        return None
    from tree_sitter import Parser, QueryCursor  # noqa: PLC0415 (see _language)

    data = code.encode("utf-8", "replace")
    found = QueryCursor(query).captures(Parser(language).parse(data).root_node)
    nodes = [node for node in found.get("mark", []) if not node.is_missing]
    marks: list[SyntaxMark] = []
    n_bytes = n_chars = 0
    for node in sorted(nodes, key=_start_byte):
        n_chars += len(data[n_bytes : node.start_byte].decode("utf-8", "replace"))
        n_bytes = node.start_byte
        marks.append(SyntaxMark(_kind(node), n_chars, node.start_point[0]))
    return marks


def load_grammar(language_id: str) -> bool:
    """Load a language's grammar ahead of its first use, which takes some ten milliseconds.

    False where there is none.
    """
    return _language(language_id) is not None


@cache
def _language(language_id: str) -> Language | None:
    """A grammar, loaded once for the process: it is a shared library, and never changes."""
    if language_id not in GRAMMARS:
        return None
    module, function = GRAMMARS[language_id]
    try:
        # Imported here: neither is wanted before something is completed, nor at all on a machine
        # for which there is no build of it.
        from tree_sitter import Language  # noqa: PLC0415

        return Language(getattr(import_module(module), function)())
    except (ImportError, ValueError):
        return None


@cache
def _query(language_id: str, kinds: frozenset[str]) -> Query | None:
    """What finds the nodes of ``kinds`` that a language has: walking the tree takes far longer."""
    language = _language(language_id)
    if language is None:
        return None
    from tree_sitter import Query  # noqa: PLC0415 (see _language)

    names = [f'"{kind}"' if kind != '"' else r'"\""' for kind in kinds]
    known = [n for n, k in zip(names, kinds, strict=True) if _has_kind(language, k, named=False)]
    known += [f"({kind})" for kind in kinds if _has_kind(language, kind, named=True)]
    return Query(language, f"[{' '.join(sorted(known))}] @mark")


def _has_kind(language: Language, kind: str, *, named: bool) -> bool:
    return language.id_for_node_kind(kind, named) is not None


def _start_byte(node: Node) -> int:
    return node.start_byte


def _nodes_behind(cursor: TreeCursor, start: int) -> Iterator[Node]:
    """The nodes without children that end behind ``start``, in the text's order."""
    while True:
        node = cursor.node
        assert node is not None
        is_near = node.end_byte > start
        if is_near and node.child_count and cursor.goto_first_child():
            continue
        if is_near and not node.child_count:
            yield node
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def _leaf(node: Node, start: int) -> TextLeaf:
    parent = node.parent
    is_string_mark = node.type in _STRING_MARKS
    if parent is None or parent.type == "ERROR" or (node.is_named and not is_string_mark):
        return TextLeaf(_kind(node), began_before_cursor=False, ends_definition=False)
    owners = [parent] if parent.parent is None else [parent, parent.parent]
    ends_definition = any(
        owner.end_byte == node.end_byte
        and owner.start_byte >= start
        and _DEFINITION.fullmatch(owner.type)
        for owner in owners
    )
    return TextLeaf(_kind(node), parent.start_byte < start, ends_definition)


def _kind(node: Node) -> str:
    if node.type in _STRING_MARKS:
        quotes = (node.text or b"").lstrip(_STRING_PREFIX).decode("ascii", "ignore")
        return quotes if len(quotes) < _N_TRIPLE else node.type
    return node.type


def _point(data: bytes) -> tuple[int, int]:
    """Row and column, in bytes, of the end of ``data``."""
    return data.count(b"\n"), len(data) - 1 - data.rfind(b"\n")
