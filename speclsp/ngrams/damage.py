"""What is wrong with a statistics file, and where."""

from __future__ import annotations

import stat
from pathlib import Path

from speclsp.errors import StoreError

BUILD_ANEW = "Build it anew with `speclsp ngram build`, or take it out of the settings."
OTHER_MODEL = "Take a file that was built for this model, or build one with `speclsp ngram build`."


def damaged(path: Path, offset: int, reason: str, remedy: str = BUILD_ANEW) -> StoreError:
    """Return the error that names file, byte offset and reason."""
    return StoreError(f"{path}, byte {offset:,}: {reason}.", remedy=remedy)


def unreadable(path: Path, error: OSError) -> StoreError:
    """Return the error for a file that is missing or may not be read."""
    return StoreError(
        f"{path} cannot be read: {error.strerror or error}.",
        remedy="Correct the path or its permissions, or take it out of the settings.",
    )


def size_of(path: Path) -> int:
    """Return a file's size.  Raises StoreError for a missing or empty one, a folder or a pipe."""
    try:
        status = path.stat()
    except OSError as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise damaged(path, 0, "it is no regular file", "Correct the path.")
    if status.st_size == 0:
        raise damaged(path, 0, "it is empty")
    return status.st_size
