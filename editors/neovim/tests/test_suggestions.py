"""Ghost text as a user meets it: it comes, is taken in whole or in part, and goes."""

import os
import signal
import subprocess
import time
from functools import partial
from typing import Any

import pytest
from pynvim import NvimError
from real_neovim import SOURCE, START, Editor

from speclsp.engine_process.start import running_engines, status_of

pytestmark = pytest.mark.each_backend

NO_ANSWERS = "vim.lsp.get_clients()[1].request = function() return true, 0 end"


def type_start(editor: Editor) -> str:
    """Type what the file says three times already, and return the ghost text."""
    editor.keys("o")
    editor.type(START)
    return editor.until_ghost()


def until_attached(editor: Editor) -> None:
    """Wait until the current buffer has the server, under its new name."""
    editor.until(lambda: editor.lua("return require('speclsp.server').client_of(0) ~= nil"))


def test_tab_takes_the_ghost_text(editor):
    ghost = type_start(editor)
    editor.keys("<Tab>")
    editor.until(lambda: START + ghost in "\n".join(editor.lines))
    assert "\n".join(editor.lines).startswith(SOURCE)
    assert editor.until(lambda: editor.statistics()["n_accepted_items"]) == 1
    editor.keys("<Esc>u")  # accepting is one step of undo
    editor.until(lambda: START in editor.lines)
    assert editor.lines == [*SOURCE.splitlines(), START]


def test_a_word_and_a_line_are_taken(editor):
    ghost = type_start(editor)
    editor.keys("<M-w>")
    word = editor.until(lambda: editor.line.removeprefix(START))
    assert ghost.startswith(word)
    assert word.isidentifier()
    editor.until_ghost()
    editor.keys("<M-l>")
    line = (START + ghost).split("\n")[0]
    editor.until(lambda: editor.line.startswith(line))
    editor.until(lambda: editor.statistics()["n_chars_accepted"] > len(word))


def first_word(editor: Editor, rest: str) -> str:
    return str(editor.lua("return require('speclsp.text').first_word(...)", rest))


def test_keys_of_one_burst_come_behind_the_text_that_they_take(editor):
    ghost = type_start(editor)
    editor.keys("<Tab>zz<Esc>")
    editor.until(lambda: editor.nvim.api.get_mode()["mode"] == "n")
    assert editor.lines == (SOURCE + START + ghost + "zz").split("\n")
    assert editor.until(lambda: editor.statistics()["n_accepted_items"]) == 1
    assert editor.statistics()["n_chars_accepted"] == len(ghost)
    for left in (START + ghost, START):
        editor.nvim.command("undo")
        assert editor.lines == (SOURCE + left).split("\n")


def test_words_of_one_burst_are_taken_one_by_one(editor):
    ghost = type_start(editor)
    words = first_word(editor, ghost)
    words += first_word(editor, ghost.removeprefix(words))
    editor.keys("<M-w><M-w>q")
    editor.until(lambda: editor.line == START + words + "q")
    assert editor.until(lambda: editor.statistics()["n_partially_accepted"]) == 1
    assert editor.statistics()["n_chars_accepted"] == len(words)


def test_a_line_end_is_taken_before_the_next_answer(bare, project):
    bare.setup(settings={"multiline": "always", "max_lines": 3})
    bare.open(project / "customers.py")
    bare.until_ready()
    bare.keys("G")
    ghost = type_start(bare)
    first, second, *_ = ghost.split("\n")
    bare.lua(NO_ANSWERS)
    bare.keys("<M-l>")
    bare.until(lambda: bare.line == START + first)
    bare.keys("<M-w>")
    word = first_word(bare, second)
    bare.until(lambda: bare.line == word)
    rest = ghost.removeprefix(f"{first}\n{word}")
    bare.until(lambda: bare.ghost in ("", rest))  # not what stands in the line already
    bare.keys("<M-l>")
    bare.until(lambda: bare.lines[-2:] == [START + first, second])


