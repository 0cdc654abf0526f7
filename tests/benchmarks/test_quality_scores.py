"""Judging suggestions: where they are asked for, and what an answer is worth."""

import pytest

from benchmarks.askers import Answer
from benchmarks.quality_scores import asked_places, judged_place, replay_quality
from tests.benchmarks.case_folders import case
from tests.benchmarks.scripted_asker import ScriptedAsker


@pytest.mark.parametrize(
    ("typed", "stride", "expected"),
    [
        ("abcdef", 1, [0, 1, 2, 3, 4, 5]),
        ("abcdef", 4, [0, 4]),
        ("\n    abcdef", 4, [0, 5, 9]),
        ("ab\n    cd\nef", 4, [0, 7, 10]),
        ("abcde\nf", 4, [0, 4, 6]),
    ],
)
def test_places(typed, stride, expected):
    assert asked_places(typed, stride) == expected


def test_the_same_places_are_asked_at_whatever_is_suggested():
    one = case("value = some_call(argument)", suffix="\nend\n")
    silent, right = ScriptedAsker(lambda *_: ""), ScriptedAsker(lambda c, n: c.typed[n:])
    without, with_all = (replay_quality(one, asker, stride=4) for asker in (silent, right))
    assert [p.n_typed for p in without.places] == [p.n_typed for p in with_all.places]
    assert not any(p.is_exact or p.n_chars_saved or p.defects for p in without.places)
    assert all(p.is_exact and p.similarity == 1.0 for p in with_all.places if p.has_line)
    assert ("taken", "value = some_call(argument)", 27) in right.told
    assert [p.n_chars_saved for p in with_all.places] == [26, *[0] * (len(with_all.places) - 1)]
    assert sum(told[0] in ("shown", "taken") for told in right.told) == 2


def test_what_lies_inside_a_take_is_not_taken_again():
    asker = ScriptedAsker(lambda c, n: c.typed[n : n + 8])
    judged = replay_quality(case("x" * 20), asker, stride=4)
    assert [place.n_chars_saved for place in judged.places] == [7, 0, 7, 0, 3]


@pytest.mark.parametrize(
    ("typed", "suffix", "suggested", "n_replaced", "is_exact"),
    [
        ("x = 1", "\n", "x = 1", 0, True),
        ("x = 1", "\n", "x = 1\ny = 2", 0, True),
        ("x = 1\ny", "\n", "x = 1", 0, True),
        ("x = 1", "\n", "x = 1  ", 0, True),
        ("x = 1", "\n", "x = 12", 0, False),
        ("a + b", ")\n", "a + b", 0, True),
        ("a + b", ")\n", "a + b)", 1, True),
        ("a + b", ")\n", "a + b)", 0, False),
        ("x = 1", "\n", "", 0, False),
    ],
)
def test_the_first_line_is_exact(typed, suffix, suggested, n_replaced, is_exact):
    answer = Answer(text=suggested, n_replaced=n_replaced)
    place = judged_place(case(typed, suffix=suffix), 0, answer, 0)
    assert place.is_exact == is_exact


def test_similarity_is_to_as_many_lines_as_are_shown():
    one = case("first()\nsecond()\nthird()")
    assert judged_place(one, 0, Answer(text="first()"), 0).similarity == 1.0
    assert judged_place(one, 0, Answer(text="first()\nother"), 0).similarity < 1.0
    assert judged_place(one, 0, Answer(text="qqqq"), 0).similarity == 0.0


def test_a_place_at_a_lines_end_has_no_line_to_write():
    one = case("\n    x = 1")
    assert [judged_place(one, n, Answer(text=""), 0).has_line for n in (0, 5)] == [False, True]


def test_defects_are_found():
    one = case("done", prefix="def f():\n    ", suffix="\n    return 1\n")
    place = judged_place(one, 0, Answer(text="x = 1\n    return 1"), 0)
    assert "repeated_suffix" in place.defects
    assert judged_place(one, 0, Answer(text="done"), 0).defects == frozenset()
