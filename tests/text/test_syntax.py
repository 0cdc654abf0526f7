"""Grammars: that each is there, and what a missing one does."""

from __future__ import annotations

import sys

import pytest

from speclsp.text import syntax
from speclsp.text.syntax import GRAMMARS, SyntaxMark, load_grammar, syntax_marks, syntax_text


@pytest.mark.parametrize("language", GRAMMARS)
def test_every_grammar_can_be_loaded(language):
    assert load_grammar(language)
    text = syntax_text(language, "")
    assert text is not None
    assert text.leaves("") == []


def test_a_language_without_a_grammar():
    assert not load_grammar("brainfuck")
    assert syntax_text("brainfuck", "") is None


def test_a_grammar_that_is_not_installed_is_no_error(monkeypatch):
    monkeypatch.setitem(syntax.GRAMMARS, "moo", ("tree_sitter_moo", "language"))
    monkeypatch.setitem(syntax.GRAMMARS, "old", ("tree_sitter_old", "language"))
    monkeypatch.setitem(sys.modules, "tree_sitter_old", type(sys)("tree_sitter_old"))
    sys.modules["tree_sitter_old"].language = lambda: 0
    syntax._language.cache_clear()
    assert syntax_text("moo", "") is None
    assert not load_grammar("old")


def test_only_the_leaves_of_the_text_are_told():
    text = syntax_text("python", "def f(a):\n    retur")
    assert text is not None
    leaves = text.leaves("n a\n")
    assert leaves is not None
    assert [leaf.kind for leaf in leaves] == ["identifier"]


def test_characters_beyond_ascii_count_as_bytes():
    text = syntax_text("python", "größe = '🙂'\n")
    assert text is not None
    assert [leaf.kind for leaf in text.leaves("é = (1") or []][:2] == ["identifier", "="]


BRACKETS = frozenset("()[]{}\"'`") | {"string_start", "string_end", "no_such_kind"}


@pytest.mark.parametrize("language", GRAMMARS)
def test_every_grammar_finds_the_marks_of_unfinished_code(language):
    marks = syntax_marks(language, "é = f(a[1]", BRACKETS)
    assert marks is not None
    assert [(mark.kind, mark.index) for mark in marks] == [("(", 5), ("[", 7), ("]", 9)]


def test_a_string_of_one_line_begins_with_its_quote_whatever_stands_before_it():
    marks = syntax_marks("python", 'x = rb\'a(\'\ny = f"""{b}"""', BRACKETS)
    assert marks == [
        SyntaxMark("'", 4, 0),
        SyntaxMark("'", 9, 0),
        SyntaxMark("string_start", 15, 1),
        SyntaxMark("{", 19, 1),
        SyntaxMark("}", 21, 1),
        SyntaxMark("string_end", 22, 1),
    ]


def test_no_marks_without_a_grammar():
    assert syntax_marks("brainfuck", "(", BRACKETS) is None
