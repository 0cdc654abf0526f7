"""The server on standard input and output.

Frames own the two descriptors: they are moved away first, so that whatever prints or reads in
this process or a child of it cannot break the wire.  Both directions have a thread of their own,
because neither files nor consoles can be awaited.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator

from speclsp.lsp.conversation import Conversation
from speclsp.lsp.events import PrintedLines, logging_to
from speclsp.lsp.framing import frame
from speclsp.lsp.one_client import on_stop_signal
from speclsp.lsp.server import SpecLanguageServer

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_READ_BYTES = 65536
_FLUSH_TIMEOUT_S = 2.0


def serve_stdio(server: SpecLanguageServer) -> int:
    """Serve the client at the other end of standard input and output; returns the exit code."""
    with _claimed_descriptors() as (stdin, stdout):
        return asyncio.run(_serve(server, stdin, stdout))


async def _serve(server: SpecLanguageServer, stdin: int, stdout: int) -> int:
    loop = asyncio.get_running_loop()
    conversation: Conversation

    def hang_up() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(conversation.hang_up)

    writer = _FrameWriter(stdout, hang_up)
    conversation = Conversation(server, writer)

    def read() -> None:
        with contextlib.suppress(OSError, RuntimeError):
            while data := os.read(stdin, _READ_BYTES):
                loop.call_soon_threadsafe(conversation.feed, data)
        hang_up()

    on_stop_signal(conversation.hang_up)
    threading.Thread(target=read, name="speclsp-stdin", daemon=True).start()
    with logging_to(server.session.editor.log):
        await conversation.until_over()
        code = await conversation.close()
    await asyncio.to_thread(writer.finish)
    return code


class _FrameWriter:
    """Writes frames in order on a thread, so that a client that is slow to read blocks nobody."""

    def __init__(self, descriptor: int, on_broken: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._on_broken = on_broken
        self._frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="speclsp-stdout", daemon=True)
        self._thread.start()

    def send(self, body: bytes) -> None:
        """Send one message."""
        self._frames.put(frame(body))

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

    Meanwhile standard input is empty, what is printed goes to the log, and what C code writes to
    standard output goes to standard error.
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
