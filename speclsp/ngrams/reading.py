"""Reads statistics files into memory, and makes the errors for damaged ones.

Files are not mapped: another program may truncate one at any time, and reading mapped memory after
the new end raises SIGBUS, which ends the process.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

from speclsp.errors import StoreError

REBUILD = "Rebuild it with `speclsp ngram build`, or remove it from the settings."
OTHER_MODEL = "Name a file that was built for this model, or build one with `speclsp ngram build`."
_GGUF: Final = b"GGUF"

FileState = tuple[int, int, int] | None
"""Size, time of the last change in ns and inode of a file; None if there is none."""


def state_of(path: Path) -> FileState:
    """Return a file's state, which differs after a change."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ino)


def check_regular(path: Path) -> None:
    """Raise StoreError for a missing file, a folder or a pipe."""
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        raise _unreadable(path, error) from error
    if not is_file:
        raise damaged(path, 0, "it is not a regular file", "Correct the path.")


def read_bytes(path: Path) -> bytes:
    """Return a file's content.

    Raises StoreError for a missing, empty or unreadable file, a folder or a pipe.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            if file.read(len(_GGUF)) == _GGUF:  # models may be larger than the memory
                raise damaged(path, 0, "it is a model, not statistics", "Correct the path.")
            file.seek(0)
            data = file.read()
    except OSError as error:
        raise _unreadable(path, error) from error
    if not data:
        raise damaged(path, 0, "it is empty")
    return data


def _unreadable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be read: {error.strerror or error}.",
        remedy="Correct the path or its permissions, or remove it from the settings.",
    )


def damaged(path: Path, offset: int | None, reason: str, remedy: str = REBUILD) -> StoreError:
    """Return an error with the file, the byte offset if it is known, and the reason."""
    place = "" if offset is None else f", byte {offset:,}"
    return StoreError(f"{path}{place}: {reason}.", remedy=remedy)
