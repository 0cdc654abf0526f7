"""Reads values where a name, a flag or a call has told that one follows.

One reader serves all rules.  It knows escapes, quotes that are escaped because the literal stands
in another one, triple quotes, concatenation, heredocs and lines that go on.  A closing quote ends a
value, but none is needed: what is being typed is a value from its first character.
Each call reads a bounded part of the text once.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from speclsp.secrets.spans import Span

MOST_CHARS: Final = 4_096
"""Characters over which a value of several lines is read."""
_MOST_PARTS: Final = 100

_OPENING: Final = re.compile(r"[A-Za-z@$]{0,3}+#{0,3}(?P<escape>\\{0,7})(?P<quote>[\"'`])")
_BLANK_LINE: Final = re.compile(r"\n[ \t]*\r?\n")
_JOIN: Final = re.compile(
    r"[ \t]*+(?P<sign>\+\+?|\.\.?|&|<>|~|\^|\|\|)?[ \t]*+"
    r"(?:(?P<goes_on>\\)?\r?\n(?P<indent>[ \t]*+)(?P<sign_below>\+\+?|\.\.?|&|<>|~|\|\|)?[ \t]*+)?"
    r"(?=[A-Za-z@$]{0,3}#{0,3}\\{0,7}[\"'`])"
)
"""What joins two literals: a sign, or nothing."""
_HEREDOC: Final = re.compile(
    r"(?:[\"']?\$\([ \t]*cat[ \t]*+)?<<(?P<indented>[~\-])?<?[ \t]*+\\?(?P<quote>[\"']?)"
    r"(?P<tag>[A-Za-z_]\w{0,40})(?P=quote)[^\n]{0,80}\n"
)


_WORD: Final = re.compile(r"\w")


class Value(NamedTuple):
    """A value in a text."""

    parts: tuple[Span, ...]
    """Where its characters are, quotes and what joins literals left out."""
    text: str
    """Its parts, joined."""
    end: int
    """Where reading ended."""
    is_open: bool = False
    """Whether its end was not found: it may be being typed."""


def read_literal(text: str, start: int, *, is_bracketed: bool = False) -> Value | None:
    """Read the literal at a place, and those that are joined to it; None where there is none.

    Literals on lines of their own are joined if they are in brackets, deeper, or joined by a sign.
    """
    position, parts, is_open = start, list[Span](), False
    indent = -1
    while len(parts) < _MOST_PARTS:
        opening = _OPENING.match(text, position)
        if opening is None:
            break
        part, position, is_open = _content(text, opening)
        parts.append(part)
        if is_open:
            break
        join = _JOIN.match(text, position, position + MOST_CHARS)
        if join is None:
            break
        if join["indent"] is not None:
            if indent < 0:
                indent = line_indent(text, start)
            is_joined = join["sign"] or join["sign_below"] or join["goes_on"] or is_bracketed
            if not is_joined and len(join["indent"]) <= indent:
                break
        position = join.end()
    if not parts:
        return None
    return Value(tuple(parts), _joined(text, parts), max(position, parts[-1].end), is_open)


def read_heredoc(text: str, start: int) -> Value | None:
    """Read the lines of a heredoc that opens at a place; None where there is none."""
    opening = _HEREDOC.match(text, start)
    if opening is None:
        return None
    latest = opening.end() + MOST_CHARS
    tag = opening["tag"] if opening["indented"] else "\n" + opening["tag"]
    position = text.find(tag, opening.end() - 1, latest)
    while position >= 0:
        line_start = text.rfind("\n", opening.end() - 1, position + 1) + 1
        end = position + len(tag)
        if not text[line_start:position].strip() and not _WORD.match(text, end):
            return _block(text, opening.end(), line_start)._replace(end=end)
        position = text.find(tag, position + 1, latest)
    end = _open_end(text, opening.end(), latest)
    return _block(text, opening.end(), end, is_open=True)._replace(end=min(len(text), latest))


def read_indented(text: str, start: int, indent: int) -> Value:
    """Read the lines at ``start`` that are deeper than ``indent``, such as YAML's block scalars."""
    line = re.compile(rf"[ \t]{{{indent + 1},}}+[^\n]*+(?:\n|\Z)|[ \t\r]*+\n")
    position, latest = start, start + MOST_CHARS
    while position < latest:
        found = line.match(text, position)
        if found is None or found.end() == position:
            break
        position = found.end()
    return _block(text, start, position)._replace(end=position)


def read_pattern(text: str, start: int, pattern: re.Pattern[str]) -> Value | None:
    """Read what a pattern matches at a place; it may go on below after a backslash."""
    found = pattern.match(text, start)
    if found is None or found.end() == start:
        return None
    parts = [Span(*found.span())]
    while len(parts) < _MOST_PARTS and text[parts[-1].end - 1] == "\\":
        below = _BELOW.match(text, parts[-1].end)
        found = pattern.match(text, below.end()) if below is not None else None
        if found is None:
            break
        parts[-1] = Span(parts[-1].start, parts[-1].end - 1)
        parts.append(Span(*found.span()))
    end = parts[-1].end
    is_open = _AT_LINE_END.match(text, end) is not None
    return Value(tuple(parts), _joined(text, parts), end, is_open)


