"""The block-wise tokens of a buffer against tokenising it afresh."""

import re
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclsp.drafting.buffer_tokens import BLOCK_LINES, BufferTokens, cut_blocks


class CountingTokenizer:
    """One token per character; counts the characters it was asked for."""

    def __init__(self) -> None:
        self.n_chars = 0

    def __call__(self, text: str) -> np.ndarray:
        self.n_chars += len(text)
        return np.array([ord(c) for c in text], dtype=np.int32)


def as_text(tokens: np.ndarray) -> str:
    return "".join(chr(t) for t in tokens)


LINES = st.lists(st.sampled_from(["", "x = 1", "    y", "def f():", "\t", "é🙂"]), max_size=120)


@given(LINES)
def test_blocks_join_to_the_text(lines):
    text = "\n".join(lines)
    blocks = cut_blocks(text)
    assert "".join(blocks) == text
    assert all(blocks)


@given(st.lists(LINES, min_size=1, max_size=5), st.data())
def test_tokens_equal_those_of_the_whole_text_after_any_edits(versions, data):
    buffer = BufferTokens(CountingTokenizer())
    for lines in versions:
        text = "\n".join(lines)
        buffer.update(text)
        assert as_text(buffer.tokens()) == text
        offset = data.draw(st.integers(0, len(text)))
        before, after = as_text(buffer.before(offset)), as_text(buffer.after(offset))
        assert (before, after) == (text[:offset], text[offset:])


def test_a_keystroke_in_a_large_buffer_tokenises_one_block_or_two():
    tokenizer = CountingTokenizer()
    buffer = BufferTokens(tokenizer)
    lines = [f"line_{i} = {i}" for i in range(5000)]
    buffer.update("\n".join(lines))
    for cursor_line in (0, 2500, 4999):
        tokenizer.n_chars = 0
        lines[cursor_line] += "x"
        text = "\n".join(lines)
        buffer.update(text)
        assert as_text(buffer.tokens()) == text
        assert 0 < tokenizer.n_chars <= 2 * BLOCK_LINES * 20


def test_moving_the_cursor_tokenises_only_the_block_it_is_in():
    tokenizer = CountingTokenizer()
    buffer = BufferTokens(tokenizer)
    text = "\n".join(f"line_{i} = {i}" for i in range(5000))
    buffer.update(text)
    tokenizer.n_chars = 0
    for offset in (100, len(text) - 100):
        buffer.before(offset)
        buffer.after(offset)
    assert tokenizer.n_chars <= 2 * BLOCK_LINES * 20
    tokenizer.n_chars = 0
    buffer.before(len(text) - 100)
    buffer.after(len(text) - 100)
    assert tokenizer.n_chars == 0


def test_one_endless_line_is_cut():
    text = "x" * 100_000
    blocks = cut_blocks(text)
    assert "".join(blocks) == text
    assert max(map(len, blocks)) <= 8192


_TOKEN = re.compile(r" ?\w+| ?[^\s\w]+|\s*[\r\n]+|\s+(?!\S)|\s+")
"""A byte-level pre-tokenizer as Qwen's: a newline is joined with blank lines after it."""


def words(text: str) -> np.ndarray:
    found = [zlib.crc32(token.encode()) & 0x7FFFFFFF for token in _TOKEN.findall(text)]
    return np.array(found, dtype=np.int32)


CODE = st.lists(
    st.sampled_from(["", "", "   ", "x = one + two", "    y.call(1)", "def f(self):", "\t", "é🙂"]),
    max_size=60,
)


@given(CODE, st.lists(st.tuples(st.integers(0), st.integers(0, 3), CODE), max_size=8))
def test_cuts_change_no_word(lines, edits):
    buffer = BufferTokens(words)
    buffer.update("\n".join(lines))
    for place, n_removed, added in edits:
        start = place % (len(lines) + 1)
        lines[start : start + n_removed] = added[:12]
        text = "\n".join(lines)
        buffer.update(text)
        assert buffer.tokens().tolist() == words(text).tolist()


@pytest.mark.parametrize("n_lines_below", [0, 1, 60])
def test_typed_text_has_the_tokens_of_the_whole_text_in_few_blocks(n_lines_below):
    buffer = BufferTokens(words)
    typed = "def quite_long_name(first):\n    return first + 1\n\n" * 20
    above, below = "x = 1\n" * 100, "\ny = 2" * n_lines_below
    for n_typed in range(len(typed) + 1):
        text = above + typed[:n_typed] + below
        buffer.update(text)
        assert buffer.tokens().tolist() == words(text).tolist()
    assert len(buffer._blocks) <= (160 + n_lines_below) / BLOCK_LINES + 4
