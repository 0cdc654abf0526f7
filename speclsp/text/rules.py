"""Stop rules of one request, from the settings and the text around the cursor."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from speclsp.requests import AnyPlaced, PlacedCompletion
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
        before = self.code_before[: len(self.code_before) - len(self.line_before)].rstrip()
        last_line = before.rpartition("\n")[2]
        if self.state_before.scope != "code":
            return True
        depth = indent_width(self.line_before + lead)
        if last_line.lstrip().startswith(comment_marks(self.language_id)[0]):
            return depth <= indent_width(last_line)
        if self.state_before.open_marks or not last_line:
            return True
        if self.language_id not in INDENTED or last_line.endswith("\\"):
            return True
        if last_line.partition("#")[0].rstrip().endswith(":"):
            return depth > indent_width(last_line)
        return depth <= indent_width(last_line)

    def lacks_head(self, line: str) -> bool:
        """Whether the cursor's line would go on with a statement of Python that is not above it."""
        word, depth = _FIRST_WORD.match(line), indent_width(line)
        heads = _HEADS.get(word[1]) if word and self.language_id in INDENTED else None
        if heads is None or self.state_before.open_marks:
            return False
        for above in reversed(self.code_before.split("\n")[:-1]):
            code = above.lstrip()
            if code and code[0] not in "#)]}" and indent_width(above) <= depth:
                return indent_width(above) < depth or re.split(r"\W", code)[0] not in heads
        return False

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
    extent = _extent(settings, language_id, line_before, line_after)
    if settings.multiline != "never" and _opens_string(
        language_id, code_before, state_before, line_after.strip()
    ):
        extent = "string"
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


def _extent(settings: Settings, language_id: str, line_before: str, line_after: str) -> Extent:
    opens = opens_block(language_id, line_before)
    several: Extent = "block" if opens else "lines"
    match settings.multiline:
        case "never":
            return "line"
        case "always":
            return several
        case "auto":
            has_code_after = bool(set(line_after.strip()) - AUTO_CLOSERS)
            if has_code_after or not (opens or not line_before.strip()):
                return "line"
            return several


def _opens_string(language_id: str, code_before: str, state: CodeState, rest: str) -> bool:
    """Whether a string or a comment that may have several lines begins at the cursor.

    After the cursor, its line has no more than what closes it.
    """
    line_marks, block_marks = comment_marks(language_id)
    if state.scope == "code" or state.innermost in ("'", '"', *line_marks):
        return False
    is_ended = rest == dict(block_marks).get(state.innermost) or not set(rest) - AUTO_CLOSERS
    start = state.open_marks[-1].index + len(state.innermost)
    return is_ended and not code_before[start:].strip("*! \t")


def newline_of(prefix: str, suffix: str) -> str:
    """Return the line end next to the cursor, LF if there is none."""
    for text, index in ((prefix, prefix.rfind("\n")), (suffix, suffix.find("\n"))):
        if index >= 0:
            return "\r\n" if index > 0 and text[index - 1] == "\r" else "\n"
    return "\n"


def indent_width(line: str) -> int:
    """Return the width of a line's indentation in columns, with tab stops of four columns."""
    return len(line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4))
