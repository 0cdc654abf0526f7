"""Renders the demo: the file, ghost text, accepted text, the comparison; also as an SVG picture."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from speclsp.cli.demo_typist import Frame, Tally
from speclsp.decoding.report import tokens_per_pass
from speclsp.request import DrafterStats, SessionStats

THEME = "ansi_dark"
GHOST_STYLE = "italic bright_black"
DRAFTED_STYLE = "italic cyan"
ACCEPTED_STYLE = "on #14361f"
CURSOR = "▏"

SECONDS_PER_KEY = 0.02
SECONDS_PER_ACCEPT = 0.7
MOST_LINES_ABOVE = 16
LINES_BELOW = 3
LINES_OF_CONTEXT = 3

PICTURE_WIDTH = 96
MOMENT_LINES = 12

REMARK: Final = (
    "`mode` is tree here, so that every draft is verified: a pass of the embedded model takes less "
    "time than a look-up, and only the counts mean something. docs/benchmarks has measured times "
    "of larger models."
)
_WEB_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """What a run ended with.

    ``moment`` is the frame with the longest accepted ghost text, None if none was accepted.
    """

    stats: dict[bool, SessionStats]
    """By whether speculation was on."""
    ends: tuple[Frame, ...]
    """Each scene's last frame."""
    moment: Frame | None


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
    ghost = Text(frame.ghost, style=GHOST_STYLE)
    for drafted_start, drafted_end in frame.drafted:
        ghost.stylize(DRAFTED_STYLE, drafted_start, drafted_end)
    above.append_text(ghost)
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


def comparison(stats: Mapping[bool, SessionStats]) -> Table:
    """Return what the typing cost without speculation and with it, as far as both were run."""
    table = Table("", box=SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.title = f"The same keys typed with {next(iter(stats.values())).model}"
    for is_on in stats:
        header = "with speculation" if is_on else "without speculation"
        table.add_column(header, justify="right", no_wrap=True)
    totals = [one.totals for one in stats.values()]
    table.add_row("tokens generated", *(str(one.n_predicted) for one in totals))
    table.add_row("target passes", *(str(one.n_target_passes) for one in totals))
    table.add_row("tokens per target pass", *(f"{tokens_per_pass(one):.2f}" for one in totals))
    for name in dict.fromkeys(name for one in totals for name in one.drafters):
        drafters = [one.drafters.get(name, DrafterStats()) for one in totals]
        counts = (f"{one.n_accepted} of {one.n_drafted}" for one in drafters)
        table.add_row(f"draft tokens accepted, {name}", *counts)
    table.add_row("prompt tokens evaluated", *(str(one.n_prompt_evaluated) for one in totals))
    reused = (str(one.n_prompt - one.n_prompt_evaluated) for one in totals)
    table.add_row("prompt tokens reused", *reused)
    accepted = (f"{one.n_accepted_items} of {one.n_shown}" for one in stats.values())
    table.add_row("suggestions accepted", *accepted)
    return table


def picture(result: DemoResult) -> str:
    """Return an SVG of what the terminal showed."""
    console = Console(record=True, width=PICTURE_WIDTH, file=io.StringIO(), force_terminal=True)
    if result.moment is not None:
        console.print(render_frame(result.moment, MOMENT_LINES))
    for end in result.ends[:1]:
        console.print(render_frame(end, n_scene_lines(end)))
    console.print(comparison(result.stats))
    svg = console.export_svg(title="speclsp demo", unique_id="speclsp-demo")
    # Pictures in a README may not load fonts from elsewhere; the browser's monospace font serves.
    # Some viewers drop the indentation unless they are told to keep spaces.
    return _WEB_FONTS.sub("", svg).replace("<svg ", '<svg xml:space="preserve" ', 1)
