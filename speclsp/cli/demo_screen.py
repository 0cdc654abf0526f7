"""What the demo shows: the file being typed, the ghost text in grey, what was accepted."""

from __future__ import annotations

import asyncio
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.syntax import Syntax
from rich.text import Text

from speclsp.cli.demo_typist import Frame, Tally

THEME = "ansi_dark"
GHOST_STYLE = "italic bright_black"
ACCEPTED_STYLE = "on #14361f"
CURSOR = "▏"

SECONDS_PER_KEY = 0.02
SECONDS_PER_ACCEPT = 0.7


class Screen(Protocol):
    """Where the demo is seen."""

    async def show(self, frame: Frame) -> None:
        """Show a frame, for as long as somebody needs to read it."""

    def status(self, text: str) -> None:
        """Say what takes so long."""

    def finish(self, last: Frame) -> None:
        """Leave a scene's last frame on the screen."""

    def close(self) -> None:
        """Take what moves off the screen; calling it again changes nothing."""


class LiveScreen:
    """A terminal in which the file is typed before one's eyes."""

    def __init__(self, console: Console, tally: Tally, *, pace: float) -> None:
        self._console = console
        self._tally = tally
        self._pace = pace
        self._live = Live(console=console, auto_refresh=False, transient=True)

    async def show(self, frame: Frame) -> None:
        """Show a frame; one whose ghost text is about to be accepted stays longer."""
        if not self._live.is_started:
            self._live.start()
        n_lines = max(8, min(24, self._console.height - 6))
        self._live.update(
            Group(render_frame(frame, n_lines), render_tally(self._tally)), refresh=True
        )
        await asyncio.sleep(self._pace * (SECONDS_PER_ACCEPT if frame.taking else SECONDS_PER_KEY))

    def status(self, text: str) -> None:
        """Show a line that the next one replaces."""
        if not self._live.is_started:
            self._live.start()
        self._live.update(Text(text, style="cyan"), refresh=True)

    def finish(self, last: Frame) -> None:
        """Print the scene's end, which stays."""
        self.close()
        self._console.print(render_frame(last, n_scene_lines(last)))

    def close(self) -> None:
        """Take the moving part off the screen."""
        self._live.stop()


class PlainScreen:
    """Lines, for a pipe or a file: only what stays."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def show(self, frame: Frame) -> None:
        """Show the ghost text that is about to be accepted."""
        if frame.taking:
            line = frame.text[frame.text.rfind("\n") + 1 :]
            self._print(f"{frame.path}: {line}[{frame.ghost}]")

    def status(self, text: str) -> None:
        """Print a line."""
        self._print(text)

    def finish(self, last: Frame) -> None:
        """Print what was written; accepted text is in brackets."""
        parts: list[str] = []
        position = last.start
        for accepted_start, accepted_end in last.accepted:
            parts.append(last.text[position:accepted_start])
            parts.append(f"[{last.text[accepted_start:accepted_end]}]")
            position = accepted_end
        parts.append(last.text[position:])
        self._print(f"--- {last.path}, accepted ghost text in brackets")
        self._print("".join(parts).strip("\n"))

    def close(self) -> None:
        """Nothing moves here."""

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def render_frame(frame: Frame, n_lines: int) -> Panel:
    """Return a frame's last ``n_lines`` lines up to the cursor, with the ghost text there."""
    first_line = max(0, frame.text.count("\n") + frame.ghost.count("\n") + 1 - n_lines)
    start = _line_start(frame.text, first_line)
    code = Syntax("", "python", theme=THEME).highlight(frame.text[start:])
    code.right_crop(1)  # highlight() ends every text with a line end
    for accepted_start, accepted_end in frame.accepted:
        if accepted_end > start:
            code.stylize(ACCEPTED_STYLE, max(0, accepted_start - start), accepted_end - start)
    code.append(CURSOR, style="bold")
    code.append(frame.ghost, style=GHOST_STYLE)
    numbered = Text(no_wrap=True, overflow="ellipsis")
    for line_idx, line in enumerate(code.split("\n", allow_blank=True)):
        numbered.append(f"{first_line + line_idx + 1:>4}  ", style="bright_black")
        numbered.append(line)
        numbered.append("\n")
    numbered.right_crop(1)
    subtitle = "Tab accepts" if frame.taking else None
    return Panel(numbered, title=frame.path, title_align="left", subtitle=subtitle)


def render_tally(tally: Tally) -> Text:
    """Return the line below the file: keys, accepted suggestions, the last answer's time."""
    latency = f", last answer {tally.ms_requests[-1]:.0f} ms" if tally.ms_requests else ""
    return Text(
        f"{tally.n_keys} keys typed, {tally.n_accepted} suggestions accepted "
        f"({tally.n_chars_accepted} characters), {tally.n_shown} of {tally.n_requests} "
        f"requests gave ghost text{latency}",
        style="cyan",
    )


def n_scene_lines(frame: Frame) -> int:
    """Return how many lines show all that was written, and a little of what stood before."""
    return frame.text.count("\n", frame.start) + 4


def _line_start(text: str, line_idx: int) -> int:
    start = 0
    for _ in range(line_idx):
        start = text.index("\n", start) + 1
    return start
