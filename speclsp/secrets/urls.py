"""Passwords in URLs: ``scheme://user:password@host``, from their first character on.

What follows ``host:`` in a URL is a port, and what follows ``user:`` is a password.  While it is
typed nothing tells them apart but what they look like, so:

* letters are a password, with any scheme that people log in by;
* up to five digits before ``/``, a quote or a blank are a port;
* at the end of a line digits are a port too, but where the scheme is a database's (or any other in
  ``_PORTS``), the name before them is no host's, and they do not begin the scheme's own port.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from speclsp.secrets.literal_values import password
from speclsp.secrets.spans import Span

_SEPARATORS: Final = ("://", ":\\/\\/")
_SCHEME: Final = re.compile(r"(?<![A-Za-z0-9+.\-])[A-Za-z][A-Za-z0-9+.\-]{0,20}\Z")
_LONGEST_SCHEME: Final = 22
_USER: Final = re.compile(r"([^\s/:@\"'`<>\[\]?#\\]{0,200}):")
_REST: Final = re.compile(r"[^\s\"'`<>\\]{1,500}")
_END_OF_HEAD: Final = re.compile(r"[/?#]")
_AT_LINE_END: Final = re.compile(r"[ \t\r]*(?:\n|\Z)")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_AFTER_PORT: Final = re.compile(r"[).,;:\]}*|]")
_HIGHEST_PORT: Final = 65_535
_HOST: Final = re.compile(
    r"localhost|.*\..*|host\w*|\w*host|\$\{?\w*\}?|\{\w*\}|%s|", re.IGNORECASE
)
_PORTS: Final = {
    "amqp": ("5672",), "amqps": ("5671",), "clickhouse": ("9000", "8123"),
    "ftp": ("21",), "ftps": ("990",), "imap": ("143",), "imaps": ("993",), "ldap": ("389",),
    "ldaps": ("636",), "mariadb": ("3306",), "mongodb": ("27017",), "mssql": ("1433",),
    "mysql": ("3306",), "nats": ("4222",), "neo4j": ("7687",), "postgres": ("5432",),
    "postgresql": ("5432",), "redis": ("6379",), "rediss": ("6379",), "sftp": ("22",),
    "smtp": ("25", "587"), "smtps": ("465",), "sqlserver": ("1433",), "ssh": ("22",),
}  # fmt: skip
"""The ports of schemes whose URLs hold a user's name more often than not."""
_NO_LOGIN: Final = frozenset(
    ("docker", "oci", "docker-image", "docker-daemon", "docker-archive", "containers-storage")
)
"""Schemes in which a colon is followed by a tag."""
_PORT_WORDS: Final = re.compile(
    r"p(?:o(?:r(?:t(?:[_\-]?num(?:ber)?|no|s)?)?)?)?|[*:]+", re.IGNORECASE
)


def passwords_in_urls(text: str) -> Iterator[Span]:
    """Yield the passwords of a text's URLs, whole or unfinished."""
    for separator in _SEPARATORS:
        position = text.find(separator)
        while position >= 0:
            after = position + len(separator)
            user = _USER.match(text, after)
            rest = _REST.match(text, user.end()) if user is not None else None
            if user is not None and rest is not None:
                scheme = _SCHEME.search(text, max(0, position - _LONGEST_SCHEME), position)
                if scheme is not None:
                    is_open = _AT_LINE_END.match(text, rest.end()) is not None
                    n = _n_password(scheme[0].lower(), user[1], rest[0], is_open)
                    if n:
                        yield Span(rest.start(), rest.start() + n)
            position = text.find(separator, after)


def _n_password(scheme: str, user: str, rest: str, is_open: bool) -> int:
    """Return how many of the characters after ``user:`` are a password; 0 for none."""
    head = _END_OF_HEAD.split(rest, maxsplit=1)[0]
    port = head if "@" in rest else _AFTER_PORT.split(head, maxsplit=1)[0]
    if _PORT.fullmatch(port) and int(port) <= _HIGHEST_PORT:
        is_begun = is_open and port == rest
        ports = _PORTS.get(scheme.split("+", maxsplit=1)[0], ())
        is_port = not ports or _HOST.fullmatch(user) or any(p.startswith(head) for p in ports)
        return 0 if not is_begun or is_port else len(head)
    if _PORT_WORDS.fullmatch(head) or scheme in _NO_LOGIN:
        return 0
    n = rest.rfind("@")
    if n >= 0:
        is_secret = password(rest[:n], False) and password(head.partition("@")[0] or head, False)
        return n if is_secret else 0
    is_known = scheme.split("+", maxsplit=1)[0] in _PORTS
    if not (is_open or is_known) or not password(rest if is_open else head, True):
        return 0
    return len(rest) if is_open else len(head)  # there may be an "@" yet
