"""Loops of lines, of characters and of numbers, which small models fall into."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_N_REPEATS: Final = 3
"""Repetitions of lines that make a loop."""

_N_CYCLE_LINES: Final = 6
"""Lines of the longest cycle; three of them are fewer than the default of ``max_lines``."""

_N_CYCLE_CHARS: Final = 32
"""Characters of the longest cycle within a line."""

_N_LOOP_CHARS: Final = 48
"""Least characters of a loop within a line; rulers may be longer."""

_N_RULER_CHARS: Final = 120
_N_COUNTING_CHARS: Final = 72
"""Least characters of a loop that counts."""
_N_COUNTED_CHARS: Final = 12
_COUNTED: Final = re.compile(r"(\d{1,4})(\W{1,8})\Z")
"""A number and what stands before the next; together at most ``_N_COUNTED_CHARS``."""
_N_BLANKS: Final = 64
"""So many blanks after text on a line are a loop; fewer may align a comment."""


def repeated_lines(lines: Sequence[str]) -> int | None:
    """Return how many of ``lines`` to keep if they end in a loop, else None.

    A loop is a cycle of up to six lines, not all blank, with three repetitions; the first one is
    kept.
    """
    for period in range(1, min(_N_CYCLE_LINES, len(lines) // _N_REPEATS) + 1):
        n_lines = period * _N_REPEATS
        tail = list(lines[-n_lines:])
        if any(map(str.strip, tail)) and tail[:period] * _N_REPEATS == tail:
            return len(lines) - n_lines + period
    return None


def first_loop(line: str, n_known: int) -> int | None:
    """Return how many characters of ``line`` to keep; None if there is no loop.

    The first ``n_known`` characters have no loop.  The result is that of one call of
    :func:`repeated_characters` for each further character.
    """
    for end in range(max(n_known + 1, _N_LOOP_CHARS), len(line) + 1):
        n_kept = repeated_characters(line[:end])
        if n_kept is not None:
            return n_kept
    return None


def repeated_characters(line: str) -> int | None:
    """Return how many characters of ``line`` to keep if it ends in a loop, else None."""
    if len(line) < _N_LOOP_CHARS:
        return None
    n_filled = len(line.rstrip())
    if n_filled and len(line) - n_filled >= _N_BLANKS:
        return n_filled
    for period in range(1, _N_CYCLE_CHARS + 1):
        n_needed = _N_RULER_CHARS if period == 1 else max(_N_LOOP_CHARS, period * _N_REPEATS)
        if len(line) < n_needed + period:
            continue
        tail = line[-n_needed:]
        # A ruler repeats with every period; only period 1 counts.
        is_ruler = period > 1 and len(set(tail)) == 1
        if tail == line[-n_needed - period : -period] and tail.strip() and not is_ruler:
            return len(line) - n_needed
    return None


def counting(text: str) -> int | None:
    """Return how many characters of ``text`` to keep if it ends in a loop that counts, else None.

    These are numbers, each one more than the one before, with the same punctuation and blanks
    between them, as in ``1. 2. 3.``.  A list of up to 20 may be meant.  The loop is cut whole.
    """
    start = len(text)
    next_number, between = None, ""
    while found := _COUNTED.search(text, max(0, start - _N_COUNTED_CHARS), start):
        number = int(found[1])
        if next_number is None:
            between = found[2]  # the last one may be incomplete
        elif number + 1 != next_number or not found[2].startswith(between):
            break
        else:
            between = found[2]
        start, next_number = found.start(), number
    return start if len(text) - start >= _N_COUNTING_CHARS else None
