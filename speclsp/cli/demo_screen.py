"""Renders the demo: the file, ghost text, accepted text, statistics; also as an SVG picture."""

from __future__ import annotations

import asyncio
import io
import re
from dataclasses import dataclass
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from speclsp.cli.demo_typist import Frame, Tally
from speclsp.decoding.report import measured_speedup, tokens_per_pass
from speclsp.request import SessionStats

THEME = "ansi_dark"
GHOST_STYLE = "italic bright_black"
ACCEPTED_STYLE = "on #14361f"
CURSOR = "▏"

SECONDS_PER_KEY = 0.02
SECONDS_PER_ACCEPT = 0.7
MOST_LINES_ABOVE = 16
LINES_BELOW = 3
LINES_OF_CONTEXT = 3

PICTURE_WIDTH = 96
MOMENT_LINES = 12

_STYLE: Final[Any] = {"title_justify": "left", "title_style": "bold", "box": SIMPLE_HEAD}
_WEB_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The result of a run: the statistics, each scene's last frame, one frame with ghost text."""

    stats: SessionStats
    ends: tuple[Frame, ...]
    moment: Frame | None
    """The frame with the longest accepted ghost text; None if none was accepted."""


class Screen:
    """Shows the demo: in a terminal the file while it is typed, elsewhere plain lines."""

    def __init__(self, console: Console, tally: Tally, *, pace: float) -> None:
        """With a ``pace`` of 1 a reader can follow, with 0 nothing waits."""
        self.tally = tally
        self.moment: Frame | None = None
        """The frame with the longest ghost text that was accepted."""
        self._console = console
        self._pace = pace
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def status(self, what: str) -> None:
        """Show what the demo waits for."""
        if self._console.is_terminal:
            self._update(Text(f"{what} …", style="cyan"))
        else:
            self._print(f"{what} …")

    def progress(self, text: str) -> None:
        """Show how far the server has got; only in a terminal."""
        if text and self._console.is_terminal:
            self._update(Text(text, style="cyan"))

    async def show(self, frame: Frame) -> None:
        """Show a frame; one whose ghost text is about to be accepted stays longer."""
        if frame.n_taking and len(frame.ghost) > len(self.moment.ghost if self.moment else ""):
            self.moment = frame
        if self._console.is_terminal:
            n_above = max(4, min(MOST_LINES_ABOVE, self._console.height - LINES_BELOW - 5))
            self._update(Group(render_frame(frame, n_above), render_tally(self.tally)))
            seconds = SECONDS_PER_ACCEPT if frame.n_taking else SECONDS_PER_KEY
            await asyncio.sleep(self._pace * seconds)
        elif frame.n_taking:
            line = frame.before[frame.before.rfind("\n") + 1 :]
            self._print(f"{frame.path}: {line}[{frame.ghost[: frame.n_taking]}]")

    def finish(self, last: Frame) -> None:
        """Print the scene's end, which stays on the screen."""
        self.close()
        if self._console.is_terminal:
            self._console.print(render_frame(last, n_scene_lines(last)))
            return
        self._print(f"--- {last.path}, accepted ghost text in brackets")
        self._print(with_brackets(last))

    def close(self) -> None:
        """Remove the moving part from the screen; calling it again changes nothing."""
        self._live.stop()

    def _update(self, content: Group | Text) -> None:
        if not self._live.is_started:
            self._live.start()
        self._live.update(content, refresh=True)

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def with_brackets(frame: Frame) -> str:
    """Return the scene's text with accepted ghost text in brackets."""
    parts: list[str] = []
    position = frame.before.rfind("\n", 0, frame.start) + 1
    for accepted_start, accepted_end in frame.accepted:
        parts.append(frame.before[position:accepted_start])
        parts.append(f"[{frame.before[accepted_start:accepted_end]}]")
        position = accepted_end
    parts.append(frame.before[position:])
    return "".join(parts).strip("\n")


def render_frame(frame: Frame, n_above: int) -> Panel:
    """Return ``n_above`` lines up to the cursor, the ghost text, and a few lines below."""
    first_line = max(0, frame.before.count("\n") + 1 - n_above)
    start = sum(len(line) + 1 for line in frame.before.split("\n")[:first_line])
    below = "\n".join(frame.after.split("\n")[: LINES_BELOW + 1]).rstrip("\n")
    shown = frame.before[start:] + below
    code = Syntax("", "python", theme=THEME).highlight(shown)
    if len(code) > len(shown):  # highlight() adds a line end where there is none
        code.right_crop(len(code) - len(shown))
    for accepted_start, accepted_end in frame.accepted:
        if accepted_end > start:
            code.stylize(ACCEPTED_STYLE, max(0, accepted_start - start), accepted_end - start)
    above, rest = code.divide([len(frame.before) - start])
    above.append(CURSOR, style="bold")
    above.append(frame.ghost, style=GHOST_STYLE)
    above.append(rest)
    return Panel(
        _numbered(above, first_line),
        title=frame.path,
        title_align="left",
        subtitle=_subtitle(frame),
    )


