"""Line ends of the file, and the width of indentation."""

import pytest

from speclsp.text.rules import indent_width, newline_of


@pytest.mark.parametrize(
    ("prefix", "suffix", "newline"),
    [
        ("", "", "\n"),
        ("a", "b", "\n"),
        ("a\n", "b", "\n"),
        ("a\r\nb", "", "\r\n"),
        ("", "a\r\nb", "\r\n"),
        ("a\nb\r\nc", "", "\r\n"),
        ("a\r\nb\nc", "\r\n", "\n"),
        ("", "\nx", "\n"),
    ],
)
def test_newline_nearest_to_the_cursor(prefix, suffix, newline):
    assert newline_of(prefix, suffix) == newline


@pytest.mark.parametrize(
    ("line", "width"), [("", 0), ("x", 0), ("  x", 2), ("\tx", 4), ("  \tx", 4), ("\t  x", 6)]
)
def test_indent_width(line, width):
    assert indent_width(line) == width
