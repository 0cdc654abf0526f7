"""Finds the lines of base64 in a key's body: all of one width, the last one shorter.

Lines may be indented, quoted, joined by a sign or commented out; escaped line ends belong to a
line.  Every search is bounded, and reads a character a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from speclsp.secrets.spans import Span

LONGEST: Final = 20_000
"""Characters of a body: the largest keys have 13,000."""
LONGEST_LINE: Final = 2_000
"""Characters of a line that may be one of several; a longer one holds a key alone or none."""

# Nothing that a part took is ever given back, and no two parts share a character.
_BEFORE: Final = r"(?:[ \t#*>|;\"'`%,.(){\[\\$\-]|//(?=[ \t\"'])|\+[ \t])*+"
_LETTER: Final = (
    r"(?:[A-Za-z0-9+/=]|\\++(?:[nr/]|u00(?:0[aAdD]|2[bBfF]|3[dD]))|%(?:0[aAdD]|2[bBfF]|3[dD])"
    r"|&#(?:10|13|x[aAdD]);|[ ](?=[A-Za-z0-9+/]{16}))"
)
_AFTER: Final = r"[ \t\r\"'`+\\.,;)(}\]|&_^]*+"
_START: Final = re.compile(_BEFORE)
_LETTERS: Final = re.compile(_LETTER + "*+")
_LINE: Final = re.compile(rf"{_BEFORE}(?P<letters>{_LETTER}++){_AFTER}")
_NEXT: Final = re.compile(rf"{_AFTER}\n{_BEFORE}(?P<letters>{_LETTER}++){_AFTER}")
_BACKWARDS: Final = re.compile(
    r"[ ]?(?:[nr/]\\++|[0-9A-Fa-f]{2}%|[A-Za-z0-9+/=]|[ ](?=[A-Za-z0-9+/]{16}))*+"
)
_ESCAPES: Final = re.compile(r"\\+(?:u00..|[nr])|%..|&#\w+;|\\|[ ]")
"""What stands between the letters of base64 within a line."""

SOLID: Final = re.compile(r"[A-Za-z0-9+/]{16}")
"""Every line of a key but its last matches, and few lines of code do."""
_MOST_SHORT: Final = 2
_LEAST_DRAWN: Final = 40
_MOST_SLASHES: Final = 1 / 8
"""Share of a line's letters: base64 has one in 64 of them, a path several times as many."""
_QUANTUM: Final = 4
"""Base64 comes in groups of four letters."""
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_CHECKSUM: Final = re.compile(r"=[A-Za-z0-9+/]{4}")
"""OpenPGP's, behind the last line."""


class Line(NamedTuple):
    """A line of base64: where the line begins, and where its letters are."""

    start: int
    letters: Span
    is_solid: bool
    """Whether others may follow it; a key's last line and its checksum may be shorter."""

    @property
    def width(self) -> int:
        """How many characters its letters are."""
        return self.letters.end - self.letters.start


def line_at(text: str, start: int) -> Line | None:
    """Return the line that begins at ``start``; None where it is no such line."""
    found = _LINE.match(text, start, start + LONGEST_LINE)
    if found is None or not _is_line_end(text, found.end()):
        return None
    letters = Span(*found.span("letters"))
    return Line(start, letters, SOLID.search(text, *letters) is not None)


def line_before(text: str, start: int) -> Line | None:
    """Return the line before the one that begins at ``start``; None where it is no such line."""
    if not start:
        return None
    earliest = max(0, start - 1 - LONGEST_LINE)
    line_start = text.rfind("\n", earliest, start - 1) + 1
    return line_at(text, line_start) if line_start or not earliest else None


def letters_at(text: str, start: int) -> Span:
    """Return the letters of base64 from ``start`` on."""
    return Span(start, _LETTERS.match(text, start, start + LONGEST).end())  # type: ignore[union-attr]  # it may be empty


def base64_of(text: str, parts: Iterable[Span]) -> str:
    """Return the letters of base64 in some parts of a text."""
    return _ESCAPES.sub("", "".join(text[start:end] for start, end in parts))


def looks_drawn(letters: str) -> bool:
    """Whether letters look like a line of a key, and not like a name or a checksum."""
    return (
        len(letters) >= _LEAST_DRAWN
        and SOLID.search(letters) is not None
        and any(map(str.islower, letters))
        and any(map(str.isupper, letters))
        and any(letter.isdigit() or letter == "+" for letter in letters)
        and letters.count("/") <= _MOST_SLASHES * len(letters)
    )


def is_word(text: str, letters: Span) -> bool:
    """Whether letters are a word or a number, as any text has them."""
    return _WORD.fullmatch(text, *letters) is not None


def lines_behind(text: str, first: Span, *, is_beginning: bool) -> list[Span]:
    """Return the letters of the lines behind ``first`` that belong to the same base64.

    ``is_beginning``: the data begins with ``first``, so its letters come in groups of four.
    """
    found: list[Span] = []
    width, position = first.end - first.start, first.end
    while position - first.end < LONGEST:
        letters = _letters_behind(text, position)
        if letters is None:
            return found
        raw = text[letters.start : letters.end]
        is_alike = len(raw) == width and SOLID.search(raw) is not None
        if not is_alike and (found or not looks_drawn(raw)):
            break
        found.append(letters)
        width, position = len(raw), letters.end
    else:
        return found
    if len(raw) < width and not is_word(text, letters) and not _CHECKSUM.fullmatch(raw):
        n_letters = len(base64_of(text, [first, *found, letters]))
        if is_beginning and n_letters % _QUANTUM and letters.end < len(text):
            return found
        found.append(letters)
        letters = _letters_behind(text, letters.end)
    if letters is not None and _CHECKSUM.fullmatch(text, letters.start, letters.end):
        found.append(letters)
    return found


def start_before(text: str, earliest: int, position: int) -> int:
    """Return where the base64 that ends at ``position`` begins, on its line or one above.

    ``position`` itself if there is none; never before ``earliest``.
    """
    earliest = max(earliest, position - LONGEST)
    line_start = text.rfind("\n", earliest, position) + 1 or earliest
    start = _start_on_line(text, line_start, position)
    if _START.match(text, line_start, start).end() < start:  # type: ignore[union-attr]  # it may be empty
        return start
    widths: list[int] = [position - start] if start < position else []
    while (above := line_before(text, line_start)) is not None and above.start >= earliest:
        is_rest = not above.start and widths and above.width < widths[-1]
        if not is_rest and not _goes_on(widths, above):
            break
        widths.append(above.width)
        start, line_start = above.letters.start, above.start
    return start


def _goes_on(widths: list[int], above: Line) -> bool:
    """Whether a line may stand above lines of these widths, the lowest first.

    A checksum may stand below the last line, which may be shorter than those above.
    """
    if not widths:
        return True
    if above.width == widths[-1]:
        return above.is_solid
    return above.width > widths[-1] and len(widths) == len(set(widths)) <= _MOST_SHORT


def _start_on_line(text: str, line_start: int, position: int) -> int:
    found = _BACKWARDS.match(text[line_start:position][::-1])
    return position if found is None or not found[0].strip() else position - found.end()


def _letters_behind(text: str, position: int) -> Span | None:
    found = _NEXT.match(text, position, position + LONGEST_LINE)
    if found is None or not _is_line_end(text, found.end()):
        return None
    return Span(*found.span("letters"))


def _is_line_end(text: str, position: int) -> bool:
    return position == len(text) or text[position] == "\n"
