"""What a comparison with peers is held to, against the best llama-server of each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.peers.llama_server_peers import NAME as LLAMA_SERVER
from benchmarks.peers_columns import DECODE_COLUMNS, TYPED_COLUMNS
from benchmarks.peers_decoding import OURS_HUMAN
from benchmarks.peers_figures import (
    Column,
    Figures,
    Spread,
    best_of,
    ratios,
    side_named,
)
from benchmarks.peers_own import OURS, OURS_PLAIN
from benchmarks.peers_report import DecodedTask

_NOT_TYPED_TO: Final = " (kinds of speculation not typed to)"
_CUT_SHORT: Final = " (of what both wrote before one was cut short)"
_HYPOTHETICAL: Final = " (hypothetical: the human's text)"
HOST_MS: Final = 0.3
"""Most milliseconds of a step outside llama_decode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aims:
    """What ratios to the best llama-server are held to on one kind of machine."""

    most_p50: float
    most_p95: float | None
    least_decode: float
    least_edits: float | None
    """Tokens per second on edits, to llama-server without speculation."""
    least_speedup: float | None
    """Tokens per second to ours without speculation."""


ON_CPU: Final = Aims(
    most_p50=0.2, most_p95=0.5, least_decode=1.1, least_edits=1.5, least_speedup=None
)
ON_GPU: Final = Aims(
    most_p50=0.5, most_p95=None, least_decode=1.5, least_edits=None, least_speedup=2.0
)


def aim_lines(aims: Aims, typed: Sequence[Figures], decoded: Sequence[DecodedTask]) -> list[str]:
    """Return a line for each aim: what is reached, and against whom."""
    lines: list[str] = []
    kinds_typed_to = any(
        side.name.startswith(f"{LLAMA_SERVER} ") and not side.why_not for side in typed
    )
    for name, most in (("ms_p50", aims.most_p50), ("ms_p95", aims.most_p95)):
        if most is not None:
            what = f"key to answer, {name.removeprefix('ms_')}"
            found = _to_best(what, TYPED_COLUMNS, name, typed, most=most)
            lines += found if kinds_typed_to else [line + _NOT_TYPED_TO for line in found]
    for one in decoded:
        if one.task == "cases":
            what = "tokens per second, cases"
            lines += _to_best(
                what, DECODE_COLUMNS, "tokens_per_s", one.sides, least=aims.least_decode
            )
            lines += _pair("speed-up", one.sides, OURS, OURS_PLAIN, aims.least_speedup)
        else:
            plain = (LLAMA_SERVER, aims.least_edits)
            lines += _pair("tokens per second, edits", one.sides, OURS, *plain)
            said = _pair(
                "tokens per second, edits as the human wrote them", one.sides, OURS_HUMAN, *plain
            )
            lines += [line + _HYPOTHETICAL for line in said]
        lines += _host(one)
    return lines


def _to_best(
    what: str,
    columns: Sequence[Column[Any]],
    name: str,
    sides: Sequence[Figures],
    *,
    most: float | None = None,
    least: float | None = None,
) -> list[str]:
    """Compare ours with the best of llama-server's configurations by this column."""
    column = next(column for column in columns if column.name == name)
    servers = [side for side in sides if side.name.startswith(LLAMA_SERVER)]
    theirs = best_of(column, _compared(servers))
    ours = side_named(sides, OURS)
    if theirs is None or ours is None:
        return []
    spread = ratios(ours, theirs, name)
    what = f"{what}: {OURS} / {theirs.name}"
    lines = _line(what, spread, ours.n_rounds, most=most, least=least)
    return lines if theirs.pairs is None else [line + _CUT_SHORT for line in lines]


def _compared(servers: Sequence[Figures]) -> Sequence[Figures]:
    """Return those that were asked in most rounds and to the end, if there are any.

    The others have other medians for that alone; kinds that were left out behind the first round
    were slower in it.
    """
    n_rounds = max((side.n_rounds for side in servers), default=0)
    most = [side for side in servers if side.n_rounds == n_rounds]
    return [side for side in most if side.is_comparable] or most


def _pair(
    what: str, sides: Sequence[Figures], left: str, right: str, least: float | None
) -> list[str]:
    ours, theirs = side_named(sides, left), side_named(sides, right)
    if ours is None or theirs is None or least is None:
        return []
    spread = ratios(ours, theirs, "tokens_per_s")
    return _line(f"{what}: {left} / {right}", spread, ours.n_rounds, least=least)


def _host(decoded: DecodedTask) -> list[str]:
    ours = side_named(decoded.sides, OURS)
    median = ours.median("host_ms") if ours is not None else None
    if median is None:
        return []
    said = _verdict(median <= HOST_MS)
    return [f"host ms per step, {decoded.task}: {median:.2f} (aim ≤ {HOST_MS}: {said})"]


def _line(
    what: str,
    spread: Spread | None,
    n_rounds: int,
    *,
    most: float | None = None,
    least: float | None = None,
) -> list[str]:
    if spread is None:
        return []
    reached = spread.median <= most if most is not None else spread.median >= (least or 0.0)
    aim = f"≤ {most:g}" if most is not None else f"≥ {least:g}"
    rounds = f"{spread.least:.2f} … {spread.most:.2f}"
    if spread.n < n_rounds:
        rounds += f" of {spread.n} rounds"
    return [f"{what} = {spread.median:.2f} ({rounds}; aim {aim}: {_verdict(reached)})"]


def _verdict(reached: bool) -> str:
    return "reached" if reached else "missed"
