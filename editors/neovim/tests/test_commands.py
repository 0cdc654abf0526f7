"""`:Speclsp`, `:checkhealth speclsp` and the status line."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pynvim import NvimError
from real_neovim import PLUGIN, REPOSITORY, START, Editor

HELP_TAGS = REPOSITORY / "tools" / "help_tags.sh"

HANGING = """\
import sys, time
length = int(sys.stdin.buffer.readline().split(b":")[1])
while sys.stdin.buffer.readline().strip():
    pass
sys.stdin.buffer.read(length)
answer = b'{"jsonrpc": "2.0", "id": 1, "result": {"capabilities": {}}}'
sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(answer) + answer)
sys.stdout.flush()
time.sleep(600)
"""
"""A server that answers `initialize` and nothing else."""


def script(file: Path, text: str) -> str:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


@pytest.mark.each_backend
def test_statistics_log_status_and_health_are_shown(editor):
    editor.keys("o")
    editor.type(START)
    editor.until_ghost()
    editor.keys("<Esc>")
    editor.nvim.command("Speclsp stats")
    page = "\n".join(editor.until(lambda: editor.lines if "latency" in str(editor.lines) else 0))
    figures = [line.split("  ")[0] for line in page.splitlines()]
    assert figures[:4] == ["accepted", "accepted in part", "characters accepted", "latency, median"]
    assert "tokens per pass" in figures
    assert "of 0 tokens" not in page, "drafters that drafted nothing are left out"
    editor.keys("q")
    editor.nvim.command("Speclsp log")
    assert "engine ready" in "\n".join(editor.lines)
    editor.keys("q")
    editor.nvim.command("Speclsp status")
    messages = editor.nvim.command_output("messages")
    assert "server ready" in messages
    assert "trial model, choose a real one" in messages
    assert ":Speclsp model lists those that fit" in messages
    assert re.search(r"\d+ layers on CPU", messages)
    statusline = "return require('speclsp').statusline()"
    editor.until(lambda: re.fullmatch(r"speclsp trial model, \d+ ms", editor.lua(statusline)))
    editor.nvim.command("checkhealth speclsp")
    page = "\n".join(editor.until(lambda: editor.lines if "is ready" in str(editor.lines) else 0))
    assert "ERROR" not in page
    assert "engine is ready" in page
    assert ":Speclsp model lists what fits" in page


def test_the_suggestion_at_the_cursor_is_explained(editor):
    editor.keys("o")
    editor.type("def ")
    editor.keys("<Esc>")
    line, column = editor.lua("return vim.api.nvim_win_get_cursor(0)")
    editor.nvim.command("Speclsp explain")
    page = "\n".join(
        editor.until(lambda: editor.lines if "model reads a prompt" in str(editor.lines) else 0)
    )
    assert f":{line}:{column + 1}" in page
    assert "--n-context" in page.splitlines()[0] or "--min-probability" in page.splitlines()[0]
    editor.keys("q")


def test_an_explanation_leaves_the_cursor_to_who_types(editor):
    editor.nvim.command("Speclsp explain")
    editor.keys("o")
    editor.until(lambda: len(editor.nvim.windows) == 2)
    editor.type("typed")
    editor.until(lambda: editor.line == "typed")
    assert editor.nvim.windows[1].buffer.name == "speclsp://explanation"


def test_a_file_that_cannot_be_written_is_not_explained(editor):
    editor.nvim.command("setlocal readonly")
    editor.keys("ox<Esc>")
    editor.until(lambda: editor.nvim.api.get_mode()["mode"] == "n")
    with pytest.raises(NvimError, match="the file is not written: E45"):
        editor.nvim.command("Speclsp explain")
    assert "stack traceback" not in editor.nvim.command_output("messages")


def messages_with(editor: Editor, words: str) -> str:
    return str(
        editor.until(lambda: m if words in (m := editor.nvim.command_output("messages")) else "")
    )


@pytest.mark.each_backend
def test_snooze_until_it_ends(editor):
    editor.nvim.command("Speclsp snooze 5")
    words = "return require('speclsp').statusline()"
    editor.until(lambda: editor.lua(words).startswith("speclsp snoozing until "))
    messages_with(editor, "speclsp: snoozing until ")
    editor.nvim.command("Speclsp")
    messages_with(editor, "suggestions are snoozed until ")
    editor.keys("o")
    editor.type(START)
    time.sleep(1)
    assert editor.ghost == ""
    editor.keys("<M-Bslash>")
    assert editor.until_ghost()
    # It ends by itself.
    editor.lua("require('speclsp').snooze(0.001)")
    editor.until(lambda: "snoozing" not in editor.lua(words))
    editor.type("u")
    assert editor.until_ghost()


def test_snooze_names_what_it_takes(editor):
    for argument in ("abc", "-1", "5m", "nan", "inf"):
        with pytest.raises(NvimError, match=f'takes a number of minutes.*"{argument}" is none'):
            editor.nvim.command(f"Speclsp snooze {argument}")
    editor.nvim.command("Speclsp snooze 0")
    messages_with(editor, "speclsp: awake again")


def test_a_file_without_a_root_marker_belongs_to_the_working_folder(bare, project):
    (project / ".git").rmdir()
    bare.nvim.command(f"cd {project}")
    bare.setup()
    bare.open(project / "customers.py")
    bare.until_ready()
    bare.until(lambda: bare.statistics()["index"]["n_files"] == 1)


def test_a_file_in_the_home_folder_is_in_no_project_which_status_says(bare, project):
    home = bare.home
    home.mkdir(exist_ok=True)
    bare.lua("vim.env.HOME = ...", str(home))
    bare.nvim.command(f"cd {home}")
    file = home / "notes.py"
    file.write_text("x = 1\n")
    bare.setup()
    bare.open(file)
    bare.until_ready()
    bare.nvim.command("Speclsp status")
    messages_with(bare, "this file is in no project")
    assert bare.statistics()["index"]["n_files"] == 0
    bare.nvim.command("checkhealth speclsp")
    assert "this file is in no project" in "\n".join(
        bare.until(lambda: bare.lines if len(bare.lines) > 5 else 0)
    )


CONTRAST = """
local group = ...
local function luminance(colour)
  local function channel(shift)
    local c = bit.band(bit.rshift(colour, shift), 255) / 255
    return c <= 0.03928 and c / 12.92 or ((c + 0.055) / 1.055) ^ 2.4
  end
  return 0.2126 * channel(16) + 0.7152 * channel(8) + 0.0722 * channel(0)
