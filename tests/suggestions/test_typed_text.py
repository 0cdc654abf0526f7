from __future__ import annotations

import pytest

from speclsp.suggestions.typed_text import contradicts, n_said

TEXT = "for x in y:\n\n    print(x)\n\n    return"


@pytest.mark.parametrize("n_chars", range(len(TEXT) + 1))
def test_every_beginning_of_a_text_was_said(n_chars: int) -> None:
    assert n_said(TEXT, TEXT[:n_chars]) == n_chars


@pytest.mark.parametrize(
    ("typed", "rest"),
    [
        # An editor that indents a blank line on its own, once or twice.
        ("for x in y:\n    \n    ", "print(x)\n\n    return"),
        ("for x in y:\n    \n    print(x)\n    \n", "    return"),
        ("for x in y:  \n\n", None),
        ("for x in y:\n\n        ", None),
        ("for x in z", None),
        ("for x in y:\nprint", None),
        (TEXT + "\n", None),
    ],
)
def test_what_an_editor_adds_on_blank_lines_does_not_count(typed: str, rest: str | None) -> None:
    n = n_said(TEXT, typed)
    assert (None if n is None else TEXT[n:]) == rest


@pytest.mark.parametrize(
    ("so_far", "typed", "expected"),
    [
        ("", "ret", False),
        ("ret", "", False),
        ("ret", "return", False),
        ("return", "ret", False),
        ("ret", "rat", True),
        ("f(\n\ta", "f(\n    a", False),  # it gets the file's indentation in the end
        ("f(\n\ta", "f(\n    b", True),
        ("\n    x", "x", True),
        ("a b", "ab", True),
    ],
)
def test_contradiction_is_what_no_growth_can_mend(so_far: str, typed: str, expected: bool) -> None:
    assert contradicts(so_far, typed) is expected
