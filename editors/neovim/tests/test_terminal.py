"""Neovim in a real terminal: what is on the screen."""

import contextlib
import itertools
import os
import re
import threading
import time
from collections.abc import Callable
from html import escape
from pathlib import Path

import pexpect
import pyte
import pytest
from fake_hub import serve_hub
from real_neovim import (
    PLUGIN,
    PRESET_FILE,
    PRESET_REPOSITORY,
    PRESET_TITLE,
    SERVER,
    START,
    TIMEOUT_S,
    TRIAL_MODEL,
    WITHOUT_PYTHON,
    nvim_of,
)
from rewriting_model import CODE

CART = '''"""Prices of a shop."""


class Cart:
    def __init__(self) -> None:
        self.prices: dict[str, float] = {}

    def add(self, name: str, price: float) -> None:
        if price < 0:
            raise ValueError(f"{name} has a negative price")
        self.prices[name] = price

'''
MODEL = Path(os.environ.get("SPECLSP_REAL_MODELS", "")) / (
    "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
)
ROWS, COLUMNS = 30, 100
CELL = (9, 20)
"""Width and height of a cell in a picture, in pixels."""


class Terminal:
    """A terminal with Neovim in it."""

    def __init__(
        self,
        suite: str,
        file: Path,
        home: Path,
        *,
        settings: str = "{ min_probability = 0 }",  # the trial model is never sure
        colours: str = "termguicolors",
        rows: int = ROWS,
        columns: int = COLUMNS,
    ) -> None:
        """``settings`` is a Lua table."""
        self.screen = pyte.Screen(columns, rows)
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
            f"set runtimepath^={PLUGIN} noswapfile background=dark {colours}",
            "--cmd",
            WITHOUT_PYTHON,
            "-c",
            f"lua require('speclsp').setup({{ cmd = '{SERVER}', settings = {settings} }})",
            "-c",
            "set laststatus=2 statusline=%{v:lua.require'speclsp'.statusline()}",
            "-c",
            "autocmd User SpeclspStatus redrawstatus",
        ]
        self._child = pexpect.spawn(
            nvim_of(suite), [*start, str(file)], dimensions=(rows, columns), env=environment
        )

    def send(self, keys: str) -> None:
        self._child.send(keys)

    def until(self, what: Callable[[], bool]) -> None:
        """Read the screen until something holds of it."""
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            with contextlib.suppress(pexpect.TIMEOUT, pexpect.EOF):
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

    def has_ended(self) -> bool:
        """Tell whether Neovim has ended."""
        return not self._child.isalive()

    def has_struck(self, words: str) -> bool:
        """Tell whether some words on the screen are struck."""
        rows = (self.screen.buffer[row] for row in range(self.screen.lines))
        columns = range(self.screen.columns)
        return any(
            words in "".join(row[n].data if row[n].strikethrough else "\0" for n in columns)
            for row in rows
        )

    def svg(self, n_rows: int | None = None) -> str:
        """Return the screen as a picture, or its first ``n_rows`` alone."""
        width, height = CELL
        n_rows = n_rows or self.screen.lines
        size = f'width="{self.screen.columns * width}" height="{n_rows * height}"'
        font = 'font-family="monospace" font-size="15"'
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>']
        for row in range(n_rows):
            cells = [self.screen.buffer[row][column] for column in range(self.screen.columns)]
            column = 0
            for look, run in itertools.groupby(cells, lambda cell: cell._replace(data="")):
                text = "".join(cell.data for cell in run)
                parts += _drawn(text, look, column, row)
                column += len(text)
        return "\n".join([*parts, "</svg>", ""])

    def close(self) -> None:
        self._child.close(force=True)


def _drawn(text: str, look: pyte.screens.Char, column: int, row: int) -> list[str]:
    """Draw neighbouring cells that look the same, except for their text."""
    width, height = CELL
    fore, back = (
        default if colour == "default" else f"#{colour}"
        for colour, default in ((look.fg, "#e0e2ea"), (look.bg, "#14161b"))
    )
    if look.reverse:
        fore, back = back, fore
    style = (
        f'fill="{fore}"'
        + ' font-weight="bold"' * look.bold
        + ' text-decoration="line-through"' * look.strikethrough
    )
    place = f'x="{column * width}" y="{row * height}"'
    return [
        f'<rect {place} width="{len(text) * width}" height="{height}" fill="{back}"/>',
        *(
            f'<text x="{(column + words.start()) * width}" y="{row * height + 15}" {style} '
            f'textLength="{len(words[0]) * width}">{escape(words[0])}</text>'
            for words in re.finditer(r"\S+(?: \S+)*", text)  # viewers join several spaces
        ),
    ]


