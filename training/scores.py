"""What a completion is worth, judged by its text alone."""

from __future__ import annotations

from collections import Counter

_N_REPEATS = 3


def first_line(text: str) -> str:
    """Return a completion's first line without the white space at its end."""
    return text.split("\n", 1)[0].rstrip()


def repeats_a_line(text: str) -> bool:
    """Whether a line that has letters or digits in it stands three times in a text."""
    lines = (line.strip() for line in text.split("\n"))
    counts = Counter(line for line in lines if any(map(str.isalnum, line)))
    return any(count >= _N_REPEATS for count in counts.values())
