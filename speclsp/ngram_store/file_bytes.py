"""Reads parts of a file that others may cut or overwrite at any time.

A file that is mapped into memory ends the process where it is read behind its new end: ``cp`` cuts
the file that it copies onto, and no exception tells, but SIGBUS.  A read there returns less.
"""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path


class FileBytes:
    """A regular file's bytes, as they are when they are asked for; safe from any thread.

    The file stays open as long as this lives, also where it was replaced or removed meanwhile.
    Raises OSError where it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._lock = threading.Lock()
        weakref.finalize(self, os.close, self._descriptor)
        self.n_bytes = os.fstat(self._descriptor).st_size
        """The file's size when it was opened."""

    def read(self, offset: int, n_bytes: int) -> bytes:
        """Return so many bytes, or fewer where the file has no more.  Raises OSError."""
        parts = []
        while n_bytes > 0 and (part := self._read_some(offset, n_bytes)):
            parts.append(part)
            offset += len(part)
            n_bytes -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_some(self, offset: int, n_bytes: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self._descriptor, n_bytes, offset)
        with self._lock:  # Windows
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            return os.read(self._descriptor, n_bytes)