@pytest.mark.parametrize("colours", ["termguicolors", "notermguicolors"])
@pytest.mark.parametrize("suite", ["forky", "trixie"])
def test_ghost_text_is_grey_and_turns_into_text(suite, colours, project, tmp_path):
    terminal = Terminal(suite, project / "customers.py", tmp_path / "home", colours=colours)
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


GO = "".join(f"func name{n}(a int) int {{\n\treturn a + {n}\n}}\n\n" for n in range(4))


@pytest.mark.parametrize("suite", ["forky", "trixie"])
def test_tabs_of_ghost_text_are_as_wide_as_the_buffers(suite, project, tmp_path):
    (project / "names.go").write_text(GO)
    terminal = Terminal(suite, project / "names.go", tmp_path / "home")
    try:
        terminal.until(lambda: terminal.shows("speclsp ready"))
        terminal.send(":set tabstop=4 noautoindent indentexpr=\rGofunc name4(a int) int {\r")
        terminal.until(lambda: any(row[:14] == "    return a +" for row in last_rows(terminal)))
    finally:
        terminal.close()


def last_rows(terminal: Terminal) -> list[str]:
    rows = terminal.screen.display
    heads = [n for n, row in enumerate(rows) if row.startswith("func name4")]
    return rows[heads[-1] + 1 :] if heads else []


@pytest.mark.parametrize("suite", ["forky", "trixie"])
def test_the_picture_of_an_edit(suite, project, tmp_path, model):
    """SPECLSP_PICTURES names a folder that keeps it."""
    (project / "shop.py").write_text(CODE)
    settings = (
        f"{{ engine = 'own', engine_url = '{model.address}', engine_kind = 'openai', "
        "idle_work = 'never' }"
    )
    home = tmp_path / "home"
    terminal = Terminal(suite, project / "shop.py", home, settings=settings, rows=12, columns=76)
    try:
        terminal.until(lambda: terminal.shows("speclsp ready"))
        terminal.send("gg0fpcwamounts\x1b")
        terminal.send("j")
        terminal.until(lambda: terminal.has_struck("prices"))
        terminal.until(lambda: terminal.shows("prices:   for price in amounts:"))
        terminal.until(lambda: terminal.shows("next edit"))
        picture = Path(os.environ.get("SPECLSP_PICTURES", tmp_path)) / f"next-edit-{suite}.svg"
        picture.write_text(terminal.svg(), encoding="utf-8")
    finally:
        terminal.close()