def test_a_key_does_what_it_did_where_the_text_no_longer_fits(editor):
    type_start(editor)
    editor.keys("<BS><Tab>")
    editor.until(lambda: editor.line.rstrip() == START[:-1] != editor.line)


LATEST_TEXT = """
table.insert(require('speclsp.server').on_answer, function(_, _, items)
  vim.g.text = items[1] and items[1].insertText
end)
"""


def test_a_bracket_behind_the_cursor_stays_one_when_a_character_is_typed(editor):
    start = "CUSTOMER_8 = make_customer("
    editor.lua(LATEST_TEXT)
    editor.keys("o")
    editor.type(start + ")")
    editor.keys("<Left>")
    editor.until_ghost()
    text = editor.nvim.vars["text"]
    assert text.endswith(")"), "it replaces the bracket that is there"
    editor.lua(NO_ANSWERS)
    editor.keys(text[0])
    editor.until(lambda: editor.line == f"{start}{text[0]})")
    if (editor.suite, editor.backend) != ("forky", "auto"):
        editor.until(lambda: editor.ghost == text[1:-1])
    editor.keys("<Tab>q")
    editor.until(lambda: editor.line == f"{start}{text}q")


TAKE_BELOW = """
local place = { row = 0, col = 4, behind = 0 }
return require('speclsp.insert').insert(0, nil, { insertText = '\\n  x\\n)' }, place)
"""


def test_what_moved_to_the_next_line_is_replaced_there(bare):
    bare.nvim.current.line = "foo()"
    bare.keys("f)i<CR>")
    bare.until(lambda: bare.lines == ["foo(", ")"])
    assert bare.lua(TAKE_BELOW)
    assert bare.lines == ["foo(", "  x", ")"]


MAP_EXPR = """
vim.keymap.set('i', '<F2>', function()
  return require('speclsp').accept() and '' or 'nothing'
end, { expr = true })
"""


def test_an_expr_mapping_takes_the_ghost_text_behind_it(editor):
    editor.lua(MAP_EXPR)
    ghost = type_start(editor)
    editor.keys("<F2>")
    editor.until(lambda: editor.lines == (SOURCE + START + ghost).split("\n"))
    assert editor.until(lambda: editor.statistics()["n_accepted_items"]) == 1


SENT = """
local rpc = require('speclsp.server').client().rpc
local sent = {}
for _, kind in ipairs({ 'notify', 'request' }) do
  local send = rpc[kind]
  rpc[kind] = function(method, ...)
    sent[#sent + 1] = method
    vim.g.sent = sent
    return send(method, ...)
  end
end
"""


@pytest.mark.parametrize(
    ("key", "report"),
    [
        ("<Tab>", "workspace/executeCommand"),
        ("<M-w>", "textDocument/didPartiallyAcceptCompletion"),
    ],
)
def test_the_change_is_sent_before_the_report_of_it(key, report, editor):
    type_start(editor)
    editor.lua(SENT)
    editor.keys(f"{key}q")
    editor.until(lambda: report in editor.nvim.vars.get("sent", []))
    assert editor.nvim.vars["sent"][:2] == ["textDocument/didChange", report]


def test_a_word_is_taken_beside_the_completion_menu(editor):
    editor.nvim.command("set completeopt=menuone,noinsert,noselect")
    ghost = type_start(editor)
    editor.keys("<C-r>=[complete(col('.'), ['alpha', 'beta']), ''][1]<CR>")
    editor.until(lambda: editor.lua("return vim.fn.pumvisible()"))
    word = first_word(editor, editor.until_ghost())
    assert ghost.startswith(word)
    editor.keys("<M-w>q<Esc>")
    editor.until(lambda: editor.nvim.api.get_mode()["mode"] == "n")
    assert editor.lines == (SOURCE + START + word + "q").split("\n")