def render_tally(tally: Tally) -> Text:
    """Return the line below the file: keys, accepted suggestions, the last answer's time."""
    return Text(
        f"{tally.n_keys} keys typed, {tally.n_accepted} suggestions accepted "
        f"({tally.n_chars_accepted} characters), {tally.n_shown} of {tally.n_requests} "
        f"requests gave ghost text, last answer {tally.ms_last_answer:.0f} ms",
        style="cyan",
    )


def n_scene_lines(frame: Frame) -> int:
    """Return how many lines show all that was typed, and some lines above."""
    return frame.before.count("\n", frame.start) + 1 + LINES_OF_CONTEXT


def _numbered(code: Text, first_line: int) -> Text:
    numbered = Text(no_wrap=True, overflow="ellipsis")
    for line_idx, line in enumerate(code.split("\n", allow_blank=True)):
        numbered.append(f"{first_line + line_idx + 1:>4}  ", style="bright_black")
        numbered.append(line)
        numbered.append("\n")
    numbered.right_crop(1)
    return numbered


def _subtitle(frame: Frame) -> str | None:
    if not frame.n_taking:
        return None
    return "Tab: accepted" if frame.n_taking == len(frame.ghost) else "its first lines: accepted"


def statistics_tables(stats: SessionStats) -> list[Table]:
    """Return the tables: drafters, session, time per stage."""
    drafters = _table(
        "Drafters",
        "drafter",
        "drafts",
        "drafted tokens",
        "accepted tokens",
        "acceptance rate",
        "mean acceptance length",
    )
    for name, drafter in stats.totals.drafters.items():
        drafters.add_row(
            name,
            str(drafter.n_drafts),
            str(drafter.n_drafted),
            str(drafter.n_accepted),
            f"{drafter.acceptance_rate:.0%}",
            f"{drafter.mean_acceptance_length:.2f}",
        )
    stages = _table("Milliseconds per request", "stage", "p50", "p95", "requests")
    for stage, latency in stats.latency.items():
        stages.add_row(stage, f"{latency.p50:.1f}", f"{latency.p95:.1f}", str(latency.n))
    return [drafters, _session_table(stats), stages]


def _session_table(stats: SessionStats) -> Table:
    totals = stats.totals
    n_reused = totals.n_prompt - totals.n_prompt_evaluated
    share = n_reused / totals.n_prompt if totals.n_prompt else 0.0
    layers = ", ".join(f"{n} on {device}" for device, n in stats.layers.items())
    rows = {
        "model": stats.model + (f", layers: {layers}" if layers else ""),
        "draft model": stats.draft_model or "none",
        "tokens per target pass": (
            f"{tokens_per_pass(totals):.2f} "
            f"({totals.n_predicted} tokens, {totals.n_target_passes} passes)"
        ),
        "draft tokens accepted": f"{totals.n_accepted} of {totals.n_drafted}",
        "speed-up, measured": _times(measured_speedup(totals)),
        "prompt tokens": (
            f"{totals.n_prompt_evaluated} evaluated, {n_reused} reused ({share:.0%})"
        ),
        "requests": (
            f"{stats.n_requests}, {stats.n_completions} with text, "
            f"{stats.n_accepted_items} accepted ({stats.n_chars_accepted} characters)"
        ),
    }
    table = Table("what", "figure", show_header=False, **_STYLE)
    table.title = "Session"
    for what, figure in rows.items():
        table.add_row(what, figure)
    return table


def _table(title: str, first: str, *numbers: str) -> Table:
    """Return an empty table with a column of names and columns of numbers."""
    table = Table(title=title, **_STYLE)
    table.add_column(first, no_wrap=True)
    for header in numbers:
        table.add_column(header, justify="right")
    return table


def _times(speedup: float | None) -> str:
    return "not measured" if speedup is None else f"{speedup:.2f}×"


def picture(result: DemoResult) -> str:
    """Return an SVG of what the terminal showed."""
    console = Console(record=True, width=PICTURE_WIDTH, file=io.StringIO(), force_terminal=True)
    if result.moment is not None:
        console.print(render_frame(result.moment, MOMENT_LINES))
    for end in result.ends[:1]:
        console.print(render_frame(end, n_scene_lines(end)))
    for table in statistics_tables(result.stats):
        console.print(table)
    svg = console.export_svg(title="speclsp demo", unique_id="speclsp-demo")
    # Pictures in a README may not load fonts from elsewhere; the browser's monospace font serves.
    # Some viewers drop the indentation unless they are told to keep spaces.
    return _WEB_FONTS.sub("", svg).replace("<svg ", '<svg xml:space="preserve" ', 1)
