"""What a text closes of what was open at the cursor ``▮``, by each language's grammar."""

from __future__ import annotations

import pytest

from speclsp.text.nesting import Nesting, TextNesting

DEFINED = Nesting(0, False, n_definitions=1)
OPEN_STRING = Nesting(0, False, is_in_line_string=True)

CLOSING = {
    "a statement": ("c", "int f() {\n  ▮", "g();", Nesting(0, False)),
    "a block of its own": ("c", "int f() {\n  ▮", "if (x) {\n    g();\n  }", Nesting(0, False)),
    "an open block of its own": ("c", "int f() {\n  ▮", "if (x) {\n    g();", Nesting(0, True)),
    "the cursor's block": ("c", "int f() {\n  ▮", "g();\n}", Nesting(1, False)),
    "one block, and another opened": ("c", "if (x) {▮", "\n  a();\n} else {", Nesting(1, True)),
    "a function": ("c", "▮", "int f() {\n}", DEFINED),
    "a method": ("java", "class A {\n  ▮", "int f() {\n  return 1;\n}", DEFINED),
    "a method of C++": ("cpp", "class A {\n  ▮", "int f() {\n  return 1;\n}", DEFINED),
    "a method of C#": ("csharp", "class A {\n  ▮", "int F() {\n  return;\n}", DEFINED),
    "a method of PHP": (
        "php", "<?php\nclass A {\n  ▮", "public function f() {\n}", DEFINED
    ),
    "a function of Rust": ("rust", "impl A {\n  ▮", "pub fn f(&self) {\n}", DEFINED),
    "a function of Go": ("go", "▮", "func f() int {\n\treturn 1\n}", DEFINED),
    "an exported function": (
        "typescript", "▮", "export function f(): void {\n  return;\n}", DEFINED
    ),
    "a component": ("typescriptreact", "▮", "const a = <div>{x}</div>;", Nesting(0, False)),
    "a template string": ("javascript", "▮", "const a = `\n{(\n", Nesting(0, True)),
    "a whole template string": ("javascript", "▮", "const a = `\n{(\n`;", Nesting(0, False)),
    "a regular expression": ("javascript", "▮", "const r = /[)}]/;", Nesting(0, False)),
    "a long string": ("python", "def f():\n    ▮", 'x = """\nfoo)', Nesting(0, True)),
    "a string that its line left open": ("python", "def f():\n    ▮", "x = f'abc\n", OPEN_STRING),
    "a string of C": ("c", "void f() {\n  ▮", 'g("abc\n', Nesting(0, True, True)),
    "the cursor's string": ("python", "x = f('a▮", "b')", Nesting(1, False)),
    "the cursor's string of C": ("c", 'void f() {\n  g("a▮', 'b");', Nesting(1, False)),
    "the cursor's template": ("javascript", "x = `a▮", "b`;\nf()", Nesting(0, False)),
    "the cursor's long string": ("python", 'x = """a▮', 'b"""\nf()', Nesting(0, False)),
    "a docstring, not closed": ("python", 'f(\n"""A\n▮', "b) doesn't", Nesting(0, False)),
    "a comment, not closed": ("c", "/* A\n * ▮", "b) doesn't", Nesting(0, False)),
    "an apostrophe": ("c", "void f() {\n  ▮", 'g("it\'s"); // it\'s', Nesting(0, False)),
    "a string of Rust": ("rust", "fn f() {\n  ▮", 'g("abc\n");', Nesting(0, False)),
    "a comment": ("python", "def f():\n    ▮", "x = 1  # )", Nesting(0, False)),
    "a method of Ruby": ("ruby", "class A\n  ▮", "def f\n    x\n  end", DEFINED),
    "the cursor's method": ("ruby", "class A\n  def f\n    ▮", "x\n  end", Nesting(1, False)),
    "a block of Ruby": ("ruby", "class A\n  def f\n    ▮", "if x\n y\nend", Nesting(0, False)),
    "a function of Lua": ("lua", "function f()▮", "\n  g()\nend", Nesting(1, False)),
    "a branch of a shell": ("shellscript", "if x; then\n  ▮", "g\nfi", Nesting(1, False)),
    "no grammar": ("zig", "fn f() {▮", "\n  g();\n}", Nesting(1, False)),
    "no grammar, open": ("zig", "fn f() {▮", "\n  g(", Nesting(0, True)),
    "what no token begins with": ("c", "int f() {\n ▮", "a();\n\x01\x02 }", Nesting(1, False)),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSING)
def test_nesting(rules_at, name):
    language, document, text, expected = CLOSING[name]
    assert TextNesting(rules_at(document, language)).at_end_of(text) == expected


@pytest.mark.parametrize("name", CLOSING)
def test_a_text_that_grew_nests_as_one_read_at_once(rules_at, name):
    language, document, text, expected = CLOSING[name]
    nesting = TextNesting(rules_at(document, language))
    for end in range(len(text)):
        nesting.at_end_of(text[:end])
    assert nesting.at_end_of(text) == expected
    # Nor does it matter that another text was asked for in between.
    nesting.at_end_of("🙂 = 1\n" * 3)
    assert nesting.at_end_of(text) == expected
