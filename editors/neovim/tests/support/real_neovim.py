"""Real Neovims, driven through their API, with the real server and the embedded model."""

import contextlib
import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvim
import pytest
from forked_speclsp import forked_command

REPOSITORY = Path(__file__).parents[4]
PLUGIN = REPOSITORY / "editors" / "neovim"
FETCH = REPOSITORY / "tools" / "editors" / "fetch_neovim.sh"
TRIAL_MODEL = REPOSITORY / "fixtures" / "models" / "embedded-target-f16.gguf"
PRESET_TITLE = "Qwen2.5-Coder 7B Q4_K_M"
PRESET_REPOSITORY = "QuantFactory/Qwen2.5-Coder-7B-GGUF"
PRESET_FILE = "Qwen2.5-Coder-7B.Q4_K_M.gguf"
UNREACHABLE = 69
SERVER = Path(os.environ.get("SPECLSP_SERVER", Path(sys.executable).with_name("speclsp")))
TIMEOUT_S = 90.0
WITHOUT_PYTHON = "let g:loaded_python3_provider = 0"
"""Neovim would look for a Python that has its module, at the first Python file."""

VERSIONS = {"0.12-native": ("forky", "auto"), "0.10-own": ("trixie", "auto")}
"""Debian's suite and who draws ghost text: both versions, and both that draw."""
BACKENDS = {**VERSIONS, "0.12-own": ("forky", "own")}

GHOST = """
local names = ...
local shown = {}
for name, namespace in pairs(vim.api.nvim_get_namespaces()) do
  if vim.tbl_contains(names, name) then
    local marks = vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, { details = true })
    for _, mark in ipairs(marks) do
      for _, chunk in ipairs(mark[4].virt_text or {}) do
        if chunk[2] ~= 'llama_hl_fim_info' then shown[#shown + 1] = chunk[1] end
      end
      for _, line in ipairs(mark[4].virt_lines or {}) do
        shown[#shown + 1] = '\\n'
        for _, chunk in ipairs(line) do shown[#shown + 1] = chunk[1] end
      end
    end
  end
end
return table.concat(shown)
"""
"""The virtual text in the namespaces of these names, but for the timings of llama.vim."""
PENDING = """
for _, client in ipairs(vim.lsp.get_clients({ name = 'speclsp' })) do
  for _, request in pairs(client.requests) do
    local is_ours = request.method == 'textDocument/inlineCompletion'
    if is_ours and request.type == 'pending' then return true end
  end
end
return false
"""
"""Whether a suggestion was asked for that has not come."""
FLOATS = """
local lines = {}
for _, win in ipairs(vim.api.nvim_list_wins()) do
  if vim.api.nvim_win_get_config(win).relative ~= '' then
    lines[#lines + 1] = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(win), 0, 1, true)[1]
  end
end
return lines
"""
"""The first lines of the floating windows."""
OWN_NAMESPACES = ["speclsp", "nvim.lsp.inline_completion"]


@functools.cache
def nvim_of(suite: str) -> str:
    """Return the path of a fetched Neovim; skips where it cannot be had."""
    fetched = subprocess.run([FETCH, suite], capture_output=True, text=True, check=False)
    if fetched.returncode == UNREACHABLE:
        pytest.skip(f"no Neovim: {fetched.stderr.strip()}")
    assert fetched.returncode == 0, fetched.stderr
    return fetched.stdout.strip()


class Editor:
    """A Neovim with the plugin, and what a user sees of it.

    Its server is forked; test_install.py and test_terminal.py start the command as users do.
    """

    def __init__(
        self, suite: str, home: Path, backend: str = "auto", *, has_plugin: bool = True
    ) -> None:
        self.suite = suite
        self.home = home
        self.backend = backend
        self.has_plugin = has_plugin
        self.server = SERVER if "SPECLSP_SERVER" in os.environ else forked_command()
        # Windows of one home share an engine: that of the tests before serves this one, too.
        shared = Path(os.environ["XDG_RUNTIME_DIR"], "home")
        environment = {
            "HOME": str(shared),
            "XDG_CACHE_HOME": str(shared / "cache"),
            "XDG_STATE_HOME": str(shared / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_DATA_HOME": str(home / "data"),
        }
        os.environ.update(environment)
        self.nvim = pynvim.attach(
            "child",
            argv=[
                nvim_of(suite),
                "--embed",
                "--headless",
                "--clean",
                "--cmd",
                f"set runtimepath^={PLUGIN} noswapfile" if has_plugin else "set noswapfile",
                "--cmd",
                WITHOUT_PYTHON,
            ],
        )

    def lua(self, code: str, *arguments: Any) -> Any:
        return self.nvim.exec_lua(code, *arguments)

    def setup(self, **options: Any) -> None:
        # The trial model is never sure of what it writes, and the tests share a home.
        settings = {"min_probability": 0, "persist": False, **options.pop("settings", {})}
        options = {
            "cmd": str(self.server),
            "backend": self.backend,
            "settings": settings,
            **options,
        }
        self.lua("require('speclsp').setup(...)", options)

    def open(self, path: Path) -> None:
        self.nvim.command(f"edit {path}")
        # Lines hold what a test types, and no indentation beside it.
        self.nvim.command("setlocal indentexpr= noautoindent")

    def until(self, what: Callable[[], Any]) -> Any:
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            value = what()
            if value:
                return value
            time.sleep(0.02)
        log = status = ""
        if self.has_plugin:
            status = self.lua("return require('speclsp').status()")
            log = "\n".join(self.lua("return require('speclsp.server').log")[-20:])
        mode, messages = self.nvim.api.get_mode(), self.nvim.command_output("messages")
        raise AssertionError(
            f"it did not happen; {mode}, line: {self.line!r}, ghost text: {self.ghost!r}\n"
            f"status: {status}\nmessages: {messages}\nlog: {log}"
        )

    def until_ready(self) -> None:
        self.until(lambda: self.lua("return require('speclsp').status().state") == "ready")

    def keys(self, keys: str) -> None:
        """Type keys, as one burst."""
        self.nvim.input(keys)

    def type(self, text: str) -> None:
        """Type text key by key, without special keys."""
        for character in text:
            self.keys({"\n": "<CR>", "<": "<LT>"}.get(character, character))
            time.sleep(0.005)

    @property
    def ghost(self) -> str:
        return str(self.lua(GHOST, OWN_NAMESPACES))

    def until_ghost(self) -> str:
        """Wait for a suggestion that no answer can change any more."""

        def settled() -> str:
            first = self.ghost
            time.sleep(0.05)
            return first if not self.lua(PENDING) and first == self.ghost else ""

        return str(self.until(settled))

    @property
    def lines(self) -> list[str]:
        return list(self.nvim.api.buf_get_lines(0, 0, -1, True))

    @property
    def line(self) -> str:
        return str(self.nvim.api.get_current_line())

    def statistics(self) -> dict[str, Any]:
        self.lua("require('speclsp.server').statistics(function(s) vim.g.speclsp_stats = s end)")
        stats = self.until(lambda: self.lua("return vim.g.speclsp_stats"))
        self.lua("vim.g.speclsp_stats = nil")
        return dict(stats)

    def close(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            self.nvim.command("qall!", async_=True)
        self.nvim.close()


SOURCE = "".join(
    f'CUSTOMER_{n} = make_customer("name_{n}", city="Berlin", age={20 + n})\n' for n in range(8)
)
START = "CUSTOMER_8 = make_c"
"""What the file says eight times already: even a small model knows how it goes on."""
