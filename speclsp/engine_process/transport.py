"""Sockets between windows and engines, and how each side authenticates the other.

An engine listens on a Unix socket, where the system reports the user of each peer, or on a TCP
port, where both sides prove by HMAC that they know the engine's token, which is never sent.
The greeting consists of lines, each with a bound; who exchanges them sets the deadline.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import secrets
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

BACKLOG: Final = 128
MAX_LINE: Final = 1 << 20
"""Bytes of an engine's longest answer."""
MAX_GREETING: Final = 4096
"""Bytes of a window's longest line."""
REFUSAL_PAUSE_S: Final = 1.0
"""Seconds before a wrong token is refused."""

_RETRY_S: Final = 0.02
_NONCE: Final = re.compile(rb"[0-9a-f]{64}")
_REFUSED: Final = b"refused"
_KEEPALIVE: Final = {
    "TCP_KEEPIDLE": 15,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 30_000,
}
"""A peer that vanished is noticed after 30 s."""

_Line = TypeVar("_Line")
_T = TypeVar("_T")

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
"""A connection's two directions, which belong to the event loop that opened them."""


class NotAnEngineError(ConnectionError):
    """What answers at an engine's port does not know the engine's token."""


class EndBeforeNonceError(ConnectionResetError):
    """The peer ended the connection without a nonce: it is ending, full, or takes TLS."""


class TokenRefusedError(NotAnEngineError):
    """An engine says that the window's token is wrong."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where an engine listens: a Unix socket's path, or host and port with a token."""

    place: Path | tuple[str, int]
    token: bytes = field(default=b"", repr=False)
    """Empty for a Unix socket."""

    def __str__(self) -> str:
        if isinstance(self.place, Path):
            return os.fspath(self.place)
        host, port = self.place
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen(place: Path | tuple[str, int]) -> socket.socket:
    """Return a listening socket; a Unix socket has mode 0600 before anybody can connect.

    Raises OSError.
    """
    if isinstance(place, Path):
        family = socket.AF_UNIX
    else:
        family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if isinstance(place, Path):
            listener.bind(os.fspath(place))
            place.chmod(0o600)
        else:
            # The port is free as soon as its engine has ended.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(place)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def dial(address: Address, timeout_s: float) -> socket.socket | None:
    """Connect; None where nobody listens.

    Raises PermissionError where another user's process does, and OSError.
    """
    connection: socket.socket | None = None
    try:
        if isinstance(address.place, Path):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(timeout_s)
            _connect(connection, address.place, timeout_s)
        else:
            connection = socket.create_connection(address.place, timeout_s)
        check_peer(connection)
    except (FileNotFoundError, ConnectionError):  # a port is reset if it closes meanwhile
        found = None
    else:
        found, connection = connection, None
    finally:
        if connection is not None:
            connection.close()
    return found


def _connect(connection: socket.socket, path: Path, timeout_s: float) -> None:
    """Connect to an engine that other clients keep busy.  Raises OSError."""
    until = time.monotonic() + timeout_s
    while True:
        try:
            return connection.connect(os.fspath(path))
        except BlockingIOError:  # its queue is full, for which a socket with a timeout never waits
            if time.monotonic() >= until:
                raise
            time.sleep(_RETRY_S)


def check_peer(connection: socket.socket) -> None:
    """Raise PermissionError where the process at the other end runs for another user.

    Linux and macOS report the user for Unix sockets; elsewhere the folder's permissions protect.
    A TCP connection is set to send small messages at once and to notice a peer that vanished.
    """
    if connection.family in {socket.AF_INET, socket.AF_INET6}:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):  # not on every system
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return
    uid = os.getuid()
    if sys.platform == "linux":
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _, uid, _ = struct.unpack("iII", credentials)
    elif sys.platform == "darwin":
        # LOCAL_PEERCRED at level 0 returns struct xucred: version, uid, groups.
        _, uid = struct.unpack_from("II", connection.getsockopt(0, 1, 76))
    if uid != os.getuid():
        raise PermissionError(f"the process at the other end runs for user number {uid}")


async def opened(
    connection: socket.socket, context: ssl.SSLContext | None = None, host: str = ""
) -> Streams:
    """Return a window's streams over a connection, which is taken over.

    With ``context`` they are TLS's, and ``host`` is whom the certificate must be for.
    Raises OSError, ssl.SSLError among it.
    """
    name = None if context is None else host
    try:
        return await asyncio.open_connection(
            sock=connection, ssl=context, server_hostname=name, limit=MAX_LINE
        )
    except BaseException:
        connection.close()
        raise


