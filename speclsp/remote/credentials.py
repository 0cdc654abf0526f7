"""The key of a remote engine and the certificates that it is checked by.

No workspace can choose either.
"""

from __future__ import annotations

import os
import ssl
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from speclsp.errors import SettingsError
from speclsp.settings import Settings

KEY_VARIABLE: Final = "SPECLSP_ENGINE_KEY"
_MAX_KEY_BYTES: Final = 1 << 16


def api_key(settings: Settings) -> str:
    """Return the remote engine's API key; empty for none.

    Raises :class:`~speclsp.errors.SettingsError` where the file cannot be read, and where the key
    is not ASCII text.
    """
    if not settings.engine_key_file:
        key = os.environ.get(KEY_VARIABLE, "").strip()
        if not key.isascii():
            raise SettingsError(
                f"{KEY_VARIABLE} is not ASCII text.", remedy="Set it to the key alone."
            )
        return key
    path = Path(settings.engine_key_file).expanduser()
    try:
        with path.open("rb") as file:  # or a pipe, as of a password manager
            return file.read(_MAX_KEY_BYTES).decode("ascii").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        raise SettingsError(
            f"engine_key_file {path} cannot be read: {reason}.",
            remedy=f"Write the key alone into it, or set {KEY_VARIABLE} instead.",
        ) from error


def client_context(ca_file: str) -> ssl.SSLContext:
    """Return a TLS context that trusts the certificates in ``ca_file``; empty for the system's.

    It takes TLS 1.2 or newer, and checks the host's name.
    Raises :class:`~speclsp.errors.SettingsError` where the file cannot be read.
    """
    path = ca_file and Path(ca_file).expanduser()
    try:
        return ssl.create_default_context(cafile=path or None)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise SettingsError(
            f"The certificates in {path} cannot be read: {reason}.",
            remedy="engine_ca_file names a file of certificates in PEM format.",
        ) from error


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, which needs no TLS."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
