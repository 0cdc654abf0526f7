"""A picture of a demo run: one moment of the typing, the first scene's end, the statistics."""

from __future__ import annotations

import io
import re

from rich.console import Console

from speclsp.cli.demo_run import DemoResult
from speclsp.cli.demo_screen import n_scene_lines, render_frame
from speclsp.cli.statistics_tables import statistics_tables

WIDTH = 96
MOMENT_LINES = 12
TITLE = "speclsp demo"

_WEB_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def picture(result: DemoResult) -> str:
    """Return an SVG of what the terminal showed."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    if result.moment is not None:
        console.print(render_frame(result.moment, MOMENT_LINES))
    for end in result.ends[:1]:
        console.print(render_frame(end, n_scene_lines(end)))
    for table in statistics_tables(result.stats):
        console.print(table)
    svg = console.export_svg(title=TITLE, unique_id="speclsp-demo")
    # Pictures in a README may not load fonts from elsewhere; the browser's monospace font serves.
    # Some viewers drop the indentation unless they are told to keep spaces.
    return _WEB_FONTS.sub("", svg).replace("<svg ", '<svg xml:space="preserve" ', 1)
