"""Definitions of the names near a cursor: which files define a name, and what is shown of it.

A definition is shown as the first line of its documentation, its signature, and its fields.
The patterns find 2,237 of the 2,311 names that tree-sitter's grammars find in the projects of
``fixtures/points``, in a quarter of the time.

The outline of a file is the set of names that it defines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Final, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

NameCodes = NDArray[np.uint32]
"""Checksums of names, sorted, each once: the same in every process, and 4 bytes a name."""

_MAX_SIGNATURE: Final = 8
_MAX_FIELDS: Final = 14
_MAX_CHARS: Final = 160
"""Of a line that is shown."""
_MAX_LINE: Final = 400
"""Of a line that is searched."""

Kind = Literal["function", "type", "constant"]

NAME: Final = re.compile(r"[^\W\d]\w{2,}")
"""Names of three characters and more."""
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
_MODIFIERS: Final = (
    r"(?:(?:public|private|protected|internal|static|final|abstract|sealed|partial|override|open|data|"
    r"inline|suspend|virtual|async|synchronized|default|mutating|implicit|case|export)\s+)*"
)
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
        ".java .cs",
        (
            (
                "type",
                r"\s*" + _MODIFIERS + r"(?:class|interface|@interface|enum|record|struct)\s+(\w+)",
            ),
            (
                "constant",
                r"\s+(?:(?:public|private|static|final|const|readonly)\s+){2,}[\w<>\[\]]+\s+(\w+)\s*=",
            ),
            (
                "function",
                r"\s+(?!new\b)"
                + _MODIFIERS
                + r"(?:<[^>]+>\s+)?[\w<>\[\],.?]+(?:\s\w+>)?\s+(\w+)\s*\([^;]*[{,(]$",
            ),
        ),
    ),
    (
        ".kt .kts .swift .scala",
        (
            (
                "function",
                r"\s*" + _MODIFIERS + r"(?:fun|func|def)\s+(?:<[^>]*>\s*)?(?:\w+\.)?(\w+)",
            ),
            (
                "type",
                r"\s*"
                + _MODIFIERS
                + r"(?:class|interface|object|struct|protocol|enum|trait|actor|typealias)\s+(\w+)",
            ),
            ("constant", _MODIFIERS + r"(?:val|var|let)\s+(\w+)"),
        ),
    ),
    (
        ".php",
        (
            ("function", r"\s*" + _MODIFIERS + r"function\s+&?(\w+)"),
            ("type", r"\s*" + _MODIFIERS + r"(?:class|interface|trait|enum)\s+(\w+)"),
            ("constant", r"\s*" + _MODIFIERS + r"const\s+(\w+)"),
        ),
    ),
    (
        ".rb",
        (
            ("function", r"\s*def\s+(?:self\.)?(\w+)"),
            ("type", r"\s*(?:class|module)\s+(?:\w+::)*(\w+)"),
            ("constant", r"\s*([A-Z]\w*)\s*="),
        ),
    ),
    (
        ".lua",
        (
            ("function", r"\s*(?:local\s+)?function\s+(?:[\w.]+[.:])?(\w+)"),
            ("constant", r"local\s+(\w+)\s*="),
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
_PATTERNS: Final = [
    [(kind, re.compile(pattern)) for kind, pattern in patterns] for _, patterns in _LANGUAGES
]
_BY_SUFFIX: Final = {
    suffix: number for number, (suffixes, _) in enumerate(_LANGUAGES) for suffix in suffixes.split()
}
"""Indexes of languages by the suffixes of their files."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A name and the line that defines it, from 0."""

    name: str
    line: int
    kind: Kind


def language_of(path: str) -> int | None:
    """Return a number that files have in common which use each other's definitions, if any."""
    return _BY_SUFFIX.get(PurePosixPath(path).suffix)


def definitions_in(path: str, lines: Sequence[str]) -> Iterator[Definition]:
    """Yield what a file defines; nothing of a language without patterns."""
    language = language_of(path)
    if language is None:
        return
    patterns = _PATTERNS[language]
    for number, line in enumerate(lines):
        if not line or len(line) > _MAX_LINE or _NO_DEFINITION.match(line):
            continue
        hits = (Definition(m[1], number, kind) for kind, p in patterns if (m := p.match(line)))
        one = next(hits, None) or _end_of_typedef(lines, number)
        if one is not None and len(one.name) > 2 and one.name not in _NO_NAMES:
            yield one


def _end_of_typedef(lines: Sequence[str], number: int) -> Definition | None:
    """Return the type that a line such as ``} name;`` ends, at the line of its typedef."""
    match = _END_OF_TYPEDEF.match(lines[number])
    if match is None:
        return None
    for start in range(number - 1, -1, -1):
        line = lines[start].rstrip()
        if line.startswith("typedef") and not line.endswith(";"):
            return Definition(match[1], start, "type")
        if line.startswith(("}", "typedef")):
            break
    return None


def shown_definition(path: str, lines: Sequence[str], definition: Definition) -> list[str]:
    """Return the lines that show a definition of a file."""
    is_python = path.endswith((".py", ".pyi"))
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
    return [line for line in reversed(comment) if NAME.search(line)][:1]


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
    """Which files of a project define a name, as they are on disk."""

    def __init__(self, by_path: Mapping[str, NameCodes]) -> None:
        """``by_path`` has paths relative to the project's folder, with slashes."""
        self.files = sorted(by_path)
        files = [by_path[path] for path in self.files]
        codes = np.concatenate([np.empty(0, np.uint32), *files])
        owners = np.repeat(np.arange(len(files)), [file.size for file in files])
        order = np.argsort(codes, kind="stable")
        self._codes, self._owners = codes[order], owners[order]

    def files_of(self, name: str) -> list[str]:
        """Return the files that define a name, in the order of their paths."""
        code = _code_of(name)
        start, end = np.searchsorted(self._codes, code), np.searchsorted(self._codes, code, "right")
        return [self.files[owner] for owner in self._owners[start:end]]


def outline_of(path: str, text: str) -> NameCodes:
    """Return the checksums of the names that a file defines."""
    names = {one.name for one in definitions_in(path, text.split("\n"))}
    return np.unique(np.array([*map(_code_of, names)], dtype=np.uint32))


def _code_of(name: str) -> np.uint32:
    return np.uint32(crc32(name.encode("utf-8", "replace")))
