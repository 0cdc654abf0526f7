"""Where a file declares functions, classes, types and constants: line by line, without a parser.

A declaration is one line's matter in nearly all code, and a wrong or missing one costs a place in
the ranking only.  Calls, which look alike in C, are told apart by their place: declarations start
in column 0, or end in an opening brace.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

MAX_LINES: Final = 12
"""Lines of a declaration's text."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """``name`` is declared at ``line`` (from 0), which is indented by ``indent`` characters."""

    name: str
    line: int
    indent: int


_PYTHON: Final = (
    re.compile(r"(?P<indent>[ \t]*)(?:async[ \t]+def|def|class)[ \t]+(?P<name>\w+)"),
    re.compile(r"(?P<indent>)(?P<name>[A-Za-z]\w{2,})(?:[ \t]*:[^=\n]+)?[ \t]*=(?!=)"),
)
_JAVASCRIPT: Final = (
    re.compile(
        r"(?P<indent>[ \t]*)(?:export[ \t]+)?(?:default[ \t]+)?(?:declare[ \t]+)?"
        r"(?:abstract[ \t]+)?(?:async[ \t]+)?"
        r"(?:function[ \t]*\*?|class|interface|type|enum|namespace)[ \t]+"
        r"(?P<name>[\w$]+)"
    ),
    re.compile(r"(?P<indent>)(?:export[ \t]+)?(?:const|let|var)[ \t]+(?P<name>[\w$]+)"),
    re.compile(
        r"(?P<indent>[ \t]+)(?:(?:public|private|protected|static|async|readonly|get|set)[ \t]+)*"
        r"(?!if|for|while|switch|catch|return|function)(?P<name>[\w$]+)[ \t]*(?:<[^>\n]*>)?"
        r"\([^;\n]*\)[^;\n]*\{[ \t]*$"
    ),
)
_C: Final = (
    re.compile(r"(?P<indent>)#[ \t]*define[ \t]+(?P<name>\w+)"),
    re.compile(
        r"(?P<indent>[ \t]*)(?:typedef[ \t]+)?(?:struct|union|enum(?:[ \t]+class)?|class|namespace)"
        r"[ \t]+(?P<name>\w+)[^;\n]*(?:\{[^\n]*)?$"
    ),
    re.compile(
        r"(?P<indent>)(?!return|else|if|for|while|switch|case|goto)[A-Za-z_][\w:<>,*& \t]*?[ \t*&]"
        r"(?:\w+::)*(?P<name>~?\w+)[ \t]*\([^\n]*(?:[;{,)]|const|noexcept|override)[ \t]*$"
    ),
    re.compile(r"(?P<indent>)typedef\b[^\n]*\b(?P<name>\w+);[ \t]*$"),
)
_LUA: Final = (
    re.compile(r"(?P<indent>[ \t]*)(?:local[ \t]+)?function[ \t]+(?:[\w]+[.:])*(?P<name>\w+)"),
    re.compile(r"(?P<indent>[ \t]*)(?:local[ \t]+)?(?:\w+\.)*(?P<name>\w+)[ \t]*=[ \t]*function\b"),
    re.compile(r"(?P<indent>)local[ \t]+(?P<name>\w+)[ \t]*="),
)
_GO: Final = (
    re.compile(r"(?P<indent>)func[ \t]+(?:\([^)\n]*\)[ \t]*)?(?P<name>\w+)"),
    re.compile(r"(?P<indent>)(?:type|const|var)[ \t]+(?P<name>\w+)"),
)
_RUST: Final = (
    re.compile(
        r"(?P<indent>[ \t]*)(?:pub(?:\([^)\n]*\))?[ \t]+)?(?:default[ \t]+|async[ \t]+|"
        r"unsafe[ \t]+|const[ \t]+)*"
        r"(?:fn|struct|enum|trait|type|mod|union|static|const|macro_rules!)[ \t]+"
        r"(?:mut[ \t]+)?(?P<name>\w+)"
    ),
)
_BRACED: Final = (
    re.compile(
        r"(?P<indent>[ \t]*)(?:(?:public|private|protected|internal|static|final|abstract|"
        r"sealed|open|override|virtual|async|data|partial|export|inline|suspend)[ \t]+)*"
        r"(?:class|interface|"
        r"enum|record|struct|trait|object|protocol|fun|func|function|def|module)[ \t]+(?P<name>\w+)"
    ),
    re.compile(
        r"(?P<indent>[ \t]+)(?:(?:public|private|protected|internal|static|final|abstract|override|"
        r"virtual|async|synchronized)[ \t]+)+[\w<>\[\],.? ]+[ \t](?P<name>\w+)[ \t]*\([^;\n]*\)"
    ),
)
_BY_SUFFIX: Final = {
    suffix: patterns
    for suffixes, patterns in (
        (".py .pyi .pyx", _PYTHON),
        (".js .jsx .mjs .cjs .ts .tsx .mts .cts .vue .svelte", _JAVASCRIPT),
        (".c .h .cc .cpp .cxx .hh .hpp .hxx .m .mm .cu .cuh", _C),
        (".lua", _LUA),
        (".go", _GO),
        (".rs", _RUST),
        (".java .kt .kts .cs .scala .swift .php .rb .dart .groovy .ex .exs", _BRACED),
    )
    for suffix in suffixes.split()
}


