"""What a language needs, loaded before the first keystroke that wants it."""

from __future__ import annotations

from speclsp.text.scope import cursor_scope
from speclsp.text.syntax import load_grammar


def load_language(language_id: str, path: str) -> None:
    """Load a language's grammar and lexer: some forty milliseconds for the first of them."""
    load_grammar(language_id)
    cursor_scope(language_id, path, "")
