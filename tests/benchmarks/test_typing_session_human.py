"""The human of a replay: keys, and which suggestions are taken."""

import pytest

from benchmarks.typing_session import Suggestion, keys


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ab", ["a", "b"]),
        ("a\n    b", ["a", "\n    ", "b"]),
        ("\n\n\tb", ["\n", "\n\t", "b"]),
        ("a\r\n  b", ["a", "\r\n  ", "b"]),
        ("\n  \nb", ["\n", " ", " ", "\n", "b"]),
        ("a\n    ", ["a", "\n    "]),
        ("é😀", ["é", "😀"]),
        ("", []),
    ],
)
def test_keys(text, expected):
    assert keys(text) == expected
    assert "".join(keys(text)) == text


@pytest.mark.parametrize(
    ("suggested", "n_replaced", "rest", "suffix", "n_taken"),
    [
        ("value)", 0, "value)", "\n", 6),
        ("value", 0, "values", "\n", 5),
        ("value", 0, "other", "\n", 0),
        ("va", 0, "value", "\n", 0),  # typed faster than read
        ("v a l", 0, "v a l", "\n", 5),
        ("one()\ntwo()", 0, "one()\nthree()", "\n", 5),
        ("one()\ntwo()", 0, "one()", "\nthree()", 5),
        ("one()\ntwo()", 0, "one()", "", 5),
        ("one()\ntwo()", 0, "one() + 1", "\n", 0),
        ("one()\r\ntwo()", 0, "one()\r\nthree()", "\r\n", 5),
        ("a + b)", 1, "a + b", ")\n", 5),
        ("a + b)", 1, "a + bc", ")\n", 0),
        ("a + b)", 0, "a + b", ")\n", 0),
        ("one()\ntwo()\nend", 0, "one()\ntwo()\nfour", "\n", 11),
        ("", 0, "one", "\n", 0),
        ("value", 0, "", "\n", 0),
    ],
)
def test_taken(suggested, n_replaced, rest, suffix, n_taken):
    assert Suggestion(text=suggested, n_replaced=n_replaced).taken(rest, suffix) == n_taken


def test_what_is_left_behind_what_was_typed():
    shown = Suggestion(text="value)", n_replaced=1)
    assert shown.after("va") == Suggestion(text="lue)", n_replaced=1)
    assert shown.after("vo") is None
    assert shown.after("value)") is None
