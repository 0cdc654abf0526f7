"""Folders of cases for the tests of what replays them."""

import json
from pathlib import Path
from typing import Any

from benchmarks.cases import EditCase

OLD = """import os


def add(a, b):
    return a + b


def total(values):
    result = 0
    return result
"""

NEW = """import os
import sys


def add(first, b):
    return first + b


def total(values):
    result = 0
    for value in values:
        result = add(result, value)
    return result
"""


def case(typed: str, prefix: str = "def f():\n", suffix: str = "", **fields: Any) -> EditCase:
    """Return a case without a project."""
    plain: dict[str, Any] = {
        "id": "one",
        "project": None,
        "path": "a.py",
        "language_id": "python",
        "prefix": prefix,
        "typed": typed,
        "suffix": suffix,
    }
    return EditCase(**{**plain, **fields})


def write_lines(path: Path, *lines: dict[str, Any] | str) -> Path:
    """Write a file of cases: objects as JSON, texts as they are."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path
