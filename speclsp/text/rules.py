"""When a completion is long enough: rules made from the settings and the text at the cursor."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from speclsp.request import CompletionRequest
from speclsp.settings import Settings
from speclsp.text.languages import opens_block
from speclsp.text.whitespace import IndentStyle, indent_style_of, newline_of

Extent = Literal["line", "lines", "block"]
"""How far a completion goes: to the line's end, to a dedent, or to the end of the block that the
cursor's line opens."""

_CLOSERS: Final = ")]}\"'`;:,>"
"""Characters that editors write behind the cursor on their own."""

N_NEXT_LINES: Final = 8
"""Most lines after the cursor that the rules look at."""

_N_CODE_CHARS: Final = 8000
"""Most characters before the cursor that are parsed: about a millisecond's worth."""

_CODE_START: Final = re.compile(
    r"\n(?=[@A-Za-z_]|[ \t]+(?:\w+ )*(?:class|def|fn|func|function) \w+ ?[(<:{])"
)
"""Lines at the margin and those that begin a definition: hardly inside a string or a comment."""

_N_SCANNED_CHARS: Final = 4000
"""Most characters of a line, and of the text after the cursor, that the rules look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRules:
    """What :class:`~speclsp.text.stopping.CompletionText` stops at, and trims to."""

    extent: Extent
    max_lines: int
    language_id: str
    line_before: str
    """The cursor's line up to the cursor."""
    line_after: str
    """The rest of the cursor's line."""
    next_lines: tuple[str, ...]
    """The next lines that are not blank, without white space at their ends."""
    code_before: str
    """The text before the cursor, from a line's start on, with LF line ends."""
    code_after: str
    """The lines after the cursor's, near enough to be parsed, with LF line ends."""
    newline: str
    indent: IndentStyle


def stop_rules(settings: Settings, request: CompletionRequest) -> StopRules:
    """The rules for one request; ``settings`` are those of the request's language."""
    before, after = request.prefix, request.suffix
    line_before = before[-_N_SCANNED_CHARS:].replace("\r", "\n").rsplit("\n", 1)[-1]
    head = after[:_N_SCANNED_CHARS].replace("\r\n", "\n").replace("\r", "\n")
    line_after, *following = head.split("\n")
    if len(after) > _N_SCANNED_CHARS and following:
        # The last line may be cut in the middle.
        following.pop()
    extent = _extent(settings, request, line_before, line_after)
    max_lines = settings.max_lines if request.max_lines is None else request.max_lines
    return StopRules(
        extent=extent,
        max_lines=1 if extent == "line" else max(1, max_lines),
        language_id=request.language_id,
        line_before=line_before,
        line_after=line_after,
        next_lines=tuple([line.rstrip() for line in following if line.strip()][:N_NEXT_LINES]),
        code_before=_code_before(before),
        code_after="".join("\n" + line for line in following),
        newline=newline_of(before, after),
        indent=indent_style_of(before, after),
    )


def _code_before(before: str) -> str:
    window = before[-_N_CODE_CHARS:].replace("\r\n", "\n").replace("\r", "\n")
    if len(before) <= _N_CODE_CHARS:
        return window
    # Begun inside a string, everything would be read inside out.
    code_start = _CODE_START.search(window, 0, len(window) // 2)
    return window[(code_start.start() if code_start else window.find("\n")) + 1 :]


def _extent(
    settings: Settings, request: CompletionRequest, line_before: str, line_after: str
) -> Extent:
    opens = opens_block(request.language_id, line_before)
    several: Extent = "block" if opens else "lines"
    if request.single_line is not None:
        return "line" if request.single_line else several
    match settings.multiline:
        case "never":
            return "line"
        case "always":
            return several
        case "auto":
            has_code_after = bool(line_after.strip().strip(_CLOSERS + " \t"))
            if has_code_after or not (opens or not line_before.strip()):
                return "line"
            return several
