"""Which parts of a suggestion accepted draft tokens gave."""

import pytest

from speclsp.answers import ranges_from
from speclsp.completer.completion_job import _drafted_ranges
from speclsp.decoding.speculate import Generation
from speclsp.statistics import RequestStats

PIECES = [b"re", b"turn", b" \xc3", b"\xa9", b"x", b"\n    "]


@pytest.mark.parametrize(
    ("from_drafts", "typed", "text", "expected"),
    [
        ((1,), "", "return éx", ["turn"]),
        ((0, 1), "re", "turn éx", ["turn"]),
        ((1, 4), "ret", "urn éx", ["urn", "x"]),
        ((2, 3), "", "return éx", [" ", "é"]),  # two tokens share the bytes of é
        ((4, 5), "", "return é", []),  # trimmed away
        ((4,), "", "return éX", []),  # the end was fitted
    ],
)
def test_ranges_are_those_of_the_tokens_bytes(from_drafts, typed, text, expected):
    generation = Generation(
        tokens=tuple(range(len(PIECES))),
        finish_reason="stop",
        stats=RequestStats(),
        from_drafts=from_drafts,
    )
    ranges = _drafted_ranges(generation, PIECES.__getitem__, len(typed), text)
    assert [text[start:end] for start, end in ranges] == expected


def test_what_is_left_of_a_text_keeps_its_parts():
    assert ranges_from(((0, 3), (5, 8), (9, 12)), 6) == ((0, 2), (3, 6))
    assert ranges_from(((0, 3),), 3) == ()
