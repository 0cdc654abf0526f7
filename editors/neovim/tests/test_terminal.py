"""Neovim in a real terminal: what is on the screen."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyte
import pytest
from real_neovim import PLUGIN, SERVER, START, TIMEOUT_S, nvim_of

ROWS, COLUMNS = 30, 100


class Terminal:
    """A terminal with Neovim in it."""

    def __init__(self, suite: str, file: Path, home: Path) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.screen)
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_STATE_HOME": str(home / "state"),
        }
        start = [
            "--clean",
            "--cmd",
            f"set runtimepath^={PLUGIN} noswapfile background=dark termguicolors",
            "-c",
            f"lua require('speclsp').setup({{ cmd = '{SERVER}' }})",
            "-c",
            "set laststatus=2 statusline=%{v:lua.require'speclsp'.statusline()}",
            "-c",
            "autocmd User SpeclspStatus redrawstatus",
        ]
        self._child = pexpect.spawn(
            nvim_of(suite), [*start, str(file)], dimensions=(ROWS, COLUMNS), env=environment
        )

    def send(self, keys: str) -> None:
        self._child.send(keys)

    def until(self, what: Callable[[], bool]) -> None:
        """Read the screen until something holds of it."""
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            with contextlib.suppress(pexpect.TIMEOUT):
                self._stream.feed(self._child.read_nonblocking(65536, timeout=0.05))
            if what():
                return
        raise AssertionError("it did not happen on:\n" + "\n".join(self.screen.display))

    def shows(self, words: str) -> bool:
        return words in "\n".join(self.screen.display)

    def ghost_is_grey(self) -> bool:
        """Tell whether what stands behind START has one colour that START has not."""
        wanted = START + 'ustomer("name'
        found = [(n, row) for n, row in enumerate(self.screen.display) if wanted in row]
        if not found:
            return False
        n, row = found[-1]
        cells, start = self.screen.buffer[n], row.index(wanted)
        colours = [cells[start + idx].fg for idx in range(len(wanted))]
        typed, ghost = set(colours[: len(START)]), set(colours[len(START) :])
        return len(ghost) == 1 and ghost.isdisjoint(typed)

    def close(self) -> None:
        self._child.close(force=True)


@pytest.mark.parametrize("suite", ["forky", "trixie"])
def test_ghost_text_is_grey_and_turns_into_text(suite: str, project: Path, tmp_path: Path) -> None:
    terminal = Terminal(suite, project / "customers.py", tmp_path / "home")
    try:
        terminal.until(lambda: terminal.shows("speclsp ready"))
        terminal.send(f"Go{START}")
        terminal.until(lambda: terminal.shows(START + 'ustomer("name_'))
        terminal.until(terminal.ghost_is_grey)
        terminal.send("\t")
        terminal.until(lambda: not terminal.ghost_is_grey())
        terminal.send("\x1b:w\r")
        written = project / "customers.py"
        terminal.until(lambda: written.read_text().count('make_customer("name_') == 9)
    finally:
        terminal.close()