def test_dot_repeats_what_was_typed_around_the_accepted_text(editor):
    ghost = type_start(editor)
    editor.keys("<Tab>zz<Esc>")
    editor.until(lambda: editor.nvim.api.get_mode()["mode"] == "n")
    editor.keys(".")
    repeated = [*(SOURCE + START + ghost + "zz").split("\n"), START + "zz"]
    editor.until(lambda: editor.lines == repeated)


def test_a_suggestion_that_is_typed_through_counts_once(editor):
    ghost = type_start(editor)
    time.sleep(0.6)
    before = editor.statistics()
    for n_typed, key in enumerate(ghost[:5], 1):
        editor.type(key)
        editor.until(lambda: editor.line == START + ghost[:n_typed])  # noqa: B023
        editor.until_ghost()
    typed = editor.statistics()
    assert typed["n_memory"] >= before["n_memory"] + 3
    assert typed["n_shown"] == before["n_shown"]
    editor.keys("<Tab>")
    editor.until(lambda: START + ghost in "\n".join(editor.lines))
    editor.until(lambda: editor.statistics()["n_accepted_items"] == 1)
    assert editor.statistics()["n_chars_accepted"] == len(ghost) - 5


def test_what_does_not_fit_goes_with_the_key(editor):
    """Not with the next answer, which may take a second; here none comes."""
    type_start(editor)
    editor.lua(NO_ANSWERS)
    editor.type("@")
    editor.until(lambda: editor.line == START + "@")
    editor.until(lambda: editor.ghost == "")


ASK_AGAIN = """
local server = require('speclsp.server')
local status = { state = 'ready', message = '', model = server.status.model, ask_again = ... }
local asks = false
vim.g.n_answers = 0
table.insert(server.on_ready, function() asks = true end)
table.insert(server.on_answer, function() vim.g.n_answers = vim.g.n_answers + 1 end)
server.client().handlers['$/speclsp/status'](nil, status)
return asks
"""


def test_the_server_is_asked_again_at_the_cursor_where_it_wishes(editor):
    type_start(editor)
    assert editor.lua(ASK_AGAIN, True)
    editor.until(lambda: editor.nvim.vars["n_answers"] >= 1)
    editor.until_ghost()
    assert not editor.lua(ASK_AGAIN, False)


OTHER_MODEL = """
local server = require('speclsp.server')
server.status.latency_ms = 1234
local model = vim.tbl_extend('force', server.status.model, ...)
server.client().handlers['$/speclsp/status'](nil, { state = 'ready', message = '', model = model })
return require('speclsp').statusline()
"""


def test_another_model_clears_the_time_of_the_former_one_at_once(editor):
    assert "1234 ms" in editor.lua(OTHER_MODEL, {"is_trial": False})
    assert editor.lua(OTHER_MODEL, {"title": "Coder", "is_trial": False}) == "speclsp ready, Coder"


ANSWERS_ONCE = """
local name = ...
local answered = false
local function request(method, _, callback)
  if method == 'initialize' then
    callback(nil, { capabilities = { inlineCompletionProvider = true } })
  elseif method == 'textDocument/inlineCompletion' and not answered then
    answered = true
    local start = { line = 0, character = 0 }
    local range = { start = start, ['end'] = start }
    callback(nil, { items = { { insertText = 'abcdef', range = range } } })
  end
  return true, 1
end
local function cmd()
  local function nothing() return false end
  return { request = request, notify = nothing, is_closing = nothing, terminate = nothing }
end
assert(vim.lsp.start({ name = name, cmd = cmd }))
vim.lsp.inline_completion.enable()
"""
"""A server within the editor, of a name, that answers the first request alone."""
TYPED = "require('speclsp.native').typed(1)"


@pytest.fixture
def forky(tmp_path):
    editor = Editor("forky", tmp_path / "home")
    yield editor
    editor.close()


def ask_once(editor: Editor, name: str) -> None:
    """Show the ghost text `bcdef` of a server of a name, behind a typed `a`."""
    editor.lua(ANSWERS_ONCE, name)
    editor.keys("ia")
    editor.until(lambda: editor.ghost == "bcdef")


