"""What the choice of chunks needs to know of a project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from speclsp.prompt.context.declarations import Declaration
from speclsp.prompt.context.imports import ProjectPaths
from speclsp.prompt.context.similarity import NameTable


class ProjectView(Protocol):
    """A project as it is now: files as open buffers have them, else as they are on disk.

    Texts hold no secrets.  Paths are relative to the project's folder, with slashes.
    """

    @property
    def files(self) -> Sequence[str]:
        """The paths, in the order of :attr:`names`."""

    @property
    def paths(self) -> ProjectPaths:
        """The paths, to find imports among."""

    @property
    def names(self) -> NameTable:
        """The names in each file."""

    def text(self, path: str) -> str | None:
        """Return a file's text, or None where it cannot be read any more."""

    def declared(self, path: str) -> Sequence[Declaration]:
        """Return what a file declares."""

    def declaring(self, name: str) -> Sequence[str]:
        """Return the files that declare a name on their outermost level, in order."""
