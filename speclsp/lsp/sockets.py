"""Serves one client on a TCP port or a WebSocket.

pygls's own transports accept every client, and each connection takes the answers over from the one
before.  Here the first client has the port until it ends, and the others are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine
from http import HTTPStatus
from typing import Any, Final

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from speclsp.errors import SettingsError, SpecLspError
from speclsp.lsp.framing import FrameDecoder
from speclsp.lsp.json_rpc import JsonRpcConnection
from speclsp.lsp.log import logging_to
from speclsp.lsp.server import SpecLanguageServer
from speclsp.lsp.stdio import on_stop_signal

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_READ_BYTES = 65536
_MAX_MESSAGE_BYTES = 256 * 1024 * 1024
_EXIT_STOPPED = 1
"""Also the exit code where a client leaves without asking to shut down."""
_LEAVING_S: Final = 1.0
"""Seconds that a new client waits for one that has connected but sent nothing yet, to leave."""
_REFUSAL = "One client only.\n"
_LOCAL_ORIGINS = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
"""Pages from elsewhere must not read the user's code through a server on the loopback address."""

OnListening = Callable[[str, int], None]
"""Called with the host and the port; port 0 has been replaced by a free one."""


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
    server: SpecLanguageServer, host: str, port: int, *, on_listening: OnListening
) -> int:
    """Serve the first client that connects, refuse others, and return the exit code.

    Raises :class:`SpecLspError` if the address cannot be listened on.
    """
    connection = server.protocol

    async def listen(client: _OneClient) -> asyncio.Server:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            async def flush() -> None:
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()

            async def read() -> None:
                with contextlib.suppress(ConnectionError):
                    while data := await reader.read(_READ_BYTES):
                        connection.feed(data)
                connection.hang_up()

            if await client.is_admitted(writer.get_extra_info("peername")):
                # asyncio drops what a broken connection cannot take.
                connection.connect(writer.write, FrameDecoder())
                await client.converse(read(), flush)
            else:
                writer.close()  # waiting would outlast a server that ends

        return await asyncio.start_server(connected, host, port)

    return asyncio.run(_serve(server, f"{host}:{port}", listen, on_listening))


def serve_websocket(
    server: SpecLanguageServer, host: str, port: int, *, on_listening: OnListening
) -> int:
    """Serve the first client on a WebSocket, with one message per text frame.

    Raises :class:`SpecLspError` if the address cannot be listened on.
    """
    connection = server.protocol

    async def listen(client: _OneClient) -> Server:
        async def connected(socket: ServerConnection) -> None:
            # A queue, so that no handler waits for the network.
            messages: asyncio.Queue[bytes | None] = asyncio.Queue()

            async def flush() -> None:
                messages.put_nowait(None)
                await writing

            if client.is_taken:  # two clients shook hands at the same time
                await socket.close(CloseCode.TRY_AGAIN_LATER, _REFUSAL)
                return
            connection.connect(messages.put_nowait)
            writing = asyncio.create_task(_write_websocket(messages, socket))
            await client.converse(_read_websocket(socket, connection), flush)

        async def refuse_second(socket: ServerConnection, _: Request) -> Response | None:
            if await client.is_admitted(socket.remote_address):
                return None
            return socket.respond(HTTPStatus.SERVICE_UNAVAILABLE, _REFUSAL)

        return await serve(
            connected,
            host,
            port,
            origins=[None, _LOCAL_ORIGINS],
            process_request=refuse_second,
            max_size=_MAX_MESSAGE_BYTES,
        )

    return asyncio.run(_serve(server, f"{host}:{port}", listen, on_listening))


async def _read_websocket(socket: ServerConnection, connection: JsonRpcConnection) -> None:
    with contextlib.suppress(ConnectionClosed):
        async for message in socket:
            connection.take(message if isinstance(message, bytes) else message.encode())
    connection.hang_up()


async def _write_websocket(messages: asyncio.Queue[bytes | None], socket: ServerConnection) -> None:
    with contextlib.suppress(ConnectionClosed):
        while (body := await messages.get()) is not None:
            await socket.send(body.decode())


async def _serve(
    server: SpecLanguageServer,
    address: str,
    listen: Callable[[_OneClient], Awaitable[asyncio.Server | Server]],
    on_listening: OnListening,
) -> int:
    client = _OneClient(server.protocol)
    try:
        listener = await listen(client)
    except OSError as error:
        raise SpecLspError(f"cannot listen on {address}: {error.strerror}.") from error
    with logging_to(server.session.editor.log):
        async with listener:
            on_listening(*next(iter(listener.sockets)).getsockname()[:2])
            return await client.exit_code


class _OneClient:
    """Admits one client at a time to a server on a port.

    ``exit_code`` is set when the client is done, or when the process is told to stop.
    Create it on the running loop.
    """

    def __init__(self, connection: JsonRpcConnection) -> None:
        self._connection = connection
        self.exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._is_connected = False
        self._left = asyncio.Event()
        self._is_stopping = False
        on_stop_signal(self._stop)

    @property
    def is_taken(self) -> bool:
        """Whether another client must be refused."""
        return self._is_connected or self.exit_code.done()

    async def is_admitted(self, peer: object) -> bool:
        """Return whether a new client is admitted; it must then call :meth:`converse` at once.

        A program that only tries whether the port is open connects shortly before the real client,
        and the server may notice later that it has left.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_S):
                while self.is_taken and not (self.exit_code.done() or self._connection.has_begun):
                    await self._left.wait()
        if self._is_connected:
            logger.warning("refused a second client, %s", peer)
        return not self.is_taken

    async def converse(
        self, read: Coroutine[Any, Any, None], flush: Callable[[], Awaitable[None]]
    ) -> None:
        """Serve the connected client to its end, then call ``flush`` to send the last messages.

        If the client leaves before it has begun, the server waits for the next one.
        """
        self._is_connected = True
        self._left.clear()
        reading = asyncio.create_task(read)
        code: int | None = None
        try:
            if await self._connection.until_over() or self._is_stopping:
                code = await self._connection.close()
        finally:
            reading.cancel()
            await flush()
        self._is_connected = False
        self._end(code)

    def _stop(self) -> None:
        """End the conversation as if its client had gone; without one, end at once."""
        self._is_stopping = True
        if self._is_connected:
            self._connection.hang_up()
        else:
            self._end(_EXIT_STOPPED)

    def _end(self, code: int | None) -> None:
        if code is not None and not self.exit_code.done():
            self.exit_code.set_result(code)
        self._left.set()
