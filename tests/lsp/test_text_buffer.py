import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclsp.lsp.text_buffer import (
    Cursor,
    PositionEncoding,
    TextBuffer,
    code_points,
    code_units,
    split_lines,
)

TEXT = st.text(alphabet="ab\r\n\x0c\u2028é名😋", max_size=12)
ENCODINGS: list[PositionEncoding] = ["utf-8", "utf-16", "utf-32"]


def buffer(text: str) -> TextBuffer:
    return TextBuffer("file:///a.py", "python", 1, text)


def with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@given(TEXT)
def test_lines_are_those_of_lsp(text):
    lines = split_lines(text)
    assert "".join(lines) == text
    assert [line.rstrip("\r\n") for line in lines] == with_line_feeds(text).split("\n")


@given(TEXT, st.lists(st.tuples(*[st.integers(0, 5)] * 4, TEXT), max_size=5))
def test_edits_agree_with_the_plain_string(text, edits):
    edited = buffer(text)
    for line, column, end_line, end_column, inserted in edits:
        start = edited.cursor_at(line, column, "utf-32")
        end = edited.cursor_at(end_line, end_column, "utf-32")
        low, high = sorted((offset(text, start), offset(text, end)))
        text = text[:low] + inserted + text[high:]
        edited.replace(start, end, inserted)
        assert edited.text == with_line_feeds(text)
        assert edited.n_lines == len(split_lines(text))
        assert edited.n_chars == len(text)


@pytest.mark.parametrize(
    ("text", "span", "inserted"),
    [
        ("a long line", (0, 2, 0, 6), "x"),
        ("a\r\nlong\nline", (1, 0, 1, 4), ""),
        ("a\rb\nc", (1, 0, 1, 1), "é"),
        ("a\rb\nc", (1, 0, 1, 1), ""),  # which joins the CR and the LF
        ("a\nb", (0, 0, 0, 0), "x\ry"),
        ("a\nb", (0, 1, 1, 0), "x"),
    ],
)
def test_an_edit_splits_the_lines_beside_it_only(text, span, inserted, monkeypatch):
    many = "far away\n" * 1000
    edited = buffer(many + text + "\n" + many)
    assert edited.n_lines > 2000  # the whole text is split from now on
    start, end = Cursor(1000 + span[0], span[1]), Cursor(1000 + span[2], span[3])
    expected = text[: offset(text, Cursor(*span[:2]))] + inserted
    expected += text[offset(text, Cursor(*span[2:])) :]
    split: list[str] = []

    def counted(part: str) -> list[str]:
        split.append(part)
        return split_lines(part)

    monkeypatch.setattr("speclsp.lsp.text_buffer.split_lines", counted)
    edited.replace(start, end, inserted)
    assert "".join(split).count("far away") <= 2
    whole = many + with_line_feeds(expected) + "\n" + many
    assert edited.text == whole
    assert edited.n_lines == len(split_lines(whole))


def test_edits_copy_the_lines_once_for_each_snapshot():
    edited = buffer("a line\n" * 20_000)
    n_copy = sys.getsizeof([""] * edited.n_lines)
    snapshot = edited.snapshot()
    edited.replace(Cursor(9, 0), Cursor(9, 1), "b")
    assert snapshot.line(9) == "a line"
    tracemalloc.start()
    try:
        for idx in range(100):
            edited.replace(Cursor(idx, 0), Cursor(idx, 1), "c")
            edited.line(idx)
        _, n_peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert n_peak < n_copy / 2
    assert (snapshot.line(0), edited.line(0), edited.line(9)) == ("a line", "c line", "c line")


def test_lines_are_looked_for_when_somebody_asks(monkeypatch):
    n_chars: list[int] = []

    def counted(part: str) -> list[str]:
        n_chars.append(len(part))
        return split_lines(part)

    monkeypatch.setattr("speclsp.lsp.text_buffer.split_lines", counted)
    opened = buffer("a\r\nb" * 1000)
    assert opened.text == "a\nb" * 1000
    opened.replace_all("c\r\nd")
    assert opened.text == "c\nd"
    assert opened.n_chars == 4
    assert not n_chars
    assert opened.n_lines == 2
    assert opened.text == "c\nd"
    assert n_chars == [4]


def offset(text: str, cursor: Cursor) -> int:
    lines = split_lines(text)
    return sum(len(line) for line in lines[: cursor.line]) + cursor.column


@given(TEXT, st.integers(0, 6), st.integers(0, 40), st.sampled_from(ENCODINGS))
def test_split_puts_the_text_together_again(text, line, character, encoding):
    edited = buffer(text)
    cursor = edited.cursor_at(line, character, encoding)
    offset = edited.offset(cursor)
    prefix, suffix = edited.text[:offset], edited.text[offset:]
    assert prefix + suffix == with_line_feeds(text)
    assert prefix.count("\n") == cursor.line
    # Back to the wire and again to the same place.
    units = edited.character_at(cursor, encoding)
    assert edited.cursor_at(cursor.line, units, encoding) == cursor


@pytest.mark.parametrize(
    ("text", "n_units", "encoding", "n_points"),
    [
        ("a😋b", 1, "utf-16", 1),
        ("a😋b", 2, "utf-16", 1),  # inside the surrogate pair
        ("a😋b", 3, "utf-16", 2),
        ("a😋b", 4, "utf-8", 1),  # inside the four bytes
        ("a😋b", 5, "utf-8", 2),
        ("é", 1, "utf-8", 0),
        ("a😋b", 2, "utf-32", 2),
        ("a😋b", 99, "utf-16", 3),
        ("", 5, "utf-8", 0),
    ],
)
def test_code_points(text, n_units, encoding, n_points):
    assert code_points(text, n_units, encoding) == n_points


@given(TEXT, st.sampled_from(ENCODINGS))
def test_units_and_points_are_inverse(text, encoding):
    for n in range(len(text) + 1):
        assert code_points(text, code_units(text[:n], encoding), encoding) == n
