"""Stop rules of one request, from the settings and the text around the cursor."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from speclsp.seam.completion import PlacedCompletion
from speclsp.seam.request import AnyPlaced
from speclsp.settings import Settings
from speclsp.text.code_reader import (
    AUTO_CLOSERS,
    LONG_STRINGS,
    OUTSIDE,
    CodeState,
    inside_of,
    read_code,
)
from speclsp.text.languages import INDENTED, comment_marks, language_of, opens_block

Extent = Literal["line", "lines", "block", "string"]
"""The end of a completion: of the line, before a dedent, or of the block, or the string or comment,
that the cursor's line opens."""

N_NEXT_LINES: Final = 8
"""Most lines after the cursor that the rules compare."""

_N_CODE_CHARS: Final = 8000
"""Most characters before the cursor that are read, in about a millisecond."""

_N_READ_CHARS: Final = 131_072
"""At least so many characters before those are read for strings and comments: a docstring may be
longer.  Without them the state was wrong at 446 of 4,610 places in FastAPI and five other projects,
with them at none.  They are read in blocks, of which a keystroke changes one."""

_CODE_START: Final = re.compile(
    r"\n(?=[@A-Za-z_]|[ \t]+(?:\w+ )*(?:class|def|fn|func|function) \w+ ?[(<:{])"
)
"""Lines in column 0 and definitions, which are rarely inside a string or a comment."""

_BY_KEY: Final = 0.125
"""What the least probability is multiplied by for a suggestion that a key asks for."""

_HEADS: Final = {
    "elif": ("if", "elif"),
    "else": ("if", "elif", "for", "while", "async", "try", "except"),
    "except": ("try", "except"),
    "finally": ("try", "except", "else"),
}
"""Python's words that go on with a statement, and those that the part before may begin with."""
_FIRST_WORD: Final = re.compile(r"\s*(\w+)\W")

_BRACED: Final = frozenset(("c", "cpp", "go", "javascript", "rust", "typescript"))
"""Languages in which hardly a line outside of brackets is deeper than a comment above it: none of
those in fixtures/points."""

_TRYING: Final = frozenset(
    ("cpp", "csharp", "java", "javascript", "javascriptreact", "php", "typescript")
) | {"typescriptreact"}
"""Languages in which ``catch`` and ``finally`` stand behind a block in braces."""
_OPEN_TRY: Final = re.compile(r"\btry\s*(?:\([^\n]*\)\s*)?\Z")
"""What stands before the brace of such a block, in Java with its resources."""

_BEFORE_STRING: Final = re.compile(r"[:=(,]\s*\w?\Z")
"""What a string stands behind.  With the number of quotes below it tells 182 of 196 docstrings that
are closed below, and takes 4 of 1,923 that are not for closed, in Python's library and
fixtures/points."""

