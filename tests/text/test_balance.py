"""What is left of a text that would leave the document's brackets and strings without a partner."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speclsp.text.code_reader import OUTSIDE, read_code
from speclsp.text.fitting import Trimmed, balanced, trimmed

CUT = {
    "a call": ("python", "x = super().jo▮\n", "in(self, iterable", "in"),
    "a string in a call": ("python", "s.re▮\n.replace('a')\n", 'place("<", "&" + a + ">', "place"),
    "a string alone": ("python", "x = (\n    ▮\n)\n", '"<', ""),
    "a string of a longer text": (
        "python",
        "if x:▮\n",
        '\n    raise RuntimeError(\n        f"Attempted to {x} in',
        "\n    raise RuntimeError",
    ),
    "the words before a string": (
        "typescript",
        "impo▮\nf();\n",
        'rt { A } from "./b',
        "rt { A } from",
    ),
    "an argument": ("lua", "local x = f(a,▮)\n", ' b, "event', " b"),
    "a long string behind a definition": (
        "python",
        "▮\n\ndef g():\n    '''B.'''\n",
        "def f():\n    '''A.\n\n    More of it.",
        "def f():",
    ),
    "a type": ("python", ") -> tuple[bool,▮\n", " tuple[bytes, str", " tuple"),
    "a brace before the rest of the line": (
        "typescript",
        "interface A<T extends ▮File> extends B<T> {\n}\n",
        "A<T> {",
        "A<T>",
    ),
    "a statement that ends in an open call": (
        "typescript",
        "f(() => {\n  ▮\n});\n",
        'expect(z.parse(a, "b").toBe();',
        "expect",
    ),
    "a brace that the next line has": ("python", "f({\n    'a': 1,\n    ▮\n}\n)\n", "}", ""),
    "a brace that the block has": (
        "c",
        "void f() {\n  if (x) {\n    ▮\n  }\n}\n",
        "g(); };",
        "g();",
    ),
    "a bracket that an operator leaves open": (
        "c",
        "int f() {\n  ▮\n}\n",
        "return (a &&",
        "return",
    ),
    "a condition": ("go", "func f() {\n\tx := ▮\n}\n", "g(a, b", "g"),
    "a macro": ("rust", "fn f<'a>() {\n    prin▮\n}\n", 'tln!("{}', "tln!"),
    "an argument list": ("java", "class A {\n  int x = ▮;\n}\n", "f(a, g(b)", "f"),
    "brackets by their looks": ("zig", "fn f() void {\n    ▮\n}\n", "g(a, b", "g"),
}

KEPT = {
    "what is closed": ("python", "x = ▮\n", "f(a, [b], {'c': \"d\"})"),
    "what the rest of the line closes": ("python", "f(▮, c)\n", "a"),
    "what was open": ("python", "x = f(a▮\n", ", b)"),
    "the string that was open": ("python", 'x = f("▮\n', 'a b")'),
    "bytes": ("python", 'x = re.compile(rb"▮\n\n\ndef f():\n    pass\n', '[ \\t]+")'),
    "a block that is opened": ("javascript", "f(() => {\n  ▮\n});\n", "if (x) {"),
    "arguments that go on": ("python", "▮\n", "f(\n    a,"),
    "a condition that goes on": ("python", "▮\n", "if not (\n    a\n    or b"),
    "an apostrophe in a comment": ("python", "▮\n", "x = 1  # it isn't (so"),
    "brackets in a string": ("go", "func f() {\n\t▮\n}\n", 's := "a)" + `(`'),
    "a regular expression": ("javascript", "x = ▮;\n", '/[("]/'),
    "a lifetime": ("rust", "▮\n", "fn f<'a>(x: &'a str) {}"),
    "a template": ("typescript", "x = ▮;\n", "`a ${f(`b`)}'s`"),
    "a comment that is not closed": ("c", "/* ▮", "it's (so"),
    "prose": ("markdown", "It ▮\n", "isn't (so"),
    "a branch": ("shellscript", "case x in\n▮", "a) f"),
    "a long string of its own": ("python", "def f():\n    ▮\n\nx = '''a'''\n", "'''A."),
    "an f-string": ("python", "x = ▮\n", 'f"a {b[\'c\']} {d("e")}"'),
}


@pytest.mark.parametrize("name", CUT)
def test_cut(rules_at, name):
    language, document, text, expected = CUT[name]
    rules = rules_at(document, language)
    assert trimmed(text, rules).text
    assert balanced(text, rules).text == expected


@pytest.mark.parametrize("name", KEPT)
def test_kept(rules_at, name):
    language, document, text = KEPT[name]
    rules = rules_at(document, language)
    assert trimmed(text, rules).text
    assert balanced(text, rules) == trimmed(text, rules)


def test_what_replaced_a_closer_leaves_it_where_that_is_cut(rules_at):
    rules = rules_at("x = f(▮)\n")
    whole = balanced('a, g(b), "c")', rules)
    assert (whole.text, whole.n_replaced) == ('a, g(b), "c")', 1)
    part = balanced('a, g(b), "c)', rules)
    assert (part.text, part.n_replaced) == ("a, g(b)", 0)


def test_a_cut_text_has_the_file_s_line_ends(rules_at):
    rules = rules_at("if x:▮\r\n")
    assert balanced("\n    a()\n    b = 'c", rules).text == "\r\n    a()"


@pytest.mark.parametrize(
    ("line", "n_most"),
    [
        pytest.param("    g(h[0])]\n", 1, id="marks left open: none"),
        pytest.param("    g(h[0], {)\n", 10, id="marks left open: others at each cut"),
    ],
)
def test_cuts_share_the_readings_of_what_follows(rules_at, monkeypatch, line, n_most):
    following = f"only_here('{line.strip()}')\n" * 200
    rules = rules_at("def f():\n    ▮\n" + following)
    read: list[str] = []

    def counted(language_id, code, start=0, state=OUTSIDE):
        read.append(code[start:])
        return read_code(language_id, code, start, state)

    monkeypatch.setattr("speclsp.text.fitting.read_code", counted)
    monkeypatch.setattr("speclsp.text.rules.read_code", counted)
    assert balanced(line.lstrip() + line * 18, rules) == Trimmed("")
    assert sum(code.count("only_here") for code in read) <= n_most * 200
    assert 18 <= len(read) <= 30


@settings(max_examples=300, deadline=None)
@given(
    text=st.text(st.sampled_from("ab_ ()[]{}:;,'\"`\\.=+\n#é🙂"), max_size=60),
    before=st.sampled_from(["x = ", "f(", 'f("', "def f():\n    ", "f({\n    ", "# "]),
    after=st.sampled_from(["\n", ")\n", '")\n', "\n})\ng()\n", " + b)\n"]),
    language=st.sampled_from(["python", "c", "typescript", "lua", "rust", "zig"]),
)
def test_a_balanced_text_stays_as_it_is(rules_at, text, before, after, language):
    rules = rules_at(f"{before}▮{after}", language)
    done = balanced(text, rules)
    assert text.startswith(done.text)
    assert bool(done.text) == bool(done.text.strip())
    assert done.text or not done.n_replaced
    if done.n_replaced == 0:
        again = balanced(done.text, rules)
        assert again.text == done.text
