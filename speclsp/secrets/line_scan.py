"""Finds secrets that something on their line or right above it tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from speclsp.secrets.assignments import TextKind, named_secret
from speclsp.secrets.kinds import KINDS, Kind
from speclsp.secrets.literals import Value, enclosing_quote, read_literal, read_pattern
from speclsp.secrets.names import secret_names
from speclsp.secrets.spans import Span
from speclsp.secrets.urls import passwords_in_urls


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CONFIGURATION_SUFFIXES: Final = _words(
    """
    .bash .bat .cfg .cmd .cnf .conf .config .desktop .dockerfile .editorconfig .env .fish .http
    .ini .mk .properties .ps1 .rest .service .sh .txt .yaml .yml .zsh
    """
)
_DECLARATION_SUFFIXES: Final = _words(".hcl .nix .tf .toml")
_CONFIGURATION_NAMES: Final = (
    "dockerfile", "containerfile", "makefile", "procfile", ".env", "jenkinsfile"
)  # fmt: skip

N_BESIDE: Final[dict[TextKind, int]] = {
    "code": 1,
    "configuration": 7,
    "declarations": 7,
}
"""Lines before and after a line that can decide what is secret on it."""

_MAX_AROUND: Final = 1_000
"""Characters on each side of a needle that a token's expression looks at within its line."""

_QUOTES: Final = ('"', "'", "`")

_RUN: Final = re.compile(r"[^\s\"'`<>]*")
"""The rest of a token that is longer than what its expression looks at."""

_ALL_NEEDLES: Final = dict.fromkeys(needle for kind in KINDS for needle in kind.needles)
_NEEDLES: Final = tuple(
    (needle, tuple(kind for kind in KINDS if needle in kind.needles)) for needle in _ALL_NEEDLES
)
_ASCII_NEEDLES: Final = tuple(entry for entry in _NEEDLES if entry[0].isascii())
_OTHER_NEEDLES: Final = tuple(entry for entry in _NEEDLES if not entry[0].isascii())
_WITHOUT_NEEDLES: Final = tuple(kind for kind in KINDS if not kind.needles)


def kind_of(path: str) -> TextKind:
    """Return by a file's name whether its values are quoted, as in code."""
    place = PurePosixPath(path.lower().replace("\\", "/"))
    if place.suffix in _CONFIGURATION_SUFFIXES or place.name.startswith(_CONFIGURATION_NAMES):
        return "configuration"
    return "declarations" if place.suffix in _DECLARATION_SUFFIXES else "code"


class Found(NamedTuple):
    """A value that is secret, and what of the text was read for it."""

    parts: tuple[Span, ...]
    """Empty where the value is no secret."""
    read: Span
    """From what tells of the value to the end of the line after it, which may go on with it."""

    def moved(self, n_chars: int) -> Found:
        """Return it as it is in a text with so many characters more before it."""
        start, end = self.read
        parts = tuple(Span(s + n_chars, e + n_chars) for s, e in self.parts)
        return Found(parts, Span(start + n_chars, end + n_chars))


def secrets_in_lines(text: str, kind: TextKind) -> Iterator[Found]:
    """Yield the secrets in a text of whole lines, but for private keys.

    What was read over several lines is yielded too where it is no secret: a change there may make
    it one.
    """
    # ASCII of the same length: offsets stay, and searching one byte per character is fast.
    lowered = text.encode("ascii", "replace").decode("ascii").lower()
    yield from _known_tokens(text, lowered, kind)
    yield from (Found((span,), span) for span in passwords_in_urls(text))
    for name in secret_names(text, lowered):
        value = named_secret(text, name, kind)
        if value is not None:
            yield Found(value.parts, Span(name.start, _end_of_read(text, value.end)))


def _end_of_read(text: str, end: int) -> int:
    for _ in range(2):
        found = text.find("\n", end, end + _MAX_AROUND)
        end = found + 1 if found >= 0 else min(len(text), end + _MAX_AROUND)
    return end


def _known_tokens(text: str, lowered: str, text_kind: TextKind) -> Iterator[Found]:
    for kind in _WITHOUT_NEEDLES:
        for found in kind.expression.finditer(text):
            yield from _secrets(text, found, kind, found.end() + 1)
    present = [(lowered, entry) for entry in _ASCII_NEEDLES if entry[0] in lowered]
    if not text.isascii():
        present += [(text, entry) for entry in _OTHER_NEEDLES if entry[0] in text]
    for where, (needle, kinds) in present:
        for kind in kinds:
            if kind.n_lines <= N_BESIDE[text_kind] + 1:
                yield from _tokens_beside(text, where, where.find(needle), needle, kind)


def _tokens_beside(
    text: str, lowered: str, position: int, needle: str, kind: Kind
) -> Iterator[Found]:
    while position >= 0:
        start, end = _lines_around(text, position, kind.n_lines)
        for found in kind.expression.finditer(text, start, end):
            yield from _secrets(text, found, kind, end)
        position = lowered.find(
            needle, max(end, position + 1) if kind.n_lines == 1 else position + 1
        )


def _secrets(text: str, found: re.Match[str], kind: Kind, end: int) -> Iterator[Found]:
    """Yield the secret that a match holds or announces."""
    if kind.is_led:
        value = _led_value(text, found.end(), kind)
        if value is not None:
            is_secret = kind.is_secret(value.text, value.is_open)
            read = Span(found.start(), _end_of_read(text, value.end))
            yield Found(value.parts if is_secret else (), read)
        return
    group = found.lastindex or 0
    if kind.is_secret(found[group], True):
        secret = Span(*found.span(group))
        if secret.end == end:  # a longer token may go on
            secret = Span(secret.start, _RUN.match(text, end).end())  # type: ignore[union-attr]  # it may be empty
        yield Found((secret,), Span(found.start(), secret.end))


def _led_value(text: str, start: int, kind: Kind) -> Value | None:
    if text[start : start + 1] in _QUOTES and enclosing_quote(text, start) == text[start]:
        return None  # this quote ends the string that announces a value: "Bearer " + key
    literal = read_literal(text, start)
    if literal is not None or kind.bare is None:
        return literal
    return read_pattern(text, start, kind.bare)


def _lines_around(text: str, position: int, n_lines: int) -> tuple[int, int]:
    """Return where the line of a position begins, and where the last of ``n_lines`` ends."""
    earliest, latest = max(0, position - _MAX_AROUND), position + _MAX_AROUND
    start = text.rfind("\n", earliest, position) + 1
    end = position - 1
    for _ in range(n_lines):
        end = text.find("\n", end + 1, latest)
        if end < 0:
            return start or earliest, min(len(text), latest)
    return start or earliest, end
