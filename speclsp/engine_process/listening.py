"""Engines that listen for windows on other machines: ``speclsp engine --listen``.

A Unix socket, which SSH forwards, is protected by its permissions.  A port needs a token, and TLS
unless it is of the loopback address.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Final
from urllib.parse import urlsplit

from speclsp import __version__
from speclsp.engine_process.start import EngineConnection, Greeting, greet
from speclsp.engine_process.transport import (
    Address,
    EndBeforeNonceError,
    NotAnEngineError,
    TokenRefusedError,
    dial,
    in_daemon_thread,
    listen,
    opened,
)
from speclsp.errors import EngineProcessError
from speclsp.remote.credentials import api_key, client_context, is_loopback
from speclsp.settings import Settings, named_path
from speclsp.storage.locations import check_own, make_private_file

MIN_TOKEN: Final = 32
"""Characters of a token, so that it cannot be guessed."""
_CONNECT_S: Final = 5.0
_GREET_S: Final = 10.0
_SSH: Final = "forward the engine's socket by SSH (docs/remote.md has the line)."


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an engine accepts windows: an address, its listening socket, and TLS's context."""

    address: Address
    listener: socket
    context: ssl.SSLContext | None

    def close(self) -> None:
        """Stop listening."""
        self.listener.close()
        if isinstance(self.address.place, Path):
            self.address.place.unlink(missing_ok=True)


def open_endpoint(
    where: str, *, cert: Path | None = None, key: Path | None = None, token_file: Path | None = None
) -> Endpoint:
    """Listen at ``unix:/path`` or ``HOST:PORT``.

    Raises :class:`~speclsp.errors.EngineProcessError` where that is impossible or unsafe.
    """
    kind, _, path = where.partition(":")
    try:
        if kind == "unix":
            if cert or key or token_file:
                raise EngineProcessError(
                    "--cert, --key and --token-file belong to HOST:PORT.",
                    remedy="Leave them out: a Unix socket is open to you alone.",
                )
            place = _socket_path(path)
            return Endpoint(Address(place), listen(place), None)
        host, port = _host_and_port(f"//{where}")
        if (cert is None) != (key is None):
            raise EngineProcessError(
                "A certificate needs its key.", remedy="Give both --cert and --key."
            )
        if cert is None and not is_loopback(host):
            raise EngineProcessError(
                f"{host} is no loopback address: without TLS others on the network can read along.",
                remedy=f"Give --cert and --key, or listen at unix:/PATH and {_SSH}",
            )
        if token_file is None:
            raise EngineProcessError(
                "A port needs a token.",
                remedy="Give --token-file FILE; a file that does not exist is made.",
            )
        context = _tls(cert, key) if cert is not None and key is not None else None
        token = _token_in(token_file)
        listener = listen((host, port))
        return Endpoint(Address((host, listener.getsockname()[1]), token), listener, context)
    except OSError as error:
        raise EngineProcessError(
            f"The engine cannot listen at {where}: {error}.",
            remedy="Name another port or path, or end what listens there.",
        ) from error


def _tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return a listening engine's context.  Raises EngineProcessError."""
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


async def connect_elsewhere(settings: Settings) -> EngineConnection:
    """Return a greeted connection to the engine at ``engine_url``.

    Raises :class:`~speclsp.errors.EngineProcessError`, with a remedy.
    """
    context = None
    try:
        async with asyncio.timeout(_GREET_S):
            address, context, name = _address(settings)
            connection = await in_daemon_thread(dial, address, _CONNECT_S)
            if connection is None:
                raise ConnectionRefusedError("nobody listens there")
            try:
                streams = await opened(connection, context, name)
            except ConnectionError as error:
                raise NotAnEngineError("it ended the handshake") from error
            greeting = Greeting(purpose="window", version=__version__)
            if await greet(streams, greeting, address.token) is None:
                raise ConnectionResetError("it ended the connection")
    except OSError as error:
        raise _explained(error, settings.engine_host, is_tls=context is not None) from error
    return EngineConnection(streams)


