"""Loops of lines and of characters."""

import pytest

from speclsp.text.repetition import repeated_characters, repeated_lines


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ([], None),
        (["a", "a"], None),
        (["a", "a", "a"], 1),
        (["x", "a", "a", "a"], 2),
        (["a", "a", "a", "b"], None),
        (["", "", ""], None),
        (["a", "b"] * 3, 2),
        (["x", *["a", "b", ""] * 3], 4),
        (["a", "b", "c", "d"] * 2, None),
        (["a", "b", "c", "d"] * 3, 4),
        (["x", *["a", "b", "", "c", "d", "e"] * 3], 7),
        (list("abcdefg") * 3, None),
        (["  a", " a", "a"], None),
    ],
)
def test_lines(lines, kept):
    assert repeated_lines(lines) == kept


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("", None),
        ("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]", None),
        ("-" * 80, None),
        (" " * 300, None),
        ("x = 1" + " " * 63, None),
        ("x = 1" + " " * 60 + "# aligned", None),
        ("0, " * 10, None),
    ],
)
def test_lines_without_a_loop(line, kept):
    assert repeated_characters(line) == kept


@pytest.mark.parametrize("cycle", ["0, ", "foo(", "(a + b) * (a - b) - ", "ab"])
def test_characters_keep_one_round(cycle):
    line = "x = " + cycle * 60
    n_kept = next(
        n for end in range(len(line)) if (n := repeated_characters(line[:end])) is not None
    )
    assert line[:n_kept].startswith("x = " + cycle.rstrip())
    assert n_kept < len("x = ") + 2 * len(cycle)


def test_blanks_without_end_behind_something_are_none_of_it():
    assert repeated_characters("x = 1" + " " * 64) == len("x = 1")
    assert repeated_characters("x = 1 \t" + " \t" * 31) == len("x = 1")


def test_a_ruler_may_be_longer():
    assert repeated_characters("=" * 200) is not None
