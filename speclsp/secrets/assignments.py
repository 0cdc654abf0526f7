"""Values assigned to names of secrets: ``password``, ``api_key``, ``AUTH_TOKEN_PROD``.

A name ends in a word such as ``password``: ``password_field`` and ``token_url`` are other things.
The words before it matter for ``key``, ``hash`` and ``salt`` only.
Quoted literals count in every file.  Unquoted values count in configuration files, in lines of the
form ``NAME=value`` as in environment files and shells, and where they look random.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from speclsp.secrets.literal_values import is_drawn, is_key, is_password, is_secret_word
from speclsp.secrets.spans import Span

TextKind = Literal["code", "configuration"]

# --- names ----------------------------------------------------------------------------------------

NameKind = Literal["password", "secret", "key"]
"""A password may be any word; a secret has letters and digits; a key looks drawn at random."""


@dataclass(frozen=True, slots=True)
class SecretName:
    """The start of the word that marks a name as a secret's, and the end of the name."""

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
_LONGEST_PREFIX: Final = 13


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
    _word("pass", "password", r"(?!\w{0,80}\()", _BEFORE_PASS),
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
    """Yield the names of secrets in a text; ``lowered`` is the text in lower case."""
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
    before = lowered[max(0, position - _LONGEST_PREFIX) : position]
    if word.before == ("",):
        return not before[-1:].isalnum()
    return before.rstrip("_-. ").endswith(word.before)


# --- values ---------------------------------------------------------------------------------------

# Runs of blanks are possessive: with backtracking two adjacent runs would be tried in n² ways.
# After the name: its own closing quote or index, and maybe a type.
_CLOSED: Final = r"[\"'`\])\[0-9]{0,8}[ \t]*+"
_TYPE: Final = r"(?::[ \t]*+[A-Za-z_&][\w.\[\]| <>?&*']{0,40}?[ \t]*+(?==))?"
_ASSIGN: Final = (
    r"(?:=>|:=|\+=|\?{1,2}=|\|\|=|[=!]={1,2}|[=:]|->|<-|\|\||\?\?|\?:)[ \t]*+[({\[]?[ \t]*+"
)
_QUOTED: Final = (
    r"(?:[A-Za-z@$]{0,2})(?P<quote>\"\"\"|'''|\\?\"|\\?'|`)(?P<value>(?:(?!(?P=quote))[^\n])*)"
)

_ASSIGNED: Final = re.compile(
    rf"{_CLOSED}{_TYPE}(?:{_ASSIGN}|[({{][ \t]*+|(?<=[ \t])(?=[\"'])){_QUOTED}"
)
_LISTED: Final = re.compile(rf"[\"'`][ \t]*+,[ \t]*+(?:\w+=)?(?:\"(?=\\\"))?{_QUOTED}")
"""``("api_key", "…")``: the next string may be another name, so it must look random."""
_SETTER: Final = re.compile(
    r"\b(?:put|set(?:Property|Parameter|Env|Header|Config|default)?|with\w{0,30}|property|define|"
    r"buildConfigField|get_?env\w{0,12}|environ\.get|env(?:iron)?|ENV\.fetch|config|lookup_?env)"
    r"[ \t]{0,4}\([ \t]{0,4}[\"'`][\w.\-]{0,40}\Z",
    re.IGNORECASE,
)
"""Calls in which a string is the value of the name before it: ``put("password", "…")``."""
_LONGEST_SETTER: Final = 90
_MESSAGE: Final = re.compile(r"[ |(]")
"""Characters of messages, rules and types that are rare in secrets."""
_NAMED: Final = re.compile(
    r"(?:-[ \t]+)?(?:name|key)[ \t]*:[ \t]*[\"']?[\w.\-]{0,60}\Z", re.IGNORECASE
)
_VALUE_BELOW: Final = re.compile(
    r"[\"']?[ \t\r]*+\n[ \t]*+value[ \t]*+:[ \t]*+(?P<quote>[\"']?)(?P<value>[^\s\"'#][^\n\"']*+)"
)
"""``name: DB_PASSWORD`` and ``value: …`` on the next line."""

_OPEN: Final = re.compile(
    rf"[\"'`\]]{{0,3}}[ \t]*+{_TYPE}(?:=>|:=|[=:])[ \t]*+(?:\(|[|>][+\-0-9]{{0,2}})?"
    r"[ \t]*+\\?[ \t\r]*+\n"
)
"""An assignment whose value begins on the next line."""
_ALONE: Final = re.compile(rf"[ \t]*+{_QUOTED}(?P=quote)[ \t]*+[,;)}}\]]*+[ \t\r]*+(?=\n|\Z)")
_BARE_ALONE: Final = re.compile(r"[ \t]++(?:-[ \t]++)?(?P<value>[^\s\"'`]++)[ \t\r]*+(?=\n|\Z)")