def _explained(error: OSError, host: str, *, is_tls: bool) -> EngineProcessError:
    """Return what a failed connection means, with a remedy.

    Where a peer that was asked without TLS ends the connection at once, it probably takes TLS.
    """
    is_other = isinstance(error, NotAnEngineError | ssl.SSLError)
    if isinstance(error, TokenRefusedError):
        return EngineProcessError(
            f"The engine at {host} refuses the token.",
            remedy="Put the token of its --token-file into engine_key_file or SPECLSP_ENGINE_KEY.",
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return EngineProcessError(
            f"The certificate of {host} is not trusted: {error.verify_message}.",
            remedy="Name the certificate's issuer in engine_ca_file, or correct engine_url.",
        )
    if is_other and is_tls:
        return EngineProcessError(
            f"What answers at {host} is no engine with TLS: {getattr(error, 'reason', error)}.",
            remedy="Give the engine --cert and --key, or correct engine_url.",
        )
    if is_other or (isinstance(error, EndBeforeNonceError) and not is_tls):
        return EngineProcessError(
            f"What answers at {host} is no engine without TLS.",
            remedy="Where the engine has --cert, name its issuer in engine_ca_file; else check "
            "that `speclsp engine --listen` runs there, and engine_url.",
        )
    if isinstance(error, TimeoutError):
        return EngineProcessError(
            f"The engine at {host} does not answer in time.",
            remedy="Check that `speclsp engine --listen` runs there, and the tunnel.",
        )
    return EngineProcessError(
        f"The engine at {host} cannot be reached: {error.strerror or error}.",
        remedy="Start `speclsp engine --listen` there, and the tunnel; check engine_url.",
    )


def _address(settings: Settings) -> tuple[Address, ssl.SSLContext | None, str]:
    """Return where the engine listens, and the context and host's name of TLS.

    A loopback host is asked without TLS, unless ``engine_ca_file`` is set.
    Raises :class:`~speclsp.errors.EngineProcessError`.
    """
    if settings.engine_url.startswith("speclsp+unix:"):
        if sys.platform == "win32":
            raise EngineProcessError(
                "Python has no Unix sockets on Windows.",
                remedy="Let the engine listen at 127.0.0.1:PORT, forward that port by SSH, and set "
                "engine_url to speclsp://127.0.0.1:PORT.",
            )
        path = Path(settings.engine_host)
        if not path.is_absolute() or "\0" in settings.engine_host:
            raise EngineProcessError(
                "The socket's path in engine_url does not begin with /, or has a NUL in it.",
                remedy="Write the whole path as it is, without ~ and without %20 for a space: "
                "speclsp+unix:///home/YOU/.speclsp/desk.sock.",
            )
        check_own(path)
        return Address(path), None, ""
    host, port = _host_and_port(settings.engine_url)
    token = api_key(settings)
    if not token:
        raise EngineProcessError(
            f"The engine at {settings.engine_host} needs a token.",
            remedy="Put that of its --token-file into engine_key_file or SPECLSP_ENGINE_KEY.",
        )
    is_plain = is_loopback(host) and not settings.engine_ca_file
    context = None if is_plain else client_context(settings.engine_ca_file)
    return Address((host, port), token.encode()), context, host


def _host_and_port(url: str) -> tuple[str, int]:
    """Return host and port.  Raises EngineProcessError, which quotes no password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")
    except ValueError:  # also of a label that DNS cannot have
        host = port = None
    if not host or port is None:
        raise EngineProcessError(
            # Without a user name and a password, which may stand before an @.
            f"{url.partition('//')[2].rpartition('@')[2]!r} is no address.",
            remedy="Give HOST:PORT or unix:/PATH; engine_url is speclsp://HOST:PORT or "
            "speclsp+unix:///PATH.",
        )
    return host, port


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
        if (connection := dial(Address(path), _CONNECT_S)) is not None:
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


def _token_in(file: Path) -> bytes:
    """Return the token in a file, which gets a new one where it is empty.

    Raises :class:`~speclsp.errors.EngineProcessError`.
    """
    try:
        make_private_file(file)
        token = file.read_bytes().strip()
        if not token:
            token = os.urandom(32).hex().encode()
            file.write_bytes(token + b"\n")
    except OSError as error:
        raise EngineProcessError(
            f"The token file {file} cannot be used: {error}.",
            remedy="Name a file of yours, or a new one, in a folder that exists.",
        ) from error
    if len(token) < MIN_TOKEN or not token.isascii():
        wrong = "characters other than ASCII"
        if len(token) < MIN_TOKEN:
            wrong = f"fewer than {MIN_TOKEN} characters"
        raise EngineProcessError(
            f"The token in {file} has {wrong}.",
            remedy="Empty the file: a new token is written to it.",
        )
    return token
