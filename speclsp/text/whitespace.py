"""Line ends and indentation: as the file has them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

_N_SAMPLE_CHARS: Final = 8000
"""Characters before and after the cursor from which the file's habits are read."""

_INDENTED_LINE: Final = re.compile(r"^([ \t]+)\S", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class IndentStyle:
    """What lines are indented with; ``width`` is that of one level, in columns."""

    kind: Literal["spaces", "tabs", "mixed"]
    width: int


def newline_of(prefix: str, suffix: str) -> str:
    """The line end that the file has near the cursor, LF where it has none."""
    for text, index in ((prefix, prefix.rfind("\n")), (suffix, suffix.find("\n"))):
        if index >= 0:
            return "\r\n" if index > 0 and text[index - 1] == "\r" else "\n"
    return "\n"


def indent_style_of(prefix: str, suffix: str) -> IndentStyle:
    """How the lines near the cursor are indented."""
    sample = prefix[-_N_SAMPLE_CHARS:] + "\n" + suffix[:_N_SAMPLE_CHARS]
    indents = _INDENTED_LINE.findall(sample)
    n_tabs = sum(indent[0] == "\t" for indent in indents)
    if not indents or 0 < n_tabs < len(indents):
        return IndentStyle("mixed", 4)
    if n_tabs:
        return IndentStyle("tabs", 4)
    return IndentStyle("spaces", _level_width([len(indent) for indent in indents]))


def indent_width(line: str) -> int:
    """Columns of the white space before a line's text; a tab counts up to a multiple of four."""
    return len(line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4))


def with_indent_style(text: str, style: IndentStyle, *, line_before: str) -> str:
    """The text with each line's indentation made of what the file has.

    Only lines indented purely with the other kind change: alignment is left alone.
    """
    if style.kind == "mixed":
        return text
    first, *others = text.split("\n")
    lines = [first if line_before.strip() else _converted(first, style, others)]
    lines.extend(_converted(line, style, others) for line in others)
    return "\n".join(lines)


def _converted(line: str, style: IndentStyle, lines: list[str]) -> str:
    code = line.lstrip(" \t")
    indent = line[: len(line) - len(code)]
    if style.kind == "spaces" and indent and not indent.strip("\t"):
        return " " * (len(indent) * style.width) + code
    if style.kind == "tabs" and indent and not indent.strip(" "):
        widths = [len(other) - len(other.lstrip(" ")) for other in lines if other.strip()]
        is_narrow = any(width % 4 == 2 for width in widths)
        n_levels, n_columns = divmod(len(indent), 2 if is_narrow else 4)
        return "\t" * n_levels + " " * n_columns + code
    return line


def _level_width(widths: list[int]) -> int:
    """The commonest step between the indentations of neighbouring lines: 2, 4 or 8 columns."""
    steps = Counter(
        abs(after - before)
        for before, after in zip([0, *widths], widths, strict=False)
        if abs(after - before) in (2, 4, 8)
    )
    return steps.most_common(1)[0][0] if steps else 4