end
local ghost = luminance(vim.api.nvim_get_hl(0, { name = group, link = false }).fg)
local back = luminance(vim.api.nvim_get_hl(0, { name = 'Normal', link = false }).bg)
return (math.max(ghost, back) + 0.05) / (math.min(ghost, back) + 0.05)
"""
DRAWN_IN = """
for name, namespace in pairs(vim.api.nvim_get_namespaces()) do
  if name == 'speclsp' or name == 'nvim.lsp.inline_completion' then
    for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, { details = true })) do
      for _, chunk in ipairs(mark[4].virt_text or {}) do return chunk[2] end
    end
  end
end
"""
"""The highlight group of the ghost text on screen."""


@pytest.mark.each_backend
def test_ghost_text_reads_well_in_the_default_colours(editor):
    editor.keys("o")
    editor.type(START)
    editor.until_ghost()
    for background in ("dark", "light"):
        editor.nvim.command(f"set termguicolors background={background}")
        group = editor.until(lambda: editor.lua(DRAWN_IN))
        assert 4.0 <= editor.lua(CONTRAST, group) <= 8.0


@pytest.mark.each_backend
def test_a_hint_of_the_users_own_stays(bare):
    bare.nvim.command("highlight ComplHint guifg=#123456")
    bare.setup()
    bare.nvim.command("set background=light")
    hint = "return vim.api.nvim_get_hl(0, { name = 'ComplHint', link = false }).fg"
    assert bare.lua(hint) == 0x123456


@pytest.mark.each_backend
def test_ghost_text_takes_the_colours_of_another_scheme(bare):
    bare.setup()
    bare.nvim.command("colorscheme blue")
    like = "vim.fn.hlexists('ComplHint') == 1 and 'ComplHint' or 'Comment'"
    wanted = bare.lua(f"return vim.api.nvim_get_hl(0, {{ name = {like}, link = false }}).fg")
    shown = bare.lua("return vim.api.nvim_get_hl(0, { name = 'SpeclspGhost', link = false }).fg")
    assert shown == (wanted or 0x808080)


def test_the_help_tags_of_the_package_are_those_of_neovim(bare, tmp_path):
    written, own = tmp_path / "package", tmp_path / "own"
    for folder in (written, own):
        shutil.copytree(PLUGIN / "doc", folder / "doc", ignore=shutil.ignore_patterns("tags"))
    subprocess.run([HELP_TAGS, written / "doc" / "speclsp.txt"], check=True)
    bare.nvim.command(f"helptags {own / 'doc'}")
    assert (written / "doc" / "tags").read_text() == (own / "doc" / "tags").read_text()
    bare.nvim.command(f"set runtimepath^={written}")
    bare.nvim.command("help :Speclsp")
    assert "*:Speclsp*" in bare.line


def test_a_switch_says_what_is_on_where(editor):
    for scope, where in (
        ("", "everywhere"),
        ("buffer", "in this buffer"),
        ("filetype", 'for the file type "python"'),
    ):
        for state in ("off", "on"):
            editor.nvim.command(f"Speclsp toggle {scope}")
            messages_with(editor, f"speclsp: suggestions are {state} {where}")


def test_without_a_server_nothing_is_said_to_be_on(bare, project):
    bare.lua("vim.env.PATH = '/usr/bin:/bin' require('speclsp').setup({})")
    bare.open(project / "customers.py")
    assert bare.lua("return require('speclsp').statusline()") == "speclsp not installed"
    for command in ("status", "model", "snooze", "stats", "reindex", "restart"):
        bare.nvim.command("messages clear")
        bare.nvim.command(f"Speclsp {command}")
        messages = bare.nvim.command_output("messages")
        assert messages == (
            "speclsp: the server is not installed; :Speclsp install installs it"
            + ("" if command == "status" else ".")
        )


def test_status_line_hears_of_changes(editor):
    editor.nvim.command("let g:heard = 0 | autocmd User SpeclspStatus let g:heard += 1")
    editor.nvim.command("Speclsp toggle")
    assert editor.nvim.vars["heard"] == 1


def test_restart_and_reindex(editor):
    first = editor.lua("return require('speclsp.server').client().id")
    editor.nvim.command("Speclsp restart")
    messages_with(editor, "speclsp: restarting the server")
    current = "local client = require('speclsp.server').client() return client and client.id or 0"
    editor.until(lambda: editor.lua(current) not in (0, first))
    editor.until_ready()
    editor.nvim.command("Speclsp reindex")
    messages_with(editor, "reading the project's files again")
    editor.until(lambda: editor.statistics()["index"]["n_files"] == 1)


def test_a_home_folder_with_a_marker_is_no_project(bare, project, tmp_path):
    bare.open(project / "customers.py")
    root = "return require('speclsp.server').root_of(0)"
    bare.nvim.command(f"cd {tmp_path}")
    assert bare.lua(root) == str(project)
    bare.lua("vim.env.HOME = ...", str(project))
    assert bare.lua(root) is None
    (project / "notes").mkdir()
    bare.nvim.command(f"cd {project / 'notes'}")
    assert bare.lua(root) is None
    bare.nvim.command("edit new.py")
    assert bare.lua(root) == str(project / "notes")


CLIENT = "local client = require('speclsp.server').client() return client and client.id or 0"


def test_a_restart_replaces_the_one_before(editor):
    for _ in range(3):
        editor.nvim.command("Speclsp restart")
    editor.until(lambda: editor.lua(CLIENT) > 1)
    editor.until_ready()
    second = editor.lua(CLIENT)
    time.sleep(3)  # one that does not answer is killed after 2.5 s
    assert editor.lua(CLIENT) == second


def test_a_server_that_the_user_stops_stays_stopped(editor):
    editor.lua("vim.lsp.stop_client(vim.lsp.get_clients())")
    editor.until(lambda: editor.lua("return require('speclsp').status().state") == "stopped")
    time.sleep(1)
    assert editor.lua(CLIENT) == 0
    editor.nvim.command("Speclsp restart")
    editor.until_ready()


def test_setup_again_keeps_the_server_unless_settings_changed(editor):
    state = "return require('speclsp').status().state"
    first = editor.lua(CLIENT)
    editor.setup()
    assert editor.lua(state) == "ready"
    editor.setup(settings={"max_tokens": 3})
    editor.until(lambda: editor.lua(CLIENT) not in (0, first))
    editor.until_ready()
    assert editor.lua("return vim.lsp.get_clients()[1].settings.speclsp.max_tokens") == 3


SETTINGS = """
local client = require('speclsp.server').client()
return client and client.settings.speclsp.max_tokens or 0
"""


@pytest.mark.parametrize("is_at_once", [True, False])
def test_setup_again_takes_the_settings_before_the_server_answers(
    is_at_once, bare, project, tmp_path
):
    bare.open(project / "customers.py")
    cmd = script(tmp_path / "server", f'sleep 0.5; exec {bare.server} "$@"')
    if is_at_once:
        call = "require('speclsp').setup({ cmd = ..., settings = { max_tokens = %d } })"
        bare.lua(f"{call % 2} {call % 3}", cmd)
    else:
        bare.setup(cmd=cmd, settings={"max_tokens": 2})
        time.sleep(0.2)
        bare.setup(cmd=cmd, settings={"max_tokens": 3})
    bare.until(lambda: bare.lua(SETTINGS) == 3)
    bare.until_ready()


def test_setup_while_the_server_restarts_starts_one(editor):
    first = editor.lua(CLIENT)
    editor.lua("require('speclsp').restart()")
    editor.setup(settings={"max_tokens": 3})
    editor.until(lambda: editor.lua(SETTINGS) == 3)
    editor.until_ready()
    second = editor.lua(CLIENT)
    assert second not in (0, first)
    time.sleep(3)  # one that does not answer is killed after 2.5 s
    assert editor.lua(CLIENT) == second
    assert editor.lua("return #vim.lsp.get_clients({ name = 'speclsp' })") == 1


def test_a_server_that_hangs_is_replaced(bare, project, tmp_path):
    hanging, again = tmp_path / "hanging.py", tmp_path / "again"
    hanging.write_text(HANGING)
    text = (
        f'[ -e {again} ] && exec {bare.server} "$@"; touch {again}; exec {sys.executable} {hanging}'
    )
    bare.setup(cmd=script(tmp_path / "server", text))
    bare.open(project / "customers.py")
    bare.until(lambda: bare.lua("return require('speclsp').status().state") == "loading")
    bare.nvim.command("Speclsp restart")
    bare.until_ready()


def test_a_server_that_never_answers_is_replaced_and_stopped(bare, project, tmp_path):
    started = tmp_path / "started"
    bare.setup(cmd=script(tmp_path / "server", f"echo $$ >> {started}; exec sleep 600"))
    bare.open(project / "customers.py")

    def alive() -> list[bool]:
        pids = started.read_text().split() if started.exists() else []
        return [Path("/proc", pid).exists() for pid in pids]

    bare.until(lambda: alive() == [True])
    bare.nvim.command("Speclsp restart")
    bare.until(lambda: alive() == [False, True])
    bare.lua("require('speclsp').stop()")
    bare.until(lambda: alive() == [False, False])


def test_a_server_that_dies_after_a_long_time_is_given_up_too(bare, project, tmp_path):
    broken = tmp_path / "broken"
    text = f'[ -e {broken} ] && exit 1; exec {bare.server} "$@"'
    bare.setup(cmd=script(tmp_path / "server", text), max_restarts=2)
    bare.open(project / "customers.py")
    bare.until_ready()
    bare.lua("local now = vim.uv.hrtime vim.uv.hrtime = function() return now() + 120e9 end")
    broken.touch()
    bare.lua("require('speclsp.server').client().rpc.terminate()")
    bare.until(lambda: "times in a row" in bare.nvim.command_output("messages"))


def test_a_server_that_always_dies_is_given_up(bare, project):
    bare.lua("vim.g.errors = 0")
    bare.setup(cmd=["/bin/false"], max_restarts=1)
    bare.open(project / "customers.py")
    bare.until(lambda: "times in a row" in bare.nvim.command_output("messages"))
    time.sleep(0.2)
    assert bare.nvim.command_output("messages").count("times in a row") == 1


def test_health_examines_the_model_of_the_settings(bare):
    bare.setup(settings={"model": "/nowhere/model.gguf"})
    bare.nvim.command("checkhealth speclsp")
    (error,) = [line for line in bare.lines if "ERROR" in line]
    assert "/nowhere/model.gguf" in error


def test_health_says_that_the_examination_took_too_long(bare, tmp_path):
    bare.setup(cmd=script(tmp_path / "server", '[ "$1" = doctor ] && exit 124; echo speclsp 1'))
    bare.nvim.command("checkhealth speclsp")
    assert "speclsp doctor did not end within 60 seconds" in "\n".join(bare.lines)


def test_health_names_what_is_missing(bare, project):
    bare.nvim.command("checkhealth speclsp")
    assert "setup() has not been called" in "\n".join(bare.lines)
    bare.setup(cmd="/nowhere/speclsp")
    bare.nvim.command("checkhealth speclsp")
    page = "\n".join(bare.lines)
    assert "200 ms" not in page
    assert "/nowhere/speclsp is not an executable" in page
    assert "pip install" in page
