"""Bar charts as SVG, drawn by matplotlib."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from speclsp.errors import SpecLspError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH: Final = 8.0
_ROW: Final = 0.25
_NOTE: Final = 0.18
_NOTE_LETTERS: Final = 110


@dataclass(frozen=True, slots=True)
class BarChart:
    """Groups of bars: a name for each group, and a value of it in each series."""

    title: str
    names: Sequence[str]
    series: Sequence[tuple[str, Sequence[float]]]

    @property
    def height(self) -> float:
        """Inches."""
        return _ROW * len(self.names) * (len(self.series) + 0.5) + 0.9


def svg(charts: Sequence[BarChart], notes: Sequence[str] = ()) -> str:
    """Return an SVG with the charts below each other, and notes below them.

    Raises :class:`~speclsp.errors.SpecLspError` where matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context  # noqa: PLC0415  # only charts need it
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise SpecLspError(
            "A chart needs the Python package matplotlib, which is not installed.",
            remedy="Install it: pip install -e '.[benchmarks]'.",
        ) from error
    lines = [line for note in notes for line in textwrap.wrap(note, _NOTE_LETTERS)]
    heights = [chart.height for chart in charts] + [_NOTE * len(lines) + 0.2]
    # Text stays text, and the same figures give the same file.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "speclsp"}):
        figure = Figure(figsize=(_WIDTH, sum(heights)), layout="constrained")
        axes = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        for chart, place in zip(charts, axes, strict=False):
            _draw(chart, place)
        axes[-1].axis("off")
        axes[-1].text(0, 1, "\n".join(lines), va="top", fontsize=8, transform=axes[-1].transAxes)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()


def _draw(chart: BarChart, axes: Axes) -> None:
    n_bars = len(chart.series)
    height = 0.8 / n_bars
    for idx, (label, values) in enumerate(chart.series):
        places = [row + (idx - (n_bars - 1) / 2) * height for row in range(len(chart.names))]
        bars = axes.barh(places, values, height, label=label)
        axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axes.set_yticks(range(len(chart.names)), chart.names, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(chart.title, loc="left", fontsize=10)
    if n_bars > 1:
        axes.legend(fontsize=8, frameon=False)
