"""Files for nobody but the user, which are there as a whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from speclsp.atomic_write import PRIVATE, written_whole
from speclsp.errors import StoreError

PARTIAL_PREFIX: Final = ".partial-"
"""How the names of files begin that are being written, or were when a server died."""

_FOLDER_MODE: Final = 0o700


def make_private_folders(folder: Path, above: Path) -> None:
    """Make ``folder`` and those between it and ``above``; closes them to other users.

    Raises StoreError.
    """
    folders = [folder, *folder.parents]
    try:
        above.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        for each in reversed(folders[: folders.index(above) + 1]):
            each.mkdir(mode=_FOLDER_MODE, exist_ok=True)
            each.chmod(_FOLDER_MODE)
    except OSError as error:
        raise unwritable(folder, error) from error


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Put what ``write`` writes in the place of a file.  Raises StoreError.

    Processes that have the former file open or mapped keep it.
    """
    try:
        with written_whole(path, PARTIAL_PREFIX, PRIVATE) as partial, partial.open("wb") as stream:
            write(stream)
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> StoreError:
    """Return the error for a file or folder that cannot be written."""
    return StoreError(
        f"{path} cannot be written: {error.strerror or error}.",
        remedy="Check the disk's space and the folder's permissions, or set persist to false.",
    )
