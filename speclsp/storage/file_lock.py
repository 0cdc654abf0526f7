"""Servers take turns at what must not be done by two at once in a folder."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import fcntl

_POLL_S: Final = 0.01


@contextmanager
def file_lock(folder: Path, patience_s: float) -> Iterator[None]:
    """Wait until no other process, nor thread, is inside for this folder, and go in.

    Where the file system or the operating system knows no locks of folders nobody is waited for.
    Raises TimeoutError where another is inside for longer than ``patience_s`` seconds.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        yield
        return
    try:
        until_s = time.monotonic() + patience_s
        while not _is_locked_by(descriptor):
            if time.monotonic() >= until_s:
                raise TimeoutError(f"another server has been busy in it for {patience_s:g} s")
            time.sleep(_POLL_S)
        yield
    finally:
        # The lock goes with its descriptor, and with the process.
        os.close(descriptor)


def _is_locked_by(descriptor: int) -> bool:
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
    return True
