"""Paths in the XDG cache and state folders, readable by the user only."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import stat
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import platformdirs
from filelock import FileLock

from speclsp.atomic_write import PRIVATE
from speclsp.errors import StoreError

_NAME: Final = "speclsp"
_FOLDER_MODE: Final = 0o700
_FLAGS: Final = sum(getattr(os, flag, 0) for flag in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"))
_ID_BYTES: Final = 16
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})


def cache_dir() -> Path:
    """Return ``$XDG_CACHE_HOME/speclsp``, for data that can be rebuilt.  May not exist yet."""
    return platformdirs.user_cache_path(_NAME, appauthor=False)


def state_dir() -> Path:
    """Return ``$XDG_STATE_HOME/speclsp``, for learned data.  May not exist yet."""
    return platformdirs.user_state_path(_NAME, appauthor=False)


def token_store_path() -> Path:
    """Return the path of the database of files' tokens."""
    return cache_dir() / "tokens.sqlite3"


def accepted_store_path() -> Path:
    """Return the path of the database of accepted completions."""
    return state_dir() / "accepted.sqlite3"


def workspace_id(root: str) -> bytes:
    """Return a workspace folder's id in the stores: a hash of its path, links resolved.

    "", for files outside all folders, and names that are no paths have ids of their own.
    """
    path = os.path.realpath(root) if Path(root).is_absolute() else root
    return hashlib.blake2b(os.fsencode(path), digest_size=_ID_BYTES).digest()


def make_private(path: Path) -> None:
    """Create a file and its folder, accessible by the user only.  Raises StoreError.

    Neither the folder nor anything in it may be a symbolic link or belong to another user, and
    nobody else may be able to write in it.
    """
    try:
        make_private_folder(path.parent)
        for kept in path.parent.iterdir():
            check_own(kept)
        make_private_file(path)
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{path} cannot be written: {error}.",
            remedy="Make the folder writable, for you alone, and remove links from it (`speclsp "
            "data forget --all` does), or set persist to false.",
        ) from error


def make_private_folder(folder: Path) -> None:
    """Create a folder, and those above it that are missing, accessible by the user only.

    Raises OSError, also if it is a symbolic link or belongs to another user, and where others may
    write in it: what they put there would be taken for the user's.
    """
    check_own(folder)
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    check_own(folder)
    if sys.platform != "win32" and folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OSError(f"other users may write in {folder}")
    folder.chmod(_FOLDER_MODE)


def make_private_file(path: Path) -> None:
    """Create a file, accessible by the user only.

    Raises OSError, also if it is a symbolic link, belongs to another user, or is a pipe or device.
    """
    check_own(path)
    # SQLite copies a database's mode to the files beside it.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, PRIVATE)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no regular file")
        path.chmod(PRIVATE)
    finally:
        os.close(descriptor)


def check_own(path: Path) -> None:
    """Raise OSError if a path is a symbolic link or another user's."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(status.st_mode):
        raise OSError(f"{path} is a symbolic link, which is not followed")
    if sys.platform != "win32" and status.st_uid != os.geteuid():
        raise OSError(f"{path} belongs to another user, number {status.st_uid}")


def lacks_locks(error: Exception) -> bool:
    """Whether filelock raised ``error`` because the file system has no locks."""
    return isinstance(error, NotImplementedError) or getattr(error, "errno", None) in _NO_LOCKS


class WaitLimit:
    """Bounds how long what an engine keeps on disk waits for other processes, all together."""

    def __init__(self) -> None:
        self._until = math.inf

    def end_in(self, seconds: float) -> None:
        """Let all waits, also those that have begun, end in so many seconds, or earlier."""
        self._until = min(self._until, time.monotonic() + seconds)

    def seconds(self, most: float) -> float:
        """Return how many seconds a wait of at most ``most`` seconds may take now."""
        return max(0.0, min(most, self._until - time.monotonic()))

    def is_over(self) -> bool:
        """Whether nothing waits any more."""
        return time.monotonic() >= self._until


@contextmanager
def locked(lock: Path, timeout_s: float, limit: WaitLimit | None = None) -> Generator[None]:
    """Hold a lock file, or nothing where the file system has no locks.

    Raises :class:`filelock.Timeout` and OSError.
    """
    limit = limit or WaitLimit()
    with ExitStack() as stack:
        try:
            held = FileLock(lock, mode=PRIVATE)
            stack.enter_context(held.acquire(limit.seconds(timeout_s), cancel_check=limit.is_over))
        except (OSError, NotImplementedError) as error:
            if not lacks_locks(error):
                raise
        yield
