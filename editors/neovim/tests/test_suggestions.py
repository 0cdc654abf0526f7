"""Ghost text as a user meets it: it comes, is taken in whole or in part, and goes."""

from __future__ import annotations

from real_neovim import SOURCE, Editor

LINE = '    greeting = f"Hello, {name}, and welcome to the shop!"'


def test_ghost_text_comes_and_tab_takes_it(editor: Editor) -> None:
    editor.keys("o")
    editor.type("    greeting = f\"Hel")
    ghost = editor.until_ghost()
    before = editor.line
    editor.keys("<Tab>")
    editor.until(lambda: editor.ghost == "" or editor.line != before)
    text = "\n".join(editor.lines)
    assert text.startswith(SOURCE.rstrip("\n"))
    assert before + ghost in text
    assert editor.until(lambda: editor.statistics()["n_accepted_items"]) == 1
