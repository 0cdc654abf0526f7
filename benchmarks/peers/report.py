"""The figures of a comparison with peers, as tables and as a chart."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from benchmarks.charts import BarChart, svg
from benchmarks.figures import (
    Column,
    Figures,
    Spread,
    acceptance,
    best_sides,
    drafted_per_pass,
    figures_of,
    host_ms_per_step,
    medians_in_all,
    ratios,
    side_named,
    tokens_per_pass,
    tokens_per_s,
)
from benchmarks.peers.decoding import Decoded, DecodePlace, DecodeRun, Task
from benchmarks.peers.own import OURS
from benchmarks.peers.typed_rounds import PeerRun, TypedRound
from benchmarks.tables import Table
from benchmarks.typing_session import TypingCounts
from speclsp.decoding.session import summed
from speclsp.request import RequestStats

Answers = Sequence[Decoded]


def _ms(quantile: Literal["p50", "p95", "p99"]) -> Callable[[TypedRound], float | None]:
    return lambda one: getattr(one.counts.ms["all"], quantile)


def _share_shown(counts: TypingCounts) -> float:
    return 100 * counts.n_shown / max(1, counts.n_requests)


def _share_saved(counts: TypingCounts) -> float:
    return 100 * counts.n_chars_saved / max(1, counts.n_chars)


def _evaluated(counts: TypingCounts) -> float | None:
    """Return the mean over the requests that reached the model."""
    return counts.evaluated["all"].mean if counts.evaluated["all"].n else None


def _typed_speed(one: TypedRound) -> float | None:
    return tokens_per_s(one.stats, n_requests=one.counts.evaluated["all"].n)


TYPED_COLUMNS: Final[tuple[Column[TypedRound], ...]] = (
    Column("ms_p50", "p50 ms", _ms("p50"), "least"),
    Column("ms_p95", "p95 ms", _ms("p95"), "least"),
    Column("ms_p99", "p99 ms", _ms("p99"), "least"),
    Column("shown", "shown %", lambda one: _share_shown(one.counts), "most", 0),
    Column("evaluated", "prompt tokens", lambda one: _evaluated(one.counts), "least"),
    Column(
        "evaluated_per_char",
        "evaluated per char",
        lambda one: one.counts.evaluated_per_char,
        "least",
    ),
    Column("tokens_per_pass", "tokens/pass", lambda one: tokens_per_pass(one.stats), "most", 2),
    Column("acceptance", "accepted %", lambda one: acceptance(one.stats), "most"),
    Column("tokens_per_s", "tokens/s", _typed_speed, "most"),
    Column("host_ms", "host ms/step", lambda one: one.host_ms, "least", 2),
    Column("chars_saved", "saved %", lambda one: _share_saved(one.counts), "most"),
    Column("resident_mib", "MiB", lambda one: one.resident_mib, "least", 0),
)
"""Of a session; the first three are keystroke to answer."""


def _of_sums(figure: Callable[[RequestStats], float | None]) -> Callable[[Answers], float | None]:
    """Return a figure of the sums over a round's answers."""
    return lambda answers: figure(_summed(answers))


def _summed(answers: Answers) -> RequestStats:
    return functools.reduce(summed, (one.stats for one in answers), RequestStats())


def _decode_speed(answers: Answers) -> float | None:
    return tokens_per_s(_summed(answers), n_requests=len(answers))


DECODE_COLUMNS: Final[tuple[Column[Answers], ...]] = (
    Column("tokens_per_s", "tokens/s", _decode_speed, "most"),
    Column("tokens_per_pass", "tokens/pass", _of_sums(tokens_per_pass), "most", 2),
    Column("acceptance", "accepted %", _of_sums(acceptance), "most"),
    Column("drafted", "drafted/pass", _of_sums(drafted_per_pass), "", 2),
    Column("host_ms", "host ms/step", _of_sums(host_ms_per_step), "least", 2),
)
"""Of a round's places."""

BEST_MARK: Final = "*"
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


def typed_figures(runs: Sequence[PeerRun]) -> list[Figures]:
    """Return each side's figures of a typed session."""
    return [figures_of(run.name, TYPED_COLUMNS, run.rounds, run.why_not) for run in runs]


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
    return _table(title, TYPED_COLUMNS, sides)


def decoded_table(decoded: DecodedTask) -> Table:
    """Return what each side's decoding came to, and how many texts are the same."""
    texts = {name: f"{count.n_same} of {count.n_all}" for name, count in decoded.texts.items()}
    return _table(
        f"Decoding alone {TASKS[decoded.task]}", DECODE_COLUMNS, decoded.sides, {"same text": texts}
    )


def _table(
    title: str,
    columns: Sequence[Column[Any]],
    sides: Sequence[Figures],
    others: Mapping[str, Mapping[str, str]] | None = None,
) -> Table:
    """Return a row for each side; ``others`` are further columns, by header and side."""
    others = others or {}
    apart = [f"{side.name} {_HYPOTHETICAL}" for side in sides if side.is_hypothetical]
    headers = ("", *(column.header for column in columns), *others)
    table = Table(title, headers, caption="; ".join([LEGEND, *apart]))
    best = {column.name: best_sides(column, sides) for column in columns}
    for side in sides:
        cells = [_cell(column, side, side.name in best[column.name]) for column in columns]
        table.add(side.name, *cells, *(cell.get(side.name, "–") for cell in others.values()))
    return table


def _cell(column: Column[Any], side: Figures, is_best: bool) -> str:
    said = column.text(side.median(column.name))
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
            table.add(side.name, *(_ratio(spread, ours.n_rounds) for spread in found))
    return table


def _ratio(spread: Spread | None, n_rounds: int) -> str:
    if spread is None:
        return "–"
    if spread.n == 1 < n_rounds:
        return f"{spread.median:.2f} n=1"
    said = f"{spread.median:.2f} ({spread.least:.2f} … {spread.most:.2f})"
    return said if spread.n == n_rounds else f"{said} n={spread.n}"


def comparison_chart(
    typed: Sequence[Figures], decoded: Sequence[DecodedTask], remarks: Sequence[str]
) -> str:
    """Return an SVG: what a keystroke waits, and how fast tokens come."""
    charts: list[BarChart] = []
    p50, p95 = (medians_in_all(column, [typed]) for column in ("ms_p50", "ms_p95"))
    if p50:
        waits = [("p50", [p50[name][0] for name in p50]), ("p95", [p95[name][0] for name in p50])]
        charts.append(BarChart("Milliseconds from key to answer", list(p50), waits))
    speeds = medians_in_all(
        "tokens_per_s",
        [[side for side in one.sides if not side.is_hypothetical] for one in decoded],
    )
    if speeds:
        series = [
            (TASKS[one.task], [medians[idx] for medians in speeds.values()])
            for idx, one in enumerate(decoded)
        ]
        charts.append(BarChart("Tokens per second, decoding", list(speeds), series))
    return svg(charts, remarks)
