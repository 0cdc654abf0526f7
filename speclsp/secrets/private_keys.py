"""Private keys, most of them over several lines, with ``-----BEGIN … PRIVATE KEY-----`` or without.

Without an end marker, as in a file that was cut, a block goes on as long as its lines look like a
key's.  Without a first marker, or without any, base64 is masked that looks drawn at random and is
at least as long as the shortest key, on one line or on several.  A part of a key cannot be told
from other base64, so certificates, public keys and images are masked too; data URIs and the
checksums of lock files are not.
Every search is bounded, and reads each character a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Final

from speclsp.secrets.spans import Span

# --- with markers ---------------------------------------------------------------------------------

BEGIN: Final = "-----BEGIN"
_BEGINNING: Final = re.compile(
    r"-----BEGIN (?:(?:[A-Z0-9]{1,20} ){0,6}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1)-----"
)
_ENDING: Final = re.compile(
    r"-----END (?:[A-Z0-9 ]{0,80}?PRIVATE KEY[A-Z ]{0,20}|OpenVPN Static key V1)-----"
)
# The quantifiers are possessive: with backtracking a line of n blanks would be tried in n³ ways.
_BODY_LINE: Final = re.compile(
    r"[ \t\"'`+\\.,;|#/*>\-]*+"
    r"(?:[A-Za-z][A-Za-z\-]{0,40}+: [^\n]*+|[A-Za-z0-9+/=\\ ]*+)"
    r"[ \t\"'`+\\.,;()|nr]*+"
)
_CALL: Final = re.compile(r"[A-Za-z_] ?\(")
_SOME_KEY: Final = re.compile(r"[A-Za-z0-9+/=]{24}")
"""What a program that writes a key calls between the markers, and what it would hold itself."""
_LINE_ENDS: Final = re.compile(r"\n*+")
_MAX_CHARS: Final = 20_000


def key_blocks(text: str) -> list[Span]:
    """Return the text between the markers of each private key, or after a lone first marker."""
    blocks = []
    position = text.find(BEGIN)
    while position >= 0:
        beginning = _BEGINNING.match(text, position)
        end = position + len(BEGIN)
        if beginning is not None:
            start, end = beginning.end(), _end_of_key(text, beginning.end())
            is_code = _CALL.search(text, start, end) and not _SOME_KEY.search(text, start, end)
            if not is_code and text[start:end].strip("\\nr \t\n\r\"'`"):
                blocks.append(Span(start, end))
        position = text.find(BEGIN, end)
    return blocks


def _end_of_key(text: str, start: int) -> int:
    """Return where the end marker begins, or the last line that looks like a key's ends."""
    latest = start + _MAX_CHARS
    next_beginning = text.find(BEGIN, start, latest)
    if next_beginning >= 0:
        latest = next_beginning + len(BEGIN)
    ending = _ENDING.search(text, start, latest)
    return ending.start() if ending is not None else _end_of_body(text, start)


def _end_of_body(text: str, start: int) -> int:
    end = start
    while True:
        stop = _BODY_LINE.match(text, end).end()  # type: ignore[union-attr]  # it may be empty
        if stop < len(text) and text[stop] != "\n":
            break
        end = _LINE_ENDS.match(text, stop).end()  # type: ignore[union-attr]  # it may be empty
        if end == len(text):
            break
    # Empty lines are part of a block only where more of it follows.
    return start + len(text[start:end].rstrip())


# --- without markers ------------------------------------------------------------------------------

_LEAST_LETTERS: Final = 64
"""Letters of the shortest keys: Ed25519 in PKCS 8.  Digests have fewer."""
_LONGEST_LINE: Final = 2_000
"""Characters of a line up to which only what is near a change is searched again."""
_N_BESIDE: Final = 3
"""Lines beside a change that it may make a key of: a last line, a checksum and an end marker."""
_LONGEST_REST: Final = 200
"""Characters above an end marker, or above a block, that may be a cut key's short lines."""

# The quantifiers are possessive (no backtracking), and no two parts match the same character.
_BEFORE: Final = r"(?:[ \t#*>|;\"'`%,.(){\[\\$\-]|//(?=[ \t\"'])|\+[ \t])*+"
_LETTER: Final = (
    r"(?:[A-Za-z0-9+/=]|\\++(?:[nr/]|u00(?:0[aAdD]|2[bBfF]|3[dD]))|%(?:0[aAdD]|2[bBfF]|3[dD])"
    r"|&#(?:10|13|x[aAdD]);|[ ](?=[A-Za-z0-9+/]{16}))"
)
"""A letter of base64, or what stands between the letters on one line: an escaped line end."""
_AFTER: Final = r"[ \t\r\"'`+\\.,;)(}\]|&_^]*+"

