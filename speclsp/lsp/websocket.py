"""The server on a WebSocket, for one client; each message is one text frame."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from http import HTTPStatus

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from speclsp.errors import SpecLspError
from speclsp.lsp.conversation import Conversation
from speclsp.lsp.events import logging_to
from speclsp.lsp.one_client import OneClient
from speclsp.lsp.server import SpecLanguageServer

logger = logging.getLogger(__name__)

_MAX_MESSAGE_BYTES = 256 * 1024 * 1024
_REFUSAL = "One client only.\n"
_OWN_ORIGINS = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
"""A page from elsewhere must not read the user's code through a server on loopback."""


def serve_websocket(
    server: SpecLanguageServer,
    host: str,
    port: int,
    *,
    on_listening: Callable[[str, int], None],
) -> int:
    """Serve the first client that connects, refuse others, and return the exit code.

    ``on_listening`` is told the address, in which a port 0 has become a free one.
    Raises :class:`SpecLspError` where the address cannot be listened on.
    """
    return asyncio.run(_serve(server, host, port, on_listening))


async def _serve(
    server: SpecLanguageServer, host: str, port: int, on_listening: Callable[[str, int], None]
) -> int:
    place = OneClient()

    async def connected(connection: ServerConnection) -> None:
        if place.taken:  # two shook hands at once
            await connection.close(CloseCode.TRY_AGAIN_LATER, _REFUSAL)
            return
        place.take()
        place.leave(await _converse(server, place, connection))

    async def only_one(connection: ServerConnection, _: Request) -> Response | None:
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
            origins=[None, _OWN_ORIGINS],
            process_request=only_one,
            max_size=_MAX_MESSAGE_BYTES,
        )
    except OSError as error:
        raise SpecLspError(f"cannot listen on {host}:{port}: {error.strerror}.") from error
    with logging_to(server.session.editor.log):
        async with listener:
            on_listening(*next(iter(listener.sockets)).getsockname()[:2])
            return await place.over


async def _converse(
    server: SpecLanguageServer, place: OneClient, connection: ServerConnection
) -> int | None:
    """Return the exit code, or None where the client left before it had begun."""
    sender = _TextSender(connection)
    conversation = Conversation(server, sender)

    async def read() -> None:
        try:
            async for message in connection:
                conversation.take(message if isinstance(message, bytes) else message.encode())
        except ConnectionClosed as error:
            logger.info("the client's connection broke: %s", error)
        conversation.hang_up()

    reading = asyncio.create_task(read())
    try:
        return await place.outcome(conversation)
    finally:
        reading.cancel()
        await sender.finish()


class _TextSender:
    """Sends messages in order; the queue keeps that off the handlers."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._run())

    def send(self, body: bytes) -> None:
        """Send one message."""
        self._messages.put_nowait(body)

    async def finish(self) -> None:
        """Wait until all is sent."""
        self._messages.put_nowait(None)
        await self._task

    async def _run(self) -> None:
        try:
            while (body := await self._messages.get()) is not None:
                await self._connection.send(body.decode())
        except ConnectionClosed:
            logger.debug("messages were left when the connection closed")