def declarations(text: str, path: str) -> list[Declaration]:
    """Return what a file declares, in the order of its lines; nothing for unknown languages."""
    patterns = _BY_SUFFIX.get(PurePosixPath(path).suffix.lower(), ())
    found: list[Declaration] = []
    for line_idx, line in enumerate(text.split("\n")):
        for pattern in patterns:
            match = pattern.match(line)
            if match is not None:
                indent = len(match["indent"].expandtabs(4))
                found.append(Declaration(match["name"], line_idx, indent))
                break
    return found


def declaration_text(
    lines: Sequence[str], declared: Declaration, all_declared: Sequence[Declaration]
) -> str:
    """Return a summary of a declaration.

    That is its head, and of its body the lines that are indented least where it holds other
    declarations (fields, the heads of methods), else the first lines.
    """
    end = _end_of_head(lines, declared.line)
    shown = list(range(declared.line, end))
    body_end = _body_end(lines, declared, end)
    if any(end <= d.line < body_end and d.indent > declared.indent for d in all_declared):
        shown.extend(_outer_lines(lines, end, body_end))
    else:
        shown.extend(range(end, min(body_end, declared.line + MAX_LINES // 2)))
    return "\n".join(lines[line] for line in shown[:MAX_LINES]).rstrip() + "\n"


def _outer_lines(lines: Sequence[str], start: int, end: int) -> list[int]:
    """Return the lines of a body that are not inside of something else."""
    filled = [line_idx for line_idx in range(start, end) if lines[line_idx].strip()]
    least = min((_indent(lines[line_idx]) for line_idx in filled), default=0)
    return [
        line_idx
        for line_idx in filled
        if _indent(lines[line_idx]) == least and lines[line_idx].strip()[0] not in "@)}]#"
    ]


def _indent(line: str) -> int:
    return len(line[: len(line) - len(line.lstrip())].expandtabs(4))


def _end_of_head(lines: Sequence[str], start: int) -> int:
    """Return the line after a declaration's head, whose brackets may stand on several lines."""
    depth = 0
    for line_idx in range(start, min(len(lines), start + MAX_LINES)):
        line = lines[line_idx]
        depth += line.count("(") - line.count(")")
        if depth <= 0:
            return line_idx + 1
    return min(len(lines), start + 1)


def _body_end(lines: Sequence[str], declared: Declaration, start: int) -> int:
    """Return the line after a declaration's body, by indentation."""
    for line_idx in range(start, len(lines)):
        line = lines[line_idx]
        if not line.strip():
            continue
        if _indent(line) <= declared.indent:
            closes = line.strip()[0] in ")}]" or line.strip().startswith("end")
            return line_idx + 1 if closes else line_idx
    return len(lines)
