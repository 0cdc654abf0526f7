"""Names whose values are secrets: ``password``, ``api_key``, ``clientSecret``, ``AUTH_TOKEN_PROD``.

The name has to end in the telling word: ``password_field`` and ``token_url`` name something else.
What stands before the word does not matter but for ``key``, ``hash`` and ``salt``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

NameKind = Literal["password", "secret", "key"]
"""A password may be any word; a secret has letters and digits; a key looks drawn at random."""


@dataclass(frozen=True, slots=True)
class SecretName:
    """Where a telling word begins and its name ends."""

    start: int
    end: int
    kind: NameKind


_ENDS: Final = (
    r"(?:[_\-]?(?:[0-9]{1,3}|old|new|prod|production|dev|development|test|testing|staging|live|"
    r"value|string|str|text|raw|b64|base64|hex|default|main|primary|secondary|base))*"
    r"(?![A-Za-z0-9_\-])"
)
_BEFORE_KEY: Final = (
    "api", "access", "account", "auth", "private", "secret", "encryption", "decryption", "signing",
    "master", "service", "client", "shared", "deploy", "consumer", "app", "session", "jwt", "hmac",
    "cipher", "storage", "subscription", "webhook", "ssh", "rsa", "aes", "license", "licence",
)  # fmt: skip
_BEFORE_SECRET: Final = ("api", "client", "app", "shared", "consumer", "webhook", "admin", "user")
_BEFORE_PASS: Final = (
    "account", "admin", "auth", "basic", "database", "db", "default", "email", "ftp", "host",
    "http", "imap", "key", "keystore", "ldap", "login", "mail", "master", "mongo", "my", "mysql",
    "pg", "postgres", "proxy", "rabbit", "redis", "root", "server", "service", "site", "smtp",
    "sql", "ssh", "sudo", "sys", "user", "vault", "vnc", "vpn", "web", "wifi", "zip",
)  # fmt: skip
_BEFORE_HASH: Final = ("password", "pass", "passwd", "auth", "session", "cookie", "jwt", "crypto")
_LONGEST_BEFORE: Final = 13


@dataclass(frozen=True, slots=True)
class _Word:
    needle: str
    kind: NameKind
    rest: re.Pattern[str]
    """What follows the needle up to the name's end."""
    before: tuple[str, ...] = ()
    """What has to stand before the needle, apart from ``_-.`` and blanks; "" for no letter."""


def _word(needle: str, kind: NameKind, rest: str, before: tuple[str, ...] = ()) -> _Word:
    return _Word(needle, kind, re.compile(rest + _ENDS, re.IGNORECASE), before)


_WORDS: Final = (
    _word("passw", "password", r"(?:(?:or)?ds?|ort)"),
    _word("passphrase", "password", "s?"),
    _word("passcode", "password", "s?"),
    _word("pwd", "password", "s?"),
    _word("contrase", "password", "[nñ]a"),
    _word("pass", "password", r"(?=[\"'=:\])]|\s*[=:]\s*[\"'])", ("",)),
    _word("pass", "password", r"(?!\w*\()", _BEFORE_PASS),
    _word("pw", "password", r"(?=[\"']?\s*[=:])", _BEFORE_PASS),
    _word("secret", "secret", "s?", _BEFORE_SECRET),
    _word("secret", "key", "s?"),
    _word("token", "key", "s?"),
    _word("credential", "key", "s?"),
    _word("bearer", "key", ""),
    _word("authorization", "key", ""),
    _word("connection", "key", r"[_\-]?string"),
    _word("dsn", "key", "", ("",)),
    _word("sas", "key", "", ("",)),
    _word("seed", "key", "", ("totp", "otp", "mfa", "2fa", "wallet")),
    _word("cookie", "key", "", ("session", "auth", "login")),
    _word("key", "key", "s?", _BEFORE_KEY),
    _word("hash", "key", "", _BEFORE_HASH),
    _word("salt", "key", "", _BEFORE_HASH),
)


def secret_names(text: str, lowered: str) -> Iterator[SecretName]:
    """Yield the telling names in a text; ``lowered`` is the text in lower case."""
    for word in _WORDS:
        position = lowered.find(word.needle)
        while position >= 0:
            rest = word.rest.match(text, position + len(word.needle))
            if rest is not None and _fits(word, lowered, position):
                yield SecretName(position, rest.end(), word.kind)
            position = lowered.find(word.needle, position + 1)


def _fits(word: _Word, lowered: str, position: int) -> bool:
    if not word.before:
        return True
    before = lowered[max(0, position - _LONGEST_BEFORE) : position]
    if word.before == ("",):
        return not before[-1:].isalnum()
    return before.rstrip("_-. ").endswith(word.before)
