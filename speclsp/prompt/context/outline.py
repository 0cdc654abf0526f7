"""Outlines of a project's files: the names in each file, and the lines that declare something.

Declarations are found line by line with a few patterns for all languages, without a parser: a
wrong or missing one costs a place in the ranking only.  Nested declarations are left out; the
text of a class shows its first methods.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final

from speclsp.prompt.context.similarity import NameCodes, NameTable, codes_of, names_in

_N_DECLARATION_LINES: Final = 12

_PROSE_SUFFIXES: Final = frozenset((".adoc", ".log", ".md", ".rst", ".tex", ".txt"))

_WORDS: Final = (
    r"(?:class|def|defmodule|defp|enum|fn|fun|func|function\*?|interface|macro_rules!|mod|module"
    r"|namespace|object|protocol|record|struct|trait|type|union)"
)
_NO_STATEMENT: Final = (
    r"(?!(?:assert|await|case|delete|do|else|for|goto|if|import|in|new|not|raise|return|switch"
    r"|throw|while|with|yield)\b)"
)
_DECLARATIONS: Final = (
    # class Box, export async function load, pub(crate) fn area, func (b *Box) Area
    re.compile(
        rf"(?:[a-z]\w*(?:\([^)\n]*\))?[ \t]+)*?{_WORDS}[ \t]+(?:\([^)\n]*\)[ \t]*)?"
        rf"(?:\w+[.:]+)*(?!{_WORDS}\b)(?P<name>[A-Za-z_$][\w$]*)"
    ),
    re.compile(r"#[ \t]*define[ \t]+(?P<name>\w+)|typedef\b[^\n]*\b(?P<type>\w+);"),
    # LIMIT: int = 3, export const limit = 3, M.volume = function(b)
    re.compile(
        rf"{_NO_STATEMENT}(?:[\w.:<>*&]+[ \t]+)*?(?:\w+[.:])*(?P<name>[A-Za-z]\w*)"
        r"(?:[ \t]*:[^=\n]+)?[ \t]*=(?!=)"
    ),
    # static int area(struct box *b)
    re.compile(
        rf"{_NO_STATEMENT}[A-Za-z_][\w:<>,*& \t]*?[ \t*&](?:\w+::)*(?P<name>~?\w+)[ \t]*"
        r"\([^\n]*(?:[;{,)]|const|noexcept|override)[ \t]*$"
    ),
)


def declarations(text: str, path: str) -> dict[str, int]:
    """Return the names that a file declares in column 0, each with its first line (from 0)."""
    if PurePosixPath(path).suffix.lower() in _PROSE_SUFFIXES:
        return {}
    found: dict[str, int] = {}
    for line_idx, line in enumerate(text.split("\n")):
        if not line or line[0] in " \t":
            continue
        match = next(filter(None, (pattern.match(line) for pattern in _DECLARATIONS)), None)
        if match is not None:
            found.setdefault(match[match.lastgroup or 0], line_idx)
    return found


def declaration_text(lines: Sequence[str], first_line: int) -> str:
    """Return the declaration at ``first_line`` (from 0), twelve lines of it at most."""
    end = first_line + 1
    last = min(len(lines), first_line + _N_DECLARATION_LINES)
    while end < last and (not lines[end].strip() or lines[end][0] in " \t)]}{"):
        end += 1
    return "\n".join(lines[first_line:end]).rstrip() + "\n"


@dataclass(frozen=True, slots=True, eq=False)
class FileOutline:
    """The names in a file, and its declarations: each name with its line (from 0)."""

    codes: NameCodes
    declared: Mapping[str, int]

    @classmethod
    def of(cls, text: str, path: str) -> FileOutline:
        """Outline a text."""
        return cls(codes_of(names_in(text)), declarations(text, path))


class ProjectOutline:
    """A project's files: open buffers as they are, all others as they are on disk.

    Texts hold no secrets.  Paths are relative to the project's folder, with slashes.  ``read``
    returns the text of a file on disk, or None if it can no longer be read.
    """

    def __init__(
        self,
        on_disk: Mapping[str, FileOutline],
        in_buffers: Mapping[str, tuple[str, FileOutline]],
        read: Callable[[str], str | None],
    ) -> None:
        self._outlines = dict(on_disk) | {path: opened[1] for path, opened in in_buffers.items()}
        self._texts: dict[str, str | None] = {
            path: opened[0] for path, opened in in_buffers.items()
        }
        self._read = read

    def __contains__(self, path: str) -> bool:
        return path in self._outlines

    @cached_property
    def files(self) -> Sequence[str]:
        """The paths, in the order of :attr:`names`."""
        return sorted(self._outlines)

    @cached_property
    def names(self) -> NameTable:
        """The names in each file."""
        return NameTable([self._outlines[path].codes for path in self.files])

    @cached_property
    def _declaring(self) -> Mapping[str, list[str]]:
        declaring: dict[str, list[str]] = {}
        for path in self.files:
            for name in self._outlines[path].declared:
                declaring.setdefault(name, []).append(path)
        return declaring

    def text(self, path: str) -> str | None:
        """Return a file's text, or None if it can no longer be read."""
        if path not in self._outlines:
            return None
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    def declaring(self, name: str) -> Sequence[str]:
        """Return the files that declare a name, sorted."""
        return self._declaring.get(name, ())

    def declaration(self, path: str, name: str) -> tuple[int, str] | None:
        """Return the first line (from 0) and the text of a declaration; None if it is gone."""
        text, line = self.text(path), self._outlines[path].declared[name]
        if text is None or line >= len(lines := text.split("\n")):
            return None
        return line, declaration_text(lines, line)