@pytest.mark.parametrize("suite", ["forky", "trixie"])
def test_a_download_begins_without_a_key_behind_the_list(suite, project, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    with serve_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        terminal = Terminal(suite, project / "customers.py", tmp_path / "home")
        try:
            terminal.until(lambda: terminal.shows("speclsp ready"))
            terminal.send(":Speclsp model\r")
            terminal.until(lambda: terminal.shows("Type number"))
            terminal.send("1\r")
            terminal.until(lambda: bool(hub.asked))
        finally:
            terminal.close()


@pytest.mark.parametrize("suite", ["forky", "trixie"])
def test_a_download_is_seen_while_typing(suite, project, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    with serve_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        hub.repositories[PRESET_REPOSITORY] = {PRESET_FILE: TRIAL_MODEL.read_bytes()}
        hub.hold = threading.Event()
        terminal = Terminal(suite, project / "customers.py", tmp_path / "home", rows=40)
        words = f"speclsp: Downloading {PRESET_TITLE}"
        try:
            terminal.until(lambda: terminal.shows("speclsp ready"))
            terminal.send(":Speclsp model\r")
            terminal.until(lambda: terminal.shows("Type number"))
            (row,) = (row for row in terminal.screen.display if f": {PRESET_TITLE}," in row)
            terminal.send(f"{row.partition(':')[0].strip()}\r")
            terminal.until(lambda: terminal.shows(f"{words}: 0.00 of 0.01 GB"))
            terminal.send("Gotyped = 1")
            terminal.until(lambda: terminal.shows("typed = 1") and terminal.shows("-- INSERT --"))
            assert words in terminal.screen.display[-3]
            # It stands in the other half than the cursor.
            terminal.send("\r" * 30 + "later = 2")
            terminal.until(lambda: words in terminal.screen.display[0])
            terminal.until(lambda: terminal.shows("later = 2") and terminal.shows("-- INSERT --"))
            hub.hold.set()
            terminal.until(lambda: not terminal.shows(words))
            terminal.send("\x1b:wq\r")
            terminal.until(terminal.has_ended)
            assert "typed = 1" in (project / "customers.py").read_text()
        finally:
            hub.hold.set()
            terminal.close()


@pytest.mark.skipif(not MODEL.is_file(), reason="SPECLSP_REAL_MODELS names no folder with it")
def test_the_picture_of_a_suggestion(project, tmp_path):
    """SPECLSP_PICTURES names a folder that keeps it."""
    (project / "cart.py").write_text(CART)
    named = tmp_path / "Qwen2.5-Coder-0.5B-Q4_K_M.gguf"  # its title is in the status line
    named.symlink_to(MODEL)
    settings = f"{{ model = '{named}' }}"
    home = tmp_path / "home"
    terminal = Terminal("forky", project / "cart.py", home, settings=settings, rows=18, columns=76)
    try:
        terminal.until(lambda: terminal.shows("speclsp ready"))
        terminal.send("Go")
        terminal.send("    def total(self) -> float:\rreturn ")
        terminal.until(lambda: terminal.shows("return sum(self.prices.values())"))
        picture = Path(os.environ.get("SPECLSP_PICTURES", tmp_path)) / "suggestion.svg"
        # Without the status line, whose time would be a busy machine's first one.
        picture.write_text(terminal.svg(n_rows=14), encoding="utf-8")
    finally:
        terminal.close()


OPTIONS = """from argparse import ArgumentParser
from pathlib import Path


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--prices", type=Path, required=True)
    parser.add_argument("--orders", type=Path, required=True)
    parser.add_argument("--report", type=Path, required=True)
"""
CLIENT = """from shop import total

bill = total([1, 2], rate=2)
"""


@pytest.mark.skipif(not MODEL.is_file(), reason="SPECLSP_REAL_MODELS names no folder with it")
def test_the_pictures_of_edits_by_analogy(project, tmp_path):
    """SPECLSP_PICTURES names a folder that keeps them."""
    for name, text in (("shop.py", CODE), ("options.py", OPTIONS), ("client.py", CLIENT)):
        (project / name).write_text(text)
    named = tmp_path / "Qwen2.5-Coder-0.5B-Q4_K_M.gguf"
    named.symlink_to(MODEL)
    settings = f"{{ model = '{named}', edit_format = 'analogy', deadline_ms = 60000 }}"
    home = tmp_path / "home"
    file = project / "options.py"
    terminal = Terminal("forky", file, home, settings=settings, rows=13, columns=86)

    def keep(name: str, n_rows: int) -> None:
        picture = Path(os.environ.get("SPECLSP_PICTURES", tmp_path)) / f"{name}-neovim.svg"
        picture.write_text(terminal.svg(n_rows=n_rows), encoding="utf-8")

    try:
        terminal.until(lambda: terminal.shows("speclsp ready"))
        terminal.send("6G0f)i, metavar='FILE'\x1b".replace("'", '"'))
        terminal.send("j")
        terminal.until(
            lambda: terminal.shows('"--report", type=Path, required=True, metavar="FILE")')
        )
        keep("argument", 8)
        terminal.send(f":edit {project / 'client.py'} | edit {project / 'shop.py'}\r")
        terminal.until(lambda: terminal.shows("def total(prices"))
        terminal.send("gg0fpcwamounts\x1b")
        terminal.send("j")
        terminal.until(lambda: terminal.shows("len(amounts)"))
        assert terminal.has_struck("prices")
        keep("rename", 9)
        terminal.send("\t")
        terminal.until(lambda: not terminal.has_struck("prices"))
        terminal.send("gg0wcwprice_of\x1b")
        terminal.send("j")
        terminal.until(lambda: terminal.shows("<Tab>: next edit in client.py:1"))
        keep("other-file", 9)
        terminal.send("\t")
        terminal.until(lambda: terminal.shows("   from shop import price_of"))
        keep("in-other-file", 4)
        terminal.send("\t")
        terminal.until(lambda: not terminal.has_struck("total"))
        terminal.send(":w\r")
        terminal.until(lambda: "import price_of" in (project / "client.py").read_text())
    finally:
        terminal.close()
