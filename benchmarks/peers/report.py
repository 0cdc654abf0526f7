"""A comparison with peers as tables, as JSON and as a chart."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.charts import BarChart, svg
from benchmarks.peers.decoding import DecodePlace, DecodeRun, Task
from benchmarks.peers.figures import (
    DECODE_COLUMNS,
    TYPED_COLUMNS,
    Column,
    Figures,
    Spread,
    best_sides,
    figures_of,
    medians_in_all,
    ratios,
    side_named,
)
from benchmarks.peers.own import OURS
from benchmarks.tables import Table

BEST_MARK: Final = "*"
PARTIAL_MARK: Final = "†"
"""Behind the name of a side that was typed to less than others."""
LEGEND: Final = f"{BEST_MARK} best of the column; medians over the rounds"
_HYPOTHETICAL: Final = "is not marked, since no other side can be told what to say"

_RATIO_COLUMNS: Final = (
    "ms_p50", "ms_p95", "ms_p99", "evaluated", "tokens_per_pass", "tokens_per_s", "host_ms",
    "chars_saved", "resident_mib",
)  # fmt: skip
_DECODE_RATIO_COLUMNS: Final = ("tokens_per_s", "tokens_per_pass", "host_ms")
TASKS: Final[Mapping[Task, str]] = {
    "cases": "where an edit begins",
    "edits": "in a changed copy of a block",
}


_NO_PLACES: Final[Mapping[Task, str]] = {
    "cases": "there are no cases",
    "edits": "no case has a project with a block of code that can be copied",
}


@dataclass(frozen=True, slots=True)
class TextCount:
    """How many of a side's texts equal ours without speculation."""

    n_same: int
    n_all: int


@dataclass(frozen=True, slots=True)
class DecodedTask:
    """The figures of one kind of places."""

    task: Task
    sides: Sequence[Figures]
    texts: Mapping[str, TextCount]
    """By side; those that say another's text are left out."""


def decoded_figures(task: Task, runs: Sequence[DecodeRun]) -> DecodedTask:
    """Return each side's figures of decoding alone."""
    return DecodedTask(
        task=task,
        sides=[
            dataclasses.replace(
                figures_of(run.name, DECODE_COLUMNS, run.rounds, run.why_not),
                is_hypothetical=not run.says_own_text,
            )
            for run in runs
        ],
        texts={
            run.name: TextCount(
                n_same=sum(one.is_same for answers in run.rounds for one in answers),
                n_all=sum(len(answers) for answers in run.rounds),
            )
            for run in runs
            if run.says_own_text and not run.why_not
        },
    )


def place_lines(places: Mapping[Task, Sequence[DecodePlace]], n_places: int) -> list[str]:
    """Return which kinds of places are fewer than ``n_places``, the number that was asked for."""
    lines: list[str] = []
    for task, found in places.items():
        if not found:
            lines.append(f"Nothing is decoded {TASKS[task]}: {_NO_PLACES[task]}.")
        elif len(found) < n_places:
            what = f"Decoding {TASKS[task]} is at {len(found)} places instead of {n_places}"
            lines.append(f"{what}: there are no others.")
    return lines


def typed_table(title: str, sides: Sequence[Figures]) -> Table:
    """Return what each side's session came to; the best of each column is marked."""
    return _table(title, TYPED_COLUMNS, sides, {})


def decoded_table(decoded: DecodedTask) -> Table:
    """Return what each side's decoding came to, and how many texts are the same."""
    texts = {name: f"{count.n_same} of {count.n_all}" for name, count in decoded.texts.items()}
    title = f"Decoding alone {TASKS[decoded.task]}"
    return _table(title, DECODE_COLUMNS, decoded.sides, texts, extra="same text")


def _table(
    title: str,
    columns: Sequence[Column[Any]],
    sides: Sequence[Figures],
    last: Mapping[str, str],
    extra: str = "",
) -> Table:
    apart = [f"{side.name} {_HYPOTHETICAL}" for side in sides if side.is_hypothetical]
    headers = ("", *(column.header for column in columns), *([extra] if extra else []))
    table = Table(title, headers, caption="; ".join([LEGEND, *apart]))
    best = {column.name: best_sides(column, sides) for column in columns}
    for side in sides:
        cells = [_cell(column, side, side.name in best[column.name]) for column in columns]
        table.add(_label(side), *cells, *([last.get(side.name, "–")] if extra else []))
    return table


def _label(side: Figures) -> str:
    return f"{side.name} {PARTIAL_MARK}" if side.is_partial else side.name


def _cell(column: Column[Any], side: Figures, is_best: bool) -> str:
    median = side.median(column.name)
    if median is None:
        return "–"
    said = f"{median:.{column.n_digits}f}"
    return f"{said} {BEST_MARK}" if is_best else said


