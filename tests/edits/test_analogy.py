"""Places that an edit may concern, the examples of prompts, and what is shown."""

import math

import pytest

from speclsp.edits.analogy import (
    N_ASKED,
    Pair,
    Place,
    is_sure,
    latest,
    latest_places,
    made_again,
    next_place,
    pairs_of,
    shown_pairs,
)
from speclsp.edits.formats import FORMATS, EditSource
from speclsp.requests import Change

ANALOGY = FORMATS["analogy"]


def change(old: str, new: str, line: int = 0, path: str = "a.py") -> Change:
    return Change(path=path, line=line, old=old, new=new)


def found(text: str, one: Change) -> list[str]:
    return [place.old for place in latest_places(text, "a.py", 0, [one])]


@pytest.mark.parametrize(
    ("old", "new", "line", "is_place"),
    [
        ("f(user_id)", "f(account_id)", "g(user_id)", True),
        ("f(user_id)", "f(account_id)", "g(self.user_name)", True),
        ("f(user_id)", "f(account_id)", "g(users)", True),
        ("f(user_id)", "f(account_id)", "g(account_id)", False),
        ("f(x, retries)", "f(x)", "g(y, retries)", True),
        ("f(x, retries)", "f(x)", "g(y)", False),
        ("load(a, mode)", "load(a, mode, strict)", "load(b, mode)", True),
        ("load(a, mode)", "load(a, mode, strict)", "load(b, mode, strict)", False),
        ("load(a, mode)", "load(a, mode, strict)", "unrelated = 1", False),
        ("a = 1", "b = 1", "c = a", False),
    ],
)
def test_a_place_holds_what_went_or_where_words_came(old, new, line, is_place):
    """Names of one letter and changed punctuation are no reason to ask."""
    text = f"{new}\n\n{line}\n"
    assert found(text, change(f"{old}\n", f"{new}\n")) == ([line] if is_place else [])


def test_places_are_found_nearest_first_and_without_the_edit():
    lines = [f"filler_{n}()" for n in range(200)]
    for row in (20, 95, 99, 104, 199):
        lines[row] = f"    use(old_name, {row})"
    lines[100] = "use(new_name, 100)"
    one = change("use(old_name, 100)\n", "use(new_name, 100)\n", 100)
    rows = [int(old.split(", ")[1][:-1]) for old in found("\n".join(lines), one)]
    assert rows == [99, 104, 95]


def test_an_edit_that_the_text_does_not_hold_has_no_places():
    one = change("use(old_name)\n", "use(new_name)\n")
    assert found("something()\nuse(old_name)\n", one) == []


def test_an_edit_of_another_file_has_its_places_here():
    one = change("use(old_name)\n", "use(new_name)\n", path="b.py")
    assert found("something()\nuse(old_name)\n", one) == ["use(old_name)"]


def test_what_is_typed_with_pauses_is_one_edit():
    typed = [change("f(url)\n", "f(ad)\n"), change("f(ad)\n", "f(address)\n")]
    composed = latest(typed)
    assert composed is not None
    assert (composed.old, composed.new) == ("f(url)\n", "f(address)\n")
    # A line that was typed is no edit that could be made again.
    assert found("x = f(1)\nx = f()\n", change("", "x = f(1)\n")) == []
    written = [change("", "x = f(\n"), change("x = f(\n", "x = f(1)\n")]
    assert latest_places("x = f(1)\ny = f(\n", "a.py", 0, written) == []


def test_pairs_are_lines_where_their_number_stays():
    one = change("  a(x)\n  same\n  b(x)\n", "  a(y)\n  same\n  b(y)\n")
    assert pairs_of(one) == [Pair("a(x)", "a(y)"), Pair("b(x)", "b(y)")]
    grown = change("\tcall(a, b)\n", "\tcall(\n\t\ta, b, c)\n")
    assert pairs_of(grown) == [Pair("call(a, b)", "call(\n\ta, b, c)")]


def test_earlier_edits_of_the_same_kind_are_examples():
    changes = [
        change("f(old_name)\n", "f(new_name)\n", 3),
        change("other\n", "else\n", 9),
        change("g(old_name)\n", "g(new_name)\n", 6),
    ]
    assert shown_pairs(changes, None) == [
        Pair("f(old_name)", "f(new_name)"),
        Pair("g(old_name)", "g(new_name)"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "line", "again"),
    [
        ("f(mode=1)", "f(how=1)", "g(mode=2, x)", "g(how=2, x)"),
        ("f(mode=1)", "f(how=1)", "modes = mode", "modes = how"),
        ("f(a, b)", "f(a, b, c)", "x = f(a, b)", "x = f(a, b, c)"),
        ("f(a)  # note", "f(a)", "g(b)  # note", "g(b)"),
        (r"f('\d')", r"f('\w')", r"g('\d')", r"g('\w')"),
    ],
)
def test_a_guess_puts_the_same_words_in_place_of_the_same(old, new, line, again):
    assert made_again(Pair(old, new), line) == again


def test_the_prompts_of_an_edit_differ_behind_the_last_before():
    text = "f(how=1)\n  g(mode=2)\nh()\n\tk(mode=3)\n"
    one = change("f(mode=1)\n", "f(how=1)\n")
    prompts = ANALOGY.prompts(EditSource(path="a.py", text=text, cursor=0, changes=[one]))
    heads = {prompt.text.rpartition("--- before\n")[0] for prompt in prompts}
    assert heads == {"a.py\n--- before\nf(mode=1)\n+++ after\nf(how=1)\n"}
    assert [prompt.old for prompt in prompts] == ["  g(mode=2)\n", "\tk(mode=3)\n"]
    assert [ANALOGY.rewritten(prompt, "k(how=3)\n") for prompt in prompts] == [
        "  k(how=3)\n",
        "\tk(how=3)\n",
    ]
    assert [ANALOGY.answer(one, one.again) for one in prompts] == ["g(how=2)\n", "k(how=3)\n"]


def test_only_near_places_join_what_is_shown():
    text = "x\n" * 60
    regions = [(2 * row, 2 * row + 2) for row in (10, 14, 40, 18)]
    assert next_place(text, regions, 1, []) == 1
    assert next_place(text, regions, 1, [0]) == 1
    assert next_place(text, regions, 2, [0, 1]) == 3
    assert next_place(text, regions, 4, [0, 1, 3]) is None
    assert next_place(text, regions * 3, N_ASKED, []) is None


@pytest.mark.parametrize(
    ("new", "least", "is_shown"),
    [
        ("g(how=2)", 0.6, True),
        ("g(how=2)", 0.4, False),
        ("g(how=2)", math.nan, True),
        ("g(how=2, x)", 0.99, False),
        ("g(how=2, x)", math.nan, False),
        ("g(mode=3)", 0.99, False),
    ],
)
def test_an_edit_is_shown_by_its_probability_and_its_kind(new, least, is_shown):
    place = Place(0, 10, "g(mode=2)", Pair("f(mode=1)", "f(how=1)"))
    assert is_sure(place, new, least) == is_shown
