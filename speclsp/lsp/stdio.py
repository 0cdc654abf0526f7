"""Serves the client at the other end of standard input and output.

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

from speclsp.lsp.events import PrintedLines, logging_to
from speclsp.lsp.framing import FrameDecoder
from speclsp.lsp.json_rpc import Conversation, JsonRpcConnection
from speclsp.request import LogLevel

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_READ_BYTES = 65536
_FLUSH_TIMEOUT_S = 2.0


def serve_stdio(
    connection: JsonRpcConnection,
    log: Callable[[LogLevel, str], None] | None = None,
    *,
    lines: bool = False,
) -> int:
    """Serve until the client is done, and return the exit code.

    ``log`` gets Python's log records on the event loop; without it logging stays as it is.
    With ``lines`` the client may send one message per line instead of LSP's frames.
    """
    with _claimed_descriptors() as (stdin, stdout):
        return asyncio.run(_serve(connection, log, FrameDecoder(lines=lines), stdin, stdout))


async def _serve(
    connection: JsonRpcConnection,
    log: Callable[[LogLevel, str], None] | None,
    decoder: FrameDecoder,
    stdin: int,
    stdout: int,
) -> int:
    loop = asyncio.get_running_loop()

    def on_loop(call: Callable[..., None], *arguments: bytes) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(call, *arguments)

    def read() -> None:
        with contextlib.suppress(OSError):
            while data := os.read(stdin, _READ_BYTES):
                on_loop(conversation.feed, data)
        on_loop(conversation.end_of_input)

    writer = _Writer(stdout, lambda: on_loop(conversation.hang_up))
    conversation = Conversation(connection, writer.write, decoder)
    on_stop_signal(conversation.hang_up)
    # The thread may be left behind in a blocked read, hence a daemon.
    threading.Thread(target=read, name="speclsp-stdin", daemon=True).start()
    with logging_to(log) if log is not None else contextlib.nullcontext():
        await conversation.until_over()
        code = await conversation.close()
    await asyncio.to_thread(writer.finish)
    return code


class _Writer:
    """Writes frames in order on a thread, so that a client that reads slowly blocks nobody."""

    def __init__(self, descriptor: int, on_broken: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._on_broken = on_broken
        self._frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="speclsp-stdout", daemon=True)
        self._thread.start()

    def write(self, frame: bytes) -> None:
        """Send one frame."""
        self._frames.put(frame)

    def finish(self) -> None:
        """Wait until all is written, or the client has not read for a while."""
        self._frames.put(None)
        self._thread.join(_FLUSH_TIMEOUT_S)

    def _run(self) -> None:
        try:
            while (data := self._frames.get()) is not None:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._descriptor, view) :]
        except OSError:
            self._on_broken()


@contextlib.contextmanager
def _claimed_descriptors() -> Iterator[tuple[int, int]]:
    """Yield private descriptors of standard input and output.

    Meanwhile standard input is empty, what Python prints goes to the log, and what C code writes
    to standard output goes to standard error.
    """
    sys.stdout.flush()
    stdin, stdout = os.dup(_STDIN), os.dup(_STDOUT)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, _STDIN)
    try:
        os.dup2(_STDERR, _STDOUT)
    except OSError:  # there is no standard error
        os.dup2(null, _STDOUT)
    os.close(null)
    with contextlib.redirect_stdout(PrintedLines("stdout")):
        yield stdin, stdout


def on_stop_signal(stop: Callable[[], None]) -> None:
    """Call ``stop`` on the running loop when the process is told to terminate."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not on Windows, and not off the main thread, where the signals keep their meaning.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop)