_AT_LINE_END: Final = re.compile(r"[ \t\r]*+(?:\n|\Z)")
_BELOW: Final = re.compile(r"\r?\n[ \t]*+(?=\S)")


_NO_STRING: Final = re.compile(
    r"(?:[^\"'`\\\n]++|\\.|\"\"\"|'''|(?<=[A-Za-z]{2})'(?=(?:[stdm]|re|ve|ll)\b)|(?<=s)'(?=[ ])"
    r"|(?<=[^\x00-\x7f])'(?=[^\x00-\x7f])"
    r"|\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'|`(?:[^`\\\n]|\\.)*+`)*+"
)
"""A part of a line that ends in no string; apostrophes in words begin none."""
_LONGEST_COUNTED: Final = 500
"""Strings that begin that far before a place on its line count."""


def enclosing_quote(text: str, position: int) -> str:
    """Return the quote of the string on its line that a place stands in; empty if in none.

    Far from the line's start this is not known, and taken for none.
    """
    earliest = max(0, position - _LONGEST_COUNTED)
    line_start = text.rfind("\n", earliest, position) + 1
    if not line_start and earliest:
        return ""
    end = _NO_STRING.match(text, line_start, position).end()  # type: ignore[union-attr]  # may be empty
    return text[end] if end < position else ""


# --- parts ----------------------------------------------------------------------------------------


@cache
def _patterns(quote: str, n_escapes: int) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what a literal holds on one line, and between triple quotes.

    A literal that stands in another one has escaped quotes: ``n_escapes`` backslashes before each.
    As many or fewer close it, more belong to a quote within it.
    """
    if n_escapes == 0:
        inner = "" if quote == "`" else f"|{quote}(?!{quote}{quote})"
        return (
            re.compile(rf"(?:[^{quote}\\\n]++|\\(?:\r\n|[\s\S])?)*+"),
            re.compile(rf"(?:[^{quote}\\]++|\\[\s\S]?{inner})*+"),
        )
    within = rf"\\++(?!{quote})|\\{{{n_escapes + 1},}}+{quote}"
    escape = "\\\\" * n_escapes
    ending = (escape + quote) * 3
    return (
        re.compile(rf"(?:[^{quote}\\\n]++|{within})*+"),
        re.compile(rf"(?:[^{quote}\\\n]++|{within}|(?!{ending}){escape}{quote})*+"),
    )


def _content(text: str, opening: re.Match[str]) -> tuple[Span, int, bool]:
    """Return where a literal's content is, where it ends, and whether it is open."""
    quote, escape, start = opening["quote"], opening["escape"], opening.end()
    on_line, in_triple = _patterns(quote, len(escape))
    latest = start + MOST_CHARS
    more = (escape + quote) * 2
    if quote != "`" and text.startswith(more, start):
        start += len(more)
        end = in_triple.match(text, start, latest).end()  # type: ignore[union-attr]  # may be empty
        closing = escape + quote + more
        if text.startswith(closing, end):
            return Span(start, end), end + len(closing), False
        return Span(start, _open_end(text, start, end)), end, True
    if quote == "`" and not escape:
        end = in_triple.match(text, start, latest).end()  # type: ignore[union-attr]  # may be empty
        if text.startswith("`", end):
            return Span(start, end), end + 1, False
        return Span(start, _open_end(text, start, end)), end, True
    end = on_line.match(text, start).end()  # type: ignore[union-attr]  # it may be empty
    for n_escapes in range(len(escape) + 1):
        if text.startswith("\\" * n_escapes + quote, end):
            return Span(start, end), end + n_escapes + 1, False
    return Span(start, end), end, True


def _open_end(text: str, start: int, latest: int) -> int:
    """Return where a value of several lines ends that nothing closes: at an empty line."""
    blank = _BLANK_LINE.search(text, start, latest)
    return blank.start() if blank is not None else min(len(text), latest)


def line_indent(text: str, position: int) -> int:
    """Return how many blanks begin the line of a position."""
    line_start = text.rfind("\n", max(0, position - MOST_CHARS), position) + 1
    return len(text[line_start:position]) - len(text[line_start:position].lstrip(" \t"))


def _joined(text: str, parts: list[Span]) -> str:
    return "".join(text[start:end] for start, end in parts)


def _block(text: str, start: int, end: int, *, is_open: bool = False) -> Value:
    """Return the lines of a block as one value, without the blanks around it."""
    block = text[start:end]
    first = start + len(block) - len(block.lstrip())
    last = start + len(block.rstrip())
    part = Span(first, max(first, last))
    return Value((part,), text[part.start : part.end], end, is_open)
