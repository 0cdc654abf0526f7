"""Serves one client on a TCP port.

The first client whose first message is ``initialize`` has the server until it leaves; others are
refused.  With a token, nothing of a client is processed before it has given the token as
``initializationOptions.token``.
pygls's own transport accepts every client, and each connection takes the answers over from the one
before.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import socket
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, Final

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidRequest, JsonRpcParseError

from speclsp.errors import SettingsError, SpecLspError
from speclsp.lsp.framing import MAX_BODY_BYTES, FrameDecoder, FramingProblem, frame
from speclsp.lsp.json_rpc import JsonRpcConnection, error_answer, read_message
from speclsp.lsp.log import logging_to
from speclsp.lsp.server import SpecLanguageServer
from speclsp.lsp.stdio import on_stop_signal

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
HANDSHAKE_S: Final = 10.0
"""Seconds in which a client must send its first message."""
MAX_UNSENT_BYTES: Final = 64 * 1024 * 1024
"""A client that leaves more unread is dropped."""
_MAX_FIRST_BYTES: Final = 1024 * 1024
"""Bytes of a TCP client's first message, which comes before its token is known."""
_FLUSH_S: Final = 2.0
"""Seconds in which a client must take the last messages."""
_READ_BYTES: Final = 65536
_ONE_CLIENT: Final = "The server has a client; it serves one only."
_NO_ADMISSION: Final = (
    "The token is missing or wrong. The server wrote it to standard error, or to --token-file."
)
_EXIT_STOPPED: Final = 1
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A peer that vanished is noticed after about 90 s."""

OnListening = Callable[[str, int], None]
"""Called with the host and the port; port 0 has been replaced by a free one."""
_Messages = AsyncGenerator[bytes, None]


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``, ``[IPv6]:PORT``, ``:PORT`` or ``PORT``.

    The default host is the loopback one.
    Raises :class:`SettingsError` unless the port is a number from 0 to 65535.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SettingsError(
            f"{text!r} is no address.", remedy="Give HOST:PORT, for example 127.0.0.1:2087."
        )
    return host or LOOPBACK, int(port)


def serve_tcp(
    server: SpecLanguageServer,
    host: str,
    port: int,
    *,
    token: str | None,
    on_listening: OnListening,
) -> int:
    """Serve one client on a TCP port, and return the exit code.

    Raises :class:`SpecLspError` if the address cannot be listened on.
    """
    return asyncio.run(_serve(server, host, port, token, on_listening))


async def _serve(
    server: SpecLanguageServer,
    host: str,
    port: int,
    token: str | None,
    on_listening: OnListening,
) -> int:
    client = _OneClient(server.protocol, token)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # At the server's end asyncio.run cancels this, which Python 3.11 would log.
        with contextlib.suppress(asyncio.CancelledError):
            if not client.is_taken:
                _keep_alive(writer.get_extra_info("socket"))
                await client.converse(reader, writer)
        writer.transport.abort()

    try:
        listener = await asyncio.start_server(connected, host, port)
    except OSError as error:
        raise SpecLspError(f"cannot listen on {host}:{port}: {error.strerror}.") from error
    with logging_to(server.session.editor.log):
        on_listening(*next(iter(listener.sockets)).getsockname()[:2])
        try:
            return await client.exit_code
        finally:
            listener.close()  # asyncio.run cancels what the other connections wait for


class _OneClient:
    """Serves the first client that is admitted; ``exit_code`` is set when it has left.

    It is also set when the process is told to stop.  Create it on the running loop.
    """

    def __init__(self, connection: JsonRpcConnection, token: str | None) -> None:
        self._connection = connection
        self._token = token
        self.exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.is_taken = False
        """Whether other clients must be refused."""
        on_stop_signal(self._stop)

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a client until it leaves, or refuse it; the caller then cuts the connection."""
        messages = _frames(reader)
        msg_id = None
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                first = await anext(messages)
            message = read_message(first)
            msg_id = message.get("id") if isinstance(message, dict) else None
            _check_first(message, self._token)
            if self.is_taken:
                raise JsonRpcInvalidRequest(_ONE_CLIENT)
        except (StopAsyncIteration, TimeoutError):
            return
        except JsonRpcException as error:
            writer.write(frame(json.dumps(error_answer(msg_id, error)).encode()))
            await _flush(writer)
            return
        self.is_taken = True
        self._connection.connect(partial(self._send, writer))
        self._connection.take(first)
        reading = asyncio.create_task(self._read(messages))
        code = _EXIT_STOPPED
        try:
            await self._connection.until_over()
            reading.cancel()
            code = await self._connection.close()
            await _flush(writer)
        finally:
            self._end(code)

    def _send(self, writer: asyncio.StreamWriter, body: bytes) -> None:
        """Send a message without waiting; a client that reads too slowly gets nothing more."""
        transport = writer.transport
        if transport.is_closing() or transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            return
        writer.write(frame(body))
        if transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._connection.hang_up()

    async def _read(self, messages: _Messages) -> None:
        try:
            async for body in messages:
                self._connection.take(body)
        except JsonRpcException as error:
            self._connection.refuse(error)
        self._connection.hang_up()

    def _stop(self) -> None:
        """End the conversation as if its client had gone; without one, end at once."""
        if self.is_taken:
            self._connection.hang_up()
        else:
            self.is_taken = True
            self._end(_EXIT_STOPPED)

    def _end(self, code: int) -> None:
        if not self.exit_code.done():
            self.exit_code.set_result(code)


async def _flush(writer: asyncio.StreamWriter) -> None:
    """Send what is left and close the connection, for at most ``_FLUSH_S`` seconds."""
    writer.close()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_FLUSH_S):
            await writer.wait_closed()


async def _frames(reader: asyncio.StreamReader) -> _Messages:
    """Yield a client's messages; raises JsonRpcParseError at the first malformed header."""
    decoder = FrameDecoder(max_body_bytes=_MAX_FIRST_BYTES)
    with contextlib.suppress(OSError):
        while data := await reader.read(_READ_BYTES):
            for piece in decoder.feed(data):
                if isinstance(piece, FramingProblem):
                    raise JsonRpcParseError(piece.reason)
                yield piece
                decoder.max_body_bytes = MAX_BODY_BYTES


def _check_first(message: Any, token: str | None) -> None:
    """Raise JsonRpcException unless a message is ``initialize`` and holds the token."""
    if not isinstance(message, dict) or message.get("method") != types.INITIALIZE:
        raise JsonRpcInvalidRequest("the first message must be initialize")
    given: Any = message
    for name in ("params", "initializationOptions", "token"):
        given = given.get(name) if isinstance(given, dict) else None
    if token is not None and not _is_same(given, token):
        raise JsonRpcInvalidRequest(f"initializationOptions.token: {_NO_ADMISSION}")


def _is_same(given: object, token: str) -> bool:
    return isinstance(given, str) and hmac.compare_digest(
        given.encode(errors="replace"), token.encode()
    )


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
