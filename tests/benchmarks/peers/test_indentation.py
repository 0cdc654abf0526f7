"""Where llama-server's rule about indentation ends a text."""

from __future__ import annotations

import pytest

from benchmarks.peers.lookup_worker import without_dedent


@pytest.mark.parametrize(
    ("text", "n_indent", "expected"),
    [
        ("one", 4, "one"),
        ("one\n    two\n", 4, "one\n    two\n"),
        ("one\n    two\n  three", 4, "one\n    two\n"),
        ("one\n\n    two", 4, "one\n\n    two"),
        ("one\n\ttwo", 2, "one\n"),
        ("one\ntwo", 0, "one\ntwo"),
        ("one\n  ", 4, "one\n  "),
    ],
)
def test_a_line_with_less_indentation_ends_it(text: str, n_indent: int, expected: str) -> None:
    assert without_dedent(text, n_indent) == expected
