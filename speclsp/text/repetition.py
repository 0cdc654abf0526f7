"""Loops: small models fall into them, and no loop is worth showing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_N_REPEATS: Final = 3
"""As often must lines stand one after another to be a loop."""

_N_CYCLE_LINES: Final = 8
"""Longest cycle of lines that is looked for."""

_N_LONG_CYCLE: Final = 4
"""Lines of a cycle that is a loop when it stands there twice: so much is hardly meant twice."""

_N_CYCLE_CHARS: Final = 32
"""Longest cycle of characters within a line that is looked for."""

_N_LOOP_CHARS: Final = 48
"""Characters that a cycle inside a line must fill; rulers and the like may be longer."""

_N_RULER_CHARS: Final = 120
_N_BLANKS: Final = 64
"""Blanks behind something on its line: more than what aligns a comment."""


def repeated_lines(lines: Sequence[str]) -> int | None:
    """How many of ``lines`` to keep where their end is a loop, else None.

    A loop is a cycle of up to eight lines, not all blank, that stands there three times, or twice
    where it has four lines that are not blank; its first round is kept.
    """
    for period in range(1, _N_CYCLE_LINES + 1):
        n_filled = sum(bool(line.strip()) for line in lines[-period:])
        n_repeats = 2 if n_filled >= _N_LONG_CYCLE else _N_REPEATS
        n_lines = period * n_repeats
        if len(lines) < n_lines:
            continue
        tail = list(lines[-n_lines:])
        if n_filled and tail[:period] * n_repeats == tail:
            return len(lines) - n_lines + period
    return None


def first_loop(line: str, n_known: int) -> int | None:
    """How many characters to keep of ``line``, which began to loop behind the first ``n_known``.

    None where it has no loop.  The answer is the one that comes of reading it letter by letter.
    """
    for end in range(max(n_known + 1, _N_LOOP_CHARS), len(line) + 1):
        n_kept = repeated_characters(line[:end])
        if n_kept is not None:
            return n_kept
    return None


def repeated_characters(line: str) -> int | None:
    """How many characters of ``line`` to keep where its end is a loop, else None."""
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
        # A ruler has every period, but only the first one's length counts.
        is_ruler = period > 1 and len(set(tail)) == 1
        if tail == line[-n_needed - period : -period] and tail.strip() and not is_ruler:
            return len(line) - n_needed
    return None
