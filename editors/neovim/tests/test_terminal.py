"""Neovim in a real terminal: what is on the screen."""

from __future__ import annotations

import contextlib
import os
import time
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

    def until(self, words: str) -> None:
        """Wait until the screen shows words."""
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            with contextlib.suppress(pexpect.TIMEOUT):
                self._stream.feed(self._child.read_nonblocking(65536, timeout=0.05))
            if words in "\n".join(self.screen.display):
                return
        raise AssertionError(f"{words!r} is not in:\n" + "\n".join(self.screen.display))

    def settle(self) -> None:
        """Read what comes for a while."""
        end = time.monotonic() + 0.6
        while time.monotonic() < end:
            with contextlib.suppress(pexpect.TIMEOUT):
                self._stream.feed(self._child.read_nonblocking(65536, timeout=0.05))

    def colours(self, before: str, after: str) -> tuple[set[str], set[str]]:
        """Return the colours of two texts that stand side by side, where they last do."""
        rows = [(n, row) for n, row in enumerate(self.screen.display) if before + after in row]
        n, row = rows[-1]
        cells, start = self.screen.buffer[n], row.index(before + after)
        fgs = [cells[start + idx].fg for idx in range(len(before + after))]
        return set(fgs[: len(before)]), set(fgs[len(before) :])

    def close(self) -> None:
        self._child.close(force=True)


@pytest.mark.parametrize("suite", ["forky", "trixie"])
def test_ghost_text_is_grey_and_turns_into_text(suite: str, project: Path, tmp_path: Path) -> None:
    terminal = Terminal(suite, project / "customers.py", tmp_path / "home")
    try:
        terminal.until("speclsp ready")
        terminal.send(f"Go{START}")
        terminal.until(START + 'ustomer("name_')
        terminal.settle()
        typed, ghost = terminal.colours(START, 'ustomer("name')
        assert len(ghost) == 1
        assert ghost.isdisjoint(typed)
        terminal.send("\t")
        terminal.settle()
        terminal.send("\x1b:w\r")
        terminal.settle()
        written = (project / "customers.py").read_text()
        assert written.count('make_customer("name_') == 9
    finally:
        terminal.close()
