"""A project's files in outline: which names stand in them, and what they declare.

Made by reading, in the background, what a scan finds: the index keeps tokens, not texts.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from speclsp.project.ignore import IgnoreRules
from speclsp.project.scan import FoundFile, ScanTally, Signature, scan
from speclsp.project.source_text import Mask, SourceText, read_source, unmasked
from speclsp.prompt.context.declarations import Declaration, declarations
from speclsp.prompt.context.identifiers import NameCodes, codes_of, names_in
from speclsp.prompt.context.imports import ProjectPaths
from speclsp.prompt.context.similarity import NameTable
from speclsp.secrets.masked_text import masked
from speclsp.settings import Settings

MAX_FILES: Final = 4_000
MAX_FILE_BYTES: Final = 200_000
"""Larger files are generated, mostly."""
_MAX_TEXTS: Final = 48


class _InterruptedError(Exception):
    """Scanning was given up."""


@dataclass(frozen=True, slots=True, eq=False)
class FileOutline:
    """What is known of one file.  ``signature`` is None for an open buffer's."""

    signature: Signature | None
    codes: NameCodes
    declared: tuple[Declaration, ...]


class ProjectOutline:
    """A :class:`speclsp.prompt.context.project_view.ProjectView`.  Belongs to one thread."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.is_read = False
        """Whether the folder was read whole, at least once."""
        self._on_disk: dict[str, FileOutline] = {}
        self._open: dict[str, tuple[str, FileOutline]] = {}
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._files: tuple[str, ...] = ()
        self._paths: ProjectPaths | None = None
        self._names: NameTable | None = None
        self._declaring: dict[str, list[str]] | None = None
        self._mask: Mask = masked

    # --- keeping up -----------------------------------------------------------------------------

    def update(
        self, settings: Settings, make_way: Callable[[], None], interrupted: Callable[[], bool]
    ) -> bool:
        """Read what has changed on disk; False when interrupted.

        ``make_way`` is called before each file that is read.
        """
        self._mask = masked if settings.mask_secrets else unmasked
        root = Path(self.root)

        def pause() -> None:
            if interrupted():
                raise _InterruptedError

        found = scan(
            root,
            IgnoreRules(root, settings.exclude),
            ScanTally(),
            max_file_size=min(settings.max_file_size, MAX_FILE_BYTES),
            max_files=min(settings.max_files, MAX_FILES),
            pause=pause,
        )
        seen: dict[str, FileOutline] = {}
        with suppress(_InterruptedError):
            for file in found:
                known = self._on_disk.get(file.relative)
                if known is None or known.signature != file.signature:
                    make_way()
                    known = self._outlined(file)
                seen[file.relative] = known
        if interrupted():
            return False
        if seen != self._on_disk:
            self._on_disk = seen
            self._changed()
        self.is_read = True
        return True

    def set_open(self, texts: dict[str, str]) -> None:
        """Let these texts, by path, stand for their files."""
        changed = texts.keys() != self._open.keys()
        for path, text in texts.items():
            known = self._open.get(path)
            if known is None or known[0] != text:
                self._open[path] = (text, _outline(text, path, None))
                changed = True
        for path in self._open.keys() - texts.keys():
            del self._open[path]
        if changed:
            self._changed()

    def relative(self, file: str) -> str:
        """Return a file's path in the folder, with slashes."""
        return os.path.relpath(file, self.root).replace(os.sep, "/")

    # --- the view -------------------------------------------------------------------------------

    @property
    def files(self) -> Sequence[str]:
        """The paths, sorted."""
        if not self._files:
            self._files = tuple(sorted(self._on_disk.keys() | self._open.keys()))
        return self._files

    @property
    def paths(self) -> ProjectPaths:
        """The paths, to find imports among."""
        if self._paths is None:
            self._paths = ProjectPaths(self.files)
        return self._paths

    @property
    def names(self) -> NameTable:
        """The names in each file."""
        if self._names is None:
            self._names = NameTable([self._outline_of(path).codes for path in self.files])
        return self._names

    def text(self, path: str) -> str | None:
        """Return a file's text, or None where it cannot be read any more."""
        if path in self._open:
            return self._open[path][0]
        if path not in self._on_disk:
            return None
        text = self._texts.pop(path, None)
        if text is None:
            source = read_source(str(Path(self.root, path)), MAX_FILE_BYTES, self._mask)
            if not isinstance(source, SourceText):
                return None
            text = source.text
        self._texts[path] = text
        while len(self._texts) > _MAX_TEXTS:
            self._texts.popitem(last=False)
        return text

    def declared(self, path: str) -> Sequence[Declaration]:
        """Return what a file declares."""
        return self._outline_of(path).declared

    def declaring(self, name: str) -> Sequence[str]:
        """Return the files that declare a name on their outermost level, sorted."""
        if self._declaring is None:
            self._declaring = {}
            for path in self.files:
                outer = {d.name for d in self._outline_of(path).declared if not d.indent}
                for outer_name in outer:
                    self._declaring.setdefault(outer_name, []).append(path)
        return self._declaring.get(name, ())

    def _outline_of(self, path: str) -> FileOutline:
        return self._open[path][1] if path in self._open else self._on_disk[path]

    def _outlined(self, file: FoundFile) -> FileOutline:
        self._texts.pop(file.relative, None)
        source = read_source(file.path, MAX_FILE_BYTES, self._mask)
        text = source.text if isinstance(source, SourceText) else ""
        return _outline(text, file.relative, file.signature)

    def _changed(self) -> None:
        self._files = ()
        self._paths = self._names = self._declaring = None


def _outline(text: str, path: str, signature: Signature | None) -> FileOutline:
    return FileOutline(signature, codes_of(names_in(text)), tuple(declarations(text, path)))
