"""Tells requests of web pages from those of local programs, for endpoints that speak HTTP.

A page in a browser can send requests to any port of this machine.  It cannot choose the headers
``Host`` and ``Origin``.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

_LOCAL_ORIGIN: Final = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")


def is_local_origin(origin: str) -> bool:
    """Whether an ``Origin`` header is a page that this machine serves."""
    return _LOCAL_ORIGIN.fullmatch(origin) is not None


def names_this_host(hosts: Sequence[str], own: str) -> bool:
    """Whether the ``Host`` headers are one IP address, ``localhost`` or the host listened on.

    A web page whose own name was made to resolve to this host (DNS rebinding) sends that name.
    """
    try:
        (name,) = (urlsplit(f"//{host}").hostname or "" for host in hosts)
    except ValueError:
        return False
    if name in ("localhost", own.lower()):
        return True
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(name))
    return False
