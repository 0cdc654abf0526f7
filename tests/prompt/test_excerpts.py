"""Excerpts that keep still: cut at lines, dropped once, found again after edits above."""

import itertools
from unittest.mock import Mock

import pytest

from speclsp.prompt.excerpts import (
    EMPTY_EXCERPT,
    TextExcerpt,
    n_hidden_closers,
    n_hidden_with_next_line,
    prefix_excerpt,
    same_excerpt,
    suffix_excerpt,
)

TEXT = "".join(f"line {i:03}\n" for i in range(100))
"""Lines of nine characters; the encoder below makes a token of each."""


def encode(text: str) -> tuple[int, ...]:
    return tuple(ord(character) for character in text)


def test_whole_text_where_it_fits():
    assert prefix_excerpt(TEXT, 90, EMPTY_EXCERPT, 90, encode).text == TEXT[:90]
    assert suffix_excerpt(TEXT[:90], EMPTY_EXCERPT, 90, encode).text == TEXT[:90]


@pytest.mark.parametrize("n_tokens_max", [1, 5, 9, 10, 50, 333, 899])
def test_never_more_tokens_than_allowed(n_tokens_max):
    prefix = prefix_excerpt(TEXT, len(TEXT), EMPTY_EXCERPT, n_tokens_max, encode)
    suffix = suffix_excerpt(TEXT, EMPTY_EXCERPT, n_tokens_max, encode)
    assert len(prefix.tokens) <= n_tokens_max
    assert len(suffix.tokens) <= n_tokens_max
    assert TEXT.endswith(prefix.text)
    assert TEXT.startswith(suffix.text)


def test_excerpts_are_cut_at_lines():
    prefix = prefix_excerpt(TEXT, len(TEXT), EMPTY_EXCERPT, 200, encode)
    suffix = suffix_excerpt(TEXT, EMPTY_EXCERPT, 200, encode)
    assert prefix.text.startswith("line ")
    assert suffix.text.endswith("\n")
    # Nine tenths of the budget less what the cut at a line costs.
    assert 150 <= len(prefix.tokens) <= 180
    assert 180 <= len(suffix.tokens) <= 200


def test_prefix_start_moves_once_per_many_lines():
    excerpt = EMPTY_EXCERPT
    starts = []
    for n_lines in range(1, 101):
        excerpt = prefix_excerpt(TEXT, 9 * n_lines, excerpt, 200, encode)
        assert len(excerpt.tokens) <= 200
        starts.append(excerpt.start)
    n_moves = sum(a != b for a, b in itertools.pairwise(starts))
    assert starts[:22] == [0] * 22
    assert 0 < n_moves <= 20


def test_prefix_start_is_found_again_after_an_edit_above():
    excerpt = prefix_excerpt(TEXT, 720, EMPTY_EXCERPT, 200, encode)
    assert excerpt.start > 0
    edited = "new line above\n" + TEXT
    again = prefix_excerpt(edited, 735, excerpt, 200, encode)
    assert again.text == excerpt.text
    assert again.start == excerpt.start + 15


def test_prefix_grows_back_when_the_cursor_goes_up():
    excerpt = prefix_excerpt(TEXT, 720, EMPTY_EXCERPT, 200, encode)
    nearer = prefix_excerpt(TEXT, excerpt.start + 9, excerpt, 200, encode)
    assert nearer.start < excerpt.start
    assert len(nearer.tokens) >= 100


def test_unchanged_text_is_not_tokenised_again():
    refuse = Mock(side_effect=AssertionError)
    prefix = prefix_excerpt(TEXT, 720, EMPTY_EXCERPT, 200, encode)
    suffix = suffix_excerpt(TEXT, EMPTY_EXCERPT, 200, encode)
    assert prefix_excerpt(TEXT, 720, prefix, 200, refuse) == prefix
    assert suffix_excerpt(TEXT, suffix, 200, refuse) == suffix