@pytest.mark.parametrize("name", ["speclsp", "another"])
def test_only_our_ghost_text_is_taken_away(name, forky):
    ask_once(forky, name)
    forky.lua(TYPED)
    assert forky.ghost == "bcdef"
    forky.keys("@")
    forky.until(lambda: forky.line == "a@")
    forky.until(lambda: forky.ghost == "cdef")
    forky.lua(TYPED)
    assert forky.ghost == ("" if name == "speclsp" else "cdef")


def test_another_form_of_the_editors_own_state_raises_nothing(forky):
    ask_once(forky, "speclsp")
    state = "require('vim.lsp._capability').all.inline_completion.active[1]"
    for form in ("{ client_id = 1, insert_text = 'x', range = {} }", "{}", "7"):
        forky.lua(f"{state}.current = {form}")
        forky.lua(TYPED)


TABS_IN_VAIN = """
local completor = require('vim.lsp._capability').all.inline_completion.active[1]
completor.current.insert_text = 'abc\\tdef'
local namespaces = vim.api.nvim_get_namespaces
vim.api.nvim_get_namespaces = function() return {} end
local ok, problem = pcall(completor.show, completor)
vim.api.nvim_get_namespaces = namespaces
assert(ok, problem)
"""


def test_tabs_that_cannot_be_widened_are_shown_as_the_editor_has_them(forky):
    ask_once(forky, "speclsp")
    forky.lua(TYPED)
    forky.lua(TABS_IN_VAIN)
    assert forky.ghost == "bc\tdef"


def test_the_latency_is_that_of_the_statistics(editor):
    type_start(editor)
    latest = editor.until(lambda: editor.lua("return require('speclsp').status().latency_ms"))
    stats = editor.statistics()
    assert latest in stats["answer_ms"]
    assert stats["latency"]["answer"]["n"] == len(stats["answer_ms"])


def test_candidates_are_cycled_through(editor):
    first = type_start(editor)
    seen = {first}

    def has_moved() -> bool:
        # The first key asks for several, of which the first may be the one on screen.
        editor.keys("<M-]>")
        time.sleep(0.5)
        return "/" in editor.ghost or editor.ghost != first

    editor.until(has_moved)
    seen.add(editor.ghost)
    for _ in range(3):
        time.sleep(0.3)
        seen.add(editor.ghost)
        editor.keys("<M-[>")
    assert editor.line == START
    assert "" not in seen
    assert len(seen) > 1


COUNT = """
return require('speclsp.suggestions').backend().count(vim.api.nvim_get_current_buf())
"""


def test_candidates_are_asked_for_again_where_they_were_dismissed(editor):
    type_start(editor)
    editor.keys("<M-]>")
    editor.until(lambda: editor.lua(COUNT) == 3)
    editor.keys("<C-]>")
    editor.until(lambda: editor.ghost == "")
    editor.keys("<M-]>")
    assert editor.until_ghost()


def test_a_file_type_that_has_suggestions_gets_them(bare, project):
    bare.setup(filetypes={"*": False, "python": True})
    (project / "customers.txt").write_text(SOURCE)
    bare.open(project / "customers.txt")
    bare.until_ready()
    bare.nvim.command("set filetype=python")
    bare.keys("G")
    assert type_start(bare)


def test_leaving_insert_mode_takes_the_ghost_text_away_and_so_does_the_key(editor):
    type_start(editor)
    editor.keys("<Esc>")
    editor.until(lambda: editor.ghost == "")
    time.sleep(0.5)
    assert editor.ghost == ""
    assert editor.line == START
    editor.keys("A")
    ghost = editor.until_ghost()
    editor.type(ghost[:2])
    rest = editor.until_ghost()
    assert ghost.startswith(ghost[:2] + rest) or rest.startswith(ghost[2:])
    editor.keys("<C-]>")
    editor.until(lambda: editor.ghost == "")
    assert editor.line == START + ghost[:2]


