"""What Neovim draws, from its own UI events (:help ui-linegrid), and as an SVG picture."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from pynvim import Nvim

_CELL = (9, 20)
"""Width and height of a cell in pixels."""
_DRAWN = "speclsp-drawn"


class Screen:
    """The grid of a Neovim that a UI is attached to; each cell is its text and its highlight."""

    def __init__(self, nvim: Nvim, width: int, height: int) -> None:
        self._nvim = nvim
        self._width = width
        self._default: dict[str, int] = {}
        self._highlights: dict[int, dict[str, Any]] = {0: {}}
        self._cells: list[list[tuple[str, int]]] = []
        nvim.ui_attach(width, height, rgb=True, ext_linegrid=True)

    def draw(self) -> None:
        """Take all that Neovim has drawn by now."""
        self._nvim.exec_lua("vim.cmd.redraw() vim.rpcnotify(...)", self._nvim.channel_id, _DRAWN)
        while (message := self._nvim.next_message())[1] != _DRAWN:
            if message[1] == "redraw":
                for name, *calls in message[2]:
                    for arguments in calls:
                        getattr(self, f"_{name}", _ignore)(*arguments)

    @property
    def rows(self) -> list[str]:
        """The text of each row."""
        return ["".join(text for text, _ in row).rstrip() for row in self._cells]

    def has(self, text: str, attribute: str) -> bool:
        """Whether a part of the screen shows a text with an attribute, such as strikethrough."""
        marked = (
            "".join(
                cell if self._highlights[highlight].get(attribute) else "\0"
                for cell, highlight in row
            )
            for row in self._cells
        )
        return any(text in row for row in marked)

    def svg(self) -> str:
        """Return the screen as a picture."""
        width, height = _CELL
        parts = [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{self._width * width}" '
                f'height="{len(self._cells) * height}" font-family="monospace" font-size="15">'
            ),
            f'<rect width="100%" height="100%" fill="{self._colour("background", 0)}"/>',
        ]
        for row_idx, row in enumerate(self._cells):
            column = 0
            for text, highlight in _runs(row):
                parts += self._run(text, highlight, column, row_idx)
                column += len(text)
        return "\n".join([*parts, "</svg>", ""])

    def _run(self, text: str, highlight: int, column: int, row: int) -> list[str]:
        width, height = _CELL
        found = self._highlights[highlight]
        names = ("foreground", "background")
        fore, back = (
            self._colour(name, highlight)
            for name in (reversed(names) if found.get("reverse") else names)
        )
        style = "".join(
            f'{name}="{value}" '
            for attribute, name, value in (
                ("bold", "font-weight", "bold"),
                ("italic", "font-style", "italic"),
                ("strikethrough", "text-decoration", "line-through"),
                ("underline", "text-decoration", "underline"),
            )
            if found.get(attribute)
        )
        size = f'x="{column * width}" y="{row * height}" width="{len(text) * width}"'
        parts = []
        if back != self._colour("background", 0):
            parts.append(f'<rect {size} height="{height}" fill="{back}"/>')
        parts += [
            f'<text x="{(column + words.start()) * width}" y="{row * height + 15}" fill="{fore}" '
            f'{style}textLength="{len(words[0]) * width}">{escape(words[0])}</text>'
            for words in re.finditer(r"\S+(?: \S+)*", text)  # viewers join several spaces
        ]
        return parts

    def _colour(self, name: str, highlight: int) -> str:
        return f"#{self._highlights[highlight].get(name, self._default[name]):06x}"

    # --- the events that change the grid ----------------------------------------------------------

    def _grid_resize(self, _grid: int, width: int, height: int) -> None:
        self._cells = [[(" ", 0)] * width for _ in range(height)]

    def _grid_clear(self, _grid: int) -> None:
        self._cells = [[(" ", 0)] * len(row) for row in self._cells]

    def _default_colors_set(self, foreground: int, background: int, *_: Any) -> None:
        self._default = {"foreground": foreground, "background": background}

    def _hl_attr_define(self, highlight: int, rgb: dict[str, Any], *_: Any) -> None:
        self._highlights[highlight] = rgb

    def _grid_line(
        self, _grid: int, row: int, column: int, cells: list[list[Any]], *_: Any
    ) -> None:
        highlight = 0
        for text, *rest in cells:
            highlight = rest[0] if rest else highlight
            for _ in range(rest[1] if len(rest) > 1 else 1):
                self._cells[row][column] = (text or " ", highlight)
                column += 1

    def _grid_scroll(
        self, _grid: int, top: int, bottom: int, left: int, right: int, rows: int, *_: Any
    ) -> None:
        targets = range(top, bottom - rows) if rows > 0 else range(bottom - 1, top - rows - 1, -1)
        for row in targets:
            self._cells[row][left:right] = self._cells[row + rows][left:right]


def _ignore(*_: Any) -> None:
    """Take an event that leaves the grid as it is."""


def _runs(row: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Join neighbouring cells of one highlight."""
    runs: list[tuple[str, int]] = []
    for text, highlight in row:
        if runs and runs[-1][1] == highlight:
            runs[-1] = (runs[-1][0] + text, highlight)
        else:
            runs.append((text, highlight))
    return runs
