"""Where a text leaves the block that it began in, as llama-server sees it."""

from __future__ import annotations


def without_dedent(text: str, n_indent: int) -> str:
    """Return a text up to the first line that is indented by less than ``n_indent`` characters.

    The first line continues the cursor's, and a line of blanks alone is none yet.
    """
    first, *rest = text.split("\n")
    kept = [first]
    for line in rest:
        inner = line.lstrip(" \t")
        if inner and len(line) - len(inner) < n_indent:
            return "\n".join([*kept, ""])
        kept.append(line)
    return text
