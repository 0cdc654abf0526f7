"""Which part of the buffer goes into the prompt, chosen so that it seldom changes.

The anchor is where the fill-in-the-middle prefix ends and the middle begins: at a line's start, so
that a keystroke changes the prompt's end only, and a KV cache keeps all before it.

A KV cache is reused up to the first token that differs.  If the prefix always were the last n
tokens before the cursor, every keystroke would shift its first token and nothing could be reused.
So a window keeps its start while it fits.  When it outgrows its budget it drops once to a part of
it, and then has room to grow again.  The suffix keeps its end in the same way.

Only text near the cursor is ever tokenised, never the whole file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

Encode = Callable[[str], tuple[int, ...]]

CHARS_PER_TOKEN = 6
"""More characters than a token of code has on average: where the search for a cut begins."""

_DROP_TO = 0.9
"""Share of its budget that a window takes when it is cut anew; the rest is room to grow."""

_TOO_SMALL = 0.5
"""Share of its budget below which a window is cut anew where there is more text."""

_N_HEAD_CHARS = 200
"""Characters by which a window's start is found again after an edit above it."""

_N_SHIFT_CHARS = 20_000
"""How far an edit above a window may have shifted its start."""

_CLOSERS: Final = frozenset(")]}\"'`;:,> \t")
_N_CLOSERS: Final = 64
"""Characters looked at for closers: more of them were not written by an editor."""


N_LINES_ABOVE = 3
"""Lines above the cursor's that a new anchor lies at most: who takes back a line end, or goes on
typing a line above, still finds the anchor before the cursor."""

_SHARE_ABOVE: Final = 0.25
"""Share of the middle that lines above the cursor's may take when the anchor is new."""


@dataclass(frozen=True, slots=True)
class TextWindow:
    """A part of the text before or after the cursor: where it is, as it stands, and its tokens."""

    start: int = 0
    text: str = ""
    tokens: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """Index after the last character."""
        return self.start + len(self.text)


EMPTY_WINDOW = TextWindow()


def prefix_window(
    text: str, anchor: int, previous: TextWindow, n_tokens_max: int, encode: Encode
) -> TextWindow:
    """The window over ``text[:anchor]`` that ends at the anchor, ``n_tokens_max`` tokens at most.

    It begins at a line's start, or inside a line that is longer than the window.
    """
    if anchor == 0 or n_tokens_max <= 0:
        return TextWindow(anchor, "", ())
    n_chars_max = n_tokens_max * CHARS_PER_TOKEN * 2
    start = _found_again(text, anchor, previous)
    if start is not None and anchor - start <= n_chars_max:
        window = _tokenised(text[start:anchor], start, previous, encode)
        n_tokens = len(window.tokens)
        is_large_enough = start == 0 or n_tokens >= n_tokens_max * _TOO_SMALL
        if n_tokens <= n_tokens_max and is_large_enough:
            return window
    if anchor <= n_chars_max:
        window = _tokenised(text[:anchor], 0, previous, encode)
        if len(window.tokens) <= n_tokens_max:
            return window
    return _cut_prefix(text, anchor, int(n_tokens_max * _DROP_TO), encode)


def suffix_window(text: str, previous: TextWindow, n_tokens_max: int, encode: Encode) -> TextWindow:
    """The window at the start of ``text``, ``n_tokens_max`` tokens at most.

    It ends behind a line end, or inside a line that is longer than the window.
    """
    if not text or n_tokens_max <= 0:
        return EMPTY_WINDOW
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
            return TextWindow(0, text[:end], tokens)
        n_chars = _shrunk(min(n_chars, end), len(tokens), n_tokens_max)
    return EMPTY_WINDOW


def _cut_prefix(text: str, anchor: int, n_tokens_max: int, encode: Encode) -> TextWindow:
    n_chars = min(anchor, n_tokens_max * CHARS_PER_TOKEN)
    while n_chars > 0:
        start = _line_start_after(text, anchor - n_chars, anchor)
        tokens = encode(text[start:anchor])
        if len(tokens) <= n_tokens_max:
            return TextWindow(start, text[start:anchor], tokens)
        n_chars = _shrunk(min(n_chars, anchor - start), len(tokens), n_tokens_max)
    return TextWindow(anchor, "", ())


def _shrunk(n_chars: int, n_tokens: int, n_tokens_max: int) -> int:
    """Fewer characters, in proportion to how far the tokens exceed their maximum."""
    return min(n_chars - 1, int(n_chars * n_tokens_max / n_tokens * 0.97))


def n_hidden_closers(suffix: str) -> int:
    """How many characters after the cursor the model need not see: closers and white space.

    Where nothing else follows on the cursor's line, they were most often written by the editor,
    come and go with every bracket that is typed, and are what the model will write itself.
    """
    for idx, character in enumerate(suffix[:_N_CLOSERS]):
        if character in "\r\n":
            return idx
        if character not in _CLOSERS:
            return 0
    return len(suffix) if len(suffix) <= _N_CLOSERS else 0


def n_hidden_with_next_line(suffix: str) -> int:
    """As :func:`n_hidden_closers`, and the next line where that is of closers only; else 0.

    Enter between two brackets puts the closing one on a line of its own.
    """
    n_hidden = n_hidden_closers(suffix)
    rest = suffix[n_hidden:]
    line_end = 2 if rest.startswith("\r\n") else 1 if rest[:1] in ("\n", "\r") else 0
    n_next = n_hidden_closers(rest[line_end:]) if line_end else 0
    is_closing = bool(rest[line_end : line_end + n_next].strip())
    return n_hidden + line_end + n_next if is_closing else 0


def same_window(text: str, previous: TextWindow) -> TextWindow | None:
    """The former prefix window in ``text``, moved by an edit above it; None where it changed."""
    if text.startswith(previous.text, previous.start):
        return previous
    if previous.start == 0 or not previous.text:
        return None
    first = max(0, previous.start - _N_SHIFT_CHARS)
    found = text.find(previous.text, first, previous.end + _N_SHIFT_CHARS)
    return replace(previous, start=found) if found >= 0 else None


def _tokenised(text: str, start: int, previous: TextWindow, encode: Encode) -> TextWindow:
    """While the user types on one line the window's text stays, and so do its tokens."""
    tokens = previous.tokens if text == previous.text else encode(text)
    return TextWindow(start, text, tokens)


def _found_again(text: str, anchor: int, previous: TextWindow) -> int | None:
    """Where the previous window starts now; None where its first text is gone."""
    if not previous.text:
        return None
    if previous.start == 0:
        return 0
    head = previous.text[:_N_HEAD_CHARS]
    if previous.start <= anchor and text.startswith(head, previous.start):
        return previous.start
    first = max(0, previous.start - _N_SHIFT_CHARS)
    found = text.find(head, first, min(anchor, previous.start + _N_SHIFT_CHARS))
    return found if found >= 0 else None


def _line_start_after(text: str, index: int, end: int) -> int:
    """The first line start from ``index`` on; ``index`` itself where that lies far off."""
    if index <= 0:
        return 0
    # One character earlier, so that an index that starts a line already is found.
    line_end = text.find("\n", index - 1, index + (end - index) // 2)
    if line_end >= 0:
        return line_end + 1
    return index


def _line_end_before(text: str, index: int) -> int:
    """Behind the last line end up to ``index``; ``index`` itself where that lies far back."""
    if index >= len(text):
        return len(text)
    line_end = text.rfind("\n", index // 2, index)
    if line_end >= 0:
        return line_end + 1
    return index


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
