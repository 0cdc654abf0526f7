from __future__ import annotations

import pytest
from typed_requests import request_at, result_of

from speclsp.request import Alternative
from speclsp.suggestions.answers import MAX_ANSWERS, MAX_DOCUMENTS, Answers, answers_of, rest_of
from speclsp.suggestions.place import N_CHARS


def rest_at(asked: str, answer: str, typed: str, n_replaced: int = 0) -> tuple[str, int] | None:
    """What is left at ``typed`` of an answer given at ``asked``, and what that replaces."""
    result = result_of(answer, n_replaced=n_replaced)
    (kept,) = answers_of(request_at(asked), result, now=0)
    rest = rest_of(kept, request_at(typed))
    return None if rest is None else (rest.text, rest.n_replaced)


@pytest.mark.parametrize(
    ("typed", "rest"),
    [
        ("x = ¦\ny", "foo(a)\nbar"),
        ("x = f¦\ny", "oo(a)\nbar"),
        ("x = foo(a)¦\ny", "\nbar"),
        ("x = foo(a)\n¦\ny", "bar"),
        ("x = foo(a)\nba¦\ny", "r"),
        ("x = foo(a)\nbar¦\ny", None),  # all of it: the model knows what follows
        ("x = foo(a)\nbarn¦\ny", None),
        ("x = g¦\ny", None),
        ("x =¦\ny", None),
        ("x = f¦\nz", None),
        ("x = f¦ \ny", None),
        ("w = f¦\ny", None),
        ("x = \nf¦\ny", None),
    ],
)
def test_typing_on_leaves_the_rest(typed: str, rest: str | None) -> None:
    assert rest_at("x = ¦\ny", "foo(a)\nbar", typed) == (None if rest is None else (rest, 0))


@pytest.mark.parametrize(
    ("answer", "typed", "expected"),
    [
        # The editor closed what was opened, and the suggestion closes it too.
        ("foo(a, b)", "x = foo(¦)\n", ("a, b)", 1)),
        ("foo(a, b)", "x = foo(a,¦)\n", (" b)", 1)),
        ("foo(a, b)", "x = foo(a, b)¦\n", None),
        ('foo(g["a"])', "x = foo(g[¦])\n", ('"a"])', 2)),
        ('foo(g["a"])', 'x = foo(g["¦"])\n', ('a"])', 3)),
        ('foo(g["a"]) + 1', 'x = foo(g["a"]¦)\n', (") + 1", 1)),
        ("'ab' + c", "x = '¦'\n", ("ab' + c", 1)),
        ('"""Doc."""', 'x = """¦"""\n', ('Doc."""', 3)),
        ("foo(\n    a,\n)", "x = foo(¦)\n", ("\n    a,\n)", 1)),
        # It closes something else, or nothing.
        ("foo(a, b)", "x = foo(¦]\n", None),
        ("foo(a, b)", "x = ¦)\n", None),
        ("foo(a", "x = foo(¦)\n", None),
        # The brace went to a line below, and stands there when the suggestion comes to it.
        ("f {\n    a;\n}", "x = f {\n    ¦\n}\n", ("a;", 0)),
        ("f {\n    a;\n}\ng", "x = f {\n    ¦\n}\n", None),
    ],
)
def test_what_the_editor_closed_is_replaced(
    answer: str, typed: str, expected: tuple[str, int] | None
) -> None:
    assert rest_at("x = ¦\n", answer, typed) == expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("def f(¦)\n", ("a):\n    return a", 1)),
        ("def f(a¦)\n", ("):\n    return a", 1)),
        ("def f(a)¦\n", (":\n    return a", 0)),  # typed over the bracket that stood there
        ("def f(a)¦)\n", (":\n    return a", 1)),
        ("def f(a):¦\n", ("\n    return a", 0)),
    ],
)
def test_what_the_suggestion_replaces_may_be_typed_over(
    typed: str, expected: tuple[str, int]
) -> None:
    assert rest_at("def f(¦)\n", "a):\n    return a", typed, n_replaced=1) == expected


