"""Tokens of open buffers: in pieces, of the right text, and only as much as pays."""

import dataclasses

import numpy as np
import pytest
from typed_requests import document_of, remade, request_between

from speclsp.completer.document_tokens import (
    MAX_CHARS,
    MAX_OTHER_DOCUMENTS,
    MAX_OTHER_TOKENS,
    PIECE_CHARS,
    DocumentTokens,
)
from speclsp.seam.documents import Document, TextEdit
from speclsp.seam.open_documents import Documents


class CountingTokenizer:
    def __init__(self) -> None:
        self.n_chars = 0

    def __call__(self, text: str) -> np.ndarray:
        self.n_chars += len(text)
        return np.array([ord(c) for c in text], dtype=np.int32)


@pytest.fixture
def tokenize():
    return CountingTokenizer()


def document(uri: str, text: str, version: int = 1, path: str = "") -> Document:
    return document_of(text, uri=uri, path=path or uri, version=version)


def as_text(tokens: np.ndarray) -> str:
    return "".join(map(chr, tokens))


class Open:
    """Open documents and their tokens."""

    def __init__(self) -> None:
        self.documents = Documents()
        self.tokens = DocumentTokens(self.documents, lambda file: file.endswith("ignored.py"))

    def others(self, tokenize) -> list[str]:
        others = self.tokens.others(request_between("", uri="u"), tokenize)
        return [as_text(tokens) for tokens in others]

    def around(self, tokenize, prefix: str, suffix: str, n_held_back: int = 0):
        request = request_between(prefix, suffix, uri="u")
        before, after = self.tokens.around(request, n_held_back, tokenize)
        return as_text(before), as_text(after)


def test_the_text_around_the_cursor_without_what_is_held_back(tokenize):
    assert Open().around(tokenize, "a = 1\nb = ", " + 2\n", 1) == ("a = 1\nb =", " + 2\n")


@pytest.fixture
def buffers():
    return Open()


def test_a_reopened_buffer_of_the_same_version_has_its_new_text(tokenize, buffers):
    buffers.documents.open(document("o", "old"))
    assert buffers.others(tokenize) == ["old"]
    buffers.documents.close("o")
    buffers.documents.open(document("o", "new"))
    assert buffers.others(tokenize) == ["new"]


def test_a_request_tokenises_a_piece_of_a_large_buffer_and_the_next_goes_on(tokenize):
    text = "".join(f"line_{i} = {i}\n" for i in range(8000))
    assert PIECE_CHARS * 3 < len(text) < MAX_CHARS
    buffers = Open()
    cursor = len(text) - 50
    before, after = buffers.around(tokenize, text[:cursor], text[cursor:])
    assert tokenize.n_chars < 2 * PIECE_CHARS
    assert text[:cursor].endswith(before)
    assert before
    assert after == ""
    n_requests = 1
    while after == "":
        before, after = buffers.around(tokenize, text[:cursor], text[cursor:])
        n_requests += 1
    assert (before, after) == (text[:cursor], text[cursor:])
    assert n_requests <= 2 + len(text) // PIECE_CHARS
    tokenize.n_chars = 0
    buffers.around(tokenize, text[:cursor] + "x", text[cursor:])
    assert tokenize.n_chars < 3000


def test_warming_makes_a_piece_at_a_time_until_all_is_there(tokenize, buffers):
    text = "".join(f"x = {line:05}\n" for line in range(12_000))
    buffers.documents.open(document("o", text))
    n_calls = 1
    while not buffers.tokens.warm("o", tokenize):
        n_calls += 1
    assert 3 <= n_calls <= 2 + len(text) // PIECE_CHARS
    assert buffers.others(tokenize) == [text]


def test_a_key_in_a_notebook_tokenises_its_cell_only(tokenize, buffers):
    """The request's text is all cells, the document that is tokenised in a pause is one."""
    cells = {uri: f"{uri} = 1\n" * 500 for uri in ("first", "second", "third")}
    for uri, text in cells.items():
        buffers.documents.open(document(uri, text))
    for version, typed in enumerate(("", "a", "ab", "abc"), start=2):
        tokenize.n_chars = 0
        former = buffers.documents.get("second")
        assert former is not None
        place = len(cells["second"]) + len(typed[:-1])
        second = former.edited(version, TextEdit(place, 10_000, typed[-1:]))
        buffers.documents.change(second)
        above, below = f"{cells['first']}\n", f"\n{cells['third']}"
        request = remade(
            request_between(above + second.text, below, uri="second"),
            above=(("first", 1),),
            below=(("third", 1),),
        )
        before, after = buffers.tokens.around(request, 0, tokenize)
        assert as_text(before).endswith(f"1\n{typed}")
        assert as_text(after) == below
        assert buffers.tokens.warm("second", tokenize)
    assert tokenize.n_chars < 1000


