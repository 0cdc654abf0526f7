"""The server on a TCP port, for one client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from speclsp.errors import SettingsError, SpecLspError
from speclsp.lsp.conversation import Conversation
from speclsp.lsp.events import logging_to
from speclsp.lsp.framing import frame
from speclsp.lsp.one_client import OneClient
from speclsp.lsp.server import SpecLanguageServer

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_READ_BYTES = 65536


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``, ``[IPv6]:PORT``, ``:PORT`` or ``PORT``.

    Without a host it is the loopback one.
    Raises :class:`SettingsError` where there is no port from 0 to 65535.
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

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not await place.may_be_taken():
            if not place.over.done():
                logger.warning("refused a second client, %s", writer.get_extra_info("peername"))
            writer.close()
            return
        place.take()
        place.leave(await _converse(server, place, reader, writer))

    try:
        listener = await asyncio.start_server(connected, host, port)
    except OSError as error:
        raise SpecLspError(f"cannot listen on {host}:{port}: {error.strerror}.") from error
    with logging_to(server.session.editor.log):
        async with listener:
            on_listening(*listener.sockets[0].getsockname()[:2])
            return await place.over


async def _converse(
    server: SpecLanguageServer,
    place: OneClient,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> int | None:
    """Return the exit code, or None where the client left before it had begun."""
    conversation = Conversation(server, _StreamSender(writer))

    async def read() -> None:
        try:
            while data := await reader.read(_READ_BYTES):
                conversation.feed(data)
        except ConnectionError as error:
            logger.info("the client's connection broke: %s", error)
        conversation.hang_up()

    reading = asyncio.create_task(read())
    try:
        code = await place.outcome(conversation)
    finally:
        reading.cancel()
        writer.close()
    try:
        await writer.wait_closed()
    except ConnectionError as error:
        logger.debug("the connection was not closed cleanly: %s", error)
    return code


class _StreamSender:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def send(self, body: bytes) -> None:
        """Send one message; asyncio drops what a broken connection cannot take."""
        self._writer.write(frame(body))
