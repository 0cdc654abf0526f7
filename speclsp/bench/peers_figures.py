"""From rounds to figures: each column's value by round, its median, who is best, and ratios."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from speclsp.bench.host_share import host_ms_per_step
from speclsp.bench.peers_decoding import Decoded
from speclsp.bench.peers_typing import TypedRound
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
        """Take it from the rounds' values; None where there are none."""
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
        """Whether it may be best of something."""
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
    """Take each column of each round."""
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


def best_of(column: Column[_Round], sides: Sequence[Figures]) -> Figures | None:
    """Return the first one whose median is best; None where none has the column."""
    having = _having(column.name, sides)
    if not having:
        return None
    choose = max if column.better == "most" else min
    best, _ = choose(having, key=lambda pair: pair[1])
    return best


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


# --- a typed session --------------------------------------------------------------------------


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


# --- decoding alone ---------------------------------------------------------------------------


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
    """Return the tokens behind the prompt's last pass by the time behind it."""
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