def why_not_lines(sides: Sequence[Figures]) -> list[str]:
    """Return a line for each side that could not run."""
    return [f"{side.name} did not run: {side.why_not}" for side in sides if side.why_not]


def typed_ratio_table(title: str, sides: Sequence[Figures]) -> Table:
    """Return ours / theirs of a typed session, over the rounds."""
    return _ratio_table(title, TYPED_COLUMNS, _RATIO_COLUMNS, sides)


def decoded_ratio_table(decoded: DecodedTask) -> Table:
    """Return ours / theirs of decoding, over the rounds."""
    title = f"{OURS} / the others, decoding {TASKS[decoded.task]}"
    return _ratio_table(title, DECODE_COLUMNS, _DECODE_RATIO_COLUMNS, decoded.sides)


def _ratio_table(
    title: str, columns: Sequence[Column[Any]], names: Sequence[str], sides: Sequence[Figures]
) -> Table:
    shown = [column for column in columns if column.name in names]
    table = Table(
        title,
        ("", *(column.header for column in shown)),
        caption="median (least … most) of the rounds; n: of so many rounds only",
    )
    ours = side_named(sides, OURS)
    for side in sides:
        if ours is not None and side is not ours and not side.why_not:
            found = [ratios(ours, side, column.name) for column in shown]
            table.add(_label(side), *(_ratio(spread, ours.n_rounds) for spread in found))
    return table


def _ratio(spread: Spread | None, n_rounds: int) -> str:
    if spread is None:
        return "–"
    if spread.n == 1 < n_rounds:
        return f"{spread.median:.2f} n=1"
    said = f"{spread.median:.2f} ({spread.least:.2f} … {spread.most:.2f})"
    return said if spread.n == n_rounds else f"{said} n={spread.n}"


def comparison_object(
    options: Mapping[str, Any],
    machine: Sequence[tuple[str, str]],
    remarks: Sequence[str],
    typed: Mapping[str, Sequence[Figures]],
    decoded: Sequence[DecodedTask],
) -> dict[str, Any]:
    """Return everything as plain data for JSON; ``typed`` are the sessions by name."""
    return {
        "options": dict(options),
        "machine": dict(machine),
        "remarks": list(remarks),
        "typed": {name: _sides_object(TYPED_COLUMNS, sides) for name, sides in typed.items()},
        "decoding": {
            one.task: {
                "sides": _sides_object(DECODE_COLUMNS, one.sides),
                "texts": {name: dataclasses.asdict(count) for name, count in one.texts.items()},
            }
            for one in decoded
        },
    }


def _sides_object(columns: Sequence[Column[Any]], sides: Sequence[Figures]) -> list[dict[str, Any]]:
    best = {column.name: best_sides(column, sides) for column in columns}
    ours = side_named(sides, OURS)
    return [
        {
            "name": side.name,
            "why_not": side.why_not,
            "is_hypothetical": side.is_hypothetical,
            "is_partial": side.is_partial,
            "chars_written": list(side.n_chars),
            "by_round": {name: list(values) for name, values in side.by_round.items()},
            "median": {column.name: side.median(column.name) for column in columns},
            "best_in": [column.name for column in columns if side.name in best[column.name]],
            "ours_to_this": {
                column.name: dataclasses.asdict(spread)
                for column in columns
                if ours is not None and (spread := ratios(ours, side, column.name)) is not None
            },
        }
        for side in sides
    ]


def comparison_chart(
    typed: Sequence[Figures], decoded: Sequence[DecodedTask], remarks: Sequence[str]
) -> str:
    """Return an SVG: what a keystroke waits, and how fast tokens come.

    Sides with partial figures are left out, since bars look comparable.
    """
    charts: list[BarChart] = []
    notes = [line for line in remarks if not line.startswith(PARTIAL_MARK)]
    whole = _comparable(typed)
    p50, p95 = (medians_in_all(column, [whole]) for column in ("ms_p50", "ms_p95"))
    if p50:
        waits = [("p50", [p50[name][0] for name in p50]), ("p95", [p95[name][0] for name in p50])]
        charts.append(BarChart("Milliseconds from key to answer", list(p50), waits))
    speeds = medians_in_all("tokens_per_s", [_comparable(one.sides) for one in decoded])
    if speeds:
        series = [
            (TASKS[one.task], [medians[idx] for medians in speeds.values()])
            for idx, one in enumerate(decoded)
        ]
        charts.append(BarChart("Tokens per second, decoding", list(speeds), series))
    return svg(charts, notes)


def _comparable(sides: Sequence[Figures]) -> list[Figures]:
    return [side for side in sides if side.is_comparable]