def test_characters_that_are_not_replaced_must_stay() -> None:
    assert rest_at("f(¦)\n", "a", "f(¦\n") is None


def test_texts_are_compared_near_the_cursor_and_lengths_beyond() -> None:
    far = "y" * N_CHARS
    assert rest_at(f"a{far}¦{far}b", "xy", f"a{far}x¦{far}b") == ("y", 0)
    assert rest_at(f"a{far}¦{far}b", "xy", f"aa{far}x¦{far}b") is None
    assert rest_at(f"a{far}¦{far}b", "xy", f"a{far}x¦{far}bb") is None
    (kept,) = answers_of(request_at(f"a{far}¦{far}b"), result_of("xy"), now=0)
    assert len(kept.request.prefix) == len(kept.request.suffix) == N_CHARS


def remembered(*texts: tuple[str, str], now: float = 0.0, **fields) -> Answers:
    answers = Answers()
    for place, text in texts:
        answers.add(answers_of(request_at(place, **fields), result_of(text), now=now))
    return answers


def found(answers: Answers, text: str, now: float = 0.0, **fields) -> str | None:
    rest = answers.find(request_at(text, **fields), now)
    return None if rest is None else rest.text


def test_the_latest_answer_that_fits_wins_and_going_back_finds_the_former() -> None:
    answers = remembered(("x = ¦", "abc"), ("x = a¦", "xyz"))
    assert found(answers, "x = a¦") == "xyz"
    assert found(answers, "x = ax¦") == "yz"
    assert found(answers, "x = ab¦") == "c"
    assert found(answers, "x = ¦") == "abc"


@pytest.mark.parametrize(
    "other",
    [
        {"single_line": True},
        {"max_lines": 3},
        {"n_predict": 5},
        {"temperature": 0.5},
        {"seed": 7},
        {"language_id": "rust"},
        {"path": "b.py"},
        {"repo_name": "q"},
        {"overrides": {"multiline": "never"}},
        {"uri": "file:///p/b.py"},
    ],
)
def test_an_answer_to_other_rules_is_none(other: dict[str, object]) -> None:
    answers = remembered(("x = ¦", "abc"))
    assert found(answers, "x = a¦") == "bc"
    assert found(answers, "x = a¦", **other) is None


def test_nothing_to_suggest_is_known_at_the_place_and_briefly() -> None:
    answers = remembered(("x = ¦", ""))
    assert found(answers, "x = ¦", now=1) == ""
    assert found(answers, "x = a¦", now=1) is None
    assert found(answers, "x = ¦", now=3) is None


def test_answers_grow_old_and_are_bounded() -> None:
    assert found(remembered(("x¦", "abc")), "x¦", now=599) == "abc"
    assert found(remembered(("x¦", "abc")), "x¦", now=601) is None
    answers = remembered(*((f"{n}¦", "abc") for n in range(MAX_ANSWERS + 1)))
    assert found(answers, "0¦") is None
    assert found(answers, "1¦") == "abc"
    for n in range(MAX_DOCUMENTS):
        request = request_at("x¦", uri=f"file:///{n}")
        answers.add(answers_of(request, result_of("y"), now=0))
    assert found(answers, "1¦") is None
    assert found(answers, "x¦", uri="file:///0") == "y"


def test_alternatives_are_known_behind_the_first_text() -> None:
    other = Alternative(completion_id="other", text="xyz", n_replaced=0, mean_logprob=-1.0)
    answers = Answers()
    answers.add(answers_of(request_at("a¦"), result_of("xbc", alternatives=(other,)), now=0))
    assert found(answers, "ax¦") == "bc"
    rest = answers.find(request_at("axy¦"), 0)
    assert rest is not None
    assert (rest.text, rest.answer.completion_id, rest.answer.mean_logprob) == ("z", "other", -1.0)


def test_a_document_can_be_forgotten() -> None:
    answers = remembered(("x¦", "abc"))
    answers.forget("file:///p/a.py")
    assert found(answers, "x¦") is None
    answers = remembered(("x¦", "abc"))
    answers.clear()
    assert found(answers, "x¦") is None
