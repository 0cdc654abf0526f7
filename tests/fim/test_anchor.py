"""Where the middle begins."""

from __future__ import annotations

import pytest

from speclsp.fim.anchor import anchor_candidates, line_start


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("ab", 0), ("a\nb", 2), ("a\r\nb", 3), ("a\rb", 2), ("a\n", 2), ("\n\n", 2)],
)
def test_line_start(text, expected):
    assert line_start(text) == expected


@pytest.mark.parametrize(
    ("prefix", "previous", "n_chars_max", "expected"),
    [
        # The line's start, as long as the line is short enough.
        ("", -1, 8, [0]),
        ("abc", -1, 8, [0]),
        ("abc\ndefg", -1, 8, [4]),
        ("abc\n", -1, 8, [4]),
        ("abc\n" + "x" * 8, -1, 8, [4]),
        # Then the former anchor while it is near enough, then half of what is allowed.
        ("abc\n" + "x" * 9, -1, 8, [9]),
        ("abc\n" + "x" * 9, 6, 8, [6]),
        ("abc\n" + "x" * 9, 4, 8, [9]),
        ("x" * 100, 96, 8, [96]),
        ("x" * 100, 92, 8, [96]),
        # A former anchor on another line is none.
        ("abc\n" + "x" * 9, 2, 20, [4]),
        ("a" * 90 + "\n" + "x" * 9, 89, 8, [96]),
    ],
)
def test_first_candidate(prefix, previous, n_chars_max, expected):
    assert list(anchor_candidates(prefix, previous, n_chars_max))[:1] == expected


@pytest.mark.parametrize("n_chars_max", [0, 1, 2, 7, 64])
@pytest.mark.parametrize("prefix", ["", "x", "ab\ncd", "x" * 200, "ab\n" + "y" * 200])
def test_candidates_come_nearer_and_end_at_the_cursor(prefix, n_chars_max):
    found = list(anchor_candidates(prefix, -1, n_chars_max))
    assert found == sorted(found)
    assert found[0] >= line_start(prefix)
    assert found[-1] == len(prefix)
    assert all(len(prefix) - n_chars_max <= anchor <= len(prefix) for anchor in found)
