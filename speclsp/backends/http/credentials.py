"""API keys, and the certificates that a remote engine is checked by.

No workspace can choose either.
"""

from __future__ import annotations

import os
import ssl
from ipaddress import ip_address
from typing import Final

from speclsp.errors import SettingsError
from speclsp.settings import Settings, named_path

KEY_VARIABLE: Final = "SPECLSP_ENGINE_KEY"
_MAX_KEY_BYTES: Final = 1 << 16


def api_key(settings: Settings) -> str:
    """Return the remote engine's API key; see :func:`read_key`."""
    return read_key(settings.engine_key_file, "engine_key_file", KEY_VARIABLE)


def read_key(name: str, option: str, variable: str) -> str:
    """Return the API key in the file ``name``, else that in an environment variable; "" for none.

    ``option`` is what names the file.
    Raises :class:`~speclsp.errors.SettingsError` where the file cannot be read, and where the key
    is not ASCII text.
    """
    if not name:
        key = os.environ.get(variable, "").strip()
        if not key.isascii():
            raise SettingsError(f"{variable} is not ASCII text.", remedy="Set it to the key alone.")
        return key
    try:
        # It may be a pipe, as of a password manager.
        with named_path(name).open("rb") as file:
            return file.read(_MAX_KEY_BYTES).decode("ascii").strip()
    except (OSError, ValueError) as error:
        is_undecodable = isinstance(error, UnicodeDecodeError)
        reason = "it is not ASCII text" if is_undecodable else _reason(error)
        raise SettingsError(
            f"{option} {name} cannot be read: {reason}.",
            remedy=f"Write the key alone into it, or set {variable} instead.",
        ) from error


def client_context(ca_file: str) -> ssl.SSLContext:
    """Return a TLS context that trusts the certificates in ``ca_file``.

    It takes TLS 1.2 or newer, and checks the host's name.
    Raises :class:`~speclsp.errors.SettingsError` where the file cannot be read.
    """
    try:
        return ssl.create_default_context(cafile=named_path(ca_file))
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"The certificates in {ca_file} cannot be read: {_reason(error)}.",
            remedy="engine_ca_file names a file of certificates in PEM format.",
        ) from error


def _reason(error: Exception) -> str:
    return ((isinstance(error, OSError) and error.strerror) or str(error)).rstrip(".")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, which needs no TLS."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
