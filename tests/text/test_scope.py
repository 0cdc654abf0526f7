"""Code, comment or string, at a cursor."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speclsp.text import scope
from speclsp.text.scope import cursor_scope


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
        ("python", "f'{x", "code"),
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
        ("no-such-language", "'a", "code"),
    ],
)
def test_scope(language, prefix, expected):
    assert cursor_scope(language, "", prefix) == expected


@pytest.mark.parametrize(
    ("language", "path", "prefix", "expected"),
    [
        ("", "pkg/mod.py", "# why ", "comment"),
        ("no-such-language", "a/b.c", "// why ", "comment"),
        ("", "Makefile", "# why ", "comment"),
        ("", "no.such-suffix", "# why ", "code"),
    ],
)
def test_language_by_path(language, path, prefix, expected):
    assert cursor_scope(language, path, prefix) == expected


def test_long_texts_are_lexed_near_the_cursor_only(monkeypatch):
    lexed: list[int] = []
    original = scope._scope_of_probe

    def counting(lexer, text, index):
        lexed.append(len(text))
        return original(lexer, text, index)

    monkeypatch.setattr(scope, "_scope_of_probe", counting)
    assert cursor_scope("python", "", "x = 1\n" * 100_000 + "# why ") == "comment"
    assert cursor_scope("python", "", "x" * 1_000_000) == "code"
    assert max(lexed) < 7_000


def test_a_failing_lexer_costs_nothing(monkeypatch):
    def fail(*arguments):
        raise RuntimeError(arguments)

    monkeypatch.setattr(scope, "_scope_of_probe", fail)
    assert cursor_scope("python", "", "# why ") == "code"


@settings(max_examples=100, deadline=None)
@given(
    language=st.sampled_from(["python", "c", "rust", "javascript", "ruby", "markdown", "", "yaml"]),
    path=st.text(max_size=10),
    prefix=st.text(max_size=200),
)
def test_never_raises(language, path, prefix):
    assert cursor_scope(language, path, prefix) in ("code", "comment", "string")
