"""Where a long run stands: bars on a terminal, lines of text in a file."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_LINE_EVERY_S: Final = 10.0
_SPEED_OVER_S: Final = 1800.0
"""What is compared differs in speed, so that the time left is told by all that was done."""


class RunProgress(Progress):
    """Bars on standard error; where that is no terminal, a line every ten seconds."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            speed_estimate_period=_SPEED_OVER_S,
        )
        self._writes_lines = not sys.stderr.isatty()
        self._started = self._written = time.monotonic()

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Change a task as :class:`rich.progress.Progress` does."""
        super().update(task_id, **changes)
        self._write_line(task_id)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """Advance a task as :class:`rich.progress.Progress` does."""
        super().advance(task_id, advance)
        self._write_line(task_id)

    def _write_line(self, task_id: TaskID) -> None:
        now = time.monotonic()
        if self._writes_lines and now - self._written >= _LINE_EVERY_S:
            self._written = now
            task = self._tasks[task_id]
            total = "" if task.total is None else f" of {task.total:g}"
            done = f"{task.description}: {task.completed:g}{total}"
            click.echo(f"{done}, {now - self._started:.0f} s", err=True)
