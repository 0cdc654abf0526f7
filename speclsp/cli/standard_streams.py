"""Standard output that carries answers only.

Libraries, C libraries among them, write to file descriptor 1 when they please.  So the wire gets
a descriptor of its own, and whatever else is written to standard output goes to standard error.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator

STDIN = 0
STDOUT = 1
STDERR = 2
READ_BYTES = 65536


def take_stdout() -> int:
    """Return a descriptor of the real standard output, and send the old one to standard error."""
    sys.stdout.flush()
    wire = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    return wire


def read_stdin() -> Iterator[bytes]:
    """Yield what arrives on standard input until its end.

    Reads the descriptor itself: an abandoned thread that holds the lock of ``sys.stdin`` would
    end the interpreter with a fatal error.
    """
    while data := os.read(STDIN, READ_BYTES):
        yield data


class Wire:
    """Writes whole messages to a descriptor, from any thread.

    ``on_broken`` is called once when nobody reads any more; later messages are dropped.
    """

    def __init__(self, descriptor: int, on_broken: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._on_broken = on_broken
        self._lock = threading.Lock()
        self.broken = False

    def write(self, data: bytes) -> None:
        """Write all of ``data``."""
        with self._lock:
            if self.broken:
                return
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._descriptor, view) :]
                return
            except OSError:
                self.broken = True
        self._on_broken()
