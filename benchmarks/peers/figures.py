"""From rounds to figures: each column's value by round, its median, who is best, and ratios."""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from benchmarks.peers.contract import host_ms_per_step
from benchmarks.peers.decoding import Decoded
from benchmarks.peers.llama_server import NAME as LLAMA_SERVER
from benchmarks.peers.own import OURS
from benchmarks.peers.typed_rounds import PeerRun, TypedRound, TypingPlan
from speclsp.decoding.session import summed
from speclsp.request import RequestStats

_Round = TypeVar("_Round")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[_Round]):
    """One figure of a round; None where it cannot be had."""

    name: str
    """As JSON has it."""
    header: str
    value: Callable[[_Round], float | None]
    better: Literal["least", "most", ""] = ""
    """Which value is best; empty where neither is."""
    n_digits: int = 1
    of_whole: bool = False
    """Whether it is of a whole session, and cannot be told of its beginning."""


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


@dataclass(frozen=True, slots=True)
class Figures:
    """What a table shows of one side: each column's value of each round, by the column's name."""

    name: str
    by_round: Mapping[str, Sequence[float | None]]
    why_not: str = ""
    is_hypothetical: bool = False
    """Whether the text is not the model's own: it is best of nothing, since no other side can be
    told what to say."""
    n_chars: Sequence[int] = ()
    """Characters that were written in each round; empty where nothing was typed."""
    is_partial: bool = False
    """Whether a session was cut short or a round left out: it is best of nothing, since others had
    more or other work."""
    pairs: Mapping[str, Sequence[tuple[float | None, float | None]]] | None = None
    """Ours and its own by column and round, over what both wrote; None where both wrote all."""

    @property
    def is_comparable(self) -> bool:
        """Whether it is marked where it is best."""
        return not self.is_hypothetical and not self.is_partial

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


def best_sides(
    column: Column[_Round], sides: Sequence[Figures], n_digits: int | None = None
) -> set[str]:
    """Return the names of those whose median is best, as it is shown; nobody where none is.

    Those that are hypothetical or of a part alone are left out.
    """
    digits = column.n_digits if n_digits is None else n_digits
    shown = {
        side.name: round(median, digits)
        for side, median in _having(column.name, sides)
        if side.is_comparable
    }
    if not shown or not column.better:
        return set()
    best = min(shown.values()) if column.better == "least" else max(shown.values())
    return {name for name, value in shown.items() if value == best}


def side_named(sides: Sequence[Figures], name: str) -> Figures | None:
    """Return the side of this name; None where there is none, and where it did not run."""
    return next((side for side in sides if side.name == name and not side.why_not), None)


def medians_in_all(column: str, tables: Sequence[Sequence[Figures]]) -> dict[str, Sequence[float]]:
    """Return a column's medians by side, one of each table, of those that all tables have."""
    found = [{side.name: median for side, median in _having(column, sides)} for sides in tables]
    names = found[0] if found else {}
    return {
        name: [medians[name] for medians in found]
        for name in names
        if all(name in medians for medians in found)
    }


def _having(column: str, sides: Sequence[Figures]) -> list[tuple[Figures, float]]:
    """Return the sides that have a figure in a column, with its median."""
    pairs = [(side, side.median(column)) for side in sides]
    return [(side, median) for side, median in pairs if median is not None]


def ratios(ours: Figures, other: Figures, column: str) -> Spread | None:
    """Return ours / theirs, round by round; None where no round of both has the figure.

    Rounds in which either lacks it are left out, and so are those whose figure is 0 on their side;
    the spread's ``n`` is of how many rounds it is.  Where either was cut short, it is of what both
    wrote.
    """
    if other.pairs is not None:
        pairs = list(other.pairs.get(column, ()))
    else:
        theirs_by_round = other.by_round.get(column, ())
        pairs = list(zip(ours.by_round.get(column, ()), theirs_by_round, strict=False))
    found = [
        mine / theirs
        for mine, theirs in pairs
        if mine is not None and theirs is not None and theirs > 0.0
    ]
    return Spread.of([ratio for ratio in found if math.isfinite(ratio)])


