"""Next edits in real Neovims, mostly by a scripted model: what is shown, and what keys do."""

import os
import re
import signal
import time
from pathlib import Path

import pytest
from real_neovim import Editor
from rewriting_model import CART, CODE, by_analogy, rewriting

from tests.support.recording_server import RecordingServer

RENAMED = CODE.replace("prices", "amounts")
LINE_3 = "line 3: replace for price in prices: by for price in amounts:"

MARKS = """
local namespace = vim.api.nvim_get_namespaces()['speclsp.edits']
local found = {}
for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, { details = true })) do
  local details = mark[4]
  local words = {}
  for _, line in ipairs(details.virt_lines or { details.virt_text or {} }) do
    local row = ''
    for _, chunk in ipairs(line) do row = row .. chunk[1] end
    if row ~= '' then words[#words + 1] = row end
  end
  found[#found + 1] = {
    mark[2], mark[3], details.end_col or -1, details.hl_group or '', words, details.sign_text or '',
  }
end
return found
"""


def opened(editor: Editor, project: Path, model: RecordingServer, **settings: str) -> Editor:
    """Open CODE, with the cursor at its beginning."""
    (project / "shop.py").write_text(CODE)
    editor.setup(
        settings={
            "engine": "own",
            "engine_url": model.address,
            "engine_kind": "openai",
            "idle_work": "never",
            **settings,
        }
    )
    editor.open(project / "shop.py")
    editor.until_ready()
    editor.keys("gg0")
    return editor


@pytest.fixture
def shop(bare: Editor, project: Path, model: RecordingServer) -> Editor:
    """A Neovim with CODE open and the cursor at its beginning."""
    return opened(bare, project, model)


def edit(editor: Editor) -> str:
    return str(editor.lua("return require('speclsp').edit()") or "")


def renamed(editor: Editor) -> Editor:
    """Rename the parameter, and go to the next line."""
    editor.keys("fpcw")
    editor.type("amounts")
    editor.keys("<Esc>j")
    editor.until(lambda: edit(editor) == LINE_3)
    return editor


def text(editor: Editor) -> str:
    return "\n".join([*editor.lines, ""])


def test_tab_renames_one_use_after_the_other_in_normal_mode(shop):
    renamed(shop)
    (mark, after) = shop.lua(MARKS)
    assert mark[:4] == [2, 17, 23, "SpeclspDeleted"]
    assert after[4] == ["  for price in amounts:"]
    assert "next edit" in shop.lua("return require('speclsp').statusline()")
    shop.keys("<Tab>")
    shop.until(lambda: "line 5" in edit(shop))
    shop.keys("<Tab>")
    shop.until(lambda: "line 9" in edit(shop))
    signs = [mark[5].strip() for mark in shop.lua(MARKS)]
    assert "»" in signs
    shop.keys("<Tab>")
    shop.until(lambda: shop.nvim.current.window.cursor[0] == 9)
    assert text(shop) != RENAMED
    shop.keys("<Tab>")
    shop.until(lambda: text(shop) == RENAMED)
    shop.keys("u")
    shop.until(lambda: text(shop) == RENAMED.replace("len(amounts)", "len(prices)"))
    shop.until(lambda: edit(shop) == "")
    shop.until(lambda: shop.statistics()["edits"]["n_accepted"] == 3)


def test_tab_renames_three_uses_by_the_embedded_model(bare, project, model):
    """The model that comes with speclsp; the other one suggests nothing meanwhile."""
    (project / "cart.py").write_text(CART)
    remote = {"engine": "own", "engine_url": model.address, "engine_kind": "openai"}
    bare.setup(settings={**remote, "edit_model": "embedded", "idle_work": "never"})
    bare.open(project / "cart.py")
    bare.until_ready()
    bare.keys("3G0ficw")
    bare.type("entries")
    bare.keys("<Esc>j")
    shown = bare.until(lambda: edit(bare))
    assert re.findall(r"line (\d+): replace", shown) == ["6", "9", "12"]
    bare.keys("<Tab>")
    bare.until(lambda: text(bare) == CART.replace("items", "entries"))
    bare.until(lambda: bare.statistics()["edits"]["n_accepted"] == 1)


def messages_with(editor: Editor, words: str) -> None:
    editor.until(lambda: words in editor.nvim.command_output("messages"))