def test_keys_do_what_they_did_where_nothing_is_shown(bare, project):
    bare.nvim.command("inoremap <C-]> dismissed")
    bare.nvim.command("inoremap <expr> <M-w> 'wo' .. 'rd'")
    bare.setup(automatic=False)
    bare.open(project / "customers.py")
    bare.until_ready()
    bare.keys("Go<Tab>x<C-]><M-w>")
    bare.until(lambda: bare.line.endswith("word"))
    assert bare.line.lstrip(" \t") == "xdismissedword"
    assert bare.line[0] in " \t"


FORMER = """
function s:word()
  return 'word'
endfunction
inoremap <C-]> <C-r>=<SID>word()<CR>
inoremap <expr> <M-w> <SID>word()
inoremap <expr> <M-l> "\\<Left>"
"""


def test_a_former_mapping_is_that_of_its_script(bare, tmp_path):
    (tmp_path / "former.vim").write_text(FORMER)
    bare.nvim.command(f"source {tmp_path / 'former.vim'}")
    bare.setup()
    bare.keys("i<C-]> <M-w><M-l>x<Esc>")
    bare.until(lambda: bare.nvim.api.get_mode()["mode"] == "n")
    assert bare.line == "word worxd"
    bare.nvim.command("imapclear")
    bare.setup()


RECURSIVE = """
let g:n_escapes = 0
nmap <Esc> <Esc>:let g:n_escapes += 1<CR>
inoremap <Plug>(first) first
imap <expr> <Tab> col('.') > 1 ? '<Tab>x' : '<Plug>(first)'
"""


def test_a_former_mapping_may_begin_with_its_own_key(bare, tmp_path):
    (tmp_path / "former.vim").write_text(RECURSIVE)
    bare.nvim.command(f"source {tmp_path / 'former.vim'}")
    bare.setup()
    ours = "return vim.startswith(vim.fn.maparg(..., 'i', false, true).desc or '', 'speclsp: ')"
    for typed, line in (("i<Tab>", "first"), ("<Tab><Tab>", "first\tx\tx")):
        bare.keys(typed)
        bare.until(lambda line=line: bare.line == line)
        bare.until(lambda: bare.lua(ours, "<Tab>"))
    bare.keys("<Esc><Esc><Esc>")
    bare.until(lambda: bare.nvim.vars["n_escapes"] == 2)


def test_a_key_is_the_one_command_behind_ctrl_o(editor):
    editor.keys("oab<C-o><Tab>c<C-o><Esc>d<Esc>")
    editor.until(lambda: editor.nvim.api.get_mode()["mode"] == "n")
    assert editor.line == "abcd"


def test_undo_levels_of_a_buffer_stay_its_own(editor):
    editor.nvim.command("setlocal undolevels=7")
    ghost = type_start(editor)
    editor.keys("<Tab>")
    editor.until(lambda: START + ghost in "\n".join(editor.lines))
    assert editor.nvim.command_output("setlocal undolevels?").strip() == "undolevels=7"
    assert editor.nvim.command_output("setglobal undolevels?").strip() == "undolevels=1000"


def test_asked_for_although_nothing_comes_by_itself(bare, project):
    bare.setup(automatic=False)
    bare.open(project / "customers.py")
    bare.until_ready()
    bare.keys("Go")
    bare.type(START)
    time.sleep(0.6)
    assert bare.ghost == ""
    bare.keys("<M-Bslash>")
    assert bare.until_ghost()


def test_the_completion_menu_keeps_its_tab(editor):
    type_start(editor)
    editor.keys("<Esc>ocustomers customer_rows<CR>cus<C-n>")
    editor.until(lambda: editor.lua("return vim.fn.pumvisible()"))
    before = editor.lines
    editor.keys("<Tab>")
    time.sleep(0.3)
    # Tab is a Tab in the menu: it ends it and goes into the text, and takes no suggestion.
    assert len(editor.lines) == len(before)
    assert editor.line[-1] in " \t"


