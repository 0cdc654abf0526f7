"""Sockets between windows and engines, and how each side authenticates the other.

An engine listens on a Unix socket, where the system reports the user of each peer, or on a TCP
port, where both sides prove by HMAC that they know the engine's token, which is never sent.
The greeting consists of lines, each with a bound and a deadline.  ``multiprocessing.connection``
has such proofs, too, but no deadline: a peer that sends byte by byte would hold its thread.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import socket
import struct
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

BACKLOG: Final = 128
MAX_LINE: Final = 1 << 20
"""Bytes of an engine's longest answer."""
MAX_GREETING: Final = 4096
"""Bytes of a window's longest line."""
MAX_SELECT_S: Final = 3600.0
"""Seconds that a selector waits at once; epoll takes less than 2**31 milliseconds."""
REFUSAL_PAUSE_S: Final = 1.0
"""Seconds before a wrong token is refused."""

_MAX_NONCE_LINE: Final = 256
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


# --- lines before the wire ------------------------------------------------------------------------


def send_line(connection: socket.socket, line: bytes, deadline: float) -> None:
    """Send one line.  Raises OSError; ``deadline`` is by the monotonic clock."""
    connection.settimeout(_seconds_left(deadline))
    connection.sendall(line + b"\n")


def read_line(connection: socket.socket, deadline: float, limit: int = MAX_LINE) -> bytes | None:
    """Receive one line and nothing after it; None at the end, and beyond ``limit`` bytes.

    Raises OSError, and TimeoutError where the line is not whole at ``deadline``, however its bytes
    trickle in.
    """
    line = bytearray()
    while len(line) <= limit:
        connection.settimeout(_seconds_left(deadline))
        byte = connection.recv(1)
        if byte == b"\n":
            return bytes(line)
        if not byte:
            return None
        line += byte
    return None


def read_answer(connection: socket.socket, kind: type[_Line], deadline: float) -> _Line | None:
    """Receive one line of JSON; None where there is none."""
    line = read_line(connection, deadline)
    try:
        return msgspec.json.decode(line, type=kind) if line is not None else None
    except msgspec.MsgspecError:
        return None


def send_answer(connection: socket.socket, answer: Any, deadline: float) -> None:
    """Send one line of JSON.  Raises OSError."""
    send_line(connection, msgspec.json.encode(answer), deadline)


def _seconds_left(deadline: float) -> float:
    seconds_left = deadline - time.monotonic()
    if seconds_left <= 0.0:
        raise TimeoutError("the line does not end in time")
    return seconds_left


# --- proofs ---------------------------------------------------------------------------------------


def prove_to_engine(connection: socket.socket, token: bytes, deadline: float) -> None:
    """Prove to an engine that this window knows its token, and check that the engine does.

    With nonces N of window and engine: W sends N_w, E sends N_e, W sends HMAC(token, "window" N_w
    N_e), E sends HMAC(token, "engine" N_w N_e).  The window, which may meet a process that took a
    dead engine's port, speaks first; the engine, whose port all may reach, proves itself last.

    Raises :class:`NotAnEngineError`, :class:`EndBeforeNonceError`, and OSError, such as
    ConnectionResetError at the end.
    """
    own = secrets.token_hex(32).encode()
    try:
        send_line(connection, own, deadline)
        theirs = _proof_line(connection, deadline)
    except ConnectionError as error:
        raise EndBeforeNonceError("the other side left") from error
    if not _NONCE.fullmatch(theirs):
        raise NotAnEngineError("what answers is no engine")
    send_line(connection, _proof(token, b"window", own, theirs), deadline)
    answer = _proof_line(connection, deadline)
    if answer == _REFUSED:
        raise TokenRefusedError("the engine refuses the token")
    if not hmac.compare_digest(answer, _proof(token, b"engine", own, theirs)):
        raise NotAnEngineError("what answers does not know the engine's token")


def admit_window(connection: socket.socket, token: bytes, deadline: float) -> None:
    """Check that a window knows the token, then prove to it that this engine does.

    Raises PermissionError where it does not, after a pause, and OSError.
    """
    theirs = _proof_line(connection, deadline)
    if not _NONCE.fullmatch(theirs):
        raise PermissionError("a client sent something other than a proof of the token")
    own = secrets.token_hex(32).encode()
    send_line(connection, own, deadline)
    if not hmac.compare_digest(
        _proof_line(connection, deadline), _proof(token, b"window", theirs, own)
    ):
        time.sleep(REFUSAL_PAUSE_S)
        send_line(connection, _REFUSED, deadline)
        raise PermissionError("a client has a wrong token")
    send_line(connection, _proof(token, b"engine", theirs, own), deadline)


def _proof_line(connection: socket.socket, deadline: float) -> bytes:
    line = read_line(connection, deadline, _MAX_NONCE_LINE)
    if line is None:
        raise ConnectionResetError("the other side left")
    return line


def _proof(token: bytes, role: bytes, of_window: bytes, of_engine: bytes) -> bytes:
    return hmac.new(token, role + of_window + of_engine, hashlib.sha256).hexdigest().encode()
