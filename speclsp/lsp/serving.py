"""Serves the editor at the other end of standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from speclsp.log import logging_to
from speclsp.lsp.capabilities import answer_to_initialize
from speclsp.rpc.framing import FrameDecoder
from speclsp.rpc.stdio import READ_BYTES, claimed_descriptors, converse, write_all

if TYPE_CHECKING:  # they take 0.3 s to import, and the first message is answered without them
    from speclsp.lsp.server import SpecLanguageServer
    from speclsp.rpc.connection import MessageId

_FLUSH_TIMEOUT_S: Final = 2.0


def serve_stdio(
    make_server: Callable[[], SpecLanguageServer], base_options: Mapping[str, Any]
) -> int:
    """Serve an editor until it is done, and return the exit code.

    ``make_server`` is called when ``initialize`` has been answered, because its imports are slow.
    ``base_options`` are those of the command line.
    """

    async def serve(server: SpecLanguageServer, received: bytes, stdin: int, stdout: int) -> int:
        with logging_to(server.session.editor.log):
            code, writer = await converse(
                server.protocol, FrameDecoder(), stdin, stdout, received=received
            )
        # An editor that has ended does not read the rest.
        await asyncio.to_thread(writer.finish, _FLUSH_TIMEOUT_S)
        return code

    with claimed_descriptors() as (stdin, stdout):
        received, answered = _answer_initialize(stdin, stdout, base_options)
        server = make_server()
        server.protocol.answered = answered
        return asyncio.run(serve(server, received, stdin, stdout))


def _answer_initialize(
    stdin: int, stdout: int, base_options: Mapping[str, Any]
) -> tuple[bytes, MessageId | None]:
    """Read until the first message has arrived, and answer it if it is a valid ``initialize``.

    Return the bytes read and the id of the request that was answered.
    """
    decoder, received = FrameDecoder(), b""
    with contextlib.suppress(OSError):
        while data := os.read(stdin, READ_BYTES):
            received += data
            first = next(decoder.feed(data), None)
            if first is None:
                continue
            answer = None
            if isinstance(first, bytes):
                answer = answer_to_initialize(first, base_options)
            if answer is None:
                break
            msg_id, body = answer
            write_all(stdout, decoder.framed(body))
            return received, msg_id
    return received, None