@pytest.mark.parametrize("scope", ["global", "buffer", "filetype"])
def test_switched_off_and_on(scope, editor):
    editor.nvim.command(f"Speclsp toggle {scope}")
    editor.keys("o")
    editor.type(START)
    time.sleep(0.6)
    assert editor.ghost == ""
    assert editor.lua("return require('speclsp').statusline()") == "speclsp off"
    editor.keys("<Esc>")
    editor.nvim.command(f"Speclsp toggle {scope}")
    editor.keys("A")
    assert editor.until_ghost()


@pytest.mark.parametrize("next_edits", [True, False])
def test_a_key_switches_suggestions_off_and_on(next_edits, bare, project):
    for mode in "in":
        taken = bare.nvim.call("maparg", "<M-Bar>", mode)
        assert taken == "", "the key is free in the editor's own map"
    bare.setup(next_edits=next_edits)
    bare.open(project / "customers.py")
    bare.until_ready()
    statusline = "return require('speclsp').statusline()"
    bare.keys("<M-Bar>")
    bare.until(lambda: bare.lua(statusline) == "speclsp off")
    bare.keys("o")
    bare.type(START)
    time.sleep(0.6)
    assert bare.ghost == ""
    bare.keys("<M-Bar>")
    bare.until(lambda: bare.lua(statusline) != "speclsp off")
    assert bare.line == START
    assert bare.until_ghost()


def server_pids(editor: Editor) -> list[int]:
    pid = int(editor.nvim.call("getpid"))
    # Without -ww, a ps whose output is no terminal cuts lines at 80 columns, paths included.
    command = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(pid)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(row.split()[0]) for row in found.stdout.splitlines() if "serve" in row]


def test_the_ghost_text_of_a_killed_server_goes(bare, project):
    bare.setup(max_restarts=0)
    bare.open(project / "customers.py")
    bare.until_ready()
    bare.keys("G")
    type_start(bare)
    (pid,) = server_pids(bare)
    os.kill(pid, signal.SIGKILL)
    bare.until(lambda: bare.ghost == "")
    bare.keys("<Tab>q")
    bare.until(lambda: bare.line.endswith("q"))
    assert bare.line[:-1].rstrip() == START


def test_a_killed_server_comes_back(editor):
    type_start(editor)
    (pid,) = server_pids(editor)
    os.kill(pid, signal.SIGKILL)
    editor.type("us")
    state = "return require('speclsp').status().state"
    editor.until(lambda: editor.lua(state) != "ready")
    editor.until(lambda: editor.lua(state) == "ready")
    assert server_pids(editor) not in ([], [pid])
    assert editor.line == START + "us"
    assert editor.until_ghost(), "without another key"


def test_crlf_stays_crlf(bare, project):
    file = project / "customers.py"
    file.write_bytes(SOURCE.replace("\n", "\r\n").encode())
    bare.setup(settings={"multiline": "always"})
    bare.open(file)
    bare.until_ready()
    bare.keys("G")
    assert "\r" not in type_start(bare)
    bare.keys("<Tab>")
    bare.until(lambda: bare.line != START)
    bare.keys("<Esc>")
    bare.nvim.command("write")
    written = file.read_bytes()
    assert written.count(b"\r") == written.count(b"\n") == written.count(b"\r\n")


def test_a_renamed_buffer_keeps_its_suggestions(editor, project):
    editor.nvim.command(f"file {project / 'renamed.py'}")
    until_attached(editor)
    assert type_start(editor)
    editor.keys("<Esc>")
    log = "return table.concat(require('speclsp.server').log, '\\n')"
    assert "which is not open" not in editor.lua(log)
    editor.nvim.command("write")
    editor.keys("S")
    editor.type(START)
    assert editor.until_ghost()
    assert "which is not open" not in editor.lua(log)


