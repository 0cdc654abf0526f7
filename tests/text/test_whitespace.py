"""Line ends and indentation as the file has them."""

from __future__ import annotations

import pytest

from speclsp.text.rules import (
    IndentStyle,
    indent_style_of,
    indent_width,
    newline_of,
    with_indent_style,
)


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
    ("prefix", "suffix", "style"),
    [
        ("", "", IndentStyle("mixed", 4)),
        ("if x:\n    y\n", "", IndentStyle("spaces", 4)),
        ("if x:\n  if y:\n    z\n", "", IndentStyle("spaces", 2)),
        ("if x:\n\ty\n", "", IndentStyle("tabs", 4)),
        ("if x:\n\ty\n", "\n    z\n", IndentStyle("mixed", 4)),
        ("", "\n        z\n", IndentStyle("spaces", 8)),
        ("    \n\t\n", "", IndentStyle("mixed", 4)),
    ],
)
def test_indent_style(prefix, suffix, style):
    assert indent_style_of(prefix, suffix) == style


@pytest.mark.parametrize(
    ("line", "width"), [("", 0), ("x", 0), ("  x", 2), ("\tx", 4), ("  \tx", 4), ("\t  x", 6)]
)
def test_indent_width(line, width):
    assert indent_width(line) == width


TABS, SPACES = IndentStyle("tabs", 4), IndentStyle("spaces", 2)


@pytest.mark.parametrize(
    ("text", "style", "line_before", "expected"),
    [
        ("x\n    y\n        z", TABS, "\t", "x\n\ty\n\t\tz"),
        ("x\n  y\n    z", TABS, "\t", "x\n\ty\n\t\tz"),
        ("x\n\ty\n\t\tz", SPACES, "  ", "x\n  y\n    z"),
        ("    x", TABS, "", "\tx"),
        ("    x", TABS, "y =", "    x"),
        ("x\n\t  y\n * z", TABS, "", "x\n\t  y\n * z"),
        ("x\n    y", IndentStyle("mixed", 4), "", "x\n    y"),
        ("x\n\n    y", TABS, "", "x\n\n\ty"),
        ("x\n    y", SPACES, "", "x\n    y"),
    ],
)
def test_indentation_takes_the_files_style(text, style, line_before, expected):
    assert with_indent_style(text, style, line_before=line_before) == expected
