"""``python -m benchmarks drafters``: what drafts are worth on a project."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.charts import BarChart, svg
from benchmarks.drafter_replay import (
    N_DRAFT,
    CountSummary,
    DrafterCounts,
    DrafterTimes,
    TimedRun,
    count_drafters,
    summary,
    time_drafters,
)
from benchmarks.machine import print_remarks, remarks
from benchmarks.output_file import write_text
from benchmarks.progress import RunProgress
from benchmarks.replay_project import ReplayProject
from benchmarks.tables import Table
from speclsp import settings
from speclsp.cli.options import OutputFile, SettingsCommand, given_settings
from speclsp.drafting.teacher_forcing import ReplayCounts
from speclsp.engine.models import LlamaLoader, Tokenizer, Weights

_COUNT_HEADERS: Final = ("tokens/pass", "acceptance", "mean acceptance length")


def counts_table(results: Sequence[DrafterCounts]) -> Table:
    """Return the table of the replay without a model."""
    table = Table(
        f"The human's text replayed, {N_DRAFT} draft tokens per pass, passes free of cost",
        ("task", "drafter", *_COUNT_HEADERS, "passes with draft"),
        n_names=2,
    )
    for result in results:
        counts = result.counts
        table.add(
            result.task,
            result.drafter,
            *_count_columns(counts),
            f"{100 * counts.n_draft_passes / max(1, counts.n_passes):.0f} %",
        )
    return table


def _count_columns(counts: ReplayCounts) -> tuple[str, str, str]:
    return (
        f"{counts.tokens_per_pass:.3f}",
        f"{100 * counts.acceptance:.1f} %",
        f"{counts.mean_acceptance_length:.2f}",
    )


def summary_table(summary: CountSummary) -> Table:
    """Return how the merged tree does beside each drafter alone."""
    table = Table("Merged, beside the drafters alone", ("", "value"))
    table.add("merged tokens per pass", f"{summary.merged:.3f}")
    table.add("merged / best drafter alone", f"{summary.to_best_single:.3f}")
    table.add("merged / best of llama.cpp's", f"{summary.to_best_llama_cpp:.3f}")
    table.add("mean acceptance length in edits", f"{summary.edit_length:.3f}")
    return table


def times_table(run: TimedRun) -> Table:
    """Return the table of the real model's completions."""
    table = Table(
        f"The model's own output: T(1) = {run.single_pass_ms:.2f} ms, "
        f"{100 * run.loop_share:.0f} % of the completions end in a loop",
        ("drafter", *_COUNT_HEADERS, "speed-up", "least … most of the rounds", "p50 ms", "p95 ms"),
    )
    for times in run.drafters:
        speedups = times.speedups(run.off)
        table.add(
            times.drafter,
            *_count_columns(times.counts),
            f"{statistics.median(speedups):.3f}",
            f"{min(speedups):.2f} … {max(speedups):.2f}",
            f"{times.percentile(0.5):.1f}",
            f"{times.percentile(0.95):.1f}",
        )
    return table


def report_object(
    project: str,
    options: dict[str, Any],
    results: Sequence[DrafterCounts],
    summary: CountSummary,
    run: TimedRun | None,
) -> dict[str, Any]:
    """Return everything as plain data for JSON."""
    return {
        "project": project,
        "options": options,
        "counts": [
            {
                "task": result.task,
                "drafter": result.drafter,
                **_counts_object(result.counts),
                "n_accepted_by_source": result.counts.n_by_source,
            }
            for result in results
        ],
        "summary": {
            "merged": summary.merged,
            "to_best_single": summary.to_best_single,
            "to_best_llama_cpp": summary.to_best_llama_cpp,
            "edit_length": summary.edit_length,
        },
        "times": None
        if run is None
        else {
            "single_pass_ms": run.single_pass_ms,
            "loop_share": run.loop_share,
            "drafters": [_times_object(times, run) for times in run.drafters],
        },
    }


def chart(project: str, results: Sequence[DrafterCounts]) -> str:
    """Return the counts as an SVG."""
    gaps = {
        result.drafter: result.counts.tokens_per_pass for result in results if result.task == "gaps"
    }
    edits = {
        result.drafter: result.counts.tokens_per_pass
        for result in results
        if result.task == "edits"
    }
    names = sorted(gaps, key=lambda name: -gaps[name])
    bars = BarChart(
        f"Tokens per target pass in {project}: {N_DRAFT} draft tokens, human text",
        names,
        [
            ("lines taken out", [gaps[name] for name in names]),
            ("code edits", [edits.get(name, 0.0) for name in names]),
        ],
        reference=1.0,
    )
    return svg([bars])


def _times_object(times: DrafterTimes, run: TimedRun) -> dict[str, Any]:
    speedups = times.speedups(run.off)
    return {
        "drafter": times.drafter,
        **_counts_object(times.counts),
        "speedup": statistics.median(speedups),
        "speedup_by_round": speedups,
        "ms_p50": times.percentile(0.5),
        "ms_p95": times.percentile(0.95),
    }


def _counts_object(counts: ReplayCounts) -> dict[str, Any]:
    return {
        "tokens_per_pass": counts.tokens_per_pass,
        "acceptance": counts.acceptance,
        "mean_acceptance_length": counts.mean_acceptance_length,
        "n_tokens": counts.n_tokens,
        "n_passes": counts.n_passes,
        "n_draft_passes": counts.n_draft_passes,
        "n_drafted": counts.n_drafted,
        "n_accepted": counts.n_accepted,
    }


_PROJECT = click.argument(
    "project", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="PROJECT"
)
_CURSORS = click.option(
    "--cursors", "n_cursors", type=click.IntRange(min=1), default=40, show_default=True,
    help="Places per task.",
)  # fmt: skip
_SEED = click.option(
    "--replay-seed", type=int, default=0, show_default=True, help="Seed of the draw."
)


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
    help="Write the figures to a file.",
)  # fmt: skip
@click.option(
    "--svg", "svg_path", type=OutputFile(),
    help="Write a chart to a file.",
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
    resolved = given_settings(options)
    run: TimedRun | None = None
    with RunProgress() as progress:
        task = progress.add_task("Loading", total=None)

        def tell(what: str) -> None:
            progress.update(task, description=what, advance=1)

        loader = LlamaLoader(lambda _level, _line: None)
        tokenizer = loader.tokenizer(resolved)
        tell(f"Indexing {project}")
        replayed = ReplayProject(project, resolved, tokenizer.vocabulary.tokenize)
        results = list(
            count_drafters(
                replayed,
                resolved,
                tokenizer.vocabulary.tokenize,
                n_vocab=tokenizer.vocabulary.n_tokens,
                n_cursors=n_cursors,
                seed=replay_seed,
                progress=tell,
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
                    progress=tell,
                )
            finally:
                weights.close()
    print_remarks(resolved)
    click.echo(counts_table(results))
    click.echo(summary_table(figures))
    if run is not None:
        click.echo(times_table(run))
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


def _weights(loader: LlamaLoader, resolved: settings.Settings, tokenizer: Tokenizer) -> Weights:
    return loader.weights(resolved, tokenizer, lambda _share: True, lambda _level, _line: None)
