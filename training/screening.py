"""Which files teach something: written by people, as code, of a sensible size."""

from __future__ import annotations

import re

LANGUAGES = {
    ".py": "python",
    ".c": "c++",
    ".cc": "c++",
    ".cpp": "c++",
    ".h": "c++",
    ".hpp": "c++",
    ".js": "javascript",
    ".mjs": "javascript",
    ".ts": "javascript",
    ".lua": "lua",
}
"""Language of a file by the end of its name; other files are not taken."""

_MIN_CHARS = 200
_MAX_CHARS = 250_000
_MAX_LINE_CHARS = 400
_MAX_MEAN_LINE_CHARS = 90
_MAX_DIGIT_SHARE = 0.12
_HEAD_CHARS = 1500
_GENERATED = re.compile(
    r"do not (edit|modify)|auto-?generated|generated (by|from|code|file|protocol)|@generated",
    re.IGNORECASE,
)


def is_worth_learning(text: str) -> bool:
    """Whether a file's text is neither data, nor generated, nor minified."""
    if not _MIN_CHARS <= len(text) <= _MAX_CHARS or "\0" in text:
        return False
    lines = text.splitlines()
    if len(text) / len(lines) > _MAX_MEAN_LINE_CHARS:
        return False
    if max(map(len, lines)) > _MAX_LINE_CHARS:
        return False
    if sum(map(str.isdigit, text)) > _MAX_DIGIT_SHARE * len(text):
        return False
    return _GENERATED.search(text[:_HEAD_CHARS]) is None
