"""Tokens of open buffers: in pieces, of the right text, and only as much as pays."""

from __future__ import annotations

import numpy as np
import pytest

from speclsp.completer.buffers import (
    MAX_BUFFER_CHARS,
    MAX_OTHER_TOKENS,
    PIECE_CHARS,
    OpenBuffers,
)
from speclsp.request import Document


class CountingTokenizer:
    def __init__(self) -> None:
        self.n_chars = 0

    def __call__(self, text: str) -> np.ndarray:
        self.n_chars += len(text)
        return np.array([ord(c) for c in text], dtype=np.int32)


@pytest.fixture
def tokenize() -> CountingTokenizer:
    return CountingTokenizer()


def document(uri: str, text: str, version: int = 1, path: str = "") -> Document:
    return Document(uri=uri, path=path or uri, language_id="", version=version, text=text)


def as_text(tokens: np.ndarray) -> str:
    return "".join(map(chr, tokens))


def around(buffers: OpenBuffers, tokenize, prefix: str, suffix: str, n_held_back: int = 0):
    before, after = buffers.around("u", prefix, suffix, n_held_back, tokenize)
    return as_text(before), as_text(after)


def test_the_text_around_the_cursor_without_what_is_held_back(tokenize):
    assert around(OpenBuffers(), tokenize, "a = 1\nb = ", " + 2\n", 1) == ("a = 1\nb =", " + 2\n")


def test_a_reopened_buffer_of_the_same_version_has_its_new_text(tokenize):
    buffers = OpenBuffers()
    buffers.put(document("o", "old"))
    assert [as_text(t) for t in buffers.others("u", tokenize)] == ["old"]
    buffers.remove("o")
    buffers.put(document("o", "new"))
    assert [as_text(t) for t in buffers.others("u", tokenize)] == ["new"]


def test_a_request_tokenises_a_piece_of_a_large_buffer_and_the_next_goes_on(tokenize):
    text = "".join(f"line_{i} = {i}\n" for i in range(8000))
    assert PIECE_CHARS * 3 < len(text) < MAX_BUFFER_CHARS
    buffers = OpenBuffers()
    cursor = len(text) - 50
    before, after = around(buffers, tokenize, text[:cursor], text[cursor:])
    assert tokenize.n_chars < 2 * PIECE_CHARS
    assert text[:cursor].endswith(before)
    assert before
    assert after == ""
    n_requests = 1
    while after == "":
        before, after = around(buffers, tokenize, text[:cursor], text[cursor:])
        n_requests += 1
    assert (before, after) == (text[:cursor], text[cursor:])
    assert n_requests <= 2 + len(text) // PIECE_CHARS
    tokenize.n_chars = 0
    around(buffers, tokenize, text[:cursor] + "x", text[cursor:])
    assert tokenize.n_chars < 3000


def test_warming_makes_a_piece_at_a_time_until_all_is_there(tokenize):
    buffers = OpenBuffers()
    text = "x = 1\n" * 20_000
    buffers.put(document("o", text))
    n_calls = 1
    while not buffers.warm("o", tokenize):
        n_calls += 1
    assert 3 <= n_calls <= 2 + len(text) // PIECE_CHARS
    assert [as_text(t) for t in buffers.others("u", tokenize)] == [text]


def test_another_large_buffer_counts_once_it_is_warm(tokenize):
    buffers = OpenBuffers()
    buffers.put(document("o", "x = 1\n" * 20_000))
    assert buffers.others("u", tokenize) == ()
    assert tokenize.n_chars == 0


def test_a_huge_buffer_is_seen_around_the_cursor_only(tokenize):
    prefix, suffix = "a" * 3_000_000, "b" * 3_000_000
    buffers = OpenBuffers()
    buffers.put(document("u", prefix + suffix))
    assert buffers.warm("u", tokenize)
    assert tokenize.n_chars == 0
    after, n_requests = "", 0
    while not after:
        before, after = around(buffers, tokenize, prefix, suffix)
        n_requests += 1
        assert n_requests < 20
    assert 150_000 < len(before) < MAX_BUFFER_CHARS
    assert set(after) == {"b"}
    assert len(before) + len(after) < 2 * MAX_BUFFER_CHARS


def test_other_buffers_share_a_bound_and_secrets_are_left_out(tokenize):
    buffers = OpenBuffers()
    for i in range(12):
        buffers.put(document(f"o{i}", "x" * 30_000))
    buffers.put(document("s", "SECRET=1", path=".env"))
    others = buffers.others("u", tokenize)
    assert 0 < sum(t.size for t in others) <= MAX_OTHER_TOKENS
    assert not any("SECRET" in as_text(t) for t in others)


def test_the_active_buffers_tokens_serve_the_next_one(tokenize):
    buffers = OpenBuffers()
    text = "y = 2\n" * 10
    buffers.put(document("u", text))
    around(buffers, tokenize, text, "")
    tokenize.n_chars = 0
    assert [as_text(t) for t in buffers.others("other", tokenize)] == [text]
    assert tokenize.n_chars == 0
