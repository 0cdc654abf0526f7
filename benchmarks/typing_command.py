"""``python -m benchmarks typing``: what keystrokes cost, over a session of real edits."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from benchmarks.asking import Asker
from benchmarks.baseline import LAYOUTS
from benchmarks.cases import EditCase, drawn_cases, load_cases
from benchmarks.cases_command import CASES, REPLAY_SEED
from benchmarks.cost_true_remarks import print_remarks
from benchmarks.local_asker import local_asker
from benchmarks.server_asker import server_asker
from benchmarks.typing_counts import TypingCounts, count_typing
from benchmarks.typing_report import (
    latency_table,
    prompt_table,
    session_table,
    typing_aims,
    typing_object,
)
from benchmarks.typing_session import replay_typing
from speclsp import settings
from speclsp.cli.options import OutputFile, SettingsCommand, given_options, write_text


@click.command("typing", cls=SettingsCommand)
@CASES
@click.option(
    "--n-cases", type=click.IntRange(min=1), default=40, show_default=True,
    help="So many of the cases, drawn evenly.",
)  # fmt: skip
@REPLAY_SEED
@click.option(
    "--compare/--no-compare", default=True, show_default=True,
    help="Replay with the other layouts of the prompt, too.",
)  # fmt: skip
@click.option(
    "--pauses/--no-pauses", default=True, show_default=True,
    help="Let idle work end between two keys, as it does at a human's speed.",
)  # fmt: skip
@click.option(
    "--server/--no-server", "through_server", default=False, show_default=True,
    help="Type into a server process over stdio, as an editor does.",
)  # fmt: skip
@click.option(
    "--json", "json_path", type=OutputFile(),
    help="Write the figures there.",
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
    resolved = settings.resolve([given_options(options)]).settings
    cases = drawn_cases(load_cases(cases_path), n_cases, replay_seed)
    others = [layout for layout in LAYOUTS if layout != resolved.fim_layout] if compare else []
    counts: dict[str, TypingCounts] = {}
    console = Console()
    with Progress(console=console, transient=True) as progress:
        for layout in (resolved.fim_layout, *others):
            one = dataclasses.replace(resolved, fim_layout=layout)
            make = server_asker if through_server else local_asker
            with make(one, rests=pauses) as asker:
                counts[layout] = _typed(cases, asker, replay_seed, layout, progress)
    print_remarks(console, resolved)
    for table in (prompt_table(counts), latency_table(counts), session_table(counts)):
        console.print(table)
    for line in typing_aims(counts[resolved.fim_layout]):
        console.print(line, highlight=False)
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
    cases: list[EditCase], asker: Asker, seed: int, layout: str, progress: Progress
) -> TypingCounts:
    n_chars = sum(len(case.typed) for case in cases)
    task = progress.add_task(f"Typing, {layout}", total=n_chars)
    session = replay_typing(cases, asker, seed=seed, progress=lambda n: progress.advance(task, n))
    return count_typing(session, asker.statistics())
