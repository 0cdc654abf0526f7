"""A project's files in outline: which names stand in them, and what they declare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from speclsp.prompt.context.declarations import Declaration, declarations
from speclsp.prompt.context.imports import ProjectPaths
from speclsp.prompt.context.similarity import NameCodes, NameTable, codes_of, names_in


@dataclass(frozen=True, slots=True, eq=False)
class FileOutline:
    """What is known of one file."""

    codes: NameCodes
    declared: tuple[Declaration, ...]

    @classmethod
    def of(cls, text: str, path: str) -> FileOutline:
        """Read a text; the path tells its language."""
        return cls(codes_of(names_in(text)), tuple(declarations(text, path)))


class ProjectOutline:
    """A project as it is now: files as open buffers have them, else as they are on disk.

    Texts hold no secrets.  Paths are relative to the project's folder, with slashes.  ``read``
    returns the text of a file on disk, or None where it cannot be read any more.
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

    @cached_property
    def files(self) -> Sequence[str]:
        """The paths, in the order of :attr:`names`."""
        return sorted(self._outlines)

    @cached_property
    def paths(self) -> ProjectPaths:
        """The paths, to find imports among."""
        return ProjectPaths(self.files)

    @cached_property
    def names(self) -> NameTable:
        """The names in each file."""
        return NameTable([self._outlines[path].codes for path in self.files])

    @cached_property
    def _declaring(self) -> Mapping[str, list[str]]:
        declaring: dict[str, list[str]] = {}
        for path in self.files:
            for name in {d.name for d in self._outlines[path].declared if not d.indent}:
                declaring.setdefault(name, []).append(path)
        return declaring

    def text(self, path: str) -> str | None:
        """Return a file's text, or None where it cannot be read any more."""
        if path not in self._outlines:
            return None
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    def declared(self, path: str) -> Sequence[Declaration]:
        """Return what a file declares."""
        return self._outlines[path].declared

    def declaring(self, name: str) -> Sequence[str]:
        """Return the files that declare a name on their outermost level, sorted."""
        return self._declaring.get(name, ())
