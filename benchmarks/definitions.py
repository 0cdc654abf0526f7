"""Definitions of the names near a cursor, found by patterns of lines: a kind of context to measure.

A definition is shown as the first line of its documentation, its signature, and its fields.
The patterns find 2,237 of the 2,311 names that tree-sitter's grammars find in the projects of
``fixtures/points``, in a quarter of the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Final, Literal

from speclsp.prompt.chunks import ContextChunk
from speclsp.requests import AnyPlaced

_NEAR_BEFORE: Final = 30
_NEAR_AFTER: Final = 8
"""Lines around the cursor whose names count."""
_MAX_NAMES: Final = 16
_MAX_PLACES: Final = 3
"""A name that more files define is left out, unless it is imported."""
_LEAST_COMMON: Final = 6
"""Shorter names of lower case letters, as ``next``, are left out, unless they are imported."""
_MAX_SIGNATURE: Final = 8
_MAX_FIELDS: Final = 14
_MAX_CHARS: Final = 160
"""Of a line that is shown."""
_MAX_LINE: Final = 400
"""Of a line that is searched."""

Kind = Literal["function", "type", "constant"]

_NAME: Final = re.compile(r"[^\W\d]\w{2,}")
_IMPORT: Final = re.compile(
    r"\s*(?:(?:pub )?use|import|from|#\s*include|export .* from|.*require\()"
)
_COMMENT: Final = re.compile(r"\s*(?:///?|/\*\*?|\*|#(?!\s*(?:include|define|if|endif|\[)))")
_NO_DEFINITION: Final = re.compile(r"\s*(?:return|else|throw|case|goto|delete|if|for|while)\b")
_NO_NAMES: Final = frozenset(
    {"await", "case", "catch", "const", "constructor", "default", "delete", "else", "for"}
    | {"function", "if", "loop", "match", "new", "return", "sizeof", "static", "switch"}
    | {"template", "throw", "using", "while"}
)
_PYTHON_FIELD: Final = re.compile(r"\s*(?:(?:async\s+)?def\s|class\s|\w+\s*[:=])")
_END_OF_TYPEDEF: Final = re.compile(r"\}\s*(\w{3,})\s*;")

_EXPORT: Final = r"\s*(?:export\s+)?(?:default\s+)?(?:declare\s+)?"
_PUBLIC: Final = r"\s*(?:pub(?:\([^)]*\))?\s+)?"
_LANGUAGES: Final[Sequence[tuple[str, Sequence[tuple[Kind, str]]]]] = (
    (
        ".py .pyi",
        (
            ("function", r"\s*(?:async\s+)?def\s+(\w+)"),
            ("type", r"\s*class\s+(\w+)"),
            ("constant", r"(\w+)\s*(?::[^=]+)?=(?!=)"),
        ),
    ),
    (
        ".ts .tsx .js .jsx .mjs .cjs .mts .cts",
        (
            ("function", _EXPORT + r"(?:async\s+)?function\*?\s+([\w$]+)"),
            (
                "type",
                _EXPORT + r"(?:abstract\s+|const\s+)?(?:class|interface|enum|namespace|type)\s+"
                r"([\w$]+)",
            ),
            ("constant", r"(?:export\s+)?(?:declare\s+)?(?:const|let|var)\s+([\w$]+)"),
            (
                "function",
                (
                    r"\s+(?:(?:public|private|protected|static|readonly|async|override|get|set)\s+)*#?"
                    r"([\w$]+)\s*(?:<[^>]*>)?\([^;]*\{$"
                ),
            ),
        ),
    ),
    (
        ".go",
        (
            ("function", r"func\s+(?:\([^)]*\)\s*)?(\w+)"),
            ("type", r"type\s+(\w+)"),
            ("constant", r"(?:var|const)\s+(\w+)"),
        ),
    ),
    (
        ".rs",
        (
            (
                "function",
                _PUBLIC + r"(?:(?:const|async|unsafe|extern\s+\"C\")\s+)*fn\s+(\w+)",
            ),
            ("type", _PUBLIC + r"(?:struct|enum|trait|union)\s+(\w+)"),
            ("constant", _PUBLIC + r"(?:type|static(?:\s+mut)?|const)\s+(\w+)"),
            ("function", r"\s*macro_rules!\s+(\w+)"),
        ),
    ),
    (
        ".c .h .cc .cpp .hpp .cxx .hh .cu",
        (
            ("constant", r"#\s*define\s+(\w+)"),
            ("type", r"\s*(?:typedef\s+)?(?:struct|class|enum(?:\s+class)?|union)\s+(\w+)[^;(]*$"),
            ("constant", r"\s*using\s+(\w+)\s*="),
            (
                "constant",
                (
                    r"(?:static\s+|inline\s+|extern\s+)*(?:const|constexpr)\s+[\w:<>*&\s]+?[\s*&]"
                    r"(\w+)\s*[\[=]"
                ),
            ),
            (
                "function",
                (
                    r"(?:\s{4}|\t)?(?!\s)(?:[\w:<>,*&~\[\]]+\s+)+[*&]*(?:\w+::)*(~?\w+)\s*\("
                    r"[^;]*[{,(]$"
                ),
            ),
            ("function", r"(?:[\w*]+\s+)+[*&]*(\w+)\s*\(.*\);?$"),
        ),
    ),
)
_PATTERNS: Final = {
    suffix: [(kind, re.compile(pattern)) for kind, pattern in patterns]
    for suffixes, patterns in _LANGUAGES
    for suffix in suffixes.split()
}
_GROUPS: Final = {
    suffix: group for group, (suffixes, _) in enumerate(_LANGUAGES) for suffix in suffixes.split()
}


@dataclass(frozen=True, slots=True)
class Definition:
    """A name and the line that defines it, from 0."""

    name: str
    path: str
    line: int
    kind: Kind

    @property
    def group(self) -> int:
        """Files of one group use each other's definitions."""
        return _GROUPS[PurePosixPath(self.path).suffix]


