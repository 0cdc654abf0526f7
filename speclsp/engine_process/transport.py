"""Unix sockets between windows and engines.

The system reports the user of each peer.
The greeting consists of lines, each with a bound; who exchanges them sets the deadline.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

BACKLOG: Final = 128
MAX_LINE: Final = 1 << 20
"""Bytes of an engine's longest answer."""
MAX_GREETING: Final = 4096
"""Bytes of a window's longest line."""

_RETRY_S: Final = 0.02

_Line = TypeVar("_Line")
_T = TypeVar("_T")

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
"""A connection's two directions, which belong to the event loop that opened them."""


def listen(path: Path) -> socket.socket:
    """Return a listening socket, whose file has mode 0600 before anybody can connect.

    Raises OSError.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        path.chmod(0o600)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def dial(path: Path, timeout_s: float) -> socket.socket | None:
    """Connect; None where nobody listens.

    Raises PermissionError where another user's process does, and OSError.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout_s)
    try:
        _connect(connection, path, timeout_s)
        check_peer(connection)
    except (FileNotFoundError, ConnectionError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


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
    """
    uid = os.getuid()
    if sys.platform == "linux":
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _, uid, _ = struct.unpack("iII", credentials)
    elif sys.platform == "darwin":
        # LOCAL_PEERCRED at level 0 returns struct xucred: version, uid, groups.
        _, uid = struct.unpack_from("II", connection.getsockopt(0, 1, 76))
    if uid != os.getuid():
        raise PermissionError(f"the process at the other end runs for user number {uid}")


async def opened(connection: socket.socket, limit: int = MAX_LINE) -> Streams:
    """Return the streams over a connection, which is taken over; ``limit`` bounds a line's bytes.

    Raises OSError.
    """
    try:
        return await asyncio.open_unix_connection(sock=connection, limit=limit)
    except BaseException:
        connection.close()
        raise


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


async def read_line(reader: asyncio.StreamReader, kind: type[_Line]) -> _Line | None:
    """Receive one line of JSON, or None at the end.

    Raises OSError, also for a line that is malformed or beyond the reader's limit.
    """
    try:
        return msgspec.json.decode(await reader.readuntil(b"\n"), type=kind)
    except asyncio.IncompleteReadError:
        return None
    except (asyncio.LimitOverrunError, msgspec.MsgspecError) as error:
        raise ConnectionError(f"it sent no {kind.__name__}: {error}") from error


async def send_line(writer: asyncio.StreamWriter, answer: Any) -> None:
    """Send one line of JSON.  Raises OSError."""
    writer.write(msgspec.json.encode(answer) + b"\n")
    await writer.drain()
