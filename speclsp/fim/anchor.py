"""The line anchor: where the fill-in-the-middle prefix ends and the middle begins.

The prefix ends at the start of the cursor's line, and what was typed on that line follows the
middle token.  So a keystroke changes the prompt's end only, and a KV cache keeps all before it.
"""

from __future__ import annotations

from collections.abc import Iterator


def line_start(text: str) -> int:
    """Index after the last line end in ``text`` (LF, CRLF or CR); 0 where there is none."""
    return max(text.rfind("\n"), text.rfind("\r")) + 1


def anchor_candidates(prefix: str, previous_anchor: int, n_chars_max: int) -> Iterator[int]:
    """Places for the anchor in the text before the cursor, the best first.

    The best is the start of the cursor's line.  Where more than ``n_chars_max`` characters stand
    on it (a minified file), the anchor lies inside the line: at ``previous_anchor`` while that is
    near enough, so that typing on does not move it, else half of ``n_chars_max`` before the
    cursor, then ever nearer to it, and at last at the cursor.
    """
    end = len(prefix)
    # A line that starts farther back than this is not worth searching a whole file for.
    searched = max(0, end - n_chars_max - 1)
    start = searched + line_start(prefix[searched:])
    if start > searched or end <= n_chars_max:
        yield start
    start = max(start, end - n_chars_max)
    if start < previous_anchor <= end:
        yield previous_anchor
    n_chars = (end - start) // 2
    while n_chars > 0:
        yield end - n_chars
        n_chars //= 2
    yield end