def definitions_in(path: str, lines: Sequence[str]) -> Iterator[Definition]:
    """Yield what a file defines; nothing of a language without patterns."""
    patterns = _PATTERNS.get(PurePosixPath(path).suffix, ())
    for number, line in enumerate(lines):
        if not line or len(line) > _MAX_LINE or _NO_DEFINITION.match(line):
            continue
        found = next(
            ((kind, match[1]) for kind, p in patterns if (match := p.match(line))), None
        ) or _end_of_typedef(line, patterns)
        if found is not None and len(found[1]) > 2 and found[1] not in _NO_NAMES:
            start = number
            if line.startswith("}"):
                start -= sum(1 for _ in takewhile(_is_inner, reversed(lines[:number]))) + 1
            yield Definition(found[1], path, max(0, start), found[0])


def _end_of_typedef(line: str, patterns: Sequence[object]) -> tuple[Kind, str] | None:
    match = _END_OF_TYPEDEF.match(line) if patterns else None
    return None if match is None else ("type", match[1])


def _is_inner(line: str) -> bool:
    return not line.startswith("typedef")


def shown_definition(lines: Sequence[str], definition: Definition) -> list[str]:
    """Return the lines that show a definition."""
    is_python = definition.path.endswith((".py", ".pyi"))
    signature = _signature(lines[definition.line :][:_MAX_SIGNATURE], is_python=is_python)
    end = definition.line + len(signature)
    if definition.kind == "function" and not is_python:
        signature[-1] = signature[-1].removesuffix("{").rstrip()
    shown = [*_documentation(lines, definition.line), *signature]
    if is_python and lines[end : end + 1] and '"""' in lines[end]:
        shown.append(lines[end])
    if definition.kind == "type" or signature[-1].endswith(("{", "[")):
        shown += _fields(lines[end:], _indent(lines[definition.line]), is_python=is_python)
    return [line.rstrip()[:_MAX_CHARS] for line in shown]


def _documentation(lines: Sequence[str], first: int) -> list[str]:
    """Return the first line with words of the comment above a line."""
    above = [*takewhile(lambda one: one.strip().startswith(("@", "#[")), lines[:first][::-1])]
    comment = [*takewhile(_COMMENT.match, lines[: first - len(above)][::-1])]
    return [line for line in reversed(comment) if _NAME.search(line)][:1]