def _ms(share: Literal["p50", "p95", "p99"]) -> Callable[[TypedRound], float | None]:
    return lambda one: getattr(one.counts.ms["all"], share)


TYPED_COLUMNS: Final[tuple[Column[TypedRound], ...]] = (
    Column(name="ms_p50", header="p50 ms", value=_ms("p50"), better="least"),
    Column(name="ms_p95", header="p95 ms", value=_ms("p95"), better="least"),
    Column(name="ms_p99", header="p99 ms", value=_ms("p99"), better="least"),
    Column(
        name="shown",
        header="shown %",
        value=lambda one: 100 * one.counts.n_shown / max(1, one.counts.n_requests),
        better="most",
        n_digits=0,
    ),
    Column(
        name="evaluated",
        header="prompt tokens",
        value=lambda one: one.counts.evaluated["all"].mean if _n_asked(one) else None,
        better="least",
    ),
    Column(
        name="evaluated_per_char",
        header="evaluated per char",
        value=lambda one: one.counts.evaluated_per_char,
        better="least",
        of_whole=True,
    ),
    Column(
        name="tokens_per_pass",
        header="tokens/pass",
        value=lambda one: tokens_per_pass(one.stats),
        better="most",
        n_digits=2,
    ),
    Column(
        name="acceptance",
        header="accepted %",
        value=lambda one: acceptance(one.stats),
        better="most",
    ),
    Column(
        name="tokens_per_s",
        header="tokens/s",
        value=lambda one: tokens_per_s(one.stats, n_requests=_n_asked(one)),
        better="most",
    ),
    Column(
        name="host_ms",
        header="host ms/step",
        value=lambda one: one.host_ms,
        better="least",
        n_digits=2,
        of_whole=True,
    ),
    Column(
        name="chars_saved",
        header="saved %",
        value=lambda one: 100 * one.counts.n_chars_saved / max(1, one.counts.n_chars),
        better="most",
    ),
    Column(
        name="resident_mib",
        header="MiB",
        value=lambda one: one.resident_mib,
        better="least",
        n_digits=0,
        of_whole=True,
    ),
)
"""Of a session; the first three are keystroke to answer."""


def _n_asked(one: TypedRound) -> int:
    return one.counts.evaluated["all"].n


def summed_stats(answers: Sequence[Decoded]) -> RequestStats:
    """Return the sums over a round's answers."""
    return functools.reduce(summed, (one.stats for one in answers), RequestStats())


DECODE_COLUMNS: Final[tuple[Column[Sequence[Decoded]], ...]] = (
    Column(
        name="tokens_per_s",
        header="tokens/s",
        value=lambda one: tokens_per_s(summed_stats(one), n_requests=len(one)),
        better="most",
    ),
    Column(
        name="tokens_per_pass",
        header="tokens/pass",
        value=lambda one: tokens_per_pass(summed_stats(one)),
        better="most",
        n_digits=2,
    ),
    Column(
        name="acceptance",
        header="accepted %",
        value=lambda one: acceptance(summed_stats(one)),
        better="most",
    ),
    Column(
        name="drafted",
        header="drafted/pass",
        value=lambda one: _share(summed_stats(one).n_drafted, summed_stats(one).n_target_passes),
        n_digits=2,
    ),
    Column(
        name="host_ms",
        header="host ms/step",
        value=lambda one: host_ms_per_step(summed_stats(one)),
        better="least",
        n_digits=2,
    ),
)


def tokens_per_s(stats: RequestStats, *, n_requests: int) -> float | None:
    """Return the tokens after the prompt's last pass by the time after it."""
    n_first = max(stats.n_prefill_predicted, min(n_requests, stats.n_predicted))
    n_tokens = stats.n_predicted - n_first
    return 1000 * n_tokens / stats.ms_predict if stats.ms_predict > 0.0 and n_tokens else None


