"""Which lines open a block."""

import pytest

from speclsp.text.languages import CONTINUATION_WORDS, closes_block, opens_block


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("python", "def f():"),
        ("python", "    if x:  "),
        ("python", "async with a as b:"),
        ("python", ") -> int:"),
        ("python", "x = ["),
        ("c", "int main() {"),
        ("c", "case 'a':"),
        ("cpp", "  public:"),
        ("typescript", "const f = (x) =>"),
        ("javascript", "foo("),
        ("yaml", "jobs:"),
        ("ruby", "def f(x)"),
        ("ruby", "xs.each do |x|"),
        ("lua", "local function f(x)"),
        ("lua", "if x then"),
        ("shellscript", "for x in a b; do"),
        ("haskell", "f x ->"),
        ("elixir", "defmodule A do"),
        ("", "def f():"),
        ("", "void f() {"),
    ],
)
def test_opens(language, line):
    assert opens_block(language, line)


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("python", ""),
        ("python", "   "),
        ("python", "x: "),
        ("python", "lambda x:"),
        ("python", "return x"),
        ("c", "int x ="),
        ("c", "a ? b :"),
        ("cpp", "p->"),
        ("typescript", "name:"),
        ("markdown", "As follows:"),
        ("markdown", "see ("),
        ("plaintext", "if this then"),
        ("ruby", "x = 1 if y"),
        ("ruby", "def f = 1; end"),
        ("lua", "f(x)"),
    ],
)
def test_opens_not(language, line):
    assert not opens_block(language, line)


@pytest.mark.parametrize("line", ["}", "  });", "]", "),", "end", "fi", "done;"])
def test_closes(line):
    assert closes_block(line)


@pytest.mark.parametrize("line", ["", "  ", "} else {", "endless", "x)", "return"])
def test_closes_not(line):
    assert not closes_block(line)


def test_words_that_go_on_with_a_block():
    assert "else" in CONTINUATION_WORDS
    assert "def" not in CONTINUATION_WORDS
