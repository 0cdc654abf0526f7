"""Engines that listen for windows on other machines: ``speclsp engine --listen unix:/PATH``.

SSH forwards the Unix socket, and its permissions protect it.
"""

from __future__ import annotations

import asyncio
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Final

from speclsp import __version__
from speclsp.engine_process.start import EngineConnection, Greeting, greet
from speclsp.engine_process.transport import dial, in_daemon_thread, listen, opened
from speclsp.errors import EngineProcessError
from speclsp.settings import Settings, named_path
from speclsp.storage.locations import check_own

_CONNECT_S: Final = 5.0
_GREET_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an engine accepts windows of other machines: a Unix socket."""

    path: Path
    listener: socket

    def close(self) -> None:
        """Stop listening."""
        self.listener.close()
        self.path.unlink(missing_ok=True)


def open_endpoint(where: str) -> Endpoint:
    """Listen at ``unix:/path``.

    Raises :class:`~speclsp.errors.EngineProcessError` where that is impossible or unsafe.
    """
    kind, _, text = where.partition(":")
    if kind != "unix":
        raise EngineProcessError(
            f"{where!r} is no Unix socket.",
            remedy="Write unix:/PATH, and forward it by SSH (docs/remote.md has the line).",
        )
    try:
        path = _socket_path(text)
        return Endpoint(path, listen(path))
    except OSError as error:
        raise EngineProcessError(
            f"The engine cannot listen at {where}: {error}.",
            remedy="Name another path, or end what listens there.",
        ) from error


async def connect_elsewhere(settings: Settings) -> EngineConnection:
    """Return a greeted connection to the engine at ``engine_url``.

    Raises :class:`~speclsp.errors.EngineProcessError`, with a remedy.
    """
    try:
        async with asyncio.timeout(_GREET_S):
            connection = await in_daemon_thread(dial, _path(settings), _CONNECT_S)
            if connection is None:
                raise ConnectionRefusedError("nobody listens there")
            streams = await opened(connection)
            if await greet(streams, Greeting(purpose="window", version=__version__)) is None:
                raise ConnectionResetError("it ended the connection")
    except TimeoutError as error:
        raise EngineProcessError(
            f"The engine at {settings.engine_host} does not answer in time.",
            remedy="Check that `speclsp engine --listen` runs there, and the tunnel.",
        ) from error
    except OSError as error:
        raise EngineProcessError(
            f"The engine at {settings.engine_host} cannot be reached: {error.strerror or error}.",
            remedy="Start `speclsp engine --listen` there, and the tunnel; check engine_url.",
        ) from error
    return EngineConnection(streams)


def _path(settings: Settings) -> Path:
    """Return the socket in ``engine_url``.

    Raises :class:`~speclsp.errors.EngineProcessError`, and OSError where it is another user's.
    """
    if sys.platform == "win32":
        raise EngineProcessError(
            "Python has no Unix sockets on Windows.",
            remedy="Run speclsp in WSL, or name a server with HTTP in engine_url.",
        )
    path = Path(settings.engine_host)
    if not path.is_absolute() or "\0" in settings.engine_host:
        raise EngineProcessError(
            "The socket's path in engine_url does not begin with /, or has a NUL in it.",
            remedy="Write the whole path as it is, without ~ and without %20 for a space: "
            "speclsp+unix:///home/YOU/.speclsp/desk.sock.",
        )
    check_own(path)
    return path


def _socket_path(text: str) -> Path:
    """Return the path of a socket to bind, and remove a dead engine's.

    Raises :class:`~speclsp.errors.EngineProcessError`, and OSError where somebody listens there.
    """
    path = named_path(text)
    if not path.is_absolute():
        raise EngineProcessError(
            f"{text!r} is no absolute path.", remedy="Write the whole path: unix:/home/YOU/PATH."
        )
    try:
        _check_socket(path)
    except OSError as error:
        raise EngineProcessError(
            f"The engine cannot listen at {path}: {error}.",
            remedy="Name a new file in a folder that only you can write to, such as one that "
            "`mkdir -m 700` makes.",
        ) from error
    if path.exists():
        if (connection := dial(path, _CONNECT_S)) is not None:
            connection.close()
            raise OSError("somebody listens there")
        path.unlink()
    return path


def _check_socket(path: Path) -> None:
    """Raise OSError where another user could reach a path, or another kind of file is there."""
    check_own(path.parent)
    if path.parent.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OSError(f"other users may write in {path.parent}")
    check_own(path)
    if path.exists() and not path.is_socket():
        raise OSError(f"{path} is no socket")
