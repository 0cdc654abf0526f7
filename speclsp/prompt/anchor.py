"""The anchor: where the fill-in-the-middle prefix ends and the middle begins.

The prefix ends at a line's start, and what was typed since follows the middle token.  So a
keystroke changes the prompt's end only, and a KV cache keeps all before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from speclsp.prompt.windows import CHARS_PER_TOKEN

N_LINES_ABOVE = 3
"""Lines above the cursor's that a new anchor lies at most: who takes back a line end, or goes on
typing a line above, still finds the anchor before the cursor."""

_SHARE_ABOVE: Final = 0.25
"""Share of the middle that lines above the cursor's may take when the anchor is new."""


def new_anchor(
    prefix: str, n_tokens_max: int, n_tokens: int, encode_from: Callable[[int], tuple[int, ...]]
) -> tuple[int, tuple[int, ...]]:
    """Choose an anchor in the text before the cursor; returns it and the tokens that follow it.

    ``n_tokens_max`` is the most that the middle can grow to, ``n_tokens`` what it may have now.
    ``encode_from`` gives the tokens of the text from a place on.
    """
    n_above = int(n_tokens_max * _SHARE_ABOVE)
    for anchor in anchors_above(prefix, n_above * CHARS_PER_TOKEN):
        # Of a short text the prefix keeps its share: models seldom saw one without it.
        tokens = encode_from(anchor) if 2 * anchor >= len(prefix) else ()
        if 0 < len(tokens) <= n_above:
            return anchor, tokens
    for anchor in anchor_candidates(prefix, n_tokens_max * CHARS_PER_TOKEN):
        tokens = encode_from(anchor)
        if len(tokens) <= n_tokens:
            return anchor, tokens
    return len(prefix), ()


def line_start(text: str) -> int:
    """Index after the last line end in ``text`` (LF, CRLF or CR); 0 where there is none."""
    return max(text.rfind("\n"), text.rfind("\r")) + 1


def anchors_above(prefix: str, n_chars_max: int) -> Iterator[int]:
    """Starts of lines above the cursor's, the farthest first, ``n_chars_max`` away at most.

    Blank lines are none: a line end is often one token with the blank line behind it.
    """
    near = prefix[-n_chars_max - 1 :]
    first = len(prefix) - len(near)
    starts: list[int] = []
    end = line_start(near)
    while end > 0 and len(starts) < N_LINES_ABOVE:
        start = line_start(near[: end - 1])
        is_line_end = start > 0 or first == 0
        if is_line_end and near[start:end].strip():
            starts.append(first + start)
        end = start
    yield from reversed(starts)


def anchor_candidates(prefix: str, n_chars_max: int) -> Iterator[int]:
    """Places for the anchor on the cursor's line, the best first.

    The best is the line's start.  Where more than ``n_chars_max`` characters stand on it (a
    minified file), the anchor lies inside the line: half of ``n_chars_max`` before the cursor,
    then ever nearer to it, and at last at the cursor.
    """
    end = len(prefix)
    # A line that starts farther back than this is not worth searching a whole file for.
    searched = max(0, end - n_chars_max - 1)
    start = searched + line_start(prefix[searched:])
    if start > searched or end <= n_chars_max:
        yield start
    start = max(start, end - n_chars_max)
    n_chars = (end - start) // 2
    while n_chars > 0:
        yield end - n_chars
        n_chars //= 2
    yield end