def test_a_name_that_another_buffer_has_leaves_a_buffer_its_suggestions(editor, project):
    editor.nvim.command("set hidden")
    editor.open(project / "other.py")
    editor.nvim.current.buffer[:] = SOURCE.splitlines()
    with pytest.raises(NvimError, match="E95"):
        editor.nvim.command(f"file {project / 'customers.py'}")
    until_attached(editor)
    editor.keys("G")
    assert type_start(editor)


def test_a_second_buffer_without_a_name_leaves_the_first_alone(editor):
    editor.nvim.command("set hidden | enew | set filetype=python noautoindent indentexpr=")
    editor.nvim.current.buffer[:] = SOURCE.splitlines()
    first = editor.nvim.current.buffer.number
    until_attached(editor)
    editor.nvim.command("enew | set filetype=python")
    editor.nvim.current.buffer[:] = ["import os"]
    editor.nvim.command(f"buffer {first}")
    editor.keys("G")
    assert type_start(editor).startswith("ustomer(")


def test_of_two_buffers_without_a_name_at_the_start_one_takes_part(bare):
    bare.nvim.command("set hidden | set filetype=python")
    bare.nvim.current.buffer[:] = ["import os"]
    bare.nvim.command("enew | set filetype=python")
    bare.setup()
    bare.until_ready()
    attached = "return vim.tbl_count(require('speclsp.server').client().attached_buffers)"
    assert bare.lua(attached) == 1
    second = bare.nvim.current.buffer.number
    bare.nvim.command(f"file {bare.home / 'named.py'}")
    bare.until(lambda: bare.lua("return require('speclsp.server').client_of(...) ~= nil", second))


def test_characters_beyond_the_basic_plane(editor):
    editor.keys("o")
    start = f'smile = "🙂🙂é"; {START}'
    editor.type(start)
    ghost = editor.until_ghost()
    editor.keys("<Tab>")
    editor.until(lambda: start + ghost in "\n".join(editor.lines))


def test_five_thousand_lines(editor, project):
    file = project / "long.py"
    file.write_text("".join(f"value_{i} = compute({i})\n" for i in range(5000)) + SOURCE)
    editor.open(file)
    editor.keys("G")
    assert type_start(editor)


def test_two_editors_share_one_engine_and_outlive_it(editor, project):
    other = Editor(editor.suite, editor.home, editor.backend)
    try:
        other.setup()
        other.open(project / "customers.py")
        other.until_ready()
        other.keys("G")
        # Behind this each of the customers' numbers is as likely as the next one.
        for one in (editor, other):
            assert type_start(one).startswith('ustomer("name_')

        def used() -> list[dict[str, Any]]:
            """Return the one engine with two windows; those of tests before may still close."""
            engines = [one for one in map(status_of, running_engines()) if one and one["n_windows"]]
            return engines if [one["n_windows"] for one in engines] == [2] else []

        (engine,) = editor.until(used)
        os.kill(engine["pid"], signal.SIGKILL)

        def typed(one: Editor) -> str:
            """Type again, as users do: requests are answered empty while the engine starts.

            In the same line: several that end here would say that nothing follows.
            """
            one.keys("<Esc>S")
            one.type(START)
            time.sleep(0.5)
            return one.ghost

        for one in (editor, other):
            assert one.until(partial(typed, one))
    finally:
        other.close()


def test_two_folders_share_one_server_and_two_windows_one_buffer(editor, tmp_path):
    other = tmp_path / "library"
    (other / ".git").mkdir(parents=True)
    (other / "customers.py").write_text(SOURCE)
    editor.nvim.command(f"split {other / 'customers.py'}")
    clients = "return #vim.lsp.get_clients({ name = 'speclsp' })"
    folders = "return #vim.lsp.get_clients({ name = 'speclsp' })[1].workspace_folders"
    editor.until(lambda: editor.lua(folders) == 2)
    assert editor.lua(clients) == 1
    editor.nvim.command("vsplit")
    editor.keys("G")
    ghost = type_start(editor)
    editor.keys("<Tab>")
    editor.until(lambda: START + ghost in "\n".join(editor.lines))
    assert len(server_pids(editor)) == 1