def test_asked_in_vain_says_why(shop):
    shop.nvim.command("Speclsp edit")
    shop.until(lambda: edit(shop))
    shop.nvim.command("Speclsp edit decline")
    shop.nvim.command("Speclsp edit")
    messages_with(shop, "speclsp: no next edit here.")
    shop.nvim.command("Speclsp toggle buffer")
    shop.nvim.command("Speclsp edit")
    messages_with(shop, "speclsp: suggestions are off in this buffer; ")


def test_only_a_hand_made_ask_that_is_not_typed_over_says_why(shop, model):
    model.answer = rewriting(lambda region: region)
    shop.lua("require('speclsp').ask_for_edit()")
    shop.keys("x")  # which cancels it, and is followed by an ask of the plugin's own
    shop.until(lambda: shop.lines[0] == CODE.splitlines()[0][1:])
    shop.until(lambda: shop.statistics()["edits"]["n_asked"] >= 1)
    time.sleep(0.3)
    assert "no next edit here" not in shop.nvim.command_output("messages")


@pytest.mark.parametrize("action", ["accept", "decline"])
def test_a_command_says_that_no_edit_is_shown(action, shop):
    shop.nvim.command(f"Speclsp edit {action}")
    messages_with(shop, "speclsp: no next edit is shown; :Speclsp edit asks for one.")


def test_a_model_that_proposes_none_is_named(bare, project):
    bare.setup()
    bare.open(project / "customers.py")
    bare.until_ready()
    bare.nvim.command("Speclsp edit")
    messages_with(bare, "speclsp: no next edits: the model is not known to propose them")
    messages_with(bare, ":Speclsp model edits lists models for them.")


def test_tab_applies_an_edit_in_insert_mode(shop):
    renamed(shop)
    shop.keys("A")
    shop.until(lambda: shop.nvim.api.get_mode()["mode"] == "i")
    shop.keys("<Tab>")
    shop.until(lambda: "in amounts:" in text(shop))
    assert shop.nvim.api.get_mode()["mode"] == "i"


def test_an_expr_mapping_applies_an_edit_behind_it(shop):
    accept = "return require('speclsp').accept() and '' or 'nothing'"
    shop.lua(f"vim.keymap.set('i', '<F2>', function() {accept} end, {{ expr = true }})")
    renamed(shop)
    shop.keys("A<F2>")
    shop.until(lambda: "in amounts:" in text(shop))
    shop.until(lambda: shop.statistics()["edits"]["n_accepted"] == 1)
    assert "nothing" not in text(shop)


@pytest.mark.parametrize("key", ["<Tab>", "<F2>"])
def test_a_far_edit_in_a_closed_fold_is_seen_before_it_is_applied(key, shop):
    accept = "return require('speclsp').accept() and '' or 'nothing'"
    shop.lua(f"vim.keymap.set('n', '<F2>', function() {accept} end, {{ expr = true }})")
    shop.nvim.command("setlocal foldmethod=manual | 6,9fold")
    renamed(shop)
    for line in (5, 9):
        shop.keys(key)
        shop.until(lambda line=line: f"line {line}" in edit(shop))
    shop.keys(key)
    shop.until(lambda: shop.nvim.current.window.cursor[0] == 9)
    shop.until(lambda: shop.lua("return vim.fn.foldclosed('.')") == -1)
    shop.keys(key)
    shop.until(lambda: text(shop) == RENAMED)


def test_a_key_with_a_count_is_normal_modes(shop):
    renamed(shop)
    shop.keys("2<Esc>3<Tab>:let g:done = 1<CR>")
    shop.until(lambda: shop.nvim.vars.get("done"))
    assert edit(shop) == LINE_3


def test_nothing_is_applied_where_no_text_may_change(shop):
    renamed(shop)
    before = shop.lines
    shop.nvim.command("setlocal nomodifiable")
    shop.keys("<Tab>:let g:done = 1<CR>")
    shop.until(lambda: shop.nvim.vars.get("done"))
    assert shop.lines == before
    assert "traceback" not in shop.nvim.command_output("messages")


def test_the_completion_menu_keeps_its_tab_beside_an_edit(shop):
    shop.nvim.command("set completeopt=menuone,noinsert,noselect")
    renamed(shop)
    shop.keys("A<C-r>=[complete(col('.'), ['alpha', 'beta']), ''][1]<CR>")
    shop.until(lambda: shop.lua("return vim.fn.pumvisible()"))
    before = shop.lines
    shop.keys("<Tab>")
    shop.until(lambda: shop.lines != before)
    assert "in amounts:" not in text(shop)
    assert len(shop.lines) == len(before)