_RUN: Final = re.compile(
    rf"(?:(?<![A-Za-z0-9+/=_\-\\])(?<!base64,)(?<![a-z]\.)|(?<=\w=))(?=[^ ]){_LETTER}{{40,}}+",
    re.ASCII,
)
"""Letters that are no name, path or checksum by what stands before them."""
_GAP: Final = re.compile(rf"{_AFTER}\n{_BEFORE}")
_BELOW: Final = re.compile(rf"{_AFTER}\n{_BEFORE}(?P<letters>{_LETTER}++){_AFTER}(?=\n|\Z)")
_ABOVE: Final = re.compile(
    rf"^{_BEFORE}(?P<letters>{_LETTER}++){_AFTER}\n{_BEFORE}\Z", re.MULTILINE
)
_REST: Final = re.compile(
    rf"(?:^{_BEFORE}{_LETTER}++{_AFTER}\n)*+^{_BEFORE}(?:{_LETTER}++{_AFTER})?\Z", re.MULTILINE
)
_ESCAPES: Final = re.compile(r"\\++(?:u00..|[nr])?|%..|&#\w+;|[ ]")
_NO_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[0-9a-f]{32,}|[0-9A-F]{32,}")
"""A line beside a block that is no part of a key: a word, a number or a digest."""
_SOLID: Final = re.compile(r"[A-Za-z0-9+/]{16}")
_END: Final = "-----END"

_CLASSES: Final = str.maketrans(
    ascii_lowercase + ascii_uppercase + digits + "+/=", 26 * "a" + 26 * "A" + 13 * "0"
)


def bare_keys(text: str) -> Iterator[Span]:
    """Yield the keys of a text."""
    block: list[Span] = []
    for found in _RUN.finditer(text):
        run = Span(*found.span())
        if block and _GAP.fullmatch(text, block[-1].end, run.start) is None:
            yield from _keys(text, block)
            block = []
        block.append(run)
    yield from _keys(text, block)
    yield from _rests(text)


def part_without_keys(text: str, start: int, end: int) -> Span | None:
    """Return the lines that a change between two places affects, if they can hold no key.

    None if they can: then the whole text must be searched.
    """
    first = text.rfind("\n", max(0, start - _LONGEST_LINE), start) + 1
    last = text.find("\n", end, end + _LONGEST_LINE)
    last = last if last >= 0 else len(text)
    for _ in range(_N_BESIDE):
        first = text.rfind("\n", 0, max(0, first - 1)) + 1
        found = text.find("\n", last + 1)
        last = found if found >= 0 else len(text)
    if last - first >= _LONGEST_LINE or _RUN.search(text, first, last) is not None:
        return None
    seen_end = max(last, end + _LONGEST_REST + len(_END))
    return None if text.find(_END, first, seen_end) >= 0 else Span(first, last)


def _keys(text: str, block: list[Span]) -> Iterator[Span]:
    """Yield the keys in a block of adjacent runs: all of it, or the lines that look drawn."""
    if not block:
        return
    key = _key(text, block)
    if key is not None:
        yield key
        return
    for is_drawn, lines in groupby(block, lambda run: _looks_drawn(_letters(text, [run]))):
        key = _key(text, [*lines]) if is_drawn else None
        if key is not None:
            yield key


def _letters(text: str, parts: list[Span]) -> str:
    return _ESCAPES.sub("", "".join(text[start:end] for start, end in parts))


def _key(text: str, block: list[Span]) -> Span | None:
    """Return the key that consists of a block of runs and the shorter lines beside it, if any."""
    parts = [*block]
    start = block[0].start
    above = _ABOVE.search(text, max(0, start - _LONGEST_REST), start)
    if above is not None and not _NO_PART.fullmatch(above["letters"]):
        parts.insert(0, Span(*above.span("letters")))
    for _ in range(2):  # the shorter last line, and a checksum
        below = _BELOW.match(text, parts[-1].end, parts[-1].end + _LONGEST_LINE)
        if below is None or _NO_PART.fullmatch(below["letters"]):
            break
        parts.append(Span(*below.span("letters")))
    for judged in (parts, block):
        letters = _letters(text, judged)
        if len(letters) >= _LEAST_LETTERS and _looks_drawn(letters):
            return Span(parts[0].start, parts[-1].end)
    return None


def _looks_drawn(letters: str) -> bool:
    """Whether letters look drawn at random, unlike names, paths, alphabets and hexadecimal digits.

    Of 64 drawn letters 26 are lower case, 26 upper case and 10 digits, and the class changes after
    40 of them.
    """
    n = len(letters)
    classes = letters.translate(_CLASSES)
    n_changes = sum(a != b for a, b in pairwise(classes))
    return (
        n / 8 <= classes.count("a") <= 0.62 * n
        and classes.count("A") >= n / 5
        and classes.count("0") >= n / 20
        and letters.count("/") <= n / 8
        and n_changes >= 0.3 * n
    )


def _rests(text: str) -> Iterator[Span]:
    """Yield the lines above the end markers of keys, which may be too few to look drawn."""
    position = text.find(_END)
    while position >= 0:
        rest = _REST.search(text, max(0, position - _LONGEST_REST), position)
        if rest is not None and _SOLID.search(rest[0]) and _ENDING.match(text, position):
            yield Span(rest.start(), position)
        position = text.find(_END, position + len(_END))
