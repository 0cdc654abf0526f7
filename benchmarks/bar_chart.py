"""A bar chart as SVG, without a library: bars, their names and values, and a line to compare."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

_ROW: Final = 26
_BAR: Final = 18
_LEFT: Final = 150
_LETTER: Final = 8
_NOTE: Final = 18
_NOTE_LETTERS: Final = 115
_WIDTH: Final = 760
_TOP: Final = 56
_HEIGHT: Final = re.compile(r'height="(\d+)"')
_COLOURS: Final = ("#4c78a8", "#f58518")


def bar_chart(
    title: str,
    names: Sequence[str],
    series: Sequence[tuple[str, Sequence[float]]],
    reference: float | None,
) -> str:
    """Return an SVG with a group of bars per name, one of each series (two at most).

    ``reference`` is where a line is drawn, None for none.
    """
    n_bars = len(series)
    left = max([_LEFT, *(_LETTER * len(name) + 16 for name in names)])
    group = _ROW * n_bars + 8
    height = _TOP + group * len(names) + 12
    most = max([reference or 0.0, *(value for _, values in series for value in values)])
    scale = (_WIDTH - left - 60) / (most or 1.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"',
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="22" font-size="16">{escape(title)}</text>',
    ]
    for idx, (label, _) in enumerate(series):
        x = left + 240 * idx
        parts.append(f'<rect x="{x}" y="32" width="12" height="12" fill="{_COLOURS[idx]}"/>')
        parts.append(f'<text x="{x + 18}" y="43">{escape(label)}</text>')
    for row, name in enumerate(names):
        top = _TOP + group * row
        middle = top + group / 2
        parts.append(f'<text x="{left - 8}" y="{middle}" text-anchor="end">{escape(name)}</text>')
        for idx, (_, values) in enumerate(series):
            y, width = top + _ROW * idx, scale * values[row]
            parts.append(
                f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{_BAR}" '
                f'fill="{_COLOURS[idx]}"/>'
            )
            parts.append(
                f'<text x="{left + width + 6:.1f}" y="{y + _BAR - 4}">{values[row]:.2f}</text>'
            )
    if reference is not None:
        line = left + scale * reference
        parts.append(
            f'<line x1="{line:.1f}" y1="{_TOP - 4}" x2="{line:.1f}" y2="{height - 8}" '
            'stroke="#888888" stroke-dasharray="4 3"/>'
        )
    return "\n".join([*parts, "</svg>", ""])


def stacked_charts(charts: Sequence[str], notes: Sequence[str] = ()) -> str:
    """Return one SVG with charts of :func:`bar_chart` below each other, and notes below them."""
    height = 0
    parts: list[str] = []
    for chart in charts:
        parts.append(chart.replace("<svg ", f'<svg y="{height}" ', 1))
        height += int(_HEIGHT.findall(chart)[0])
    lines = [line for note in notes for line in textwrap.wrap(note, _NOTE_LETTERS)]
    below = height + _NOTE * len(lines) + _NOTE
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{below}" '
        'font-family="sans-serif" font-size="12">'
    )
    background = f'<rect width="{_WIDTH}" height="{below}" fill="#ffffff"/>'
    texts = [
        f'<text x="12" y="{height + _NOTE * (idx + 1)}">{escape(line)}</text>'
        for idx, line in enumerate(lines)
    ]
    return "\n".join([head, background, *parts, *texts, "</svg>", ""])
