"""Where a text is cut into prefix, middle and suffix.

Cuts are made between characters, never between tokens: a pre-tokenizer that joins ``):`` with the
newline behind it would else never show a middle that ends with its last bracket.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

MAX_MIDDLE_CHARS = 600
_MAX_LINES = 6
_MAX_BLOCK_LINES = 16


@dataclass(frozen=True, slots=True)
class Cut:
    """The middle is ``text[start:end]``; ``start`` is where the cursor stands."""

    start: int
    end: int


def line_start(text: str, index: int) -> int:
    """Return where the line begins that ``index`` lies on."""
    return text.rfind("\n", 0, index) + 1


def line_end(text: str, index: int) -> int:
    """Return where the line ends that ``index`` lies on, its newline left out."""
    end = text.find("\n", index)
    return len(text) if end < 0 else end


def indentation(line: str) -> int:
    """Return how many characters of white space a line begins with."""
    return len(line) - len(line.lstrip(" \t"))


def cut_at(text: str, index: int, rng: random.Random) -> Cut | None:
    """Cut at the line that ``index`` lies on, in one of the ways people complete code.

    Returns None where that line, or what would be cut out, says nothing or is too long.
    """
    start, end = line_start(text, index), line_end(text, index)
    if not text[start:end].strip():
        return None
    (kind,) = rng.choices(tuple(_KINDS), weights=tuple(_KINDS.values()))
    cut = kind(text, start, end, rng)
    if cut is None or not 0 < cut.end - cut.start <= MAX_MIDDLE_CHARS:
        return None
    return cut if text[cut.start : cut.end].strip() else None


def _rest_of_line(text: str, start: int, end: int, rng: random.Random) -> Cut | None:
    """From inside the line to its end."""
    cursor = _inside(text, start, end, rng)
    return Cut(cursor, end)


def _inside_line(text: str, start: int, end: int, rng: random.Random) -> Cut | None:
    """From inside the line to a place before its end, as between brackets."""
    cursor = _inside(text, start, end, rng)
    closing = [i for i in range(cursor + 1, end) if text[i] in ")]}\"':,"]
    if closing and rng.random() < 0.8:
        return Cut(cursor, rng.choice(closing))
    return Cut(cursor, rng.randint(cursor + 1, end)) if cursor < end else None


def _whole_line(text: str, start: int, end: int, rng: random.Random) -> Cut | None:
    """The whole line, with or without its indentation."""
    cursor = start + (indentation(text[start:end]) if rng.random() < 0.6 else 0)
    return Cut(cursor, end)


def _from_line_end(text: str, _start: int, end: int, rng: random.Random) -> Cut | None:
    """What follows the line's end: the newline and up to six lines."""
    return Cut(end, _after_lines(text, end, rng.choice((1, 1, 1, 2, 3, 4))))


def _lines(text: str, start: int, end: int, rng: random.Random) -> Cut | None:
    """Several lines, from a line's start or from inside it."""
    cursor = rng.choice((start, start + indentation(text[start:end]), -1))
    if cursor < 0:
        cursor = _inside(text, start, end, rng)
    return Cut(cursor, _after_lines(text, end, rng.randint(1, _MAX_LINES - 1)))


def _block(text: str, start: int, end: int, rng: random.Random) -> Cut | None:
    """From inside the line, or its end, to the end of the block that it opens or lies in."""
    depth = indentation(text[start:end])
    inner = text[end + 1 : line_end(text, end + 1)]
    opens = bool(inner.strip()) and indentation(inner) > depth
    least = depth + 1 if opens else depth
    if least == 0:
        return _lines(text, start, end, rng)
    stop, last = end, end
    for _ in range(_MAX_BLOCK_LINES):
        if stop >= len(text):
            break
        line_stop = line_end(text, stop + 1)
        line = text[stop + 1 : line_stop]
        if line.strip():
            if indentation(line) < least:
                break
            last = line_stop
        stop = line_stop
    cursor = end if rng.random() < 0.6 else _inside(text, start, end, rng)
    return Cut(cursor, last)


def _anywhere(text: str, start: int, end: int, rng: random.Random) -> Cut | None:
    """Any characters from inside the line on."""
    cursor = rng.randint(start, end)
    return Cut(cursor, min(len(text), cursor + rng.randint(1, 160)))


_Kind = Callable[[str, int, int, random.Random], Cut | None]

_KINDS: dict[_Kind, float] = {
    _rest_of_line: 0.38,
    _inside_line: 0.14,
    _whole_line: 0.14,
    _from_line_end: 0.10,
    _lines: 0.08,
    _block: 0.12,
    _anywhere: 0.04,
}


def _inside(text: str, start: int, end: int, rng: random.Random) -> int:
    """A place behind the line's indentation, most often where one would ask for a completion."""
    first = start + indentation(text[start:end])
    if first + 1 >= end:
        return first
    if rng.random() < 0.5:
        behind = [i + 1 for i in range(first, end - 1) if text[i] in " .([{=,:\"'@"]
        if behind:
            return rng.choice(behind)
    return rng.randint(first + 1, end - 1)


def _after_lines(text: str, end: int, n_lines: int) -> int:
    """Where the ``n_lines`` lines behind the line end ``end`` are over, blank ones not counted."""
    last = end
    while n_lines > 0 and end < len(text):
        next_end = line_end(text, end + 1)
        if text[end + 1 : next_end].strip():
            n_lines -= 1
            last = next_end
        end = next_end
    return last
