"""A real Neovim in a terminal: keys go in by the terminal, and its screen is read.

Its state is looked at through its socket.
"""

import contextlib
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pynvim
import pyte
from real_neovim import nvim_of

ROWS, COLUMNS = 40, 140
TIMEOUT_S = 60.0
KEYS = {
    "<Tab>": "\t",
    "<S-Tab>": "\x1b[Z",
    "<Esc>": "\x1b",
    "<CR>": "\r",
    "<C-Space>": "\x00",
    **{f"<C-{chr(96 + n)}>": chr(n) for n in range(1, 27)},
    **{f"<M-{chr(n)}>": f"\x1b{chr(n)}" for n in range(33, 127)},
}
"""What a terminal sends for keys."""


class NvimTerminal:
    """Neovim in a terminal."""

    def __init__(
        self, suite: str, init: str, home: Path, project: Path, **environment: str
    ) -> None:
        """``init`` is the text of its init.lua; it is started in ``project``."""
        self._home = home
        home.mkdir(parents=True, exist_ok=True)
        (home / "init.lua").write_text(init, "utf-8")
        self._sockets = tempfile.TemporaryDirectory(prefix="nvim-")  # a socket's path is short
        listening = Path(self._sockets.name) / "nvim"
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        kinds = ("CACHE", "STATE", "CONFIG", "DATA")
        own = {f"XDG_{name}_HOME": str(home / name) for name in kinds}
        self._child = pexpect.spawn(
            nvim_of(suite),
            [
                "--cmd",
                "set background=dark",  # or it asks the terminal, and complains where that is busy
                "-u",
                str(home / "init.lua"),
                "-n",
                "-i",
                "NONE",
                "--listen",
                str(listening),
            ],
            dimensions=(ROWS, COLUMNS),
            env={**os.environ, "TERM": "xterm-256color", "HOME": str(home), **own, **environment},
            cwd=str(project),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        end = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self.nvim = pynvim.attach("socket", path=str(listening))
            except OSError:
                assert time.monotonic() < end, self.screen
                time.sleep(0.02)
            else:
                break
        self.until(lambda: self.lua("return vim.v.vim_did_enter") == 1)

    def _read(self) -> None:
        with contextlib.suppress(pexpect.EOF, OSError, ValueError):
            while True:
                try:
                    data = self._child.read_nonblocking(65536, timeout=1)
                except pexpect.TIMEOUT:
                    continue
                if b"\x1b[5n" in data:  # Neovim waits for the terminal to say that it is fine
                    self._child.send("\x1b[0n")
                with self._lock:
                    self._stream.feed(data)

    @property
    def screen(self) -> str:
        """The lines of the screen."""
        with self._lock:
            # A wide character has an empty cell behind it.
            return "\n".join(line.rstrip() for line in self._screen.display)

    def lua(self, code: str, *arguments: Any) -> Any:
        return self.nvim.exec_lua(code, *arguments)

    def keys(self, *keys: str) -> None:
        """Press keys, named as in Vim, one after the other."""
        for key in keys:
            self._child.send(KEYS.get(key, key))
            if key == "<Esc>":
                self.until(lambda: self.lua("return vim.api.nvim_get_mode().mode") == "n")
            time.sleep(0.02)

    def type(self, text: str, *, s_per_key: float = 0.02) -> None:
        """Type text key by key; tabs by Ctrl-V, since Tab accepts."""
        for character in text:
            self._child.send({"\n": "\r", "\t": "\x16\t"}.get(character, character))
            time.sleep(s_per_key)

    def until(self, what: Callable[[], Any], timeout_s: float = TIMEOUT_S) -> Any:
        """Wait until something holds, and return it."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if value := what():
                return value
            time.sleep(0.03)
        messages = self.nvim.command_output("messages")
        log = self._home / "STATE" / "nvim" / "lsp.log"
        log_lines = log.read_text("utf-8") if log.exists() else ""
        said = "\n".join([messages, log_lines[-2000:]])
        raise AssertionError(f"it did not happen on:\n{self.screen}\nmessages: {said}")

    def shows(self, words: str) -> bool:
        return words in self.screen

    def open(self, path: Path) -> None:
        self.nvim.command(f"edit {path}")
        self.nvim.command("setlocal indentexpr= noautoindent nocindent")

    @property
    def lines(self) -> list[str]:
        return list(self.nvim.api.buf_get_lines(0, 0, -1, True))

    @property
    def line(self) -> str:
        return str(self.nvim.api.get_current_line())

    def problems(self) -> list[str]:
        """Errors among the messages so far, which are forgotten."""
        messages = str(self.nvim.command_output("messages"))
        self.nvim.command("messages clear")
        wanted = re.compile(r"^(Error|E\d+:)|stack traceback|Lua callback", re.MULTILINE)
        return [messages] if wanted.search(messages) else []

    @property
    def is_running(self) -> bool:
        return bool(self._child.isalive())

    def close(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            self.nvim.command("qall!", async_=True)
        with contextlib.suppress(OSError):
            self.nvim.close()
        self._child.close(force=True)
        self._sockets.cleanup()