def test_an_edit_of_one_window_leaves_the_other_alone(shop, project, model):
    """Two Neovims on one project, each with a server of its own."""
    other = Editor(shop.suite, shop.home, shop.backend)
    try:
        other.setup(
            settings={"engine": "own", "engine_url": model.address, "engine_kind": "openai"}
        )
        (project / "other.py").write_text(CODE)
        other.open(project / "other.py")
        other.until_ready()
        other.keys("gg0")
        renamed(shop)
        assert edit(other) == ""
        renamed(other)
        other.keys("<Tab>")
        other.until(lambda: "in amounts:" in text(other))
        assert edit(shop) == LINE_3
        assert text(shop) == CODE.replace("prices", "amounts", 1)
    finally:
        other.close()


@pytest.mark.parametrize("keys", ["<Esc>", "i<C-]>"])
def test_a_declined_edit_comes_no_more(keys, shop):
    renamed(shop)
    shop.keys(keys)
    shop.until(lambda: edit(shop) == "")
    shop.until(lambda: shop.statistics()["edits"]["n_declined"] == 1)
    shop.nvim.command("Speclsp edit")
    shop.until(lambda: shop.statistics()["edits"]["withheld"].get("declined"))
    assert edit(shop) == ""
    assert text(shop) == CODE.replace("prices", "amounts", 1)


def test_an_edit_stays_while_it_is_typed_and_another_key_drops_it(shop):
    renamed(shop)
    shop.keys("j0fpwwcw")
    shop.type("amo")
    shop.until(lambda: edit(shop) == "line 3: replace for price in amo: by for price in amounts:")
    shop.type("x")
    shop.until(lambda: "line 3" not in edit(shop))
    shop.until(lambda: "line 5" in edit(shop))


COUNTED = """
local undotree, schedule = vim.fn.undotree, vim.schedule
local n_trees, n_scheduled = 0, 0
vim.fn.undotree = function(...)
  n_trees = n_trees + 1
  return undotree(...)
end
vim.schedule = function(...)
  n_scheduled = n_scheduled + 1
  return schedule(...)
end
vim.cmd([[%s/price/cost/]])
vim.schedule = schedule
vim.wait(100)
vim.fn.undotree = undotree
return { n_trees, n_scheduled }
"""


@pytest.mark.parametrize("next_edits", [True, False])
def test_a_change_of_many_lines_is_looked_at_once(next_edits, shop):
    shop.lua("require('speclsp.config').options.next_edits = ...", next_edits)
    shop.nvim.current.buffer[:] = ["price = 1"] * 400
    assert shop.lua(COUNTED) == ([1, 1] if next_edits else [0, 0])
    assert shop.lines == ["cost = 1"] * 400


def test_keys_do_what_they_did_where_no_edit_is_shown(shop):
    shop.nvim.command("nnoremap <Esc> <Cmd>let g:escaped = 1<CR>")
    shop.lua("require('speclsp.keys').set(require('speclsp.config').options.keys)")
    shop.keys("<Esc>")
    shop.until(lambda: shop.nvim.vars.get("escaped") == 1)
    shop.keys("G<C-o><Tab>")  # Tab goes on in the list of jumps
    shop.until(lambda: shop.nvim.current.window.cursor[0] == len(shop.lines))
    shop.nvim.command("setlocal expandtab shiftwidth=4 softtabstop=4")
    shop.keys("ggI<Tab>")
    shop.until(lambda: shop.lines[0].startswith("    def"))


@pytest.mark.parametrize(
    ("old", "new", "at", "added"),
    [("абв", "агбв", 2, "г"), ("日本", "日曜本", 3, "曜"), ("é", "èé", 0, "è")],
)
def test_whole_characters_are_drawn(old, new, at, added, shop, model):
    model.answer = rewriting(lambda region: region.replace(f"'{old}'", f"'{new}'"))
    shop.nvim.current.buffer[1] = f"    result = '{old}'"
    shop.nvim.command("Speclsp edit")
    shop.until(lambda: edit(shop))
    (mark,) = shop.lua(MARKS)
    assert (mark[1], mark[4]) == (len("    result = '") + at, [added])


