"""The Lua side by itself: its linter, its help, and its pure parts."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pynvim
import pytest
from real_neovim import PLUGIN, VERSIONS, Editor, nvim_of

Pure = Callable[..., Any]


def test_luacheck_finds_nothing():
    nvim = Path(nvim_of("forky"))
    root = nvim.parents[2]
    (native,) = root.glob("usr/lib/*/lua/5.1/lfs.so")
    environment = {
        **os.environ,
        "LUA_PATH": f"{root}/usr/share/lua/5.1/?.lua;{root}/usr/share/lua/5.1/?/init.lua",
        "LUA_CPATH": f"{native.parent}/?.so",
    }
    luacheck = [nvim, "-l", root / "usr/bin/luacheck", "--no-color"]
    found = subprocess.run(
        [*luacheck, "--config", PLUGIN / ".luacheckrc", PLUGIN],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert "0 warnings / 0 errors" in found.stdout + found.stderr, found.stdout + found.stderr


def test_every_tag_of_the_help_is_found(bare, tmp_path):
    page = (PLUGIN / "doc" / "speclsp.txt").read_text()
    tags = re.findall(r"\*(\S+)\*", page)
    assert {"speclsp", "speclsp-options", "speclsp-keys", "speclsp-commands"} <= set(tags)
    assert set(re.findall(r"\|(speclsp\S*)\|", page)) <= set(tags)
    # Several tests may run at once, so that the tags lie beside the plugin's folder.
    shutil.copytree(PLUGIN / "doc", tmp_path / "doc")
    bare.nvim.command(f"helptags {tmp_path / 'doc'}")
    bare.nvim.command(f"set runtimepath^={tmp_path}")
    for tag in tags:
        bare.nvim.command(f"help {tag}")
        assert bare.nvim.api.buf_get_name(0).endswith("speclsp.txt"), tag


def test_the_help_names_every_option_and_key(bare):
    page = (PLUGIN / "doc" / "speclsp.txt").read_text()
    defaults = bare.lua("return require('speclsp.config').defaults")
    for name in ["cmd", *defaults, *defaults["keys"]]:
        assert re.search(rf"\b{name}\b", page), name


def test_nothing_is_loaded_before_it_is_needed(bare):
    assert bare.nvim.call("exists", ":Speclsp") == 2
    modules = bare.lua("return vim.tbl_keys(package.loaded)")
    assert [name for name in modules if name.startswith("speclsp")] == []


@pytest.fixture(scope="module", params=VERSIONS.values(), ids=VERSIONS.keys())
def pure(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pure]:
    """Calls a function of speclsp.text; one Neovim of each version serves all tests."""
    editor = Editor(request.param[0], tmp_path_factory.mktemp("home"))
    yield lambda name, *given: editor.lua(f"return require('speclsp.text').{name}(...)", *given)
    editor.close()


@pytest.mark.parametrize(
    ("rest", "word"),
    [
        ("name, age)", "name"),
        (", age)", ","),
        ("  = value", "  ="),
        ("\n    return x", "\n    return"),
        ("größe + 1", "größe"),
        ("漢字 = 1", "漢字"),
        (")", ")"),
        ("   ", "   "),
    ],
)
def test_first_word(rest, word, pure):
    assert pure("first_word", rest) == word


@pytest.mark.parametrize(
    ("rest", "line"),
    [("a\nb\n", "a"), ("\nb\nc", "\nb"), ("\n\nc", "\n"), ("a", "a"), ("\n", "\n")],
)
def test_first_line(rest, line, pure):
    assert pure("first_line", rest) == line


@pytest.mark.parametrize(
    ("insertion", "tail", "parts"),
    [
        ("x, y)", ")", [[0, "x, y"]]),
        ("x", "", [[0, "x"]]),
        ('a"], b)', '"])', [[0, "a"], [2, ", b"]]),
        ("é)🙂]", ")]", [[0, "é"], [1, "🙂"]]),
    ],
)
def test_only_what_is_new_is_drawn(insertion, tail, parts, pure):
    assert pure("parts_around", insertion, tail) == parts


def test_what_does_not_fit_around_is_told(pure):
    assert pure("parts_around", "x, y", ")") is None


def test_accepted_length_counts_utf16_units_and_carriage_returns(pure):
    original = "é🙂\r\nab\r\nc"
    without = pure("without_cr", original)
    assert without == "é🙂\nab\nc"
    for n_characters in range(len(without) + 1):
        n_bytes = len(without[:n_characters].encode())
        kept = original
        while kept.replace("\r\n", "\n").replace("\r", "") != without[:n_characters]:
            kept = kept[:-1]
        n_units = len(kept.rstrip("\r").encode("utf-16-le")) // 2
        assert pure("accepted_length", original, n_bytes) == n_units


def test_tabs_are_as_wide_as_in_the_buffer(pure):
    assert pure("expand_tabs", "\tx\ty", 0, 4) == "    x   y"
    assert pure("expand_tabs", "漢\ty", 2, 4) == "漢    y"


def test_wrong_options_are_named(bare):
    for options, says in (
        ({"colour": 1}, 'there is no option "colour"'),
        ({"enabled": 1}, "enabled must be a boolean"),
        ({"backend": "vim"}, "backend must be"),
        ({"filetypes": {"*": "no"}}, "filetypes must say true or false for each name"),
        ({"filetypes": ["python"]}, "filetypes must say true or false for each name"),
        ({"keys": {"accept": 5}}, "keys.accept must be a key"),
        ({"keys": {"jump": "x"}}, 'there is no key "jump"'),
        ({"cmd": "/nowhere/speclsp"}, "/nowhere/speclsp is not an executable"),
    ):
        bare.nvim.command("messages clear")
        bare.setup(**options)
        assert says in bare.nvim.command_output("messages")


def test_completion_of_the_command(bare):
    def choices(line: str) -> list[str]:
        return list(bare.nvim.call("getcompletion", line, "cmdline"))

    assert choices("Speclsp ") == [
        "edit",
        "explain",
        "install",
        "log",
        "model",
        "reindex",
        "restart",
        "snooze",
        "stats",
        "status",
        "toggle",
    ]
    assert choices("Speclsp re") == ["reindex", "restart"]
    assert choices("Speclsp toggle ") == ["buffer", "filetype", "global"]
    assert choices("Speclsp snooze ") == ["0", "15", "5", "60"]
    assert choices("Speclsp status ") == []
    with pytest.raises(pynvim.api.NvimError, match='no command "nonsense"'):
        bare.nvim.command("Speclsp nonsense")
