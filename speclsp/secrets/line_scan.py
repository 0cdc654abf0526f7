"""Finds secrets that lie within one line each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from speclsp.secrets.assignments import TextKind, named_secrets, secret_names
from speclsp.secrets.kinds import KINDS, Kind
from speclsp.secrets.literal_values import is_password
from speclsp.secrets.spans import Span


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CONFIGURATION_SUFFIXES: Final = _words(
    """
    .bash .bat .cfg .cmd .cnf .conf .config .desktop .dockerfile .editorconfig .env .fish .hcl
    .http .ini .mk .nix .properties .ps1 .rest .service .sh .tf .toml .txt .yaml .yml .zsh
    """
)
_CONFIGURATION_NAMES: Final = (
    "dockerfile", "containerfile", "makefile", "procfile", ".env", "jenkinsfile"
)  # fmt: skip

N_BESIDE: Final[dict[TextKind, int]] = {"code": 1, "configuration": 7}
"""Lines before and after a line that can decide what is secret on it."""

_MAX_AROUND: Final = 1_000
"""Characters on each side of a needle that a token's expression looks at within its line."""

_RUN: Final = re.compile(r"[^\s\"'`<>]*")
"""The rest of a token that is longer than what its expression looks at."""


_NEEDLES: Final = tuple((needle, kind) for kind in KINDS for needle in kind.needles)
_WITHOUT_NEEDLES: Final = tuple(kind for kind in KINDS if not kind.needles)


def kind_of(path: str) -> TextKind:
    """Return by a file's name whether its values are quoted, as in code."""
    place = PurePosixPath(path.lower().replace("\\", "/"))
    if place.suffix in _CONFIGURATION_SUFFIXES or place.name.startswith(_CONFIGURATION_NAMES):
        return "configuration"
    return "code"


def secrets_in_lines(text: str, kind: TextKind) -> Iterator[Span]:
    """Yield the secrets in a text of whole lines, but for blocks of several lines."""
    # ASCII of the same length: offsets stay, and searching one byte per character is fast.
    lowered = text.encode("ascii", "replace").decode("ascii").lower()
    yield from _known_tokens(text, lowered, kind)
    for name in secret_names(text, lowered):
        yield from named_secrets(text, name, kind)


def _known_tokens(text: str, lowered: str, text_kind: TextKind) -> Iterator[Span]:
    for kind in _WITHOUT_NEEDLES:
        yield from (Span(*found.span()) for found in kind.expression.finditer(text))
    find = lowered.find
    for needle, kind in _NEEDLES:
        position = find(needle) if kind.n_lines <= N_BESIDE[text_kind] + 1 else -1
        if position >= 0:
            yield from _tokens_beside(text, lowered, position, needle, kind)


def _tokens_beside(
    text: str, lowered: str, position: int, needle: str, kind: Kind
) -> Iterator[Span]:
    while position >= 0:
        start, end = _lines_around(text, position, kind.n_lines)
        for found in kind.expression.finditer(text, start, end):
            group = found.lastindex or 0
            if not kind.is_password or is_password(found[group]):
                secret = Span(*found.span(group))
                if secret.end == end:  # a longer token may go on
                    secret = Span(secret.start, _RUN.match(text, end).end())  # type: ignore[union-attr]  # it may be empty
                yield secret
        position = lowered.find(
            needle, max(end, position + 1) if kind.n_lines == 1 else position + 1
        )


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