_N_SCANNED_CHARS: Final = 4000
"""Most characters of a line, and of the text after the cursor, that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRules:
    """What :class:`~speclsp.text.stopping.CompletionText` stops at, and fits its text to."""

    extent: Extent
    max_lines: int
    language_id: str
    line_before: str
    """The cursor's line up to the cursor."""
    line_after: str
    """The rest of the cursor's line."""
    next_lines: tuple[str, ...]
    """The next lines that are not blank, without trailing white space."""
    code_before: str
    """The text before the cursor from the start of a line on, with LF line ends."""
    code_after: str
    """The next lines after the cursor's, with LF line ends."""
    newline: str
    state_before: CodeState
    """The state at the cursor."""

    def state_after(self, text: str) -> CodeState:
        """Return the state after ``text`` (LF line ends), inserted at the cursor."""
        code = self.code_before + text
        return read_code(self.language_id, code, len(self.code_before), self.state_before)

    def may_be_indented(self, lead: str) -> bool:
        """Whether the cursor's blank line may have the further indentation ``lead``."""
        if self.state_before.open_marks or self.language_id not in INDENTED | _BRACED:
            return True
        marks = comment_marks(self.language_id)[0]
        lines = ["", *filter(str.strip, self.code_before.split("\n")[:-1])]
        last_line = lines[-1]
        while lines[-1].lstrip().startswith(marks):
            lines.pop()
        code = lines.pop()
        is_below_comment = code != last_line
        is_known = is_below_comment or self.language_id in INDENTED
        if not last_line or not is_known or code.endswith("\\"):
            return True
        depth = indent_width(self.line_before + lead)
        deepest = max(code, last_line, key=indent_width)
        if deepest == code and self._without_comment(code).endswith(":"):
            is_in_place = is_below_comment or depth > indent_width(code)
        else:
            is_in_place = depth <= indent_width(deepest)
        return is_in_place or self._is_open_behind(lines)

    def _without_comment(self, line: str) -> str:
        """Return a line without the comment at its end."""
        state = read_code(self.language_id, line)
        if state.innermost in comment_marks(self.language_id)[0]:
            line = line[: state.open_marks[-1].index]
        return line.rstrip()

    def is_deeper_than_opener(self, indent: str) -> bool:
        """Whether a line that closes the innermost brace is deeper than the line that opens it.

        An editor takes back a level where a brace is typed, not where a text is inserted.
        Of 17,198 such lines in C, C++, Go, JavaScript, Lua, Rust and TypeScript 20 are deeper; in
        other languages it is not asked.
        """
        if self.language_id != "lua" and self.language_id not in _BRACED:
            return False
        before = self._before_open_brace()
        return before is not None and indent_width(indent) > indent_width(
            before.rpartition("\n")[2]
        )

    def _before_open_brace(self) -> str | None:
        """Return the code before the innermost open mark, if that is a brace that is read."""
        if self.state_before.innermost != "{" or self.state_before.open_marks[-1].index < 0:
            return None
        return self.code_before[: self.state_before.open_marks[-1].index]

    def lacks_head(self, line: str) -> bool:
        """Whether the cursor's line would go on with a statement that is not above it.

        In braces that is ``catch`` or ``finally`` in the block of a ``try`` that is not closed.
        """
        word, depth = _FIRST_WORD.match(line), indent_width(line)
        if self.language_id in _TRYING and word and word[1] in ("catch", "finally"):
            return bool(_OPEN_TRY.search(self._before_open_brace() or ""))
        heads = _HEADS.get(word[1]) if word and self.language_id in INDENTED else None
        if heads is None or self.state_before.open_marks:
            return False
        *lines, _ = self.code_before.split("\n")
        if "".join(lines[-1:]).endswith("\\"):
            return False
        while lines:
            above = lines.pop()
            code = above.lstrip()
            if code and code[0] not in "#)]}" and indent_width(above) <= depth:
                is_head = indent_width(above) == depth and re.split(r"\W", code)[0] in heads
                return not (is_head or self._is_open_behind(lines))
        return False

    def _is_open_behind(self, lines: list[str]) -> bool:
        """Whether a bracket or a string is open behind some lines before the cursor."""
        return bool(read_code(self.language_id, "\n".join([*lines, ""])).open_marks)

    def is_around(self, text: str) -> bool:
        """Whether a text is part of the lines around the cursor."""
        return any(text in part for part in (self.code_before, self.line_after, self.code_after))

    def has_word(self, word: str) -> bool:
        """Whether a word occurs near the cursor."""
        whole = re.compile(rf"\b{re.escape(word)}\b")
        return bool(whole.search(self.code_before) or whole.search(self.code_after))


def least_probability(request: PlacedCompletion, settings: Settings) -> float:
    """Return the joint probability below which a request's text ends.

    A program gets the whole text, unless it asks as an editor does while its user types.
    """
    if request.plain.trigger == "automatic":
        return settings.min_probability
    return settings.min_probability * _BY_KEY if request.is_editors else 0.0


def stop_rules(settings: Settings, request: AnyPlaced) -> StopRules:
    """Return the rules of a request; ``settings`` are those of its language."""
    before, after = request.prefix, request.suffix
    line_before = before[-_N_SCANNED_CHARS:].replace("\r", "\n").rsplit("\n", 1)[-1]
    head = after[:_N_SCANNED_CHARS].replace("\r\n", "\n").replace("\r", "\n")
    line_after, *following = head.split("\n")
    if len(after) > _N_SCANNED_CHARS and following:
        # The last line may be incomplete.
        following.pop()
    language_id = language_of(request.language_id, request.path)
    code_before, outer = _code_before(language_id, before)
    state_before = read_code(language_id, code_before, state=outer)
    extent = _extent(settings, language_id, code_before, state_before, line_after, after)
    return StopRules(
        extent=extent,
        max_lines=1 if extent == "line" else settings.max_lines,
        language_id=language_id,
        line_before=line_before,
        line_after=line_after,
        next_lines=tuple([line.rstrip() for line in following if line.strip()][:N_NEXT_LINES]),
        code_before=code_before,
        code_after="".join("\n" + line for line in following),
        newline=newline_of(before, after),
        state_before=state_before,
    )


