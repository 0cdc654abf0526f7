"""Languages loaded ahead."""

from __future__ import annotations

from speclsp.text import syntax
from speclsp.text.warming import load_language


def test_nothing_is_loaded_on_the_first_keystroke():
    syntax._language.cache_clear()
    load_language("go", "a.go")
    n_loaded = syntax._language.cache_info().misses
    assert syntax.syntax_text("go", "") is not None
    assert syntax._language.cache_info().misses == n_loaded == 1


def test_a_language_that_nobody_knows():
    load_language("brainfuck", "")
