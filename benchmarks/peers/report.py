"""The columns of a comparison with peers, and its tables and remarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from benchmarks.decoding import TASKS, DecodePlace, Task
from benchmarks.figures import (
    Column,
    Figures,
    acceptance,
    figures_of,
    figures_table,
    ratio_table,
    side_named,
    tokens_per_pass,
    tokens_per_s,
)
from benchmarks.peers.own import OURS
from benchmarks.peers.typed_rounds import PeerRun, TypedRound
from benchmarks.tables import Table
from benchmarks.typing_session import TypingCounts


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


_RATIO_COLUMNS: Final = (
    "ms_p50", "ms_p95", "ms_p99", "evaluated", "tokens_per_pass", "tokens_per_s", "host_ms",
    "chars_saved", "resident_mib",
)  # fmt: skip
_NO_PLACES: Final[Mapping[Task, str]] = {
    "cases": "there are no cases",
    "edits": "no case has a project with a block of code that can be copied",
}


def typed_figures(runs: Sequence[PeerRun]) -> list[Figures]:
    """Return each side's figures of a typed session."""
    return [figures_of(run.name, TYPED_COLUMNS, run.rounds, run.why_not) for run in runs]


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
    return figures_table(title, TYPED_COLUMNS, sides)


def typed_ratio_table(title: str, sides: Sequence[Figures]) -> Table:
    """Return ours / theirs of a typed session, over the rounds."""
    shown = [column for column in TYPED_COLUMNS if column.name in _RATIO_COLUMNS]
    return ratio_table(title, shown, sides, side_named(sides, OURS))