async def accepted(connection: socket.socket, context: ssl.SSLContext | None) -> Streams:
    """Return an engine's streams over a connection, which is taken over.  Raises OSError."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_GREETING)
    protocol = asyncio.StreamReaderProtocol(reader)
    try:
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, ssl=context)
    except BaseException:
        connection.close()
        raise
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def in_daemon_thread(work: Callable[..., _T], *arguments: object) -> _T:
    """Run what blocks on a thread that does not delay the end of the process.

    :func:`asyncio.to_thread` waits for its threads then.
    """
    future: Future[_T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work(*arguments))
        except BaseException as error:  # noqa: BLE001  who waits gets it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(future)


# --- lines before the wire ------------------------------------------------------------------------


async def send_line(writer: asyncio.StreamWriter, line: bytes) -> None:
    """Send one line.  Raises OSError."""
    writer.write(line + b"\n")
    await writer.drain()


async def read_line(reader: asyncio.StreamReader) -> bytes | None:
    """Receive one line; None at the end, and beyond the reader's limit.  Raises OSError."""
    try:
        return (await reader.readuntil(b"\n"))[:-1]
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None


async def read_answer(reader: asyncio.StreamReader, kind: type[_Line]) -> _Line | None:
    """Receive one line of JSON; None where there is none.  Raises OSError."""
    line = await read_line(reader)
    try:
        return msgspec.json.decode(line, type=kind) if line is not None else None
    except msgspec.MsgspecError:
        return None


async def send_answer(writer: asyncio.StreamWriter, answer: Any) -> None:
    """Send one line of JSON.  Raises OSError."""
    await send_line(writer, msgspec.json.encode(answer))


# --- proofs ---------------------------------------------------------------------------------------


async def prove_to_engine(streams: Streams, token: bytes) -> None:
    """Prove to an engine that this window knows its token, and check that the engine does.

    With nonces N of window and engine: W sends N_w, E sends N_e, W sends HMAC(token, "window" N_w
    N_e), E sends HMAC(token, "engine" N_w N_e).  The window, which may meet a process that took a
    dead engine's port, speaks first; the engine, whose port all may reach, proves itself last.

    Raises :class:`NotAnEngineError`, :class:`EndBeforeNonceError`, and OSError, such as
    ConnectionResetError at the end.
    """
    reader, writer = streams
    own = secrets.token_hex(32).encode()
    try:
        await send_line(writer, own)
        theirs = await _proof_line(reader)
    except ConnectionError as error:
        raise EndBeforeNonceError("the other side left") from error
    if not _NONCE.fullmatch(theirs):
        raise NotAnEngineError("what answers is no engine")
    await send_line(writer, _proof(token, b"window", own, theirs))
    answer = await _proof_line(reader)
    if answer == _REFUSED:
        raise TokenRefusedError("the engine refuses the token")
    if not hmac.compare_digest(answer, _proof(token, b"engine", own, theirs)):
        raise NotAnEngineError("what answers does not know the engine's token")


async def admit_window(streams: Streams, token: bytes) -> None:
    """Check that a window knows the token, then prove to it that this engine does.

    Raises PermissionError where it does not, after a pause, and OSError.
    """
    reader, writer = streams
    theirs = await _proof_line(reader)
    if not _NONCE.fullmatch(theirs):
        raise PermissionError("a client sent something other than a proof of the token")
    own = secrets.token_hex(32).encode()
    await send_line(writer, own)
    if not hmac.compare_digest(await _proof_line(reader), _proof(token, b"window", theirs, own)):
        await asyncio.sleep(REFUSAL_PAUSE_S)
        await send_line(writer, _REFUSED)
        raise PermissionError("a client has a wrong token")
    await send_line(writer, _proof(token, b"engine", theirs, own))


async def _proof_line(reader: asyncio.StreamReader) -> bytes:
    line = await read_line(reader)
    if line is None:
        raise ConnectionResetError("the other side left")
    return line


def _proof(token: bytes, role: bytes, of_window: bytes, of_engine: bytes) -> bytes:
    return hmac.new(token, role + of_window + of_engine, hashlib.sha256).hexdigest().encode()
