"""Excerpts: the parts of a document that the prompt shows, chosen so that they rarely change.

The fill-in-the-middle prefix ends at the *anchor*, the start of a line, where the middle begins:
a keystroke changes the prompt's end only, and the KV cache keeps everything before it.

The KV cache is reused up to the first token that differs.  If the prefix always were the last n
tokens before the cursor, every keystroke would shift its first token.  So an excerpt keeps its
start while it fits its budget.  When it outgrows the budget it shrinks once to a part of it, and
has room to grow again.  The suffix keeps its end in the same way.

Only text near the cursor is tokenised, never a whole file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from speclsp.text.code_reader import AUTO_CLOSERS, MAX_AUTO_CLOSERS

Encode = Callable[[str], tuple[int, ...]]

CHARS_PER_TOKEN = 6
"""More characters than a token of code has on average; the search for a cut begins there."""

_DROP_TO = 0.9
"""Share of its budget that a newly cut excerpt takes; the rest is room to grow."""

_TOO_SMALL = 0.5
"""An excerpt below this share of its budget is cut anew if there is more text."""

_N_HEAD_CHARS = 200
"""First characters of an excerpt by which it is found after an edit above it."""

_N_SHIFT_CHARS = 20_000
"""Most characters that an edit above an excerpt may have shifted it by."""


N_LINES_ABOVE = 3
"""A new anchor is at most this many lines above the cursor's line, so that it is still before the
cursor when the user deletes a line end or moves up a line."""

_SHARE_ABOVE: Final = 0.25
"""Share of the middle that the lines above the cursor's may take at a new anchor."""


@dataclass(frozen=True, slots=True)
class TextExcerpt:
    """A part of the text before or after the cursor, and its tokens."""

    start: int = 0
    text: str = ""
    tokens: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """Index after the last character."""
        return self.start + len(self.text)


EMPTY_EXCERPT = TextExcerpt()


def prefix_excerpt(
    text: str, anchor: int, previous: TextExcerpt, n_tokens_max: int, encode: Encode
) -> TextExcerpt:
    """Return the excerpt of ``n_tokens_max`` tokens at most that ends at the anchor.

    It begins at the start of a line, or inside a line that is longer than the excerpt.
    """
    if anchor == 0 or n_tokens_max <= 0:
        return TextExcerpt(anchor, "", ())
    n_chars_max = n_tokens_max * CHARS_PER_TOKEN * 2
    kept = _moved_start(text, previous) if previous.text else None
    for start in (kept, 0):
        if start is None or not 0 <= anchor - start <= n_chars_max:
            continue
        shown = text[start:anchor]
        tokens = previous.tokens if shown == previous.text else encode(shown)
        is_large_enough = start == 0 or len(tokens) >= n_tokens_max * _TOO_SMALL
        if len(tokens) <= n_tokens_max and is_large_enough:
            return TextExcerpt(start, shown, tokens)
    return _cut_prefix(text, anchor, int(n_tokens_max * _DROP_TO), encode)


def suffix_excerpt(
    text: str, previous: TextExcerpt, n_tokens_max: int, encode: Encode
) -> TextExcerpt:
    """Return the excerpt of ``n_tokens_max`` tokens at most at the start of ``text``.

    It ends after a line end, or inside a line that is longer than the excerpt.
    """
    if not text or n_tokens_max <= 0:
        return EMPTY_EXCERPT
    n_tokens = len(previous.tokens)
    is_whole = len(previous.text) == len(text)
    is_large_enough = is_whole or n_tokens >= n_tokens_max * _TOO_SMALL
    fits = bool(previous.text) and n_tokens <= n_tokens_max and is_large_enough
    if fits and text.startswith(previous.text):
        return previous
    n_chars = n_tokens_max * CHARS_PER_TOKEN
    while n_chars > 0:
        end = _line_end_before(text, n_chars)
        tokens = encode(text[:end])
        if len(tokens) <= n_tokens_max:
            return TextExcerpt(0, text[:end], tokens)
        n_chars = _shrunk(min(n_chars, end), len(tokens), n_tokens_max)
    return EMPTY_EXCERPT


