"""``python -m benchmarks drafters`` and ``python -m benchmarks calibration``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.calibration_error import CalibrationError, measure_calibration
from benchmarks.cost_true_remarks import print_remarks, remarks
from benchmarks.drafter_counts import count_drafters, summary
from benchmarks.drafter_times import TimedRun, time_drafters
from benchmarks.drafters_report import (
    aims_lines,
    chart,
    counts_table,
    report_object,
    times_line,
    times_table,
)
from benchmarks.replay_project import ReplayProject
from speclsp import settings
from speclsp.cli.options import OutputFile, SettingsCommand, given_options, write_text
from speclsp.engine.models import LlamaLoader, Tokenizer, Weights

_PROJECT = click.argument(
    "project", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="PROJECT"
)
_CURSORS = click.option(
    "--cursors", "n_cursors", type=click.IntRange(min=1), default=40, show_default=True,
    help="Places per task.",
)  # fmt: skip
_SEED = click.option("--replay-seed", type=int, default=0, show_default=True, help="Draws them.")


@click.command(cls=SettingsCommand)
@_PROJECT
@_CURSORS
@_SEED
@click.option(
    "--rounds", "n_rounds", type=click.IntRange(min=0), default=5, show_default=True,
    help="Rounds with the real model; 0 for none.",
)  # fmt: skip
@click.option(
    "--completions", "n_completions", type=click.IntRange(min=1), default=8, show_default=True,
    help="Completions of a round.",
)  # fmt: skip
@click.option(
    "--json", "json_path", type=OutputFile(),
    help="Write the figures there.",
)  # fmt: skip
@click.option(
    "--svg", "svg_path", type=OutputFile(),
    help="Write a chart there.",
)  # fmt: skip
def drafters(
    project: Path,
    n_cursors: int,
    replay_seed: int,
    n_rounds: int,
    n_completions: int,
    json_path: Path | None,
    svg_path: Path | None,
    **options: Any,
) -> None:
    """Replay lines of PROJECT with every drafter, and with all of them merged."""
    resolved = settings.resolve([given_options(options)]).settings
    console = Console()
    run: TimedRun | None = None
    with console.status("Loading") as status:
        loader = LlamaLoader(lambda _level, _line: None)
        tokenizer = loader.tokenizer(resolved)
        status.update(f"Indexing {project}")
        replayed = ReplayProject(project, resolved, tokenizer.vocabulary.tokenize)
        results = list(
            count_drafters(
                replayed,
                resolved,
                tokenizer.vocabulary.tokenize,
                n_vocab=tokenizer.vocabulary.n_tokens,
                n_cursors=n_cursors,
                seed=replay_seed,
                progress=status.update,
            )
        )
        figures = summary(results)
        if n_rounds:
            weights = _weights(loader, resolved, tokenizer)
            try:
                run = time_drafters(
                    replayed,
                    resolved,
                    tokenizer,
                    weights,
                    n_cursors=n_completions,
                    n_rounds=n_rounds,
                    n_predict=min(resolved.n_predict, weights.target.n_ctx // 4),
                    seed=replay_seed,
                    progress=status.update,
                )
            finally:
                weights.close()
    print_remarks(console, resolved)
    console.print(counts_table(results))
    for line in aims_lines(figures):
        console.print(line, highlight=False)
    if run is not None:
        console.print(times_table(run))
        console.print(times_line(run), highlight=False)
    if json_path is not None:
        given = {
            "cursors": n_cursors,
            "seed": replay_seed,
            "rounds": n_rounds,
            "remarks": remarks(resolved),
        }
        report = report_object(replayed.name, given, results, figures, run)
        write_text(json_path, json.dumps(report, indent=2) + "\n")
    if svg_path is not None:
        write_text(svg_path, chart(replayed.name, results))


@click.command(cls=SettingsCommand)
@_PROJECT
@_CURSORS
@_SEED
def calibration(project: Path, n_cursors: int, replay_seed: int, **options: Any) -> None:
    """Measure how far the drafts' probabilities can be believed, on lines of PROJECT."""
    resolved = settings.resolve([given_options(options)]).settings
    tokenizer = LlamaLoader(lambda _level, _line: None).tokenizer(resolved)
    replayed = ReplayProject(project, resolved, tokenizer.vocabulary.tokenize)
    error = measure_calibration(
        replayed, resolved, tokenizer.vocabulary.tokenize, n_cursors=n_cursors, seed=replay_seed
    )
    console = Console()
    print_remarks(console, resolved)
    console.print(_bins_table(error))
    console.print(
        f"expected calibration error = {error.expected:.4f}, "
        f"of tokens with a probability of 0.1 and more {error.expected_of_drafted:.4f}",
        highlight=False,
    )


def _weights(loader: LlamaLoader, resolved: settings.Settings, tokenizer: Tokenizer) -> Weights:
    return loader.weights(resolved, tokenizer, lambda _share: True, lambda _level, _line: None)


def _bins_table(error: CalibrationError) -> Table:
    table = Table()
    for header in ("probability", "tokens", "said", "right"):
        table.add_column(header, justify="right")
    n_bins = len(error.bins)
    for idx, place in enumerate(error.bins):
        if place.n_tokens:
            table.add_row(
                f"{idx / n_bins:.1f} … {(idx + 1) / n_bins:.1f}",
                str(place.n_tokens),
                f"{place.said / place.n_tokens:.3f}",
                f"{place.n_right / place.n_tokens:.3f}",
            )
    return table
