"""``python -m benchmarks drafters``: what drafts are worth on a project."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.drafter_replay import (
    N_DRAFT,
    DrafterCounts,
    TimedRun,
    count_drafters,
    summary,
    time_drafters,
)
from benchmarks.machine import loaded_models, loaded_tokenizer
from benchmarks.progress import RunProgress
from benchmarks.replay_project import ReplayProject
from benchmarks.report import Report
from benchmarks.tables import Table
from speclsp.drafting.teacher_forcing import ReplayCounts
from speclsp.settings import Settings

_COUNT_HEADERS: Final = ("tokens/pass", "acceptance", "mean acceptance length")


def run(
    settings: Settings,
    *,
    project: Path,
    n_cursors: int,
    replay_seed: int,
    n_rounds: int,
    n_completions: int,
) -> Report:
    """Replay lines of a project with every drafter, and with all of them merged."""
    timed: TimedRun | None = None
    with RunProgress() as progress:
        task = progress.add_task(f"Indexing {project}", total=None)

        def tell(what: str) -> None:
            progress.update(task, description=what, advance=1)

        tokenizer = loaded_tokenizer(settings)
        replayed = ReplayProject(project, settings, tokenizer.vocabulary.tokenize)
        results = list(
            count_drafters(
                replayed,
                settings,
                tokenizer.vocabulary.tokenize,
                n_vocab=tokenizer.vocabulary.n_tokens,
                n_cursors=n_cursors,
                seed=replay_seed,
                progress=tell,
            )
        )
        if n_rounds:
            with loaded_models(settings) as (tokenizer, weights):
                timed = time_drafters(
                    replayed,
                    settings,
                    tokenizer,
                    weights,
                    n_cursors=n_completions,
                    n_rounds=n_rounds,
                    n_predict=min(settings.n_predict, weights.target.n_ctx // 4),
                    seed=replay_seed,
                    progress=tell,
                )
    merged = summary(results)
    tables = [counts_table(results), summary_table(merged)]
    if timed is not None:
        tables.append(times_table(timed))
    figures = {"project": replayed.name, "counts": results, "summary": merged, "times": timed}
    return Report(tables, figures)


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


def summary_table(found: Mapping[str, float]) -> Table:
    """Return how the merged tree does beside each drafter alone."""
    table = Table("Merged, beside the drafters alone", ("", "value"))
    for name, value in found.items():
        table.add(name, f"{value:.3f}")
    return table


def times_table(timed: TimedRun) -> Table:
    """Return the table of the real model's completions."""
    loops = f"{100 * timed.loop_share:.0f} % of the completions end in a loop"
    headers = ("drafter", *_COUNT_HEADERS, "speed-up", "least … most of the rounds")
    table = Table(f"The model's own output: {loops}", headers)
    for times in timed.drafters:
        speedups = times.speedups(timed.drafters[0])
        table.add(
            times.drafter,
            *_count_columns(times.counts),
            f"{statistics.median(speedups):.3f}",
            f"{min(speedups):.2f} … {max(speedups):.2f}",
        )
    return table
