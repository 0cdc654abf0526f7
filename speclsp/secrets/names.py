"""Names of secrets: ``password``, ``api_key``, ``AUTH_TOKEN_PROD``, ``contraseña``.

A name ends in a word such as ``password``: ``password_field`` and ``token_url`` are other things.
The words before it matter for ``key``, ``hash`` and ``salt`` only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

NameKind = Literal["password", "passphrase", "secret", "key"]
"""A password may be any word, a passphrase several; a secret has letters and digits; a key looks
drawn at random."""


@dataclass(frozen=True, slots=True)
class SecretName:
    """The start of the word that marks a name as a secret's, and the end of the name."""

    start: int
    end: int
    kind: NameKind


ENDS: Final = (
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
_LONGEST_PREFIX: Final = 13


@dataclass(frozen=True, slots=True)
class _Word:
    needle: str
    kind: NameKind
    rest: re.Pattern[str]
    """What follows the needle up to the name's end."""
    before: tuple[str, ...] = ()
    """What has to stand before the needle, apart from ``_-.`` and blanks; a last "": no letter."""


def _word(needle: str, kind: NameKind, rest: str, before: tuple[str, ...] = ()) -> _Word:
    return _Word(needle, kind, re.compile(rest + ENDS, re.IGNORECASE), before)


_WORDS: Final = (
    _word("passw", "password", r"(?:(?:or)?ds?|ort|oerter)"),
    _word("passphrase", "passphrase", "s?"),
    _word("passcode", "password", "s?"),
    _word("pwd", "password", "s?"),
    _word("contrase", "password", "[nñ]as?"),
    _word("kennwo", "password", "(?:rt|erter)"),
    _word("passe", "password", "", ("motde", "motsde", "mot_de", "mot de", "mot-de")),
    _word("парол", "password", "[ьяи]"),
    _word("Парол", "password", "[ьяи]"),
    _word("ПАРОЛ", "password", "[ЬЯИ]"),
    _word("密码", "password", ""),
    _word("密碼", "password", ""),
    _word("口令", "password", ""),
    _word("pass", "password", r"(?=[\"'=:\])]|\s*[=:]\s*[\"'])", ("",)),
    _word("pass", "password", r"(?!\w{0,80}\()", _BEFORE_PASS),
    _word("pw", "password", r"(?=[\"']?\s*[=:])", (*_BEFORE_PASS, "")),
    _word("psk", "password", r"(?=[\"']?\s*[=:])", ("wpa", "wifi", "ipsec", "")),
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


_ASCII_WORDS: Final = tuple(word for word in _WORDS if word.needle.isascii())


def secret_names(text: str, lowered: str) -> Iterator[SecretName]:
    """Yield the names of secrets in a text; ``lowered`` is the text in lower case."""
    for word in _ASCII_WORDS if text.isascii() else _WORDS:
        where = lowered if word.needle.isascii() else text
        position = where.find(word.needle)
        while position >= 0:
            rest = word.rest.match(text, position + len(word.needle))
            if rest is not None and _fits(word, lowered, position):
                yield SecretName(position, rest.end(), word.kind)
            position = where.find(word.needle, position + 1)


def _fits(word: _Word, lowered: str, position: int) -> bool:
    if not word.before:
        return True
    before = lowered[max(0, position - _LONGEST_PREFIX) : position]
    if word.before[-1] == "" and not before[-1:].isalnum():
        return True
    return before.rstrip("_-. ").endswith(tuple(filter(None, word.before)))
