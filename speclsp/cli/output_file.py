"""Files that a command writes at its end, found out to be impossible at its beginning."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from speclsp.atomic_write import AS_THE_USER_HAS_IT, written_whole
from speclsp.errors import SpecLspError


class OutputFile(click.Path):
    """A file to write, in a folder that is there and may be written to."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path.  Raises BadParameter."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        folder = path.parent
        if not folder.is_dir():
            self.fail(f"Folder {str(folder)!r} does not exist.", param, ctx)
        if not path.exists() and not os.access(folder, os.W_OK):
            self.fail(f"Folder {str(folder)!r} is not writable.", param, ctx)
        return path


def _is_open_elsewhere(path: Path) -> bool:
    """Whether a path stands for a file that is open already, as /dev/stdout does."""
    return path.is_absolute() and path.parts[1] in ("dev", "proc")


def write_text(path: Path, text: str) -> None:
    """Write a text as a whole, so that what was there stays until all of it is on the disk.

    A device or a pipe is written to.  Raises SpecLspError where the disk has no room, for example.
    """
    try:
        if path.exists() and (not path.is_file() or _is_open_elsewhere(path)):
            path.write_text(text, encoding="utf-8")
            return
        with written_whole(path, f".{path.name}.", AS_THE_USER_HAS_IT) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecLspError(
            f"{path} cannot be written: {error.strerror or error}.",
            remedy="Name a file in a folder that may be written to and has enough space.",
        ) from error
