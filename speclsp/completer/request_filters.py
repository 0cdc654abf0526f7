"""Automatic requests that cannot help, by place and path."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from speclsp.project.ignore import Patterns, compiled_patterns
from speclsp.request import CompletionRequest
from speclsp.settings import Settings


class RequestFilters:
    """Says which automatic requests the model is spared.  It is not synchronised.

    ``warn`` takes a message for each pattern that is none, once.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._patterns: dict[tuple[str, ...], Patterns] = {}

    def refuses(self, settings: Settings, request: CompletionRequest) -> bool:
        """Whether the request cannot help; ``settings`` are those that hold for it."""
        if settings.automatic_filters and is_inside_word(request.prefix, request.suffix):
            return True
        patterns = tuple(settings.exclude_automatic)
        return bool(patterns) and self._excludes(patterns, request.path)

    def _excludes(self, patterns: tuple[str, ...], path: str) -> bool:
        if patterns not in self._patterns:
            compiled, bad = compiled_patterns(patterns)
            for pattern in bad:
                self._warn(f"exclude_automatic: {pattern!r} is no pattern")
            self._patterns[patterns] = compiled
        return bool(self._patterns[patterns].match_file(path.lstrip("/")))


def is_inside_word(prefix: str, suffix: str) -> bool:
    """Whether a word's letters stand on both sides of the cursor."""
    return _is_word_character(prefix[-1:]) and _is_word_character(suffix[:1])


def _is_word_character(character: str) -> bool:
    # Scripts without case often have no spaces either: their letters are words of their own.
    is_letter = character.isalnum() and unicodedata.category(character) != "Lo"
    return is_letter or character == "_"
