"""TLS between machines: a thread carries each connection to and from a plain socket.

The wire and the greeting know plain sockets only.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Coroutine
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from speclsp.errors import EngineProcessError

_READ_BYTES = 1 << 16

_T = TypeVar("_T")


def engine_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the context of a listening engine.

    Raises :class:`~speclsp.errors.EngineProcessError`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        raise EngineProcessError(
            f"The certificate {certificate} cannot be used with the key {key}: {error}.",
            remedy="Name both as PEM files without a password with --cert and --key.",
        ) from error
    return context


def secured(
    connection: socket.socket, context: ssl.SSLContext, deadline: float, host: str = ""
) -> socket.socket:
    """Return a plain socket whose other end is a TLS connection over ``connection``, taken over.

    A window names the ``host`` that the certificate must be for.
    Raises OSError, ssl.SSLError among it, and TimeoutError at ``deadline``.
    """
    ours, inner = socket.socketpair()
    taken = socket.socket(fileno=connection.detach())
    try:
        _on_loop(_secure(taken, inner, context, host, deadline - time.monotonic()))
    except BaseException:
        for each in (ours, inner, taken):
            each.close()
        raise
    return ours


async def _secure(
    connection: socket.socket,
    inner: socket.socket,
    context: ssl.SSLContext,
    host: str,
    timeout_s: float,
) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    connection.setblocking(False)
    inner.setblocking(False)
    async with asyncio.timeout(timeout_s):
        if host:
            transport, _ = await loop.create_connection(
                lambda: protocol, sock=connection, ssl=context, server_hostname=host
            )
        else:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=context
            )
        outer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)
        plain = await asyncio.open_connection(sock=inner)
    for source, sink in ((outer[0], plain[1]), (plain[0], outer[1])):
        task = asyncio.create_task(_carry(source, sink))
        _TASKS.add(task)
        task.add_done_callback(_TASKS.discard)


_TASKS: set[asyncio.Task[None]] = set()
"""The loop itself keeps weak references only."""


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Carry bytes until one side ends; closing the sink ends the other direction, too."""
    try:
        while data := await source.read(_READ_BYTES):
            sink.write(data)
            await sink.drain()
    except OSError:
        pass
    finally:
        sink.close()


def _on_loop(work: Coroutine[Any, Any, _T]) -> _T:
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="speclsp-tls", daemon=True).start()
    return loop