def _cut_prefix(text: str, anchor: int, n_tokens_max: int, encode: Encode) -> TextExcerpt:
    n_chars = min(anchor, n_tokens_max * CHARS_PER_TOKEN)
    while n_chars > 0:
        start = _line_start_after(text, anchor - n_chars, anchor)
        tokens = encode(text[start:anchor])
        if len(tokens) <= n_tokens_max:
            return TextExcerpt(start, text[start:anchor], tokens)
        n_chars = _shrunk(min(n_chars, anchor - start), len(tokens), n_tokens_max)
    return TextExcerpt(anchor, "", ())


def _shrunk(n_chars: int, n_tokens: int, n_tokens_max: int) -> int:
    """Return fewer characters, in proportion to how far the tokens exceed their maximum."""
    return min(n_chars - 1, int(n_chars * n_tokens_max / n_tokens * 0.97))


def n_hidden_closers(suffix: str) -> int:
    """Return how many characters after the cursor are left out of the prompt.

    These are closers and white space, if nothing else follows on the cursor's line.  Editors
    insert them with every opening bracket, and the model writes them itself.
    """
    for idx, character in enumerate(suffix[:MAX_AUTO_CLOSERS]):
        if character in "\r\n":
            return idx
        if character not in AUTO_CLOSERS:
            return 0
    return len(suffix) if len(suffix) <= MAX_AUTO_CLOSERS else 0


def n_hidden_with_next_line(suffix: str) -> int:
    """Return the same with the next line if that has closers only; else 0.

    Enter between two brackets puts the closing one on a line of its own.
    """
    n_hidden = n_hidden_closers(suffix)
    rest = suffix[n_hidden:]
    line_end = 2 if rest.startswith("\r\n") else 1 if rest[:1] in ("\n", "\r") else 0
    n_next = n_hidden_closers(rest[line_end:]) if line_end else 0
    is_closing = bool(rest[line_end : line_end + n_next].strip())
    return n_hidden + line_end + n_next if is_closing else 0


def same_excerpt(text: str, previous: TextExcerpt) -> TextExcerpt | None:
    """Return a former prefix excerpt in ``text``, moved by an edit above it; None if it changed."""
    start = _moved_start(text, previous)
    if start is None or not text.startswith(previous.text, start):
        return None
    return replace(previous, start=start)


def _moved_start(text: str, previous: TextExcerpt) -> int | None:
    """Return where a former prefix excerpt starts now; None if its first characters changed."""
    head = previous.text[:_N_HEAD_CHARS]
    if text.startswith(head, previous.start):
        return previous.start
    if previous.start == 0:
        return None
    first = max(0, previous.start - _N_SHIFT_CHARS)
    found = text.find(head, first, previous.start + _N_SHIFT_CHARS)
    return found if found >= 0 else None


def _line_start_after(text: str, index: int, end: int) -> int:
    """Return the first line start from ``index`` on; ``index`` itself if that is far away."""
    if index <= 0:
        return 0
    # One character earlier, so that an index that starts a line already is found.
    line_end = text.find("\n", index - 1, index + (end - index) // 2)
    if line_end >= 0:
        return line_end + 1
    return index


def _line_end_before(text: str, index: int) -> int:
    """Return the index after the last line end up to ``index``; ``index`` itself if that is far."""
    if index >= len(text):
        return len(text)
    line_end = text.rfind("\n", index // 2, index)
    if line_end >= 0:
        return line_end + 1
    return index


def new_anchor(
    prefix: str, n_tokens_max: int, n_tokens: int, encode_from: Callable[[int], tuple[int, ...]]
) -> tuple[int, tuple[int, ...]]:
    """Choose an anchor in the text before the cursor; return it and the tokens after it.

    The middle can grow to ``n_tokens_max`` tokens, and may have ``n_tokens`` now.
    ``encode_from`` returns the tokens of the text from an index on.
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
    """Return the index after the last line end in ``text`` (LF, CRLF or CR); 0 if there is none."""
    return max(text.rfind("\n"), text.rfind("\r")) + 1


def anchors_above(prefix: str, n_chars_max: int) -> Iterator[int]:
    """Yield the starts of lines above the cursor's, the farthest first.

    They are ``n_chars_max`` characters away at most.  Blank lines are left out: a line end is
    often one token with the blank line after it.
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
    """Yield indexes for the anchor on the cursor's line, the best first.

    The best is the start of the line.  If the line is longer than ``n_chars_max`` characters (a
    minified file), the anchor is inside it: half of ``n_chars_max`` before the cursor, then
    nearer and nearer to it, and last at the cursor.
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
