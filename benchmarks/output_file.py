"""Writes the files that a benchmark was told to write."""

from __future__ import annotations

from pathlib import Path

from speclsp.atomic_write import UMASKED, write_atomically
from speclsp.errors import SpecLspError


def _is_open_elsewhere(path: Path) -> bool:
    """Whether a path names a file that is open already, such as /dev/stdout."""
    return path.is_absolute() and path.parts[1] in ("dev", "proc")


def write_text(path: Path, text: str) -> None:
    """Write a text atomically: the old file stays until the new one is complete.

    Devices and pipes are written to directly.  Raises SpecLspError, for example if the disk is
    full.
    """
    try:
        if path.exists() and (not path.is_file() or _is_open_elsewhere(path)):
            path.write_text(text, encoding="utf-8")
            return
        with write_atomically(path, f".{path.name}.", UMASKED) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecLspError(
            f"{path} cannot be written: {error.strerror or error}.",
            remedy="Name a file in a folder that may be written to and has enough space.",
        ) from error