def test_the_cursor_goes_behind_a_character_that_shares_its_last_byte(shop, model):
    model.answer = rewriting(lambda region: region.replace("'é'", "'ǩ'"))
    shop.nvim.current.buffer[1] = "    result = 'é'"
    shop.nvim.command("Speclsp edit")
    shop.until(lambda: edit(shop))
    shop.keys("<Tab>")
    shop.until(lambda: shop.lines[1] == "    result = 'ǩ'")
    assert shop.nvim.current.window.cursor == (2, len("    result = 'ǩ".encode()))


def test_lines_of_another_number_are_struck_and_stand_below(shop, model):
    new = "    result = sum(amounts)\n    if rate < 0:\n        raise ValueError(rate)\n    log()\n"
    model.answer = rewriting(
        lambda region: re.sub(r"    result = 0\n.*\n.*\n", new, region, count=1)
    )
    shop.keys("fpcw")
    shop.type("amounts")
    shop.keys("<Esc>j")
    shop.until(lambda: edit(shop).startswith("line 2: replace result = 0"))
    marks = shop.lua(MARKS)
    assert [mark[:4] for mark in marks if mark[3]] == [
        [1, 4, 14, "SpeclspDeleted"],
        [2, 4, 24, "SpeclspDeleted"],
        [3, 8, 23, "SpeclspDeleted"],
    ]
    (below,) = [mark[4] for mark in marks if mark[4]]
    assert below == new.splitlines()
    shop.keys("<Tab>")
    shop.until(lambda: new in text(shop))
    assert shop.nvim.current.window.cursor[0] == 5


def test_an_edit_goes_with_its_server_and_comes_again(shop):
    renamed(shop)
    children = Path(f"/proc/{shop.nvim.call('getpid')}/task/{shop.nvim.call('getpid')}/children")
    (pid,) = children.read_text().split()
    os.kill(int(pid), signal.SIGKILL)
    shop.until(lambda: edit(shop) == "")
    shop.until_ready()
    shop.nvim.command("Speclsp edit")
    shop.until(lambda: edit(shop) == LINE_3)


def test_next_edits_are_left_out_where_they_are_switched_off(bare, project, model):
    (project / "shop.py").write_text(CODE)
    settings = {"engine": "own", "engine_url": model.address, "engine_kind": "openai"}
    bare.setup(settings=settings, next_edits=False)
    assert bare.lua("return vim.fn.maparg('<Tab>', 'n')") == ""
    bare.open(project / "shop.py")
    bare.until_ready()
    bare.keys("gg0fpcw")
    bare.type("amounts")
    # Leaving insert mode takes back a request that has not been sent.
    bare.until(lambda: bare.statistics()["n_requests"] > 0)
    bare.keys("<Esc>j")
    bare.nvim.command("Speclsp edit")
    assert bare.statistics()["edits"]["n_asked"] == 0


# Other files

CLIENT = "from shop import total\n\n" + "x = 1\n" * 30 + "print(total([1], 2))\n"
IN_CLIENT = "client.py line 1: replace from shop import total by from shop import price_of"


@pytest.fixture
def client(bare: Editor, project: Path, model: RecordingServer) -> Editor:
    """Beside shop.py, where a function is renamed by analogy, client.py is open, which uses it."""
    model.answer = by_analogy(lambda place: place.replace("total", "price_of"))
    shop = opened(bare, project, model, edit_format="analogy")
    (project / "client.py").write_text(CLIENT)
    shop.open(project / "client.py")
    shop.until(lambda: shop.lua("return require('speclsp.server').client_of(0) ~= nil"))
    shop.nvim.command("buffer shop.py")
    return shop


def name(editor: Editor) -> str:
    return Path(editor.nvim.current.buffer.name).name


def led(editor: Editor) -> Editor:
    """Rename the function, and wait for what is announced of the other file."""
    editor.keys("gg0wcw")
    editor.type("price_of")
    editor.keys("<Esc>j")
    editor.until(lambda: edit(editor) == IN_CLIENT)
    return editor


