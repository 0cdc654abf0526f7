"""Tables as Markdown, to be read in a terminal of any width and pasted into a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest


@dataclass(slots=True)
class Table:
    """Rows under headers; the first ``n_names`` columns are names, the others are numbers."""

    title: str
    headers: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    caption: str = ""
    n_names: int = 1

    def add(self, *cells: str) -> None:
        """Add a row."""
        self.rows.append(cells)

    def __str__(self) -> str:
        """Return the title, the table and its caption, as paragraphs."""
        lines = [[cell.replace("|", "\\|") for cell in row] for row in (self.headers, *self.rows)]
        widths = [max(3, *map(len, column)) for column in zip_longest(*lines, fillvalue="")]
        rule = [
            "-" * width if idx < self.n_names else "-" * (width - 1) + ":"
            for idx, width in enumerate(widths)
        ]
        table = "\n".join(self._line(row, widths) for row in (lines[0], rule, *lines[1:]))
        return "\n\n".join(part for part in (self.title, table, self.caption) if part) + "\n"

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        padded = [
            cell.ljust(width) if idx < self.n_names else cell.rjust(width)
            for idx, (cell, width) in enumerate(zip_longest(cells, widths, fillvalue=""))
            if isinstance(cell, str) and isinstance(width, int)
        ]
        return f"| {' | '.join(padded)} |"
