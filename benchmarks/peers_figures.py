"""From rounds to figures: each column's value by round, its median, who is best, and ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

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
