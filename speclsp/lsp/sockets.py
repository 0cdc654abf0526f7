"""Serves one client on a TCP port or a WebSocket.

The first client whose first message is ``initialize`` has the server until it leaves; others are
refused.  With a token, nothing of a client is processed before it has given the token: a WebSocket
client in the HTTP request (query parameter ``token`` or ``Authorization: Bearer``), a TCP client as
``initializationOptions.token``.
pygls's own transports accept every client, and each connection takes the answers over from the one
before.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import json
import logging
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidRequest, JsonRpcParseError
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

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
_BROKEN: Final = (OSError, ConnectionClosed)
_EXIT_STOPPED: Final = 1
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A peer that vanished is noticed after about 90 s; WebSockets have pings."""
_LOCAL_ORIGINS = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
"""Pages that may connect if they have the token; without tokens, none may."""

OnListening = Callable[[str, int], None]
"""Called with the host and the port; port 0 has been replaced by a free one."""
_Messages = AsyncGenerator[bytes, None]
_Send = Callable[[bytes], Awaitable[None]]
_Close = Callable[[], Awaitable[None]]


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

    async def listen(client: _OneClient) -> asyncio.Server:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            async def send(body: bytes) -> None:
                writer.write(frame(body))
                await writer.drain()

            async def close() -> None:
                writer.close()
                await writer.wait_closed()

            # At the server's end asyncio.run cancels this, which Python 3.11 would log.
            with contextlib.suppress(asyncio.CancelledError):
                if not client.is_taken:
                    _keep_alive(writer.get_extra_info("socket"))
                    await client.converse(_frames(reader), send, close, token)
            writer.transport.abort()

        return await asyncio.start_server(connected, host, port)

    return asyncio.run(_serve(server, f"{host}:{port}", listen, on_listening))


def serve_websocket(
    server: SpecLanguageServer,
    host: str,
    port: int,
    *,
    token: str | None,
    on_listening: OnListening,
) -> int:
    """Serve one client on a WebSocket, with one message per text frame.

    Raises :class:`SpecLspError` if the address cannot be listened on.
    """

    async def listen(client: _OneClient) -> Server:
        async def connected(websocket: ServerConnection) -> None:
            async def send(body: bytes) -> None:
                await websocket.send(body.decode())

            # Its token was checked in the HTTP request.
            await client.converse(_bodies(websocket), send, websocket.close, None)
            websocket.transport.abort()

        async def check(websocket: ServerConnection, request: Request) -> Response | None:
            if not _names_this_host(request.headers.get_all("Host"), host):
                return websocket.respond(HTTPStatus.FORBIDDEN, "The Host header is wrong.\n")
            if token is not None and not _is_same(_token_of(request), token):
                return websocket.respond(HTTPStatus.UNAUTHORIZED, f"{_NO_ADMISSION}\n")
            if client.is_taken:
                return websocket.respond(HTTPStatus.SERVICE_UNAVAILABLE, f"{_ONE_CLIENT}\n")
            return None

        return await serve(
            connected,
            host,
            port,
            origins=[None] if token is None else [None, _LOCAL_ORIGINS],
            process_request=check,
            max_size=MAX_BODY_BYTES,
            close_timeout=_FLUSH_S,
        )

    return asyncio.run(_serve(server, f"{host}:{port}", listen, on_listening))


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
        on_listening(*next(iter(listener.sockets)).getsockname()[:2])
        try:
            return await client.exit_code
        finally:
            listener.close()  # asyncio.run cancels what the other connections wait for


class _OneClient:
    """Serves the first client that is admitted; ``exit_code`` is set when it has left.

    It is also set when the process is told to stop.  Create it on the running loop.
    """

    def __init__(self, connection: JsonRpcConnection) -> None:
        self._connection = connection
        self.exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.is_taken = False
        """Whether other clients must be refused."""
        on_stop_signal(self._stop)

    async def converse(
        self, messages: _Messages, send: _Send, close: _Close, token: str | None
    ) -> None:
        """Serve a client until it leaves, or refuse it; the caller then cuts the connection.

        ``messages`` ends with the connection, and raises JsonRpcParseError at the first malformed
        message.  ``send`` and ``close`` wait for the network.
        """
        msg_id = None
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                first = await anext(messages)
            message = read_message(first)
            msg_id = message.get("id") if isinstance(message, dict) else None
            _check_first(message, token)
            if self.is_taken:
                raise JsonRpcInvalidRequest(_ONE_CLIENT)
        except (StopAsyncIteration, TimeoutError):
            return
        except JsonRpcException as error:
            with contextlib.suppress(*_BROKEN):
                await send(json.dumps(error_answer(msg_id, error)).encode())
                await close()
            return
        self.is_taken = True
        outbox = _Outbox(send, self._connection.hang_up)
        self._connection.connect(outbox.put)
        self._connection.take(first)
        reading = asyncio.create_task(self._read(messages))
        code = _EXIT_STOPPED
        try:
            await self._connection.until_over()
            reading.cancel()
            code = await self._connection.close()
            await outbox.flush(close)
        finally:
            self._end(code)

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


class _Outbox:
    """Sends messages in order; :meth:`put` does not wait for the network."""

    def __init__(self, send: _Send, on_broken: Callable[[], None]) -> None:
        self._send = send
        self._on_broken = on_broken
        self._bodies: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._n_unsent = 0
        self._sending = asyncio.create_task(self._run())

    def put(self, body: bytes) -> None:
        """Send a message later; nothing more is sent to a client that reads too slowly."""
        if self._n_unsent > MAX_UNSENT_BYTES:
            return
        self._n_unsent += len(body)
        self._bodies.put_nowait(body)
        if self._n_unsent > MAX_UNSENT_BYTES:
            self._on_broken()

    async def flush(self, close: _Close) -> None:
        """Send what is left and close the connection, for at most ``_FLUSH_S`` seconds."""
        self._bodies.put_nowait(None)
        with contextlib.suppress(*_BROKEN, TimeoutError):
            async with asyncio.timeout(_FLUSH_S):
                await self._sending
                await close()

    async def _run(self) -> None:
        try:
            while (body := await self._bodies.get()) is not None:
                await self._send(body)
                self._n_unsent -= len(body)
        except _BROKEN:
            self._on_broken()


async def _frames(reader: asyncio.StreamReader) -> _Messages:
    """Yield a TCP client's messages; raises JsonRpcParseError at the first malformed header."""
    decoder = FrameDecoder(max_body_bytes=_MAX_FIRST_BYTES)
    with contextlib.suppress(OSError):
        while data := await reader.read(_READ_BYTES):
            for piece in decoder.feed(data):
                if isinstance(piece, FramingProblem):
                    raise JsonRpcParseError(piece.reason)
                yield piece
                decoder.max_body_bytes = MAX_BODY_BYTES


async def _bodies(websocket: ServerConnection) -> _Messages:
    with contextlib.suppress(ConnectionClosed):
        async for message in websocket:
            yield message if isinstance(message, bytes) else message.encode()


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


def _token_of(request: Request) -> str | None:
    """Return the token of a WebSocket's HTTP request."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    in_query = parse_qs(urlsplit(request.path).query).get("token")
    return in_query[0] if in_query else None


def _names_this_host(hosts: list[str], own: str) -> bool:
    """Whether a Host header is an IP address, ``localhost`` or the host listened on.

    A web page whose own name was made to resolve to this host (DNS rebinding) sends that name.
    """
    try:
        (name,) = (urlsplit(f"//{host}").hostname or "" for host in hosts)
    except ValueError:
        return False
    if name in ("localhost", own.lower()):
        return True
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(name))
    return False


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