def _code_before(language_id: str, before: str) -> tuple[str, CodeState]:
    """Return the lines before the cursor that are read, and the string that they begin in."""
    n_cut = len(before) - _N_CODE_CHARS
    if n_cut <= 0:
        return before.replace("\r\n", "\n").replace("\r", "\n"), OUTSIDE
    code_start = _CODE_START.search(before, n_cut, n_cut + _N_CODE_CHARS // 2)
    start = (code_start.start() if code_start else before.find("\n", n_cut)) + 1
    window = before[start:].replace("\r\n", "\n").replace("\r", "\n")
    if language_id in LONG_STRINGS:  # one quote that is misread would turn all behind it around
        return window, OUTSIDE
    state = state_at(language_id, before, start)
    return window, state if state.scope != "code" else OUTSIDE


def state_at(language_id: str, before: str, end: int) -> CodeState:
    """Return the state at the start of a line, read in blocks that stay when the cursor moves.

    Their number is bounded: what is open since long before is not known.
    """
    position = max(0, end // _N_READ_CHARS - 1) * _N_READ_CHARS
    kinds: tuple[str, ...] = ()
    while position < end:
        stop = before.find("\n", position + _N_CODE_CHARS, end) + 1 or end
        kinds = _kinds_behind(language_id, kinds, before[position:stop])
        position = stop
    return inside_of(kinds)


@lru_cache(maxsize=64)
def _kinds_behind(language_id: str, kinds: tuple[str, ...], code: str) -> tuple[str, ...]:
    """Return the kinds of the marks that are open behind some lines, as those before them were."""
    state = read_code(language_id, code.replace("\r\n", "\n"), state=inside_of(kinds))
    return tuple(mark.kind for mark in state.open_marks)


def _extent(
    settings: Settings,
    language_id: str,
    code_before: str,
    state: CodeState,
    line_after: str,
    after: str,
) -> Extent:
    if settings.multiline == "never":
        return "line"
    if _opens_string(language_id, code_before, state, line_after.strip(), after):
        return "string"
    line_before = code_before[-_N_SCANNED_CHARS:].rpartition("\n")[2]
    opens = opens_block(language_id, line_before)
    several: Extent = "block" if opens else "lines"
    has_code_after = bool(set(line_after.strip()) - AUTO_CLOSERS)
    is_auto = settings.multiline == "auto"
    if is_auto and (has_code_after or not (opens or not line_before.strip())):
        return "line"
    return several


def _opens_string(
    language_id: str, code_before: str, state: CodeState, rest: str, after: str
) -> bool:
    """Whether a string or a comment that may have several lines begins at the cursor.

    After the cursor, its line has no more than what closes it, and no later line closes it.
    """
    line_marks, block_marks = comment_marks(language_id)
    if state.scope == "code" or state.innermost in ("'", '"', *line_marks):
        return False
    opener = state.innermost
    closer = dict(block_marks).get(opener, opener)
    is_ended = rest == closer or not set(rest) - AUTO_CLOSERS
    if not rest and _is_closed_below(opener, closer, after):
        return False
    start = state.open_marks[-1].index + len(opener)
    return is_ended and not code_before[start:].strip("*! \t")


def _is_closed_below(opener: str, closer: str, after: str) -> bool:
    """Whether a string or a comment that begins at the cursor has its end in the lines below."""
    below, found, _ = after.partition(closer)
    if opener != closer:
        return bool(found) and opener not in below
    return after.count(closer) % 2 == 1 and not _BEFORE_STRING.search(below)


def newline_of(prefix: str, suffix: str) -> str:
    """Return the line end next to the cursor, LF if there is none."""
    for text, index in ((prefix, prefix.rfind("\n")), (suffix, suffix.find("\n"))):
        if index >= 0:
            return "\r\n" if index > 0 and text[index - 1] == "\r" else "\n"
    return "\n"


def indent_width(line: str) -> int:
    """Return the width of a line's indentation in columns, with tab stops of four columns."""
    return len(line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4))
