"""The secrets of a text that lie within one line each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from speclsp.secrets.assignments import TextKind, named_secrets
from speclsp.secrets.literal_values import is_password
from speclsp.secrets.secret_names import secret_names
from speclsp.secrets.spans import Span
from speclsp.secrets.token_patterns import TOKEN_PATTERNS, TokenPattern


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

_MAX_AROUND: Final = 1_000
"""Characters on each side of a needle that a token's expression looks at within its line."""

_RUN: Final = re.compile(r"[^\s\"'`<>]*")
"""The rest of a token that is longer than what its expression looks at."""


_NEEDLES: Final = tuple(
    (needle, pattern) for pattern in TOKEN_PATTERNS for needle in pattern.needles
)


def kind_of(path: str) -> TextKind:
    """Return whether values without quotes are usual in a file, by its name."""
    place = PurePosixPath(path.lower().replace("\\", "/"))
    if place.suffix in _CONFIGURATION_SUFFIXES or place.name.startswith(_CONFIGURATION_NAMES):
        return "configuration"
    return "code"


def secrets_in_lines(text: str, kind: TextKind) -> Iterator[Span]:
    """Yield the secrets in a text of whole lines, but for blocks of several lines."""
    # As long as the text, whatever its letters, and searched fast, having one byte for each.
    lowered = text.encode("ascii", "replace").decode("ascii").lower()
    yield from _known_tokens(text, lowered)
    for name in secret_names(text, lowered):
        yield from named_secrets(text, name, kind)


def _known_tokens(text: str, lowered: str) -> Iterator[Span]:
    find = lowered.find
    for needle, pattern in _NEEDLES:
        position = find(needle)
        if position >= 0:
            yield from _tokens_beside(text, lowered, position, needle, pattern)


def _tokens_beside(
    text: str, lowered: str, position: int, needle: str, pattern: TokenPattern
) -> Iterator[Span]:
    group = 1 if pattern.expression.groups else 0
    while position >= 0:
        start, end = _line_around(text, position)
        for found in pattern.expression.finditer(text, start, end):
            if not pattern.kind.startswith("password") or is_password(found[group]):
                secret = Span(*found.span(group))
                yield _to_its_end(text, secret) if secret.end == end else secret
        position = lowered.find(needle, max(end, position + 1))


def _to_its_end(text: str, span: Span) -> Span:
    run = _RUN.match(text, span.end)
    return span if run is None else Span(span.start, run.end())


def _line_around(text: str, position: int) -> tuple[int, int]:
    earliest, latest = max(0, position - _MAX_AROUND), position + _MAX_AROUND
    start = text.rfind("\n", earliest, position) + 1
    end = text.find("\n", position, latest)
    return start or earliest, min(len(text), latest) if end < 0 else end
