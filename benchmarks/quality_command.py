"""``python -m benchmarks quality``: whether suggestions are right, beside a plain client's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import Progress

from benchmarks.baseline import baselines
from benchmarks.cases import EditCase, drawn_cases, load_cases
from benchmarks.cases_command import CASES, REPLAY_SEED
from benchmarks.cost_true_remarks import print_remarks
from benchmarks.local_asker import local_asker
from benchmarks.quality_replay import replay_quality
from benchmarks.quality_report import (
    QualityRun,
    compare,
    cost_table,
    defects_table,
    groups_table,
    quality_aims,
    quality_chart,
    quality_object,
    quality_table,
)
from speclsp import settings
from speclsp.cli.options import OutputFile, SettingsCommand, given_options, write_text

_OURS: Final = "speclsp"
_DEADLINE_MS: Final = 600_000
"""What is suggested shall not depend on how busy the machine is."""


@click.command("quality", cls=SettingsCommand)
@CASES
@click.option(
    "--n-cases", type=click.IntRange(min=1), default=80, show_default=True,
    help="So many of the cases, drawn evenly.",
)  # fmt: skip
@click.option(
    "--stride", type=click.IntRange(min=1), default=4, show_default=True,
    help="Ask at every so manieth key of a line.",
)  # fmt: skip
@REPLAY_SEED
@click.option(
    "--json", "json_path", type=OutputFile(),
    help="Write the figures and every suggestion there.",
)  # fmt: skip
@click.option(
    "--svg", "svg_path", type=OutputFile(),
    help="Write a chart there.",
)  # fmt: skip
def quality_command(
    cases_path: Path,
    n_cases: int,
    stride: int,
    replay_seed: int,
    json_path: Path | None,
    svg_path: Path | None,
    **options: Any,
) -> None:
    """Compare suggestions with what humans wrote in CASES, and with a plain client's."""
    given = given_options(options)
    resolved = settings.resolve([{"debounce_ms": 0}, given]).settings
    cases = drawn_cases(load_cases(cases_path), n_cases, replay_seed)
    ways = {_OURS: resolved, **baselines(resolved)}
    console = Console()
    with Progress(console=console, transient=True) as progress:
        ours, *others = [_run(name, cases, one, stride, progress) for name, one in ways.items()]
    compared = compare(ours, others, replay_seed)
    print_remarks(console, resolved)
    for make in (quality_table, groups_table, defects_table, cost_table):
        console.print(make(compared))
    for line in quality_aims(compared):
        console.print(line, highlight=False)
    if json_path is not None:
        said = {"cases": len(cases), "stride": stride, "seed": replay_seed}
        report = quality_object(said, compared)
        write_text(json_path, json.dumps(report, indent=1) + "\n")
    if svg_path is not None:
        title = f"Suggestions in {len(cases)} edits, in per cent"
        write_text(svg_path, quality_chart(title, compared))


def _run(
    name: str,
    cases: list[EditCase],
    resolved: settings.Settings,
    stride: int,
    progress: Progress,
) -> QualityRun:
    task = progress.add_task(name, total=len(cases))
    with local_asker(resolved, deadline_ms=_DEADLINE_MS) as asker:
        judged = replay_quality(
            cases, asker, stride=stride, progress=lambda: progress.advance(task)
        )
    return QualityRun(name=name, judged=judged)