def test_suffix_end_is_frozen_while_its_text_stands():
    excerpt = suffix_excerpt(TEXT, EMPTY_EXCERPT, 200, encode)
    # A smaller budget that the excerpt still keeps, and text that grows behind it.
    assert suffix_excerpt(TEXT, excerpt, 199, encode) == excerpt
    assert suffix_excerpt(TEXT + "more\n", excerpt, 260, encode) == excerpt
    assert suffix_excerpt(TEXT, excerpt, 500, encode) != excerpt
    assert suffix_excerpt("x" + TEXT, excerpt, 200, encode).text.startswith("xline")


def test_only_text_near_the_cursor_is_tokenised():
    seen: list[int] = []

    def counting(text):
        seen.append(len(text))
        return encode(text)

    text = TEXT * 1000
    prefix_excerpt(text, len(text), EMPTY_EXCERPT, 100, counting)
    suffix_excerpt(text, EMPTY_EXCERPT, 100, counting)
    assert max(seen) <= 1200
    assert len(seen) <= 8


@pytest.mark.parametrize("line", ["x" * 100_000, "🙂" * 100_000, "\r\n" * 50_000])
def test_lines_longer_than_the_excerpt(line):
    prefix = prefix_excerpt(line, len(line), EMPTY_EXCERPT, 64, encode)
    suffix = suffix_excerpt(line, EMPTY_EXCERPT, 64, encode)
    assert 32 <= len(prefix.tokens) <= 64
    assert 32 <= len(suffix.tokens) <= 64


def test_nothing_to_show():
    assert prefix_excerpt("abc", 0, EMPTY_EXCERPT, 10, encode) == TextExcerpt(0, "", ())
    assert prefix_excerpt("abc", 3, EMPTY_EXCERPT, 0, encode) == TextExcerpt(3, "", ())
    assert suffix_excerpt("", EMPTY_EXCERPT, 10, encode) == EMPTY_EXCERPT
    assert suffix_excerpt("abc", EMPTY_EXCERPT, 0, encode) == EMPTY_EXCERPT


def test_an_excerpt_is_the_same_where_its_text_stands():
    excerpt = prefix_excerpt(TEXT, 720, EMPTY_EXCERPT, 200, encode)
    assert same_excerpt(TEXT, excerpt) == excerpt
    assert same_excerpt(TEXT[:720] + "anything else", excerpt) == excerpt
    moved = same_excerpt("new line above\n" + TEXT, excerpt)
    assert moved is not None
    assert (moved.start, moved.text) == (excerpt.start + 15, excerpt.text)
    assert moved.tokens is excerpt.tokens
    for place in (excerpt.start, excerpt.start + 50, excerpt.end - 1):
        assert same_excerpt(TEXT[:place] + "X" + TEXT[place + 1 :], excerpt) is None
    assert same_excerpt(TEXT[: excerpt.end - 1], excerpt) is None


def test_an_excerpt_from_the_texts_start_is_not_sought_elsewhere():
    excerpt = prefix_excerpt(TEXT, 18, EMPTY_EXCERPT, 200, encode)
    assert excerpt.start == 0
    assert same_excerpt("x" + TEXT, excerpt) is None


@pytest.mark.parametrize(
    ("suffix", "expected"),
    [
        ("", 0),
        ("\nnext", 0),
        (")\nnext", 1),
        ('")]}:\n', 5),
        ("  )  \r\nx", 5),
        (")", 1),
        (") + 1\n", 0),
        ("x)\n", 0),
        # No editor writes that many.
        (")" * 65 + "\n", 0),
        (")" * 65, 0),
    ],
)
def test_closers_that_alone_follow_on_the_line_are_hidden(suffix, expected):
    assert n_hidden_closers(suffix) == expected


@pytest.mark.parametrize(
    ("suffix", "expected"),
    [
        ("\n}\nnext", 2),
        ("\r\n  });\r\nnext", 7),
        (")\n}", 3),
        # Nothing that closes, or more than that.
        ("", 0),
        ("}", 0),
        ("\n\n}", 0),
        ("\n  \nnext", 0),
        ("\n} else {\n", 0),
        ("x\n}\n", 0),
    ],
)
def test_a_line_of_closers_below_is_hidden_with_those_on_the_line(suffix, expected):
    assert n_hidden_with_next_line(suffix) == expected
