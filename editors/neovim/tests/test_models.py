"""`:Speclsp model`: a list to choose from, the download, and what is kept of the choice."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_hub import FakeHub, serve_hub
from real_neovim import FLOATS, START, TRIAL_MODEL, Editor
from real_neovim import PRESET_FILE as FILE
from real_neovim import PRESET_REPOSITORY as REPOSITORY_NAME
from real_neovim import PRESET_TITLE as TITLE

NAME = "qwen2.5-coder-7b-q4_k_m"

CHOOSE = """
local wanted = ...
vim.ui.select = function(items, options, done)
  local shown = { options.prompt }
  local chosen
  for _, item in ipairs(items) do
    shown[#shown + 1] = options.format_item(item)
    chosen = item.title == wanted and item or chosen
  end
  vim.g.shown = shown
  done(chosen)
end
vim.g.shown = nil
"""
MEMORY = """
local params = { command = 'speclsp.models', arguments = {} }
local client = require('speclsp.server').client()
local answer
require('speclsp.server').request(client, 'workspace/executeCommand', params, function(_, overview)
  answer = overview.memory.total_bytes
end)
vim.wait(10000, function() return answer ~= nil end)
return answer
"""
NOTE_ANSWERS = """
local server = require('speclsp.server')
table.insert(server.on_answer, function()
  vim.g.answers_of = server.status.model and server.status.model.title
end)
"""
TELL_LOADING = """
local params = { token = 'speclsp/load/test', value = ... }
local client = require('speclsp.server').client()
vim.lsp.handlers['$/progress'](nil, params, { client_id = client.id, method = '$/progress' })
"""
STATUSLINE = "return require('speclsp').statusline()"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """Serve the embedded model under the name of another."""
    with serve_hub() as hub:
        hub.repositories[REPOSITORY_NAME] = {FILE: TRIAL_MODEL.read_bytes()}
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
        yield hub


def listed(editor: Editor) -> list[str]:
    editor.lua(CHOOSE, None)
    editor.nvim.command("Speclsp model")
    return list(editor.until(lambda: editor.nvim.vars.get("shown")))


def choose(editor: Editor) -> list[str]:
    editor.lua(CHOOSE, TITLE)
    editor.nvim.command("Speclsp model")
    return list(editor.until(lambda: editor.nvim.vars.get("shown")))


def test_a_model_is_chosen_downloaded_and_kept(hub, bare, project, tmp_path):
    bare.setup()
    bare.open(project / "customers.py")
    bare.until_ready()
    hub.hold = threading.Event()
    prompt, first, *others = choose(bare)
    memory = bare.lua(MEMORY)
    assert f", {memory / 2**30:.0f} GB. A model to download and use:" in prompt
    assert "(recommended" in first
    assert any(line.startswith(f"{TITLE}, 4.7 GB, Apache 2.0") for line in [first, *others])
    assert any("too slow on a CPU" in line or "too large: needs" in line for line in others)
    bare.until(lambda: "downloading 50 %" in bare.lua(STATUSLINE))
    bare.until(lambda: f"speclsp: Downloading {TITLE}: 0.00 of 0.01" in str(bare.lua(FLOATS)))
    bare.nvim.command("Speclsp status")
    assert "downloading a model: 50 %" in bare.nvim.command_output("messages")
    bare.nvim.command("Speclsp model cancel")
    bare.until(lambda: "downloading" not in bare.lua(STATUSLINE))
    assert "the download is cancelled; choosing" in bare.nvim.command_output("messages")
    bare.nvim.command("Speclsp model cancel")
    assert "nothing is being downloaded" in bare.nvim.command_output("messages")
    assert "trial model" in bare.lua(STATUSLINE)
    bare.keys("Go")
    bare.type(START)
    assert bare.until_ghost()
    # It goes on where it was cancelled.
    hub.hold.set()
    hub.hold = None
    # What was received is half of the stand-in for the preset.
    bare.until(lambda: "partly downloaded, 3 of 4680 MB" in "\n".join(listed(bare)))
    bare.lua(NOTE_ANSWERS)
    choose(bare)
    bare.until(lambda: TITLE in bare.lua(STATUSLINE))
    bare.until(lambda: bare.lua(FLOATS) == [])
    # The cursor rests where the trial model suggested: the new model is asked without a key.
    bare.until(lambda: bare.nvim.vars.get("answers_of") == TITLE)
    assert bare.until_ghost()
    choose(bare)
    assert f"speclsp: {TITLE} is in use already." in bare.nvim.command_output("messages")
    said = f"speclsp: {TITLE} is ready."
    # In Insert mode its line would be covered at the next key.
    assert said not in bare.nvim.command_output("messages")
    bare.keys("<Esc>")
    bare.until(lambda: said in bare.nvim.command_output("messages"))
    assert (tmp_path / "home/data/nvim/speclsp/preset").read_text() == f"{NAME}\n"
    # A new server takes the choice, too.
    bare.nvim.command("Speclsp restart")
    bare.until(lambda: TITLE not in bare.lua(STATUSLINE))
    bare.until(lambda: TITLE in bare.lua(STATUSLINE))
    assert f"{TITLE}, 4.7 GB, Apache 2.0 (in use" in "\n".join(choose(bare))


def tell_loading(editor: Editor, kind: str, **value: object) -> None:
    """Let the server tell how far the loading of a model is."""
    editor.lua(TELL_LOADING, {"kind": kind, **value})


def test_the_loading_of_a_model_is_shown_until_it_ends(editor):
    editor.lua("require('speclsp.progress').after_ms = 0")
    tell_loading(editor, "begin", title="Loading")
    editor.until(lambda: editor.lua(FLOATS) == ["speclsp: Loading"])
    tell_loading(editor, "report", percentage=100)
    assert editor.lua(FLOATS) == ["speclsp: Loading: 100 %"]
    tell_loading(editor, "end")
    assert editor.lua(FLOATS) == []


def test_a_line_that_no_window_can_show_yet_leaves_no_buffers(editor):
    editor.lua("require('speclsp.progress').after_ms = 0")
    editor.nvim.command("nnoremap <expr> Z getchar() ? '' : ''")
    buffers = len(editor.nvim.api.list_bufs())
    editor.keys("Z")
    tell_loading(editor, "begin", title="Loading")
    for percentage in (10, 20, 30):
        tell_loading(editor, "report", percentage=percentage)
    assert editor.lua(FLOATS) == []
    assert len(editor.nvim.api.list_bufs()) <= buffers + 1
    editor.keys("x")
    editor.until(lambda: not editor.nvim.api.get_mode()["blocking"])
    tell_loading(editor, "report", percentage=40)
    assert editor.lua(FLOATS) == ["speclsp: Loading: 40 %"]


def test_a_model_of_setup_is_not_replaced_for_good(hub, bare, project, tmp_path):
    bare.setup(settings={"model": str(TRIAL_MODEL)})
    bare.open(project / "customers.py")
    bare.until_ready()
    choose(bare)
    bare.until(lambda: TITLE in bare.lua(STATUSLINE))
    assert "setup() names another by model" in bare.nvim.command_output("messages")
    assert not (tmp_path / "home/data/nvim/speclsp/preset").exists()


def test_a_file_of_ones_own_is_used_and_kept(bare, project, tmp_path):
    model = tmp_path / "Mine-1B-F16.gguf"
    model.write_bytes(TRIAL_MODEL.read_bytes())
    bare.setup()
    bare.open(project / "customers.py")
    bare.until_ready()
    bare.lua(
        "local path = ... vim.ui.input = function(_, done) done(path) end "
        "vim.ui.select = function(rows, options, done) "
        "vim.g.last = options.format_item(rows[#rows]) done(rows[#rows]) end",
        str(model),
    )
    bare.nvim.command("Speclsp model")
    bare.until(lambda: bare.nvim.vars.get("last") == "A GGUF file of mine…")
    bare.until(lambda: "Mine 1B F16" in bare.lua(STATUSLINE))
    assert (tmp_path / "home/data/nvim/speclsp/preset").read_text() == f"{model}\n"


def test_a_failed_download_is_told_with_its_remedy(hub, bare, project):
    hub.repositories.clear()
    bare.setup()
    bare.open(project / "customers.py")
    bare.until_ready()
    choose(bare)
    bare.until(lambda: REPOSITORY_NAME in bare.nvim.command_output("messages"))
    assert "trial model" in bare.lua(STATUSLINE)