def test_a_closed_notebook_leaves_no_tokens(tokenize, buffers):
    for uri in ("first", "second"):
        buffers.documents.open(document(uri, f"{uri} = 1\n"))
        assert buffers.tokens.warm(uri, tokenize)
    request = request_between("first = 1\n\nsecond", " = 1\n", uri="second", above=(("first", 1),))
    assert as_text(buffers.tokens.around(request, 0, tokenize)[1]) == " = 1\n"
    for uri in ("first", "second"):
        buffers.documents.close(uri)
        assert buffers.tokens.warm(uri, tokenize)
    assert not buffers.tokens._entries


def test_the_cells_of_a_notebook_are_no_other_buffers(tokenize, buffers):
    buffers.documents.open(document("other", "other = 1\n"))
    cells = [(f"cell {number}", 1) for number in range(2 * MAX_OTHER_DOCUMENTS)]
    for uri, _ in cells:
        buffers.documents.open(document(uri, "cell = 1\n"))
    request = remade(
        request_between("", uri="cell 9"), above=tuple(cells[:9]), below=tuple(cells[10:])
    )
    assert [as_text(t) for t in buffers.tokens.others(request, tokenize)] == ["other = 1\n"]


def test_another_large_buffer_counts_once_it_is_warm(tokenize, buffers):
    buffers.documents.open(document("o", "x = 1\n" * 20_000))
    assert buffers.others(tokenize) == []
    assert tokenize.n_chars == 0


def test_a_huge_buffer_is_seen_around_the_cursor_only(tokenize):
    prefix, suffix = "a" * 3_000_000, "b" * 3_000_000
    buffers = Open()
    buffers.documents.open(document("u", prefix + suffix))
    assert buffers.tokens.warm("u", tokenize)
    assert tokenize.n_chars == 0
    after, n_requests = "", 0
    while not after:
        before, after = buffers.around(tokenize, prefix, suffix)
        n_requests += 1
        assert n_requests < 20
    assert 150_000 < len(before) < MAX_CHARS
    assert set(after) == {"b"}
    assert len(before) + len(after) < 2 * MAX_CHARS


def test_other_buffers_share_a_bound_and_secrets_are_left_out(tokenize, buffers):
    for i in range(12):
        buffers.documents.open(document(f"o{i}", "x" * 30_000))
    buffers.documents.open(document("s", "SECRET=1", path=".env"))
    ignored = dataclasses.replace(document("i", "IGNORED=1"), file="/p/ignored.py")
    buffers.documents.open(ignored)
    others = buffers.others(tokenize)
    assert 0 < sum(map(len, others)) <= MAX_OTHER_TOKENS
    assert not any("SECRET" in text or "IGNORED" in text for text in others)


def test_the_active_buffers_tokens_serve_the_next_one(tokenize, buffers):
    text = "y = 2\n" * 10
    buffers.documents.open(document("u", text))
    buffers.around(tokenize, text, "")
    tokenize.n_chars = 0
    (other,) = buffers.tokens.others(request_between("", uri="v"), tokenize)
    assert as_text(other) == text
    assert tokenize.n_chars == 0


def test_deleted_text_is_tokenised_once_and_that_of_secret_files_not_at_all(tokenize, buffers):
    for uri in ("a.py", ".env", "ignored.py"):
        former = document_of(f"{uri:>30}\n", uri=uri, path=uri, file=uri)
        buffers.tokens.deleted.changed(former, TextEdit(0, 31, ""))
    for _ in range(2):
        assert [as_text(t) for t in buffers.tokens.deleted.tokens(tokenize)] == [f"{'a.py':>30}\n"]
    assert tokenize.n_chars == 31
    buffers.tokens.forget()
    buffers.tokens.warm("a.py", tokenize)
    assert tokenize.n_chars == 62
