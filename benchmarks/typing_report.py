"""Typed sessions as tables and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

from rich.table import Table

from benchmarks.typing_counts import STEPS, TypingCounts

AIM_LINE: Final = 2.0
AIM_ALL: Final = 12.0
AIM_MEMORY: Final = 0.95

_STEP_NAMES: Final = {
    "line": "within a line",
    "newline": "behind a new line",
    "jump": "behind a jump",
    "all": "all",
}
_SOURCE_NAMES: Final = {
    "model": "the model",
    "memory": "memory",
    "filter": "a filter",
    "all": "all",
}


def prompt_table(counts: Mapping[str, TypingCounts]) -> Table:
    """Return the prompt tokens evaluated per request that reached the model, by layout."""
    table = Table(
        title="Prompt tokens evaluated, of requests that reached the model", title_justify="left"
    )
    table.add_column("layout", no_wrap=True)
    table.add_column("request", no_wrap=True)
    for header in ("requests", "median", "mean", "p95", "p99", "most"):
        table.add_column(header, justify="right")
    for layout, one in counts.items():
        for step in (*STEPS, "all"):
            spread = one.evaluated[step]
            table.add_row(
                layout,
                _STEP_NAMES[step],
                str(spread.n),
                f"{spread.p50:.0f}",
                f"{spread.mean:.1f}",
                f"{spread.p95:.0f}",
                f"{spread.p99:.0f}",
                f"{spread.most:.0f}",
            )
        table.add_section()
    return table


def latency_table(counts: Mapping[str, TypingCounts]) -> Table:
    """Return the milliseconds from request to answer, by layout and by who answered."""
    table = Table(title="Milliseconds from request to answer", title_justify="left")
    table.add_column("layout", no_wrap=True)
    table.add_column("answered by", no_wrap=True)
    for header in ("requests", "p50", "p95", "p99"):
        table.add_column(header, justify="right")
    for layout, one in counts.items():
        for source, spread in one.ms.items():
            if spread.n:
                row = (f"{spread.p50:.1f}", f"{spread.p95:.1f}", f"{spread.p99:.1f}")
                table.add_row(layout, _SOURCE_NAMES[source], str(spread.n), *row)
        table.add_section()
    return table


def session_table(counts: Mapping[str, TypingCounts]) -> Table:
    """Return the sessions' sums, one column per layout."""
    table = Table(title="The session", title_justify="left")
    table.add_column("", no_wrap=True)
    for layout in counts:
        table.add_column(layout, justify="right")
    rows: tuple[tuple[str, Callable[[TypingCounts], str]], ...] = (
        ("keys", lambda one: str(one.n_keys)),
        ("suggestions taken", lambda one: str(one.n_takes)),
        ("jumps", lambda one: str(one.n_jumps)),
        ("characters written", lambda one: str(one.n_chars)),
        ("characters saved", lambda one: _share(one.n_chars_saved, one.n_chars)),
        ("requests", lambda one: str(one.n_requests)),
        ("… with a suggestion", lambda one: _share(one.n_shown, one.n_requests)),
        ("… answered from memory", lambda one: _share(one.n_from_memory, one.n_requests)),
        ("… spared by a filter", lambda one: _share(one.n_filtered, one.n_requests)),
        (
            "keys that fit what was shown, from memory",
            lambda one: _share(one.n_fitting_from_memory, one.n_fitting),
        ),
        (
            "requests behind a take of all, from memory",
            lambda one: _share(one.n_after_taking_from_memory, one.n_after_taking),
        ),
        ("target passes", lambda one: str(one.n_target_passes)),
        ("tokens predicted", lambda one: str(one.n_predicted)),
        ("prompt tokens evaluated", lambda one: str(one.n_evaluated)),
        ("… in idle time, beside these", lambda one: str(one.n_idle_evaluated)),
        ("… ahead of a take, beside these", lambda one: str(one.n_prefetch_evaluated)),
        ("… all three, per character", lambda one: f"{one.evaluated_per_char:.1f}"),
        ("tokens predicted ahead of a take", lambda one: str(one.n_prefetch_predicted)),
    )
    for name, value in rows:
        table.add_row(name, *(value(one) for one in counts.values()))
    return table


def typing_aims(counts: TypingCounts) -> list[str]:
    """Return what a keystroke is held to, and whether it gets there."""
    line, all_ = counts.evaluated["line"].p50, counts.evaluated["all"].mean
    share = counts.memory_share
    rows = (
        (
            "prompt tokens within a line, median",
            f"{line:.0f}",
            f"≤ {AIM_LINE:.0f}",
            line <= AIM_LINE,
        ),
        ("prompt tokens of all requests, mean", f"{all_:.1f}", f"≤ {AIM_ALL:.0f}", all_ <= AIM_ALL),
        (
            "keys that fit what was shown, from memory",
            f"{100 * share:.1f} %",
            f"≥ {100 * AIM_MEMORY:.0f} %",
            share >= AIM_MEMORY,
        ),
    )
    return [
        f"{name} = {value} (aim {aim}: {'reached' if reached else 'missed'})"
        for name, value, aim, reached in rows
    ]


def typing_object(options: dict[str, Any], counts: Mapping[str, TypingCounts]) -> dict[str, Any]:
    """Return everything as plain data for JSON."""
    return {
        "options": options,
        "layouts": {
            layout: {
                **dataclasses.asdict(one),
                "memory_share": one.memory_share,
                "evaluated_per_char": one.evaluated_per_char,
            }
            for layout, one in counts.items()
        },
    }


def _share(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.1f} %)" if whole else "0"