def tokens_per_pass(stats: RequestStats) -> float | None:
    """Return the tokens that a target pass gave."""
    return _share(stats.n_predicted, stats.n_target_passes)


def acceptance(stats: RequestStats) -> float | None:
    """Return the per cent of the drafted tokens that were right; None where none were drafted."""
    share = _share(stats.n_accepted, stats.n_drafted)
    return None if share is None else 100 * share


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


_KIND: Final = f"{LLAMA_SERVER} "


def typed_figures(runs: Sequence[PeerRun]) -> list[Figures]:
    """Return each side's figures of a typed session.

    Where a side was cut short, it is compared with ours over what both wrote: behind more keys
    there are fewer requests for a whole prompt among all.
    """
    ours = next((run for run in runs if run.name == OURS and not run.why_not), None)
    n_rounds = max((len(run.rounds) for run in runs), default=0)
    return [
        dataclasses.replace(
            figures_of(run.name, TYPED_COLUMNS, run.rounds, run.why_not),
            n_chars=[one.session.n_chars for one in run.rounds],
            is_partial=not run.why_not and (_is_cut(run) or len(run.rounds) < n_rounds),
            pairs=_pairs(ours, run) if ours is not None and ours is not run else None,
        )
        for run in runs
    ]


def without_slower_kinds(runs: Sequence[PeerRun]) -> Collection[str]:
    """Return which sides go on behind the first round: all but llama-server's slower kinds.

    Of its kinds of speculation those stay whose p50 or p95 was the least.
    """
    kinds = [run for run in runs if run.name.startswith(_KIND) and run.rounds]
    whole = [run for run in kinds if not _is_cut(run)] or kinds
    names = {run.name for run in runs if not run.name.startswith(_KIND)}
    if whole:
        names.add(min(whole, key=lambda run: run.rounds[0].counts.ms["all"].p50).name)
        names.add(min(whole, key=lambda run: run.rounds[0].counts.ms["all"].p95).name)
    return names


def typing_lines(title: str, figures: Sequence[Figures], plan: TypingPlan) -> list[str]:
    """Return remarks about figures that are not of all rounds or all keys.

    ``title`` says which session it is, since there may be two.
    """
    lines: list[str] = []
    n_rounds, n_done = len(plan.rounds), max((side.n_rounds for side in figures), default=0)
    if n_done < n_rounds:
        lines.append(f"Typing, {title}, was cut short: {n_done} of {n_rounds} rounds are whole.")
    once = [side.name for side in figures if 0 < side.n_rounds < n_done]
    if once:
        lines.append(
            f"† Typed to, {title}, in the first round alone, where other kinds were faster: "
            f"{', '.join(once)}; their figures are of that round's cases."
        )
    for side in figures:
        written = list(zip(side.n_chars, plan.n_chars, strict=False))
        if any(n_chars < n_all for n_chars, n_all in written):
            said = ", ".join(f"{n_chars} of {n_all}" for n_chars, n_all in written)
            lines.append(
                f"† {side.name}, {title}, was cut short, since it took more than {plan.key_s:g} "
                f"seconds a key or {plan.longest_s:g} in all: its figures are of {said} "
                "characters in the rounds, its ratios of those that both wrote."
            )
    return lines


def _pairs(
    ours: PeerRun, other: PeerRun
) -> Mapping[str, Sequence[tuple[float | None, float | None]]] | None:
    if not _is_cut(ours) and not _is_cut(other):
        return None
    alike: list[tuple[TypedRound, TypedRound]] = []
    for mine, theirs in zip(ours.rounds, other.rounds, strict=False):
        n_chars = min(mine.session.n_chars, theirs.session.n_chars)
        alike.append((mine.until(n_chars), theirs.until(n_chars)))
    return {
        column.name: [(column.value(mine), column.value(theirs)) for mine, theirs in alike]
        for column in TYPED_COLUMNS
        if not column.of_whole
    }


def _is_cut(run: PeerRun) -> bool:
    return any(one.session.is_cut for one in run.rounds)
