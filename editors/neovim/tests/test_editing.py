"""What the plugin must leave alone: typing, macros, repeats, folds, other kinds of buffers."""

import random
import time

import pytest
from real_neovim import SOURCE, START

LETTERS = "abc def (x, y): [1] {'é': \"🙂\"} = return \n"

pytestmark = pytest.mark.each_backend


def test_fast_typing_gives_what_was_typed(editor):
    chance = random.Random(7)
    editor.keys("Go")
    editor.nvim.command("setlocal noautoindent indentexpr= nosmartindent")
    editor.keys("<Esc>S")
    typed = ""
    for _ in range(60):
        burst = "".join(chance.choice(LETTERS) for _ in range(chance.randrange(1, 9)))
        typed += burst
        editor.keys(burst.replace("\n", "<CR>"))
        time.sleep(chance.choice((0, 0, 0.02, 0.1)))
    editor.keys("<Esc>")
    editor.until(lambda: editor.nvim.api.get_mode()["mode"] == "n")
    expected = [*SOURCE.splitlines(), *typed.split("\n")]
    assert editor.lines == expected
    editor.until(lambda: editor.ghost == "")


def test_a_large_paste_is_what_was_pasted(editor):
    pasted = "".join(f"value_{n} = compute({n})\n" for n in range(3000))
    editor.keys("o")
    editor.until(lambda: editor.nvim.api.get_mode()["mode"] == "i")
    editor.nvim.api.paste(pasted, True, -1)
    editor.keys("<Esc>")
    editor.until(lambda: editor.nvim.api.get_mode()["mode"] == "n")
    assert editor.lines == [*SOURCE.splitlines(), *pasted.split("\n")]
    editor.until(lambda: editor.ghost == "")
    editor.keys("o")
    editor.type("value_3000 = comp")
    assert editor.until_ghost()


def test_a_macro_and_dot_type_what_was_typed(editor):
    editor.keys("o<Esc>qqA    greeting = 1<Esc>q")
    editor.keys("o<Esc>5@q")
    editor.until(lambda: editor.line.count("greeting = 1") == 5)
    assert editor.line.strip() == "    ".join(["greeting = 1"] * 5)
    editor.keys("o<Esc>")
    editor.until(lambda: editor.line.strip() == "")
    before = editor.lines
    editor.keys("ogreeting = 1<Esc>")
    editor.until(lambda: editor.nvim.api.get_mode()["mode"] == "n")
    editor.keys("..")
    editor.until(lambda: len(editor.lines) == len(before) + 3)
    assert len(set(editor.lines[-3:])) == 1


def test_no_ghost_text_in_a_closed_fold(editor):
    editor.nvim.command("setlocal foldmethod=manual foldopen=")
    editor.nvim.command("1,$fold")
    editor.keys("GA")
    editor.type("x")
    time.sleep(0.6)
    if editor.nvim.call("foldclosed", ".") != -1:
        assert editor.ghost == ""
    editor.keys("<Esc>")


def test_no_change_behind_the_end_of_a_line(editor):
    editor.nvim.command("setlocal virtualedit=all")
    editor.keys("Go<Esc>10li")
    time.sleep(0.6)
    before = editor.lines
    assert editor.ghost == ""
    editor.keys("<Esc>")
    assert editor.lines == before


def test_other_kinds_of_buffers_are_left_alone(editor):
    for kind, command in {
        "terminal": "terminal cat",
        "prompt": "new | setlocal buftype=prompt filetype=python",
        "nofile": "new | setlocal buftype=nofile filetype=python",
        "readonly": "new | setlocal nomodifiable filetype=python",
    }.items():
        editor.nvim.command(command)
        bufnr = editor.nvim.api.get_current_buf().number
        editor.keys("i")
        if kind != "readonly":
            editor.keys("def greet")
        time.sleep(0.5)
        assert editor.ghost == ""
        attached = "return #vim.lsp.get_clients({ name = 'speclsp', bufnr = ... })"
        assert editor.lua(attached, bufnr) == 0
        editor.keys("<C-\\><C-n>")
        editor.until(lambda: editor.nvim.api.get_mode()["mode"].startswith("n"))


def test_wide_and_combining_characters(editor):
    editor.keys("o")
    start = f"# 漢字 e\u0301 ａ\n{START}"
    editor.nvim.command("setlocal formatoptions= noautoindent indentexpr=")
    editor.type(start)
    ghost = editor.until_ghost()
    editor.keys("<Tab>")
    editor.until(lambda: start + ghost in "\n".join(editor.lines))


def test_a_file_outside_of_any_project(bare, tmp_path):
    alone = tmp_path / "alone" / "customers.py"
    alone.parent.mkdir()
    alone.write_text(SOURCE)
    bare.setup()
    bare.open(alone)
    bare.until_ready()
    bare.keys("Go")
    bare.type(START)
    assert bare.until_ghost()
    assert bare.statistics()["index"]["n_files"] == 0
