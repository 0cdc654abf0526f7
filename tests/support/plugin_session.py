"""A Neovim with a plugin, and a real server behind a tee that writes down what the plugin sends."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from http_tee import HttpTee
from nvim_plugins import Plugin, server_in
from nvim_terminal import NvimTerminal
from real_neovim import GHOST
from speclsp_http import Server
from waiting import until

EDITORS = {"forky": "Neovim 0.12.4", "trixie": "Neovim 0.10.4"}
"""The versions that tools/editors pins."""
TRIAL = ("--min-probability", "0", "--threads", "1", "--no-index-project")
"""The trial model is never sure of what it writes."""


def _says_ready(entry: Any) -> bool:
    name, message = entry
    return bool(name == "server" and message.get("params", {}).get("state") == "ready")


class PluginSession:
    """A Neovim with one plugin in a project of its own."""

    def __init__(
        self,
        plugin: Plugin,
        suite: str,
        folder: Path,
        *options: str,
        replaced: tuple[str, str] = ("", ""),
    ) -> None:
        """``options`` are the server's; ``replaced`` is a text of the documents, and another."""
        self.plugin = plugin
        self._replaced = replaced
        self.suite = suite
        self.folder = folder
        self.project = folder / "shop"
        self.project.mkdir(parents=True)
        (self.project / ".git").mkdir()
        self.records = folder / "records"
        self.server: Server | None = None
        self.tee: HttpTee | None = None
        self._options = options
        if plugin.is_http:
            self.server = Server(folder / "http", "--engine", "own", *options)
            self.tee = HttpTee(self.server.port)
        self.start()

    def start(self) -> None:
        """Start a Neovim."""
        self._is_ready = False
        init = self.plugin.init(self.tee.port if self.tee else 0, self._replaced)
        bin_folder = server_in(self.folder / "bin", self.records, "--engine", "own", *self._options)
        path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
        self.editor = NvimTerminal(self.suite, init, self.folder / "home", self.project, PATH=path)

    def open(self, name: str, text: str | bytes) -> Path:
        """Open a new file of the project, and go to its end."""
        path = self.project / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        if self.editor.lua("return vim.api.nvim_get_mode().mode") != "n":
            self.editor.keys("<Esc>")
        self.editor.open(path)
        if not self.plugin.is_http:
            attached = "return #vim.lsp.get_clients({ bufnr = 0 }) > 0"
            self.editor.until(lambda: self.editor.lua(attached))
            if not self._is_ready:
                # What is asked while the model loads gets nothing, and clients ask at keys only.
                self.editor.keys("o", "x")
                self.editor.until(lambda: any(map(_says_ready, self.messages())))
                self.editor.keys("<Esc>", "u")
                self._is_ready = True
        self.editor.keys("G")
        return path

    @property
    def suggestion(self) -> str:
        """What would follow the cursor if it were accepted; empty without one."""
        if not self.plugin.suggestion:
            return str(self.editor.lua(GHOST, list(self.plugin.namespaces))).rstrip("\n")
        return str(self.editor.lua(self.plugin.suggestion))

    def type(self, text: str) -> str:
        """Open a line below the cursor's, type a text there, and return the suggestion after it."""
        self.editor.keys("o")
        return self.go_on(text)

    def go_on(self, text: str) -> str:
        """Type a text at the cursor, and return the suggestion after it."""
        self.editor.type(text)
        return self.ask()

    def ask(self) -> str:
        """Ask by key, where the client has one, and return the suggestion once it has settled."""
        if self.plugin.keys.get("ask"):
            time.sleep(0.3)
            if not self.suggestion:
                self.editor.keys(*self.plugin.keys["ask"])
        return self.settled()

    def settled(self) -> str:
        """Wait for a suggestion that stays for a moment."""

        def same() -> str:
            first = self.suggestion
            time.sleep(0.4)
            return first if first and first == self.suggestion else ""

        return str(self.editor.until(same))

    def quiet(self, seconds: float = 1.0) -> bool:
        """Tell whether no suggestion comes for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.suggestion:
                return False
            time.sleep(0.05)
        return True

    def press(self, what: str) -> None:
        """Press the keys for ``whole``, ``word``, ``line`` or ``dismiss``."""
        self.editor.keys(*self.plugin.keys[what])

    def sent(self) -> list[Any]:
        """What the plugin has sent: requests by HTTP, or LSP messages."""
        if self.tee:
            return [one.request for one in self.tee.exchanges if one.is_over]
        return [message for name, message in self.messages() if name == "client"]

    def messages(self) -> list[Any]:
        """The LSP messages of both sides so far, and the server's end."""
        lines: list[Any] = []
        for path in sorted(self.records.glob("*.jsonl"), key=lambda path: path.stat().st_mtime):
            whole = path.read_text("utf-8").rpartition("\n")[0]
            lines += [json.loads(line) for line in whole.split("\n") if line]
        return lines

    def until_ended(self) -> None:
        """End the editor; its server ends with it, or serves others."""
        self.editor.nvim.command("qall!", async_=True)
        until(lambda: not self.editor.is_running)
        if self.server:
            assert self.server.ask("/infill", {"input_prefix": "a", "input_suffix": "b"})
            return
        until(lambda: self.messages()[-1][0] == "ended")
        assert self.messages()[-1] == ["ended", 0]

    def until(self, what: Callable[[], Any]) -> Any:
        return self.editor.until(what)

    def close(self) -> None:
        self.editor.close()
        if self.tee:
            self.tee.close()
        if self.server:
            self.server.close()


def rename(session: PluginSession) -> None:
    """Rename the parameter, and wait for the next edit."""
    session.editor.keys("1", "G", "0", "f", "p", "c", "w")
    session.editor.type("amounts")
    session.editor.keys("<Esc>")
    session.settled()


def accept_edit(session: PluginSession) -> None:
    """Go to the edit, and apply it."""
    before = session.editor.lines
    for _ in range(3):
        session.editor.keys("<Tab>")
        time.sleep(0.5)
        if session.editor.lines != before:
            return
    raise AssertionError(f"nothing was applied on\n{session.editor.screen}")