def _signature(lines: Sequence[str], *, is_python: bool) -> list[str]:
    shown: list[str] = []
    depth = 0
    for line in lines:
        shown.append(line.rstrip())
        depth += sum((char in "([") - (char in ")]") for char in line)
        ends = is_python or shown[-1].endswith(("{", ";", ")", "=", ",")) or not shown[-1]
        if depth <= 0 and ends:
            break
    return shown


def _fields(lines: Sequence[str], indent: int, *, is_python: bool) -> list[str]:
    """Return the lines of the first depth in a block, and the line that ends it."""
    inner: int | None = None
    shown: list[str] = []
    for line in lines:
        text = line.strip()
        if text and _indent(line) <= indent:
            return [*shown, line] if text[0] in "})]" and not is_python else shown
        if not text or _COMMENT.match(line):
            continue
        inner = _indent(line) if inner is None else inner
        is_field = _PYTHON_FIELD.match(line) if is_python else text[0] not in "})]"
        if _indent(line) == inner and is_field:
            shown.append(line.rstrip().removesuffix("{"))
        if len(shown) == _MAX_FIELDS:
            break
    return shown


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


class DefinitionTable:
    """What a project's files define."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """``texts`` are the files' by their paths."""
        self._lines = {path: text.split("\n") for path, text in texts.items()}
        self._places: dict[str, list[Definition]] = {}
        for path, lines in self._lines.items():
            for one in definitions_in(path, lines):
                self._places.setdefault(one.name, []).append(one)

    def candidates(self, request: AnyPlaced, visible: str) -> list[ContextChunk]:
        """Return the definitions of names near the cursor, a chunk for each file.

        ``visible`` is the part of the document that the prompt may show.
        """
        before = request.prefix.split("\n")
        after = request.suffix.split("\n", _NEAR_AFTER)[:_NEAR_AFTER]
        imports = "\n".join(line for line in before if _IMPORT.match(line))
        imported = frozenset(_NAME.findall(imports))
        near = [*before[: -_NEAR_BEFORE - 1 : -1], *after]
        names = dict.fromkeys(name for line in near for name in _NAME.findall(line))
        known = frozenset(visible.split("\n"))
        found: dict[str, list[Definition]] = {}
        n_names = 0
        for name in sorted(names, key=lambda one: one not in imported):
            chosen = self._chosen(name, request.path, imported, known)
            for one in chosen:
                found.setdefault(one.path, []).append(one)
            n_names += bool(chosen)
            if n_names == _MAX_NAMES:
                break
        return [self._chunk(rank, own) for rank, own in enumerate(found.values())]

    def _chosen(
        self, name: str, path: str, imported: frozenset[str], known: frozenset[str]
    ) -> list[Definition]:
        """Return where a name is defined, as far as that is worth showing."""
        group = _GROUPS.get(PurePosixPath(path).suffix)
        places = [one for one in self._places.get(name, ()) if one.group == group]
        own = [one for one in places if one.path == path]
        if any(self._lines[path][one.line] in known for one in own):
            return []
        others = [one for one in places if one.path != path]
        by_import = [one for one in others if PurePosixPath(one.path).stem in imported]
        if by_import and (name in imported or not own):
            return by_import[:1]
        is_common = len(name) < _LEAST_COMMON and name.islower()
        if is_common or len({one.path for one in others}) > _MAX_PLACES:
            return own[:1]
        return (own or others)[:1]

    def _chunk(self, rank: int, found: Sequence[Definition]) -> ContextChunk:
        places = sorted({(one.line, one.kind): one for one in found}.values(), key=lambda o: o.line)
        path = places[0].path
        lines = [line for one in places for line in shown_definition(self._lines[path], one)]
        names = ", ".join(one.name for one in places)
        return ContextChunk(
            path=path,
            text="\n".join(lines),
            key=f"definitions:{path}:{names}",
            first_line=places[0].line,
            detail=names,
            score=0.99 - rank / 1000,
        )
