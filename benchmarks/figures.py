"""Figures of the sides of a benchmark: by round, over the rounds, and as ratios of two sides."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

import numpy as np

from benchmarks.tables import Table
from speclsp.seam.statistics import RequestStats

_Round = TypeVar("_Round")


@dataclass(frozen=True, slots=True)
class Column(Generic[_Round]):
    """One figure of a round; None where it cannot be had."""

    name: str
    """As JSON has it."""
    header: str
    value: Callable[[_Round], float | None]
    better: Literal["least", "most", ""] = ""
    """Which value is best; empty where neither is."""
    n_digits: int = 1

    def text(self, value: float | None) -> str:
        """Return a value as tables show it."""
        return "–" if value is None else f"{value:.{self.n_digits}f}"


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over the rounds."""

    median: float
    least: float
    most: float
    n: int
    """Of how many rounds."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """Compute it from the rounds' values; None if there are none."""
        if not values:
            return None
        return cls(statistics.median(values), min(values), max(values), len(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Mean and percentiles of ``n`` numbers; all 0 if there are none."""

    n: int = 0
    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    most: float = 0.0

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles:
        """Compute it from the numbers."""
        if not values:
            return cls()
        p50, p95, p99 = np.percentile(values, [50, 95, 99]).tolist()
        return cls(
            n=len(values), mean=float(np.mean(values)), p50=p50, p95=p95, p99=p99, most=max(values)
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """What a table shows of one side: each column's value of each round, by the column's name."""

    name: str
    by_round: Mapping[str, Sequence[float | None]]
    why_not: str = ""
    is_hypothetical: bool = False
    """Whether the text is not the model's own: it is best of nothing, since no other side can be
    told what to say."""

    @property
    def n_rounds(self) -> int:
        """How many rounds there were."""
        return max(map(len, self.by_round.values()), default=0)

    def spread(self, column: str) -> Spread | None:
        """Return a column over the rounds; None where no round has it."""
        return Spread.of([value for value in self.by_round.get(column, ()) if value is not None])

    def median(self, column: str) -> float | None:
        """Return a column's median over the rounds."""
        spread = self.spread(column)
        return None if spread is None else spread.median


def figures_of(
    name: str, columns: Sequence[Column[_Round]], rounds: Sequence[_Round], why_not: str = ""
) -> Figures:
    """Compute each column of each round."""
    by_round = {column.name: [column.value(one) for one in rounds] for column in columns}
    return Figures(name, {} if why_not else by_round, why_not)


def best_sides(column: Column[_Round], sides: Sequence[Figures]) -> set[str]:
    """Return the names of those whose median is best, as it is shown; nobody where none is.

    Those that are hypothetical are left out.
    """
    shown = {
        side.name: round(median, column.n_digits)
        for side, median in _having(column.name, sides)
        if not side.is_hypothetical
    }
    if not shown or not column.better:
        return set()
    best = min(shown.values()) if column.better == "least" else max(shown.values())
    return {name for name, value in shown.items() if value == best}


def side_named(sides: Sequence[Figures], name: str) -> Figures | None:
    """Return the side of this name; None where there is none, and where it did not run."""
    return next((side for side in sides if side.name == name and not side.why_not), None)


def _having(column: str, sides: Sequence[Figures]) -> list[tuple[Figures, float]]:
    """Return the sides that have a figure in a column, with its median."""
    pairs = [(side, side.median(column)) for side in sides]
    return [(side, median) for side, median in pairs if median is not None]


def ratios(ours: Figures, other: Figures, column: str) -> Spread | None:
    """Return ours / theirs, round by round; None where no round of both has the figure.

    Rounds in which either lacks it are left out, and so are those whose figure is 0 on their side;
    the spread's ``n`` is of how many rounds it is.
    """
    pairs = zip(ours.by_round.get(column, ()), other.by_round.get(column, ()), strict=False)
    found = [
        mine / theirs
        for mine, theirs in pairs
        if mine is not None and theirs is not None and theirs > 0.0
    ]
    return Spread.of([ratio for ratio in found if math.isfinite(ratio)])


BEST_MARK: Final = "*"
LEGEND: Final = f"{BEST_MARK} best of the column; medians over the rounds"
_HYPOTHETICAL: Final = "is not marked, since no other side can be told what to say"


def figures_table(
    title: str,
    columns: Sequence[Column[Any]],
    sides: Sequence[Figures],
    others: Mapping[str, Mapping[str, str]] | None = None,
) -> Table:
    """Return each side's medians, the best of each column marked.

    ``others`` are further columns, by header and side.
    """
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


def ratio_table(
    title: str, columns: Sequence[Column[Any]], sides: Sequence[Figures], ours: Figures | None
) -> Table:
    """Return ours / theirs for each of the other sides, over the rounds."""
    table = Table(
        title,
        ("", *(column.header for column in columns)),
        caption="median (least … most) of the rounds; n: of so many rounds only",
    )
    for side in sides:
        if ours is not None and side is not ours and not side.why_not:
            found = [ratios(ours, side, column.name) for column in columns]
            table.add(side.name, *(_ratio(spread, ours.n_rounds) for spread in found))
    return table


def _ratio(spread: Spread | None, n_rounds: int) -> str:
    if spread is None:
        return "–"
    if spread.n == 1 < n_rounds:
        return f"{spread.median:.2f} n=1"
    said = f"{spread.median:.2f} ({spread.least:.2f} … {spread.most:.2f})"
    return said if spread.n == n_rounds else f"{said} n={spread.n}"


def why_not_lines(sides: Sequence[Figures]) -> list[str]:
    """Return a line for each side that could not run."""
    return [f"{side.name} did not run: {side.why_not}" for side in sides if side.why_not]


def tokens_per_s(stats: RequestStats, *, n_requests: int) -> float | None:
    """Return the tokens after the prompt's last pass by the time after it."""
    n_first = max(stats.n_prefill_predicted, min(n_requests, stats.n_predicted))
    n_tokens = stats.n_predicted - n_first
    return 1000 * n_tokens / stats.ms_predict if stats.ms_predict > 0.0 and n_tokens else None


def tokens_per_pass(stats: RequestStats) -> float | None:
    """Return the tokens that a target pass gave."""
    return share(stats.n_predicted, stats.n_target_passes)


def drafted_per_pass(stats: RequestStats) -> float | None:
    """Return the draft tokens that a target pass verified."""
    return share(stats.n_drafted, stats.n_target_passes)


def acceptance(stats: RequestStats) -> float | None:
    """Return the per cent of the drafted tokens that were right; None where none were drafted."""
    accepted = share(stats.n_accepted, stats.n_drafted)
    return None if accepted is None else 100 * accepted


def host_ms_per_step(stats: RequestStats) -> float | None:
    """Return a step's milliseconds outside llama_decode; None where those within are unknown.

    A step is a target pass that gave tokens: its draft, choosing and scoring its tokens, stop
    rules, rolling back.  Time inside llama_decode is the target's and that of a draft model.
    The prompt's last pass is a step on every side: ``ms_predict`` begins behind the evaluation of
    the prompt, so that its draft and the choice of its tokens count, and evaluating it does not.
    """
    if not stats.n_decode_passes or stats.ms_decode <= 0.0:
        return None
    ms_native = stats.ms_decode + sum(one.ms_decode for one in stats.drafters.values())
    return (stats.ms_predict - ms_native) / stats.n_target_passes


def share(part: float, whole: float) -> float | None:
    """Return part / whole; None of nothing."""
    return part / whole if whole else None
