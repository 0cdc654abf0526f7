"""What is open at a place in code, and what a text closes of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speclsp.text.code_reader import PAIRS, QUOTES, read_code
from speclsp.text.languages import language_of


@pytest.mark.parametrize(
    ("language", "prefix", "expected"),
    [
        ("python", "", "code"),
        ("python", "x = ", "code"),
        ("python", "x = 'a", "string"),
        ("python", 'x = "a" + ', "code"),
        ("python", "x = 'it\\'s ", "string"),
        ("python", "x = 1  # because ", "comment"),
        ("python", "# done\n", "code"),
        ("python", 'def f():\n    """Say ', "string"),
        ("python", 'def f():\n    """Say."""\n    ', "code"),
        ("python", "f'{x} and ", "string"),
        ("c", "// why ", "comment"),
        ("c", "/* why\n * ", "comment"),
        ("c", "/* why */ int ", "code"),
        ("c", 'puts("hello ', "string"),
        ("c", "#include <st", "code"),
        ("rust", "fn f<'a>(x: &'a ", "code"),
        ("rust", "/// Says ", "comment"),
        ("go", "x := `raw\n", "string"),
        ("javascript", "let x = `a ${b", "code"),
        ("javascript", "let x = `a ", "string"),
        ("javascriptreact", "const x = 'a", "string"),
        ("typescriptreact", "// why ", "comment"),
        ("typescript", "/** @param ", "comment"),
        ("html", "<p>x</p><!-- why ", "comment"),
        ("lua", "--[[ why\n", "comment"),
        ("lua", "-- why", "comment"),
        ("shellscript", "echo 'a", "string"),
        ("json", '{"a": "b', "string"),
        ("ocaml", "(* why ", "comment"),
        ("haskell", "{- why ", "comment"),
        ("sql", "SELECT 1 -- why ", "comment"),
        ("ruby", "x = :sym", "code"),
        ("plaintext", "don't ", "code"),
        ("no-such-language", "'a", "string"),
    ],
)
def test_scope(language, prefix, expected):
    assert read_code(language, prefix).scope == expected


@pytest.mark.parametrize(
    ("language", "path", "expected"),
    [("", "pkg/mod.py", "python"), ("c", "a/b.py", "c"), ("", "no.such-suffix", "")],
)
def test_the_language_by_path(language, path, expected):
    assert language_of(language, path) == expected


OPEN_STRING = (0, 0, 1)

CLOSING = {
    "a statement": ("c", "int f() {\n  ▮", "g();", (0, 0, 0)),
    "a block of its own": ("c", "int f() {\n  ▮", "if (x) {\n    g();\n  }", (0, 0, 0)),
    "an open block of its own": ("c", "int f() {\n  ▮", "if (x) {\n    g();", (0, 1, 0)),
    "the cursor's block": ("c", "int f() {\n  ▮", "g();\n}", (1, 0, 0)),
    "one block, and another opened": ("c", "if (x) {▮", "\n  a();\n} else {", (1, 1, 0)),
    "a component": ("typescriptreact", "▮", "const a = <div>it's {x}</div>;", (0, 0, 0)),
    "a template string": ("javascript", "▮", "const a = `\n{(\n", (0, 1, 0)),
    "a whole template string": ("javascript", "▮", "const a = `\n{(\n`;", (0, 0, 0)),
    "a template in a template": ("javascript", "▮", "`a ${f(`b ${c", (0, 5, 0)),
    "a regular expression": ("javascript", "▮", "const r = /[)}]/;", (0, 0, 0)),
    "a long string": ("python", "def f():\n    ▮", 'x = """\nfoo)', (0, 1, 0)),
    "a string that its line left open": ("python", "def f():\n    ▮", "x = f'abc\n", OPEN_STRING),
    "a string of C": ("c", "void f() {\n  ▮", 'g("abc\n', (0, 1, 1)),
    "the cursor's string": ("python", "x = f('a▮", "b')", (1, 0, 0)),
    "the cursor's string of C": ("c", 'void f() {\n  g("a▮', 'b");', (1, 0, 0)),
    "the cursor's template": ("javascript", "x = `a▮", "b`;\nf()", (0, 0, 0)),
    "the cursor's long string": ("python", 'x = """a▮', 'b"""\nf()', (0, 0, 0)),
    "a docstring, not closed": ("python", 'f(\n"""A\n▮', "b) doesn't", (0, 0, 0)),
    "a comment, not closed": ("c", "/* A\n * ▮", "b) doesn't", (0, 0, 0)),
    "an apostrophe": ("c", "void f() {\n  ▮", "g(\"it's\"); // it's\n", (0, 0, 0)),
    "a string of Rust": ("rust", "fn f() {\n  ▮", 'g("abc\n");', (0, 0, 0)),
    "a lifetime": ("rust", "fn f() {\n  ▮", "let x: &'a str = g('(');", (0, 0, 0)),
    "a comment": ("python", "def f():\n    ▮", "x = 1  # )\n", (0, 0, 0)),
    "an array's length in a shell": ("shellscript", "▮", "echo ${#a[@]}", (0, 0, 0)),
    "a bracket that another's closer skips": ("python", "f(a[▮", "1)", (1, 0, 0)),
    "a bracket that closes nothing": ("python", "▮", "f([1)]", (1, 1, 0)),
}


@pytest.mark.parametrize("name", CLOSING)
def test_what_a_text_closes_and_leaves_open(rules_at, name):
    language, document, text, expected = CLOSING[name]
    rules = rules_at(document, language)
    state = rules.state_after(text)
    own = [mark for mark in state.open_marks if mark.index >= len(rules.code_before)]
    assert (len(state.closed_brackets), len(own), len(state.lone_quotes)) == expected


@settings(max_examples=200, deadline=None)
@given(
    language=st.sampled_from(["python", "c", "rust", "javascript", "ruby", "markdown", "", "yaml"]),
    code=st.text(st.sampled_from("ab()[]{}'\"`\\\n#/*$ "), max_size=60),
    n_first=st.integers(0, 60),
)
def test_reading_may_stop_anywhere_and_go_on(language, code, n_first):
    whole = read_code(language, code)
    assert all(
        mark.kind in PAIRS or code.startswith(mark.kind, mark.index) for mark in whole.open_marks
    )
    assert whole.scope == "code" or whole.innermost in QUOTES or whole.innermost not in PAIRS
    first = code[:n_first]
    if read_code(language, first).innermost == "" and first.endswith("\n"):
        rest = read_code(language, code, len(first), read_code(language, first))
        assert rest.scope == whole.scope
