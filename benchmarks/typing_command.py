"""``python -m benchmarks typing``: what keystrokes cost, over a session of real edits."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.askers import Asker, local_asker, server_asker
from benchmarks.cases import EditCase, drawn_cases, load_cases
from benchmarks.cases_command import CASES, REPLAY_SEED
from benchmarks.machine import print_remarks
from benchmarks.output_file import write_text
from benchmarks.progress import RunProgress
from benchmarks.quality_command import LAYOUTS
from benchmarks.tables import Table
from benchmarks.typing_session import STEPS, TypingCounts, count_typing, replay_typing
from speclsp.cli.options import OutputFile, SettingsCommand, given_settings

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
        "Prompt tokens evaluated, of requests that reached the model",
        ("layout", "request", "requests", "median", "mean", "p95", "p99", "most"),
        n_names=2,
    )
    for layout, one in counts.items():
        for step in (*STEPS, "all"):
            spread = one.evaluated[step]
            table.add(
                layout,
                _STEP_NAMES[step],
                str(spread.n),
                f"{spread.p50:.0f}",
                f"{spread.mean:.1f}",
                f"{spread.p95:.0f}",
                f"{spread.p99:.0f}",
                f"{spread.most:.0f}",
            )
    return table


def latency_table(counts: Mapping[str, TypingCounts]) -> Table:
    """Return the milliseconds from request to answer, by layout and by who answered."""
    headers = ("layout", "answered by", "requests", "p50", "p95", "p99")
    table = Table("Milliseconds from request to answer", headers, n_names=2)
    for layout, one in counts.items():
        for source, spread in one.ms.items():
            if spread.n:
                row = (f"{spread.p50:.1f}", f"{spread.p95:.1f}", f"{spread.p99:.1f}")
                table.add(layout, _SOURCE_NAMES[source], str(spread.n), *row)
    return table


def session_table(counts: Mapping[str, TypingCounts]) -> Table:
    """Return the sessions' sums, one column per layout."""
    table = Table("The session", ("", *counts))
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
        table.add(name, *(value(one) for one in counts.values()))
    return table


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


@click.command("typing", cls=SettingsCommand)
@CASES
@click.option(
    "--n-cases", type=click.IntRange(min=1), default=40, show_default=True,
    help="Number of cases, drawn evenly.",
)  # fmt: skip
@REPLAY_SEED
@click.option(
    "--compare/--no-compare", default=True, show_default=True,
    help="Also replay with the other prompt layouts.",
)  # fmt: skip
@click.option(
    "--pauses/--no-pauses", default=True, show_default=True,
    help="Wait for idle work between two keys, as at a human's speed.",
)  # fmt: skip
@click.option(
    "--server/--no-server", "through_server", default=False, show_default=True,
    help="Type into a server process over stdio, as an editor does.",
)  # fmt: skip
@click.option(
    "--json", "json_path", type=OutputFile(),
    help="Write the figures to a file.",
)  # fmt: skip
def typing_command(
    cases_path: Path,
    n_cases: int,
    replay_seed: int,
    compare: bool,
    pauses: bool,
    through_server: bool,
    json_path: Path | None,
    **options: Any,
) -> None:
    """Type the edits of CASES, one request per key, and count what that costs."""
    resolved = given_settings(options)
    cases = drawn_cases(load_cases(cases_path), n_cases, replay_seed)
    others = [layout for layout in LAYOUTS if layout != resolved.fim_layout] if compare else []
    counts: dict[str, TypingCounts] = {}
    with RunProgress() as progress:
        for layout in (resolved.fim_layout, *others):
            one = dataclasses.replace(resolved, fim_layout=layout)
            make = server_asker if through_server else local_asker
            with make(one, rests=pauses) as asker:
                counts[layout] = _typed(cases, asker, replay_seed, layout, progress)
    print_remarks(resolved)
    for table in (prompt_table(counts), latency_table(counts), session_table(counts)):
        click.echo(table)
    if json_path is not None:
        given = {
            "cases": len(cases),
            "seed": replay_seed,
            "pauses": pauses,
            "server": through_server,
        }
        report = typing_object(given, counts)
        write_text(json_path, json.dumps(report, indent=2) + "\n")


def _typed(
    cases: list[EditCase], asker: Asker, seed: int, layout: str, progress: RunProgress
) -> TypingCounts:
    n_chars = sum(len(case.typed) for case in cases)
    task = progress.add_task(f"Typing, {layout}", total=n_chars)
    session = replay_typing(cases, asker, seed=seed, progress=lambda n: progress.advance(task, n))
    return count_typing(session, asker.statistics())
