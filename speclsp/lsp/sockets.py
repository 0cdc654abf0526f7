"""Serves one client on a TCP port or a WebSocket.

pygls's own transports accept every client, and each connection takes the answers over from the one
before.  Here the first client has the port until it ends, and the others are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from speclsp.errors import SettingsError, SpecLspError
from speclsp.lsp.events import logging_to
from speclsp.lsp.framing import FrameDecoder
from speclsp.lsp.json_rpc import Conversation
from speclsp.lsp.server import SpecLanguageServer
from speclsp.lsp.stdio import on_stop_signal

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_READ_BYTES = 65536
_MAX_MESSAGE_BYTES = 256 * 1024 * 1024
_EXIT_STOPPED = 1
"""Also the exit code where a client leaves without asking to shut down."""
_LEAVING_S: Final = 1.0
"""Seconds that a new client waits for one before it that has said nothing and may be leaving."""
_REFUSAL = "One client only.\n"
_LOCAL_ORIGINS = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
"""Pages from elsewhere must not read the user's code through a server on the loopback address."""

OnListening = Callable[[str, int], None]
"""Is told the host and the port; a port 0 has become a free one."""


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
    return asyncio.run(_serve_tcp(server, host, port, on_listening))


def serve_websocket(
    server: SpecLanguageServer, host: str, port: int, *, on_listening: OnListening
) -> int:
    """Serve the first client on a WebSocket, with one message per text frame.

    Raises :class:`SpecLspError` if the address cannot be listened on.
    """
    return asyncio.run(_serve_websocket(server, host, port, on_listening))


async def _serve_tcp(
    server: SpecLanguageServer, host: str, port: int, on_listening: OnListening
) -> int:
    place = _OnePlace()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not await place.may_be_taken():
            if not place.over.done():
                logger.warning("refused a second client, %s", writer.get_extra_info("peername"))
            writer.close()
            return
        place.take()
        # asyncio drops what a broken connection cannot take.
        conversation = Conversation(server.protocol, writer.write, FrameDecoder())
        reading = asyncio.create_task(_read_tcp(reader, conversation))
        try:
            code = await place.outcome(conversation)
        finally:
            reading.cancel()
            writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        place.leave(code)

    try:
        listener = await asyncio.start_server(connected, host, port)
    except OSError as error:
        raise SpecLspError(f"cannot listen on {host}:{port}: {error.strerror}.") from error
    with logging_to(server.session.editor.log):
        async with listener:
            on_listening(*listener.sockets[0].getsockname()[:2])
            return await place.over


async def _read_tcp(reader: asyncio.StreamReader, conversation: Conversation) -> None:
    try:
        while data := await reader.read(_READ_BYTES):
            conversation.feed(data)
    except ConnectionError as error:
        logger.info("the client's connection broke: %s", error)
    conversation.hang_up()


async def _serve_websocket(
    server: SpecLanguageServer, host: str, port: int, on_listening: OnListening
) -> int:
    place = _OnePlace()

    async def connected(connection: ServerConnection) -> None:
        if place.taken:  # two clients shook hands at the same time
            await connection.close(CloseCode.TRY_AGAIN_LATER, _REFUSAL)
            return
        place.take()
        # A queue, so that no handler waits for the network.
        messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        conversation = Conversation(server.protocol, messages.put_nowait)
        writing = asyncio.create_task(_write_websocket(messages, connection))
        reading = asyncio.create_task(_read_websocket(connection, conversation))
        try:
            code = await place.outcome(conversation)
        finally:
            reading.cancel()
            messages.put_nowait(None)
            await writing
        place.leave(code)

    async def refuse_second(connection: ServerConnection, _: Request) -> Response | None:
        if await place.may_be_taken():
            return None
        if not place.over.done():
            logger.warning("refused a second client, %s", connection.remote_address)
        return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, _REFUSAL)

    try:
        listener: Server = await serve(
            connected,
            host,
            port,
            origins=[None, _LOCAL_ORIGINS],
            process_request=refuse_second,
            max_size=_MAX_MESSAGE_BYTES,
        )
    except OSError as error:
        raise SpecLspError(f"cannot listen on {host}:{port}: {error.strerror}.") from error
    with logging_to(server.session.editor.log):
        async with listener:
            on_listening(*next(iter(listener.sockets)).getsockname()[:2])
            return await place.over


async def _read_websocket(connection: ServerConnection, conversation: Conversation) -> None:
    try:
        async for message in connection:
            conversation.take(message if isinstance(message, bytes) else message.encode())
    except ConnectionClosed as error:
        logger.info("the client's connection broke: %s", error)
    conversation.hang_up()


async def _write_websocket(
    messages: asyncio.Queue[bytes | None], connection: ServerConnection
) -> None:
    try:
        while (body := await messages.get()) is not None:
            await connection.send(body.decode())
    except ConnectionClosed:
        logger.debug("messages were left when the connection closed")


class _OnePlace:
    """Admits one client at a time to a server on a port.

    ``over`` becomes the exit code when the client is done, or when the process is told to stop.
    Create it on the running loop.
    """

    def __init__(self) -> None:
        self.over: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._taken = False
        self._left = asyncio.Event()
        self._current: Conversation | None = None
        self._stopping = False
        on_stop_signal(self._stop)

    @property
    def taken(self) -> bool:
        """Whether another client must be refused."""
        return self._taken or self.over.done()

    def take(self) -> None:
        """Admit a client."""
        self._taken = True
        self._left.clear()

    async def may_be_taken(self) -> bool:
        """Return whether a new client is admitted; it must call :meth:`take` at once.

        A program that only tries whether the port is open connects shortly before the real client,
        and the server may notice later that it has left.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_S):
                while self._taken and not self._is_in_use():
                    await self._left.wait()
        return not self.taken

    async def outcome(self, conversation: Conversation) -> int | None:
        """Wait until a conversation is over, close it, and return the exit code.

        Returns None if the client left before it had begun: the next one may be the real one.
        """
        self._current = conversation
        try:
            if await conversation.until_over() or self._stopping:
                return await conversation.close()
            return None
        finally:
            self._current = None

    def leave(self, code: int | None) -> None:
        """End a client's admission once all is sent; with an exit code, the server ends."""
        self._taken = False
        self._left.set()
        if code is not None:
            self._end(code)

    def _is_in_use(self) -> bool:
        return self.over.done() or (self._current is not None and self._current.has_begun)

    def _stop(self) -> None:
        """End the conversation as if its client had gone; without one, end at once."""
        self._stopping = True
        if self._current is not None:
            self._current.hang_up()
        elif not self._taken:
            self._end(_EXIT_STOPPED)

    def _end(self, code: int) -> None:
        self._left.set()
        if not self.over.done():
            self.over.set_result(code)
