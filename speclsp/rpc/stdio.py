"""Serves a client at the other end of standard input and output.

The wire gets descriptors of its own, so that nothing that prints or reads in this process or in a
child of it can break the frames.  Each direction has a thread, because neither files nor consoles
can be awaited.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from speclsp.errors import SpecLspError
from speclsp.event_loop import post
from speclsp.log import PrintedLines
from speclsp.rpc.framing import FrameDecoder

if TYPE_CHECKING:  # it takes 0.3 s to import, and the first message is answered without it
    from speclsp.rpc.connection import JsonRpcConnection

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_POLL_S: Final = 0.2
READ_BYTES: Final = 65536


async def serve_pipe(connection: JsonRpcConnection, stdin: int, stdout: int) -> int:
    """Serve a program, which may send one message per line; return the exit code.

    The program gets all answers, however slowly it reads them; the code is 1 if it stops reading.
    """
    code, writer = await converse(connection, FrameDecoder(lines=True), stdin, stdout)
    while not await asyncio.to_thread(writer.finish, _POLL_S) and not connection.abandoned:
        pass
    return 1 if connection.abandoned else code


async def converse(
    connection: JsonRpcConnection,
    decoder: FrameDecoder,
    stdin: int,
    stdout: int,
    *,
    received: bytes = b"",
) -> tuple[int, Writer]:
    """Serve the client until it is done; ``received`` was read from ``stdin`` before."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(OSError):
            while data := os.read(stdin, READ_BYTES):
                post(loop, connection.feed, data)
        post(loop, connection.feed, b"")

    writer = Writer(stdout, partial(post, loop, connection.hang_up))
    connection.connect(writer.write, decoder)
    on_stop_signal(connection.hang_up)
    if received:
        connection.feed(received)
    # The thread may be left behind in a blocked read, hence a daemon.
    threading.Thread(target=read, name="speclsp-stdin", daemon=True).start()
    await connection.until_over()
    return await connection.close(), writer


class Writer:
    """Writes frames in order on a thread, so that a slow reader does not block the event loop."""

    def __init__(self, descriptor: int, on_broken: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._on_broken = on_broken
        self._frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.write = self._frames.put
        self._thread = threading.Thread(target=self._run, name="speclsp-stdout", daemon=True)
        self._thread.start()

    def finish(self, timeout_s: float) -> bool:
        """Wait until all is written, at most ``timeout_s``; return whether it is."""
        self._frames.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (data := self._frames.get()) is not None:
                write_all(self._descriptor, data)
        except OSError:
            self._on_broken()


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of ``data``.  Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextlib.contextmanager
def claimed_descriptors() -> Iterator[tuple[int, int]]:
    """Yield private descriptors of standard input and output.

    Meanwhile standard input is empty, what Python prints goes to the log, and what C code writes
    to standard output goes to standard error.
    Raises SpecLspError if the process was started without one of the two.
    """
    # Python sets a stream to None if its descriptor is closed, which any file may have taken since.
    if sys.stdin is None or sys.stdout is None:
        raise SpecLspError(
            f"standard {'input' if sys.stdin is None else 'output'} is closed.",
            remedy="Start speclsp with both open; messages come and go there.",
        )
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None and null != _STDERR:
        os.dup2(null, _STDERR)  # else the wire would take its descriptor
    stdin, stdout = os.dup(_STDIN), os.dup(_STDOUT)
    os.dup2(null, _STDIN)
    os.dup2(_STDERR, _STDOUT)
    if null != _STDERR:
        os.close(null)
    with contextlib.redirect_stdout(PrintedLines()):
        yield stdin, stdout


def on_stop_signal(stop: Callable[[], None]) -> None:
    """Call ``stop`` on the running loop when the process is told to terminate."""
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGTERM, signal.SIGINT]
    # Not on Windows, and not under nohup.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        # Not on Windows, and not off the main thread, where the signals keep their meaning.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop)