_BEFORE_SETTING: Final = re.compile(
    r"[ \t]*(?:[#;/*\-]+[ \t]*)?(?:(?:export|set|env|declare -x|readonly|local|arg)[ \t]+)?\w*",
    re.IGNORECASE,
)
_BEFORE_CONFIGURED: Final = re.compile(
    r"[ \t]*(?:[\-#;/]+[ \t]*)?(?:(?:export|set|env|arg)[ \t]+)?[\w.\-:/\[\]]*", re.IGNORECASE
)
_ENVIRONMENT_VALUE: Final = re.compile(r"=(?P<value>[^\s\"'`=][^\n]*+)")
_MAKE_VALUE: Final = re.compile(r"[ \t]*+[:?+!]{0,3}=[ \t]*+(?P<value>[^\s\"'`=$(][^\n#]*+)")
_CONFIGURED_VALUE: Final = re.compile(
    r"[ \t]*+[=:][ \t]*+(?P<value>[^\s\"'`|>\[{&*!=:](?:[^ \t\n]|[ \t](?![#;]))*+)"
)
_SPACED_VALUE: Final = re.compile(
    r"[ \t]++(?P<value>(?>[^\s\"'`=:]*[0-9!@#$%^&*])[^\s\"'`]*+)[ \t\r]*+(?=\n|\Z)"
)
"""Without a sign between them the value is one word, and the line ends after it."""
_BARE: Final = re.compile(
    rf"{_CLOSED}(?:=>|:=|[=:])[ \t]*+(?P<value>[A-Za-z0-9+/_\-]{{16,}}={{0,2}})(?![\w.(\[])"
)
_IDENTIFIER: Final = re.compile(r"[A-Za-z]+[0-9]{0,4}(?:[_\-][A-Za-z0-9]{1,12})*")
_CODE: Final = re.compile(r"[()\[\]{}<>]|[,;]$|\.\w+\.")
_CALL: Final = re.compile(r"^[A-Za-z_][\w.:]*(?:\(.*\)|\[.*\]);?$")
_SETTINGS: Final = {
    "code": ((_BEFORE_SETTING, _ENVIRONMENT_VALUE, _CODE),),
    "configuration": (
        (_BEFORE_SETTING, _ENVIRONMENT_VALUE, _CALL),
        (_BEFORE_SETTING, _MAKE_VALUE, _CALL),
        (_BEFORE_CONFIGURED, _CONFIGURED_VALUE, _CALL),
        (_BEFORE_CONFIGURED, _SPACED_VALUE, _CALL),
    ),
}
"""What stands before a name, its value, and what shows that the value is code instead."""

_LONGEST_BEFORE: Final = 80

_LONGEST_COUNTED: Final = 500
"""Quotes that far before a name tell whether it stands in a string."""


def named_secrets(text: str, name: SecretName, kind: TextKind) -> list[Span]:
    """Return the values assigned to a name: on its line, or alone on the next one."""
    for pattern in (_ASSIGNED, _LISTED):
        found = pattern.match(text, name.end)
        if found is not None and not _closes(text, name, found):
            may_be_name = pattern is _LISTED and not _is_set(text, name)
            is_secret = is_key if may_be_name else _test(name.kind)
            is_message = _MESSAGE.search(found["value"]) and not is_drawn(found["value"])
            if pattern is _LISTED and is_message:
                return []
            return [Span(*found.span("value"))] if is_secret(found["value"]) else []
    below = _VALUE_BELOW.match(text, name.end)
    if below is not None and _NAMED.search(text, max(0, name.start - _LONGEST_SETTER), name.start):
        return [Span(*below.span("value"))] if _test(name.kind)(below["value"].rstrip()) else []
    opened = _OPEN.match(text, name.end)
    if opened is not None:
        return _on_next_line(text, opened, name.kind)
    return _bare(text, name, kind)


def _closes(text: str, name: SecretName, found: re.Match[str]) -> bool:
    """Whether the quote after a name ends the string that the name stands in."""
    quote = found["quote"]
    if quote in text[name.end : found.start("quote")]:
        return False
    # Within a long line this is unknown, and then the literal counts.
    earliest = max(0, name.start - _LONGEST_COUNTED)
    line_start = text.rfind("\n", earliest, name.start) + 1
    if not line_start and earliest:
        return False
    return text.count(quote, line_start, name.start) % 2 == 1


def _is_set(text: str, name: SecretName) -> bool:
    return _SETTER.search(text, max(0, name.start - _LONGEST_SETTER), name.start) is not None


def _on_next_line(text: str, opened: re.Match[str], kind: NameKind) -> list[Span]:
    start = opened.end()
    quoted = _ALONE.match(text, start)
    if quoted is not None:
        return [Span(*quoted.span("value"))] if _test(kind)(quoted["value"]) else []
    bare = _BARE_ALONE.match(text, start)
    is_block = opened[0].rstrip()[-1:] not in ":=(\\"  # YAML's, whose lines are texts
    is_secret = _test(kind) if is_block else is_key
    if bare is not None and is_secret(bare["value"]) and not _CODE.search(bare["value"]):
        return [Span(*bare.span("value"))]
    return []


def _bare(text: str, name: SecretName, kind: TextKind) -> list[Span]:
    line_start = text.rfind("\n", max(0, name.start - _LONGEST_BEFORE), name.start) + 1
    if line_start or name.start < _LONGEST_BEFORE:
        for before, value, code in _SETTINGS[kind]:
            if before.fullmatch(text, line_start, name.start):
                found = value.match(text, name.end)
                literal = found["value"].rstrip() if found is not None else ""
                if found is not None and not code.search(literal):
                    start = found.start("value")
                    is_secret = _test(name.kind)(literal)
                    return [Span(start, start + len(literal))] if is_secret else []
    found = _BARE.match(text, name.end)
    if found is not None and is_key(found["value"]) and not _IDENTIFIER.fullmatch(found["value"]):
        return [Span(*found.span("value"))]
    return []


def _test(kind: NameKind) -> Callable[[str], bool]:
    return {"password": is_password, "secret": is_secret_word, "key": is_key}[kind]
