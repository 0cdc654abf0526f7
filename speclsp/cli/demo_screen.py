"""Renders the demo: the file, ghost text, accepted text, the comparison; also as an SVG picture."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from speclsp.reporting.gain import tokens_per_pass
from speclsp.seam.documents import Ranges
from speclsp.seam.statistics import DrafterStats, RequestStats, SessionStats

THEME = "ansi_dark"
GHOST_STYLE = "italic bright_black"
DRAFTED_STYLE = "italic cyan"
ACCEPTED_STYLE = "on #14361f"
CURSOR = "▏"

SECONDS_PER_KEY = 0.02
SECONDS_PER_ACCEPT = 0.5
MOST_LINES_ABOVE = 16
LINES_BELOW = 3
LINES_OF_CONTEXT = 3

PICTURE_WIDTH = 96
MOMENT_LINES = 12

REMARK: Final = (
    "The demo verifies every draft (`mode` tree), since the embedded model decodes a token faster "
    "than it can be drafted. Compare the counts; docs/benchmarks has times of larger models."
)
_WEB_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The content of the screen: a file's text before and after the cursor, and ghost text."""

    path: str
    before: str
    after: str
    start: int
    """Where the scene's own text begins in ``before``."""
    ghost: str = ""
    drafted: Ranges = ()
    """Ranges of the ghost text that accepted draft tokens gave."""
    accepted: tuple[tuple[int, int], ...] = ()
    """Ranges of ``before`` that were ghost text."""
    n_taking: int = 0
    """Characters of the ghost text that are about to be accepted: all, or its first lines."""


class Screen:
    """Shows the demo: in a terminal the file while it is typed, elsewhere what was typed.

    With a ``pace`` of 1 a reader can follow, with 0 nothing waits.
    """

    def __init__(self, console: Console, *, pace: float) -> None:
        self.moment: Frame | None = None
        """The frame with the longest ghost text that was accepted."""
        self.ends: list[Frame] = []
        """The last frame of each scene that is kept on the screen."""
        self._console = console
        self._pace = pace
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def status(self, text: str) -> None:
        """Show what the demo waits for, in a terminal."""
        self._update(Text(text, style="cyan"))

    def show(self, frame: Frame) -> None:
        """Show a frame; one whose ghost text is about to be accepted stays longer."""
        if frame.n_taking and len(frame.ghost) > len(self.moment.ghost if self.moment else ""):
            self.moment = frame
        self._update(render_frame(frame, max(4, min(MOST_LINES_ABOVE, self._console.height - 8))))
        seconds = SECONDS_PER_ACCEPT if frame.n_taking else SECONDS_PER_KEY
        time.sleep(self._pace * seconds)

    def keep(self, last: Frame) -> None:
        """Print a scene's end, which stays on the screen."""
        self.ends.append(last)
        self.close()
        if self._console.is_terminal:
            self._console.print(render_frame(last, n_scene_lines(last)))
        else:
            text = f"--- {last.path}, accepted ghost text in brackets\n{with_brackets(last)}"
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Remove the moving part from the screen; calling it again changes nothing."""
        self._live.stop()

    def _update(self, content: Panel | Text) -> None:
        if self._console.is_terminal:
            self._live.start()
            self._live.update(content, refresh=True)


def with_brackets(frame: Frame) -> str:
    """Return the scene's text with accepted ghost text in brackets."""
    parts: list[str] = []
    position = frame.before.rfind("\n", 0, frame.start) + 1
    for start, end in frame.accepted:
        parts += [frame.before[position:start], f"[{frame.before[start:end]}]"]
        position = end
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
    taking = "Tab: accepted" if frame.n_taking == len(frame.ghost) else "its first lines: accepted"
    return Panel(
        _numbered(above, first_line),
        title=frame.path,
        title_align="left",
        subtitle=taking if frame.n_taking else None,
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


def comparison(stats: Mapping[bool, SessionStats]) -> Table:
    """Return what the typing cost, by whether speculation was on."""
    model = next(iter(stats.values())).model
    table = Table("", title=f"The same text typed with {model}", box=SIMPLE_HEAD)
    for is_on in stats:
        header = "with speculation" if is_on else "without speculation"
        table.add_column(header, justify="right", no_wrap=True)

    def add(row: str, figure: Callable[[RequestStats], object]) -> None:
        table.add_row(row, *(str(figure(one.totals)) for one in stats.values()))

    def drafted(name: str, totals: RequestStats) -> str:
        found = totals.drafters.get(name, DrafterStats())
        return f"{found.n_accepted} of {found.n_drafted}"

    add("tokens generated", lambda one: one.n_predicted)
    add("target passes", lambda one: one.n_target_passes)
    add("tokens per target pass", lambda one: f"{tokens_per_pass(one):.2f}")
    for name in dict.fromkeys(name for one in stats.values() for name in one.totals.drafters):
        add(f"draft tokens accepted, {name}", partial(drafted, name))
    add("prompt tokens evaluated", lambda one: one.n_prompt_evaluated)
    add("prompt tokens reused", lambda one: one.n_prompt - one.n_prompt_evaluated)
    accepted = (f"{one.n_accepted_items} of {one.n_shown}" for one in stats.values())
    table.add_row("suggestions accepted", *accepted)
    return table


def picture(moment: Frame | None, end: Frame, stats: Mapping[bool, SessionStats]) -> str:
    """Return an SVG of what the terminal showed: ghost text, a scene's end, the comparison."""
    console = Console(record=True, width=PICTURE_WIDTH, file=io.StringIO(), force_terminal=True)
    if moment is not None:
        console.print(render_frame(moment, MOMENT_LINES))
    console.print(render_frame(end, n_scene_lines(end)))
    console.print(comparison(stats))
    svg = console.export_svg(title="speclsp demo", unique_id="speclsp-demo")
    # Pictures in a README may not load fonts from elsewhere; the browser's monospace font serves.
    # Without this some viewers drop the indentation.
    return _WEB_FONTS.sub("", svg).replace("<svg ", '<svg xml:space="preserve" ', 1)
