import pytest
from typed_requests import request_at

from speclsp.seam.completion import GeneratedText
from speclsp.text.typed_text import (
    N_CHARS,
    contradicts,
    cursor_context,
    rest_of,
    typed_between,
    typed_length,
)

TEXT = "for x in y:\n\n    print(x)\n\n    return"


@pytest.mark.parametrize("n_chars", range(len(TEXT) + 1))
def test_every_beginning_of_a_text_was_said(n_chars):
    assert typed_length(TEXT, TEXT[:n_chars]) == n_chars


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
def test_what_an_editor_adds_on_blank_lines_does_not_count(typed, rest):
    n = typed_length(TEXT, typed)
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
def test_contradiction_is_what_no_growth_can_mend(so_far, typed, expected):
    assert contradicts(so_far, typed) is expected


# --- what is left of a suggestion -----------------------------------------------------------------


def rest_at(asked: str, answer: str, typed: str, n_replaced: int = 0) -> tuple[str, int] | None:
    """What is left at ``typed`` of an answer given at ``asked``, and what that replaces."""
    whole = GeneratedText(completion_id="1", text=answer, n_replaced=n_replaced)
    found = rest_of(cursor_context(request_at(asked)), whole, request_at(typed))
    return None if found is None else (found[1].text, found[1].n_replaced)


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
def test_typing_on_leaves_the_rest(typed, rest):
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
        # It was cut before it closes anything, and stays.
        ("foo(a", "x = foo(¦)\n", ("a", 0)),
        ("foo(\n    a,\n    b,", "x = foo(¦)\n", ("\n    a,\n    b,\n", 0)),
        ("f {\n    a;\n    b;", "x = f {¦}\n", ("\n    a;\n    b;\n", 0)),
        ("f {\n    a;\n    b;", "x = f {\n    ¦\n}\n", ("a;\n    b;", 0)),
        # The brace went to a line below, and stands there when the suggestion comes to it.
        ("f {\n    a;\n}", "x = f {\n    ¦\n}\n", ("a;", 0)),
        ("f {\n    a;\n}\ng", "x = f {\n    ¦\n}\n", None),
    ],
)
def test_what_the_editor_closed_is_replaced(answer, typed, expected):
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
def test_what_the_suggestion_replaces_may_be_typed_over(typed, expected):
    assert rest_at("def f(¦)\n", "a):\n    return a", typed, n_replaced=1) == expected


def test_characters_that_are_not_replaced_must_stay():
    assert rest_at("f(¦)\n", "a", "f(¦\n") is None


def test_texts_are_compared_near_the_cursor_and_lengths_beyond():
    far = "y" * N_CHARS
    assert rest_at(f"a{far}¦{far}b", "xy", f"a{far}x¦{far}b") == ("y", 0)
    assert rest_at(f"a{far}¦{far}b", "xy", f"aa{far}x¦{far}b") is None
    assert rest_at(f"a{far}¦{far}b", "xy", f"a{far}x¦{far}bb") is None
    kept = cursor_context(request_at(f"a{far}¦{far}b"))
    assert len(kept.before) == len(kept.after) == N_CHARS


@pytest.mark.parametrize(
    ("then", "now", "typed"),
    [
        ("f(¦)", "f()¦", ")"),  # typed over the editor's closing bracket
        ("f(¦)", "f(a¦)", "a"),
        ("f(¦)\ng()", "f(¦)\ng", None),
        ("x = ¦ + 1", "x = a¦ 1", None),
        ("x = ¦ + 1", "x = ab¦ 1", None),
        ("x = ¦ + 1", "x = a +¦ 1", "a +"),
        ("foo(¦bar)", "foo(xyz¦)", None),
        ("f(a, g(¦))", "f(a, g(b)¦)", "b)"),
    ],
)
def test_who_deletes_text_after_the_cursor_gets_no_rest(then, now, typed):
    assert typed_between(request_at(then), request_at(now), "") == typed
