"""How typed text and suggested text agree."""

from __future__ import annotations

import re

_LINE_BREAK = re.compile(r"\r?\n\s*")


def n_said(text: str, typed: str) -> int | None:
    """Return how many characters of ``text`` were said by typing ``typed``.

    None where ``typed`` says something else.  Lines of white space count as equal: an editor
    indents a blank line on its own, and a suggestion does not.
    """
    if text.startswith(typed):
        return len(typed)
    *whole, last = typed.split("\n")
    offset = 0
    for line in whole:
        end = text.find("\n", offset)
        if end < 0:
            return None
        said = text[offset:end]
        if said != line and (said.strip() or line.strip()):
            return None
        offset = end + 1
    return offset + len(last) if text.startswith(last, offset) else None


def contradicts(so_far: str, typed: str) -> bool:
    """Whether a text that grows from ``so_far`` can no longer begin with ``typed``.

    Indentation does not count: what is generated gets the file's only when it is finished.
    """
    if so_far.startswith(typed) or typed.startswith(so_far):
        return False
    left, right = _without_indentation(so_far), _without_indentation(typed)
    return not (left.startswith(right) or right.startswith(left))


def _without_indentation(text: str) -> str:
    return _LINE_BREAK.sub("\n", text.lstrip(" \t"))
