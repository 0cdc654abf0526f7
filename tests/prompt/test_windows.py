"""Windows that keep still: cut at lines, dropped once, found again after edits above."""

import itertools
from unittest.mock import Mock

import pytest

from speclsp.prompt.windows import (
    EMPTY_WINDOW,
    TextWindow,
    n_hidden_closers,
    n_hidden_with_next_line,
    prefix_window,
    same_window,
    suffix_window,
)

TEXT = "".join(f"line {i:03}\n" for i in range(100))
"""Lines of nine characters; the encoder below makes a token of each."""


def encode(text: str) -> tuple[int, ...]:
    return tuple(ord(character) for character in text)


def test_whole_text_where_it_fits():
    assert prefix_window(TEXT, 90, EMPTY_WINDOW, 90, encode).text == TEXT[:90]
    assert suffix_window(TEXT[:90], EMPTY_WINDOW, 90, encode).text == TEXT[:90]


@pytest.mark.parametrize("n_tokens_max", [1, 5, 9, 10, 50, 333, 899])
def test_never_more_tokens_than_allowed(n_tokens_max):
    prefix = prefix_window(TEXT, len(TEXT), EMPTY_WINDOW, n_tokens_max, encode)
    suffix = suffix_window(TEXT, EMPTY_WINDOW, n_tokens_max, encode)
    assert len(prefix.tokens) <= n_tokens_max
    assert len(suffix.tokens) <= n_tokens_max
    assert TEXT.endswith(prefix.text)
    assert TEXT.startswith(suffix.text)


def test_windows_are_cut_at_lines():
    prefix = prefix_window(TEXT, len(TEXT), EMPTY_WINDOW, 200, encode)
    suffix = suffix_window(TEXT, EMPTY_WINDOW, 200, encode)
    assert prefix.text.startswith("line ")
    assert suffix.text.endswith("\n")
    # Nine tenths of the budget less what the cut at a line costs.
    assert 150 <= len(prefix.tokens) <= 180
    assert 180 <= len(suffix.tokens) <= 200


def test_prefix_start_moves_once_per_many_lines():
    window = EMPTY_WINDOW
    starts = []
    for n_lines in range(1, 101):
        window = prefix_window(TEXT, 9 * n_lines, window, 200, encode)
        assert len(window.tokens) <= 200
        starts.append(window.start)
    n_moves = sum(a != b for a, b in itertools.pairwise(starts))
    assert starts[:22] == [0] * 22
    assert 0 < n_moves <= 20


def test_prefix_start_is_found_again_after_an_edit_above():
    window = prefix_window(TEXT, 720, EMPTY_WINDOW, 200, encode)
    assert window.start > 0
    edited = "new line above\n" + TEXT
    again = prefix_window(edited, 735, window, 200, encode)
    assert again.text == window.text
    assert again.start == window.start + 15


def test_prefix_grows_back_when_the_cursor_goes_up():
    window = prefix_window(TEXT, 720, EMPTY_WINDOW, 200, encode)
    nearer = prefix_window(TEXT, window.start + 9, window, 200, encode)
    assert nearer.start < window.start
    assert len(nearer.tokens) >= 100


def test_unchanged_text_is_not_tokenised_again():
    refuse = Mock(side_effect=AssertionError)
    prefix = prefix_window(TEXT, 720, EMPTY_WINDOW, 200, encode)
    suffix = suffix_window(TEXT, EMPTY_WINDOW, 200, encode)
    assert prefix_window(TEXT, 720, prefix, 200, refuse) == prefix
    assert suffix_window(TEXT, suffix, 200, refuse) == suffix


def test_suffix_end_is_frozen_while_its_text_stands():
    window = suffix_window(TEXT, EMPTY_WINDOW, 200, encode)
    # A smaller budget that the window still keeps, and text that grows behind it.
    assert suffix_window(TEXT, window, 199, encode) == window
    assert suffix_window(TEXT + "more\n", window, 260, encode) == window
    assert suffix_window(TEXT, window, 500, encode) != window
    assert suffix_window("x" + TEXT, window, 200, encode).text.startswith("xline")


def test_only_text_near_the_cursor_is_tokenised():
    seen: list[int] = []

    def counting(text):
        seen.append(len(text))
        return encode(text)

    text = TEXT * 1000
    prefix_window(text, len(text), EMPTY_WINDOW, 100, counting)
    suffix_window(text, EMPTY_WINDOW, 100, counting)
    assert max(seen) <= 1200
    assert len(seen) <= 8


@pytest.mark.parametrize("line", ["x" * 100_000, "🙂" * 100_000, "\r\n" * 50_000])
def test_lines_longer_than_the_window(line):
    prefix = prefix_window(line, len(line), EMPTY_WINDOW, 64, encode)
    suffix = suffix_window(line, EMPTY_WINDOW, 64, encode)
    assert 32 <= len(prefix.tokens) <= 64
    assert 32 <= len(suffix.tokens) <= 64


def test_nothing_to_show():
    assert prefix_window("abc", 0, EMPTY_WINDOW, 10, encode) == TextWindow(0, "", ())
    assert prefix_window("abc", 3, EMPTY_WINDOW, 0, encode) == TextWindow(3, "", ())
    assert suffix_window("", EMPTY_WINDOW, 10, encode) == EMPTY_WINDOW
    assert suffix_window("abc", EMPTY_WINDOW, 0, encode) == EMPTY_WINDOW


def test_a_window_is_the_same_where_its_text_stands():
    window = prefix_window(TEXT, 720, EMPTY_WINDOW, 200, encode)
    assert same_window(TEXT, window) == window
    assert same_window(TEXT[:720] + "anything else", window) == window
    moved = same_window("new line above\n" + TEXT, window)
    assert moved is not None
    assert (moved.start, moved.text) == (window.start + 15, window.text)
    assert moved.tokens is window.tokens
    for place in (window.start, window.start + 50, window.end - 1):
        assert same_window(TEXT[:place] + "X" + TEXT[place + 1 :], window) is None
    assert same_window(TEXT[: window.end - 1], window) is None


def test_a_window_from_the_texts_start_is_not_sought_elsewhere():
    window = prefix_window(TEXT, 18, EMPTY_WINDOW, 200, encode)
    assert window.start == 0
    assert same_window("x" + TEXT, window) is None


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
