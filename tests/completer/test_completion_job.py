"""Texts end before the first secret in them, and know what accepted draft tokens gave."""

import pytest
from typed_requests import request_between

from speclsp.completer.completion_job import _cut_before_secrets, _drafted_ranges
from speclsp.decoding.speculate import Generation
from speclsp.seam.completion import GeneratedText, ranges_from
from speclsp.seam.statistics import RequestStats
from speclsp.secrets.masked_text import PLACEHOLDER
from speclsp.settings import Settings
from speclsp.text.fitting import balanced
from speclsp.text.rules import stop_rules


def cut(texts: list[GeneratedText], prefix: str, suffix: str) -> list[GeneratedText]:
    request = request_between(prefix, suffix, language_id="python")
    rules = stop_rules(Settings(), request)
    return _cut_before_secrets(request, texts, lambda text: balanced(text, rules))


def test_results_are_cut_and_alternatives_that_say_no_more_are_dropped():
    texts = [
        GeneratedText(completion_id=text, text=text, n_replaced=1)
        for text in (f"a)\n{PLACEHOLDER}", "b)", f"a)\n{PLACEHOLDER}x", f"c\n{PLACEHOLDER}")
    ]
    first, *others = cut(texts, "f(", ")\n")
    assert (first.text, first.n_replaced) == ("a)", 1)
    assert [(a.text, a.n_replaced) for a in others] == [("b)", 1), ("c", 0)]
    harmless = [GeneratedText(completion_id="1", text="a)", n_replaced=1)]
    assert cut(harmless, "f(", ")\n") == harmless


def test_what_is_left_before_a_secret_leaves_no_bracket_open():
    whole = GeneratedText(completion_id="1", text=f"g()\nx = f(a or {PLACEHOLDER})")
    assert [left.text for left in cut([whole], "", "\n")] == ["g()"]


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
