"""Where the completion meets the rest of the line."""

import pytest

from speclsp.text.fitting import fitted_to_line


@pytest.mark.parametrize(
    ("line", "text", "expected", "n_replaced"),
    [
        # Closers that the editor wrote: replaced where the text brings its own.
        ("f(▮)", "a, b)", "f(a, b)", 1),
        ("f(▮)", "a, b", "f(a, b)", 0),
        ("f(▮)", "g(a)", "f(g(a))", 0),
        ("f(▮)", "g(a))", "f(g(a))", 1),
        ("f(▮);", "a);", "f(a);", 2),
        ("f(▮);", "a)", "f(a);", 1),
        ("f(▮):", "self)", "f(self):", 1),
        ("f(▮)", "self):\n    return 1", "f(self):\n    return 1", 1),
        ("f(g(▮)", "x)", "f(g(x))", 0),
        ("f(g(▮)", "x))", "f(g(x))", 1),
        ("f(g(▮))", "x))", "f(g(x))", 2),
        ("f(g(▮))", "x)", "f(g(x))", 1),
        ("x = [▮]", "1, 2]", "x = [1, 2]", 1),
        ("f([▮])", "1], 2)", "f([1], 2)", 2),
        ("{▮}", "\n  a: 1,\n}", "{\n  a: 1,\n}", 1),
        ('x = "▮"', "abc", 'x = "abc"', 0),
        ('x = "▮"', 'abc"', 'x = "abc"', 1),
        ('x = "▮"', 'abc" + "d', 'x = "abc" + "d"', 0),
        ('x = "▮"', 'a\\"b"', 'x = "a\\"b"', 1),
        ('f("▮")', 'abc")', 'f("abc")', 2),
        ('f("▮")', 'abc", g(1))', 'f("abc", g(1))', 2),
        # A string that the user opened and only its bracket was closed.
        ("f('ab▮)", "c')", "f('abc')", 1),
        ("f('ab▮)", "c', g(1))", "f('abc', g(1))", 1),
        ("f('▮')", "it(s", "f('it(s')", 0),
        ("int x = ▮;", "1;", "int x = 1;", 1),
        ("int x = ▮;", "1", "int x = 1;", 0),
        # Code behind the cursor: what both say is said once.
        ("a = ▮ + b", "x + b", "a = x + b", 0),
        ("a = ▮ + b", "x +b", "a = x +b", 4),
        ("a = ▮ + b", "x", "a = x + b", 0),
        ("f(▮bar)", "foo, bar)", "f(foo, bar)", 0),
        ("f(▮bar)", "bar) + 1", "f(bar) + 1", 4),
        ("x▮and b", " a", "x aand b", 0),
        ("▮ and b", "a", "a and b", 0),
        ("x = ▮value", "old_value", "x = old_valuevalue", 0),
        ("if ▮:  # why", "x:  # why", "if x:  # why", 0),
        ("return ▮self.total", "1 + self.to", "return 1 + self.toself.total", 0),
        ("f(▮, b, c)", "a, b", "f(a, b, c)", 0),
        # Nothing but blanks behind the cursor.
        ("x = ▮  ", "1", "x = 1  ", 0),
    ],
)
def test_line(line, text, expected, n_replaced):
    before, after = line.split("▮")
    fitted = fitted_to_line(text, before, after)
    assert before + fitted.text + after[fitted.n_replaced :] == expected
    assert fitted.n_replaced == n_replaced


COMPLETED = [
    ("foo(▮)", "x, y)\n", "foo(x, y)"),
    ("foo(▮)", "x, y\n", "foo(x, y)"),
    ("foo('▮')", "x', y)\n", "foo('x', y)"),
    ('x = f"{▮}"', 'name}"\n', 'x = f"{name}"'),
    ('x = f"{▮}"', "name}\n", 'x = f"{name}"'),
    ('x = f"{▮}"', "name\n", 'x = f"{name}"'),
    ('x = f"{▮}"', "d['b']}\"\n", "x = f\"{d['b']}\""),
    ('x = f"{▮}"', 'name} and {other}"\n', 'x = f"{name} and {other}"'),
    ('print(f"{▮}")', 'name}")\n', 'print(f"{name}")'),
    ('print(f"{▮}")', 'a} {b}", c)\n', 'print(f"{a} {b}", c)'),
    ("print(▮)", '"hello", "(")\n', 'print("hello", "(")'),
    ('x = {"a": [▮]}', "1, 2]}\n", 'x = {"a": [1, 2]}'),
    ('x["▮"]', 'key"] = 1\n', 'x["key"] = 1'),
    ("foo(bar(▮))", "1), 2)\n", "foo(bar(1), 2)"),
    ("foo(bar(▮))", "1), (2)\n", "foo(bar(1), (2))"),
    ("if (a▮) {", " && b) {\n", "if (a && b) {"),
    ("for (let i = 0; ▮) {", "i < n; i++) {\n", "for (let i = 0; i < n; i++) {"),
    ("foo(() => {▮});", "\n  a();\n});\n", "foo(() => {\n  a();\n});"),
    ("x = `▮`;", "a ${b}`;\n", "x = `a ${b}`;"),
    ('<a href="▮">', 'x">\n', '<a href="x">'),
    ("Vec<▮>", "u8>\n", "Vec<u8>"),
    ("x = (▮\n)", "1, 2)\n", "x = (1, 2\n)"),
    # What only closes what is closed is nothing.
    ("foo(a▮)", ")\n", "foo(a)"),
    ('foo("a▮")', '")\n', 'foo("a")'),
    ("foo(x)▮", ")\n", "foo(x)"),
    ("foo(bar(x)▮", ")\n", "foo(bar(x))"),
    # A bracket that closes nothing, and one that the line's rest closes.
    ("x = y▮", "[0]] + 1\n", "x = y[0]"),
    ('f(["ab▮]) if x else y', 'c"]\n', 'f(["abc"]) if x else y'),
    ("x = y[0▮", ") + 1\n", "x = y[0"),
    ("f(c▮ ss)", "haracter)\n", "f(character ss)"),
    # Two words that run into one that is nowhere else, and into one that is.
    ("f(c▮ss)", "haracter\n", "f(css)"),
    ("css = f(c▮s)", "s\n", "css = f(css)"),
    ("# 日▮語", "本\n", "# 日本語"),
    ("f(▮, b)", "g(1)), 2\n", "f(g(1), b)"),
    ("f(g(▮, b)", "1)\n", "f(g(1), b)"),
    ("f(\n    ▮", "1)\n", "f(\n    1)"),
]


@pytest.mark.parametrize(("document", "generated", "expected"), COMPLETED)
def test_what_the_editor_closed_is_closed_once(complete, document, generated, expected):
    language = "javascript" if ";" in document or "{" in document[-2:] else "python"
    assert complete(document + "\n", generated, language).document == expected + "\n"