def test_tab_leads_to_another_file_and_applies_the_edit_there(client):
    led(client)
    (mark,) = client.lua(MARKS)
    assert (mark[0], mark[4]) == (1, ["  <Tab>: next edit in client.py:1"])
    client.keys("k")  # it goes along with the cursor
    client.until(lambda: client.lua(MARKS)[0][0] == 0)
    client.keys("<Tab>")
    client.until(lambda: name(client) == "client.py")
    client.until(lambda: edit(client) == IN_CLIENT.removeprefix("client.py "))
    (struck, _) = client.lua(MARKS)
    assert struck[:4] == [0, 17, 22, "SpeclspDeleted"]
    assert text(client) == CLIENT
    client.keys("<Tab>")
    client.until(lambda: text(client) == CLIENT.replace("total", "price_of", 1))
    client.until(lambda: edit(client).startswith("line 33: "))
    client.keys("<Tab>")
    client.until(lambda: client.nvim.current.window.cursor[0] == 33)
    client.keys("<Tab>")
    client.until(lambda: text(client) == CLIENT.replace("total", "price_of"))
    client.until(lambda: client.statistics()["edits"]["n_accepted"] == 2)
    client.keys("<C-o><C-o>")  # back
    client.until(lambda: name(client) == "shop.py")
    assert text(client) == CODE.replace("total", "price_of")


def test_esc_declines_what_is_in_another_file(client):
    led(client)
    client.keys("<Esc>")
    client.until(lambda: edit(client) == "")
    client.until(lambda: client.statistics()["edits"]["n_declined"] == 1)
    client.nvim.command("Speclsp edit")
    messages_with(client, "speclsp: no next edit here.")
    assert name(client) == "shop.py"


@pytest.mark.parametrize("where", ["shop.py", "client.py"])
def test_a_change_drops_what_is_announced_of_another_file(where, client):
    led(client)
    client.nvim.vars["counted"] = 0
    client.nvim.command("autocmd User SpeclspStatus let g:counted += 1")
    number = next(one for one in client.nvim.buffers if one.name.endswith(where)).number
    client.nvim.api.buf_set_lines(number, 0, 0, True, ["# new"])
    client.until(lambda: client.nvim.vars["counted"] >= 1)
    client.until(lambda: "client.py line 1" not in edit(client))


@pytest.mark.parametrize("close", ["bwipeout", "bdelete"])
def test_closing_the_other_file_takes_away_what_is_announced_of_it(close, client):
    led(client)
    client.nvim.command(f"{close} client.py")
    client.until(lambda: edit(client) == "" and not client.lua(MARKS))


def test_nothing_is_announced_of_a_file_that_cannot_be_changed(client):
    number = next(one for one in client.nvim.buffers if one.name.endswith("client.py")).number
    client.nvim.api.set_option_value("modifiable", False, {"buf": number})
    client.keys("gg0wcw")
    client.type("price_of")
    client.keys("<Esc>j")
    client.until(lambda: client.statistics()["edits"]["n_proposed"] == 1)
    client.nvim.command("Speclsp edit")
    messages_with(client, "speclsp: no next edit here.")
    assert edit(client) == ""


def test_tab_leads_to_a_window_that_shows_the_other_file(client):
    client.nvim.command("vsplit client.py | wincmd p")
    windows = len(client.nvim.windows)
    led(client)
    client.keys("<Tab>")
    client.until(lambda: name(client) == "client.py")
    client.until(lambda: edit(client) == IN_CLIENT.removeprefix("client.py "))
    assert len(client.nvim.windows) == windows


def test_unsaved_changes_stay_where_buffers_are_not_hidden(client):
    client.nvim.command("set nohidden")
    led(client)
    client.keys("<Tab>")
    client.until(lambda: name(client) == "client.py")
    client.until(lambda: edit(client) == IN_CLIENT.removeprefix("client.py "))
    assert len(client.nvim.windows) == 2


def test_tab_leads_to_another_file_in_insert_mode(client):
    led(client)
    client.keys("A<Tab>")
    client.until(lambda: name(client) == "client.py")
    client.keys("<Tab>")
    client.until(lambda: text(client) == CLIENT.replace("total", "price_of", 1))
    assert client.nvim.api.get_mode()["mode"] == "i"


def test_an_expr_mapping_leads_to_another_file_behind_it(client):
    accept = "return require('speclsp').accept() and '' or 'nothing'"
    client.lua(f"vim.keymap.set('n', '<F2>', function() {accept} end, {{ expr = true }})")
    led(client)
    client.keys("<F2>")
    client.until(lambda: name(client) == "client.py")
    client.until(lambda: edit(client) == IN_CLIENT.removeprefix("client.py "))
