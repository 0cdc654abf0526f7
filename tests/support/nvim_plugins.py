"""The clients that run in Neovim: how each is set up by the documents, asked and accepted."""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from client_features import checkout

DOCS: Final = Path(__file__).parents[2] / "docs"
SERVER_BLOCK: Final = ("editors.md", "Neovim without our plugin")

_ITEM: Final = """
local function behind_cursor(item, encoding)
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  local edit = item.textEdit
  if not edit then return item.insertText or item.label end
  local range = edit.range or edit.insert
  local line = vim.api.nvim_get_current_line()
  local start = vim.str_byteindex(line, encoding, range.start.character, false)
  return edit.newText:sub(column - start + 1)
end
local function ours(item) return item and item.data and item.data.speclsp ~= nil end
"""


def block(page: str, heading: str, number: int = 1) -> str:
    """Return a Lua block of a page below a heading."""
    _, _, behind = (DOCS / page).read_text("utf-8").partition(f"# {heading}\n")
    found = re.findall(r"```lua\n(.*?)```", behind, re.DOTALL)
    assert len(found) >= number, f"{page} has no Lua block {number} below {heading}"
    return str(found[number - 1])


@dataclass(frozen=True)
class Plugin:
    """A client, as docs/ set it up."""

    name: str
    blocks: tuple[tuple[str, str] | tuple[str, str, int], ...]
    """Pages, headings and numbers of the blocks that make its init.lua."""
    checkouts: tuple[str, ...] = ()
    before: str = ""
    """Lua in front of the blocks: what is no matter of the documents, such as a user's keys."""
    suggestion: str = ""
    """Lua that returns the text that would follow the cursor if the suggestion were accepted."""
    namespaces: tuple[str, ...] = ()
    """Those of its ghost text; a popup has none."""
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys for ``whole``, ``word``, ``line``, ``dismiss`` and ``ask``."""
    is_http: bool = False
    is_for_edits: bool = False
    suites: tuple[str, ...] = ("forky",)
    """The Neovims that it and the documents' blocks work in: ``vim.lsp.config`` came with 0.11."""

    def init(self, port: int = 0, replaced: tuple[str, str] = ("", "")) -> str:
        """Return its init.lua; skips without the plugins.

        ``port`` takes the place of the documents' own, and so does the second text of ``replaced``
        that of the first.
        """
        paths = [checkout(name) for name in self.checkouts]
        lines = [f"vim.opt.runtimepath:append({str(path)!r})" for path in paths]
        # A plugin's own `after` folder is found where packages are; here it is named.
        lines += [
            f"vim.opt.runtimepath:append({str(path / 'after')!r})"
            for path in paths
            if (path / "after").is_dir()
        ]
        assert all(replaced[0] in block(*place) for place in self.blocks[-1:])
        lines += [
            "vim.opt.swapfile = false",
            "vim.opt.termguicolors = true",
            self.before,
            *(
                block(*place).replace("127.0.0.1:8012", f"127.0.0.1:{port}").replace(*replaced)
                for place in self.blocks
            ),
        ]
        return "\n".join(lines) + "\n"


PLUGINS: Final = (
    Plugin(
        "built-in ghost text",
        (SERVER_BLOCK, ("editors.md", "Ghost text of Neovim 0.12")),
        namespaces=("nvim.lsp.inline_completion",),
        keys={"whole": ("<Tab>",), "dismiss": ("<Esc>",)},
    ),
    Plugin(
        "built-in popup",
        (SERVER_BLOCK, ("editors.md", "Popup of Neovim 0.12")),
        suggestion=_ITEM
        + """
        local item = vim.fn.complete_info({ 'items' }).items[1]
        local lsp = vim.tbl_get(item or {}, 'user_data', 'nvim', 'lsp', 'completion_item')
        return lsp and behind_cursor(lsp, vim.lsp.get_clients()[1].offset_encoding) or ''
        """,
        keys={"whole": ("<C-n>", "<C-y>"), "dismiss": ("<C-e>",), "ask": ("<C-Space>",)},
    ),
    Plugin(
        "blink.cmp",
        (SERVER_BLOCK, ("editors.md", "blink.cmp")),
        ("blink.cmp",),
        suggestion=_ITEM
        + """
        if not require('blink.cmp').is_menu_visible() then return '' end
        local item = require('blink.cmp').get_items()[1]
        if not item or item.source_id ~= 'lsp' then return '' end
        return behind_cursor(item, vim.lsp.get_clients()[1].offset_encoding)
        """,
        keys={"whole": ("<C-y>",), "dismiss": ("<C-e>",), "ask": ("<C-Space>",)},
    ),
    Plugin(
        "nvim-cmp",
        (SERVER_BLOCK, ("editors.md", "nvim-cmp")),
        ("nvim-cmp", "cmp-nvim-lsp"),
        suggestion=_ITEM
        + """
        if not require('cmp').visible() then return '' end
        local entry = require('cmp').get_entries()[1]
        if not entry then return '' end
        return behind_cursor(entry.completion_item, vim.lsp.get_clients()[1].offset_encoding)
        """,
        keys={"whole": ("<C-y>",), "dismiss": ("<C-e>",), "ask": ("<C-Space>",)},
    ),
    Plugin(
        "llama.vim",
        (("http.md", "llama.vim"),),
        ("llama.vim",),
        namespaces=("vt_fim",),
        keys={
            "whole": ("<Tab>",),
            "line": ("<S-Tab>",),
            "word": ("\\", "l", "l", "]"),
            "dismiss": ("<Esc>",),
        },
        is_http=True,
        suites=("forky", "trixie"),
    ),
    Plugin(
        "minuet-ai.nvim",
        (("http.md", "minuet"),),
        ("plenary.nvim", "minuet-ai.nvim"),
        namespaces=("minuet.virtualtext",),
        keys={"whole": ("<M-A>",), "line": ("<M-a>",), "dismiss": ("<M-e>",)},
        is_http=True,
        suites=("forky", "trixie"),
    ),
)

EDITING: Final = (
    Plugin(
        "copilot-lsp",
        (("next-edit.md", "With other clients", 2),),
        ("copilot-lsp",),
        suggestion="return vim.b.nes_state and vim.b.nes_state.newText or ''",
        namespaces=("copilotlsp.nes",),
        keys={"dismiss": ("<Esc>",)},
        is_for_edits=True,
    ),
    Plugin(
        "sidekick.nvim",
        (("next-edit.md", "With other clients", 1),),
        ("sidekick.nvim",),
        suggestion="""
        local edit = require('sidekick.nes').get(vim.api.nvim_get_current_buf())[1]
        return edit and edit.text or ''
        """,
        namespaces=("sidekick.ui",),
        keys={"dismiss": ("<Esc>",)},
        is_for_edits=True,
    ),
)


def server_in(folder: Path, records: Path, *options: str) -> Path:
    """Make a folder for PATH whose ``speclsp`` starts the server with options, by a tee."""
    folder.mkdir(parents=True, exist_ok=True)
    records.mkdir(parents=True, exist_ok=True)
    tee = Path(__file__).with_name("lsp_tee.py")
    program = folder / "speclsp"
    words = [sys.executable, str(tee), str(records), sys.executable, "-m", "speclsp"]
    quoted = " ".join(f"'{word}'" for word in words)
    more = " ".join(f"'{option}'" for option in options)
    program.write_text(f'#!/bin/sh\nexec {quoted} "$@" {more}\n', "utf-8")
    program.chmod(0o755)
    return folder
