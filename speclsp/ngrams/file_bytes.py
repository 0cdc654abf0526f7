"""Reads parts of a file that others may cut or overwrite at any time.

A file that is mapped into memory ends the process where it is read behind its new end: ``cp`` cuts
the file that it copies onto, and no exception tells, but SIGBUS.  A read there returns less.
"""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path
from typing import Final

_AT_ONCE: Final = 1 << 30
"""Bytes of one read: Linux gives 2 GiB at the most, and macOS refuses to be asked for more."""


class FileBytes:
    """A regular file's bytes, as they are when they are asked for; safe from any thread.

    The file stays open as long as this lives, also where it was replaced or removed meanwhile.
    Raises OSError where it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._reads_at_places = hasattr(os, "pread")  # Windows does not
        self._lock = threading.Lock()
        weakref.finalize(self, os.close, self._descriptor)
        self.n_bytes = os.fstat(self._descriptor).st_size
        """The file's size when it was opened."""

    def read(self, offset: int, n_bytes: int) -> bytes:
        """Return so many bytes, or fewer where the file has no more.  Raises OSError."""
        part = self._read_some(offset, n_bytes)
        if len(part) == n_bytes:
            return part
        # No more is read at once than systems take, and nothing behind the end.
        parts = [part]
        while part and (left := n_bytes - sum(map(len, parts))):
            part = self._read_some(offset + n_bytes - left, left)
            parts.append(part)
        return b"".join(parts)

    def _read_some(self, offset: int, n_bytes: int) -> bytes:
        n_bytes = min(n_bytes, _AT_ONCE)
        if not self._reads_at_places:
            with self._lock:
                os.lseek(self._descriptor, offset, os.SEEK_SET)
                return os.read(self._descriptor, n_bytes)
        return os.pread(self._descriptor, n_bytes, offset)
