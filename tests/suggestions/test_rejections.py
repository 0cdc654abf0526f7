from __future__ import annotations

import pytest
from typed_requests import request_at

from speclsp.suggestions.rejections import MAX_EXTRA_MS, N_PATIENT, Rejections, place_kind

PLACE = request_at("a = 1\nx = ¦\n")


def turn_down(rejections: Rejections, text: str = "foo") -> None:
    rejections.shown(PLACE, text)
    rejections.asked(request_at("a = 1\nx = z¦\n"))


def test_a_text_that_was_typed_against_twice_is_held_back_at_that_place() -> None:
    rejections = Rejections()
    turn_down(rejections)
    assert not rejections.holds_back(PLACE, "foo")
    turn_down(rejections)
    assert rejections.holds_back(PLACE, "foo")
    assert not rejections.holds_back(PLACE, "bar")
    assert not rejections.holds_back(request_at("y = ¦\n"), "foo")
    assert not rejections.holds_back(request_at("a = 1\nx = ¦\n", uri="file:///b"), "foo")
    rejections.accepted(PLACE, "foo")
    assert not rejections.holds_back(PLACE, "foo")


@pytest.mark.parametrize("then", ["a = 1\nx = f¦\n", "a = 1\nx = ¦\n", "a = 1\nx =¦\n", "¦a = 1"])
def test_what_was_typed_as_suggested_or_left_was_not_turned_down(then: str) -> None:
    rejections = Rejections()
    for _ in range(3):
        rejections.shown(PLACE, "foo")
        rejections.asked(request_at(then))
    assert not rejections.holds_back(PLACE, "foo")
    assert rejections.extra_ms(PLACE) == 0


def test_rejections_in_a_row_at_a_kind_of_place_cost_time_until_something_is_taken() -> None:
    rejections = Rejections()
    for n in range(N_PATIENT):
        turn_down(rejections, f"foo{n}")
    assert rejections.extra_ms(PLACE) == 0
    turn_down(rejections)
    assert 0 < rejections.extra_ms(PLACE) < MAX_EXTRA_MS
    assert rejections.extra_ms(request_at("q.y = ¦\n")) == rejections.extra_ms(PLACE)
    assert rejections.extra_ms(request_at("\n    ¦\n")) == 0
    for n in range(50):
        turn_down(rejections, f"bar{n}")
    assert rejections.extra_ms(PLACE) == MAX_EXTRA_MS
    rejections.shown(PLACE, "right")
    rejections.asked(request_at("a = 1\nx = rig¦\n"))
    assert rejections.extra_ms(PLACE) == 0


def test_what_is_left_of_a_suggestion_is_still_that_suggestion() -> None:
    rejections = Rejections()
    for _ in range(2):
        rejections.shown(PLACE, "foo(1)")
        for typed, rest in (("f", "oo(1)"), ("fo", "o(1)")):
            typed_on = request_at(f"a = 1\nx = {typed}¦\n")
            rejections.asked(typed_on)
            rejections.shown(typed_on, rest)
        rejections.asked(request_at("a = 1\nx = for¦\n"))
    assert rejections.holds_back(PLACE, "foo(1)")
    for n in range(2):  # a suggestion that was right at first was not turned down
        rejections.shown(PLACE, f"bar({n})")
        rejections.asked(request_at("a = 1\nx = bar[¦\n"))
        rejections.shown(PLACE, f"bar({n})")
        rejections.asked(request_at("a = 1\nx = bar[¦\n"))
        assert not rejections.holds_back(PLACE, f"bar({n})")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("  ¦\n", "python blank"),
        ("x = ¦)\n", "python end"),
        ("x = a¦\n", "python word"),
        ("f(¦b)\n", "python inside"),
    ],
)
def test_kinds_of_places(text: str, kind: str) -> None:
    assert place_kind(request_at(text)) == kind


def test_a_closed_documents_screen_is_forgotten() -> None:
    rejections = Rejections()
    for _ in range(3):
        rejections.shown(PLACE, "foo")
        rejections.forget(PLACE.uri)
        rejections.asked(request_at("a = 1\nx = z¦\n"))
    assert not rejections.holds_back(PLACE, "foo")
