"""The comparison of drafters as tables, as JSON and as a chart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final

from rich.table import Table

from benchmarks.bar_chart import bar_chart
from benchmarks.drafter_choices import MERGED
from benchmarks.drafter_counts import N_DRAFT, CountSummary, DrafterCounts
from benchmarks.drafter_times import DrafterTimes, TimedRun
from speclsp.drafting.teacher_forcing import ReplayCounts

AIM_MERGED: Final = 2.2
AIM_TO_SINGLE: Final = 1.08
AIM_TO_LLAMA_CPP: Final = 1.25
AIM_EDIT_LENGTH: Final = 4.6
AIM_TIMES: Final = 0.98
LEAST_SINGLE_PASS_MS: Final = 5.0
"""T(1) from which on the aim for times holds."""


def counts_table(results: Sequence[DrafterCounts]) -> Table:
    """Return the table of the replay without a model."""
    table = Table(
        title=f"The human's text replayed, {N_DRAFT} draft tokens per pass, passes free of cost",
        title_justify="left",
    )
    for header in ("task", "drafter"):
        table.add_column(header, no_wrap=True)
    for header in ("tokens/pass", "acceptance", "mean acc length", "passes with draft"):
        table.add_column(header, justify="right")
    for result in results:
        counts = result.counts
        table.add_row(
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


def aims_lines(summary: CountSummary) -> list[str]:
    """Return what the merged tree is held to, and whether it gets there."""
    rows = (
        ("merged tokens per pass", summary.merged, AIM_MERGED),
        ("merged / best drafter alone", summary.to_best_single, AIM_TO_SINGLE),
        ("merged / best of llama.cpp's", summary.to_best_llama_cpp, AIM_TO_LLAMA_CPP),
        ("mean acceptance length in edits", summary.edit_length, AIM_EDIT_LENGTH),
    )
    return [
        f"{name} = {value:.3f} (aim {aim}: {'reached' if value >= aim else 'missed'})"
        for name, value, aim in rows
    ]


def times_table(run: TimedRun) -> Table:
    """Return the table of the real model's completions."""
    table = Table(
        title=(
            f"The model's own output: T(1) = {run.single_pass_ms:.2f} ms, "
            f"{100 * run.loop_share:.0f} % of the completions end in a loop"
        ),
        title_justify="left",
    )
    table.add_column("drafter", no_wrap=True)
    for header in (
        "tokens/pass",
        "acceptance",
        "mean acc length",
        "speed-up",
        "least … most of the rounds",
        "p50 ms",
        "p95 ms",
    ):
        table.add_column(header, justify="right")
    for times in run.drafters:
        speedups = times.speedups(run.off)
        table.add_row(
            times.drafter,
            *_count_columns(times.counts),
            f"{statistics.median(speedups):.2f}",
            f"{min(speedups):.2f} … {max(speedups):.2f}",
            f"{times.percentile(0.5):.1f}",
            f"{times.percentile(0.95):.1f}",
        )
    return table


def times_line(run: TimedRun) -> str:
    """Return what ``mode = "auto"`` is held to, and whether it gets there."""
    auto = next(times for times in run.drafters if times.drafter == f"{MERGED} auto")
    speedup = statistics.median(auto.speedups(run.off))
    if run.single_pass_ms < LEAST_SINGLE_PASS_MS:
        verdict = f"aim {AIM_TIMES} where T(1) is at least {LEAST_SINGLE_PASS_MS:.0f} ms"
    else:
        verdict = f"aim {AIM_TIMES}: {'reached' if speedup >= AIM_TIMES else 'missed'}"
    return f"speed-up of {auto.drafter} = {speedup:.3f} ({verdict})"


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
    return bar_chart(
        f"Tokens per target pass in {project}: {N_DRAFT} draft tokens, human text",
        names,
        [
            ("lines taken out", [gaps[name] for name in names]),
            ("code edits", [edits.get(name, 0.0) for name in names]),
        ],
        reference=1.0,
    )


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
