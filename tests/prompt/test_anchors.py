"""Where the middle begins."""

import pytest

from speclsp.prompt.excerpts import N_LINES_ABOVE, anchor_candidates, anchors_above, line_start


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("ab", 0), ("a\nb", 2), ("a\r\nb", 3), ("a\rb", 2), ("a\n", 2), ("\n\n", 2)],
)
def test_line_start(text, expected):
    assert line_start(text) == expected


@pytest.mark.parametrize(
    ("prefix", "n_chars_max", "expected"),
    [
        # The line's start, as long as the line is short enough.
        ("", 8, 0),
        ("abc", 8, 0),
        ("abc\ndefg", 8, 4),
        ("abc\n", 8, 4),
        ("abc\n" + "x" * 8, 8, 4),
        # Then half of what is allowed.
        ("abc\n" + "x" * 9, 8, 9),
        ("x" * 100, 8, 96),
    ],
)
def test_first_candidate(prefix, n_chars_max, expected):
    assert next(anchor_candidates(prefix, n_chars_max)) == expected


@pytest.mark.parametrize("n_chars_max", [0, 1, 2, 7, 64])
@pytest.mark.parametrize("prefix", ["", "x", "ab\ncd", "x" * 200, "ab\n" + "y" * 200])
def test_candidates_come_nearer_and_end_at_the_cursor(prefix, n_chars_max):
    found = list(anchor_candidates(prefix, n_chars_max))
    assert found == sorted(found)
    assert found[0] >= line_start(prefix)
    assert found[-1] == len(prefix)
    assert all(len(prefix) - n_chars_max <= anchor <= len(prefix) for anchor in found)


@pytest.mark.parametrize(
    ("prefix", "n_chars_max", "expected"),
    [
        ("", 8, []),
        ("abc", 8, []),
        ("ab\ncd", 8, [0]),
        ("a\nb\nc\nd\ne", 20, [2, 4, 6]),
        ("a\nb\nc\n", 20, [0, 2, 4]),
        ("a\r\nb\r\nc", 20, [0, 3]),
        # Lines that begin too far away, and blank ones.
        ("abcdef\nb\nc", 5, [7]),
        ("a\n\n  \nb\nc", 20, [0, 6]),
    ],
)
def test_anchors_above_the_cursors_line(prefix, n_chars_max, expected):
    assert list(anchors_above(prefix, n_chars_max)) == expected


def test_anchors_above_are_line_starts_of_a_large_text():
    text = "".join(f"line {i}\n" for i in range(100_000)) + "end"
    found = list(anchors_above(text, 200))
    assert len(found) == N_LINES_ABOVE
    assert found == sorted(found)
    assert all(text[anchor - 1] == "\n" for anchor in found)
