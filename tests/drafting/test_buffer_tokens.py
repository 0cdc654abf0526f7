"""The block-wise tokens of a buffer against tokenising it afresh."""

import numpy as np
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
