"""The functions of a source file whose bodies can be typed again.

A body is everything between the line of the function's head and the line that ends it: the closing
brace stands already, as an editor inserts it.  Only code that a formatter has indented is read:
a head ends its line, and its brace closes at the head's depth.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

_HEADS: Final = {
    "go": re.compile(r"func\b.*\{$"),
    "rust": re.compile(r"[ \t]*(?:pub(?:\([\w: ]+\))? )?(?:const |unsafe |async )*fn \w.*\{$"),
    "typescript": re.compile(
        r"(?:export )?(?:default )?(?:async )?function\b.*\{$"
        r"|    (?:(?:private|protected|public|static|async|override|get|set) )*"
        r"(?!(?:if|for|while|switch|catch|function|return|with)\b)\#?\w+(?:<[^()]*>)?\(.*\).*\{$"
    ),
    "c": re.compile(r"(?!(?:struct|union|enum|typedef|else|do|switch|#)\b)[A-Za-z_].*\)\s*\{$"),
    "cpp": re.compile(
        r"[ \t]*(?!(?:if|for|while|switch|catch|else|do|return|struct|class|enum|namespace)\b)"
        r"(?:[\w:<>,*&~]+ )+[\w:<>*&~]*\(.*\)(?: const)?(?: override)?(?: noexcept)? \{$"
    ),
}
"""Lines that open a function's body, by language id."""
_WRAPPED: Final = re.compile(r"[ \t]*\).*\{$")
"""The last line of a head whose parameters have lines of their own."""
_N_WRAPPED: Final = 16
"""Most lines of such a head."""
LANGUAGE_IDS: Final = frozenset({"python", *_HEADS})


@dataclass(frozen=True, slots=True)
class Body:
    """Characters ``start`` to ``end`` of a text: from the end of the head's line on."""

    start: int
    end: int


def function_bodies(language_id: str, text: str) -> list[Body]:
    """Return the bodies of a text's functions in order; of nested ones the outer.

    None for a language that is not in ``LANGUAGE_IDS``, or Python that is not valid.
    """
    found = _python(text) if language_id == "python" else _braced(language_id, text)
    bodies: list[Body] = []
    for body in sorted(found, key=lambda one: one.start):
        if not bodies or body.start >= bodies[-1].end:
            bodies.append(body)
    return bodies


def _python(text: str) -> Iterator[Body]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    lines = text.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        statements = node.body
        if ast.get_docstring(node) is not None:
            statements = statements[1:]
        if not statements or not node.end_lineno:
            continue
        # The head and the docstring stand; a comment above the first statement is typed.
        above = node.body[0].end_lineno if statements is not node.body else None
        first = statements[0].lineno
        if above is None:
            above = first - 1
            while above > node.lineno and lines[above - 1].lstrip().startswith("#"):
                above -= 1
        yield Body(_line_end(lines, starts, above), _line_end(lines, starts, node.end_lineno))


def _line_end(lines: list[str], starts: list[int], number: int) -> int:
    """Return where the line of a number, from 1, ends: its line end not counted."""
    return starts[number - 1] + len(lines[number - 1].rstrip("\r\n"))


def _braced(language_id: str, text: str) -> Iterator[Body]:
    head = _HEADS.get(language_id)
    if head is None:
        return
    lines = text.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    plain = [line.rstrip() for line in lines]
    for idx, line in enumerate(plain):
        depth = line[: len(line) - len(line.lstrip())]
        if not head.fullmatch(line) and not _is_wrapped_head(plain, idx, head):
            continue
        closing = next(
            (row for row in range(idx + 1, len(plain)) if plain[row].startswith(depth + "}")), None
        )
        if closing is not None and closing > idx + 1:
            yield Body(_line_end(lines, starts, idx + 1), _line_end(lines, starts, closing))


def _is_wrapped_head(lines: list[str], idx: int, head: re.Pattern[str]) -> bool:
    """Whether a line is the last of a head that begins some lines above, at the same depth."""
    line = lines[idx]
    if not _WRAPPED.fullmatch(line):
        return False
    depth = line[: len(line) - len(line.lstrip())]
    for row in range(idx - 1, max(-1, idx - _N_WRAPPED), -1):
        above = lines[row]
        if above.startswith(depth) and above[len(depth) : len(depth) + 1].strip():
            return above.endswith("(") and head.fullmatch(f"{above}) {{") is not None
    return False
