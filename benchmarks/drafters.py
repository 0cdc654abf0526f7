"""``python -m benchmarks drafters``: what drafts are worth on a project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.decoding import (
    DecodedTask,
    DecodePlace,
    Decoder,
    decode_all,
    decode_runs_of,
    decoded_figures,
    decoded_table,
    in_rounds,
)
from benchmarks.drafter_replay import (
    N_DRAFT,
    OFF,
    DrafterCounts,
    count_drafters,
    decode_choices,
    drafter_side,
    summary,
)
from benchmarks.figures import ratios, side_named, why_not_lines
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
    merged = summary(results)
    tables = [counts_table(results), summary_table(merged)]
    said: list[str] = []
    figures: dict[str, Any] = {"project": replayed.name, "counts": results, "summary": merged}
    if n_rounds:
        decoded = decode_with_drafters(replayed, settings, n_rounds, n_completions, replay_seed)
        figures["decoding"] = decoded
        tables.append(speed_table(decoded))
        said = why_not_lines(decoded.sides)
    return Report([*tables, *said], figures)


def decode_with_drafters(
    project: ReplayProject, settings: Settings, n_rounds: int, n_completions: int, seed: int
) -> DecodedTask:
    """Decode where lines were taken out with the real model, with each drafter and with none."""
    with RunProgress() as progress, loaded_models(settings) as (tokenizer, weights):
        decoder = Decoder(settings, tokenizer, weights)
        sides = [drafter_side(choice, decoder) for choice in decode_choices(settings, weights)]
        places = [
            DecodePlace(
                task="gaps",
                cursor=cursor,
                repo_name=project.name,
                corpora=(project.corpus_without(cursor),),
            )
            for cursor in project.gaps(n_rounds * n_completions, seed)
        ]
        task = progress.add_task("Decoding", total=len(sides) * len(places))
        runs = decode_runs_of(sides)
        decode_all(
            runs,
            sides,
            in_rounds(places, n_rounds),
            decoder.context,
            plain=OFF,
            n_predict=min(settings.n_predict, weights.target.n_ctx // 4),
            progress=lambda label: progress.update(task, description=label, advance=1),
        )
    return decoded_figures("gaps", runs)


def speed_table(decoded: DecodedTask) -> Table:
    """Return what decoding with each drafter came to, and how much faster than without it is."""
    off = side_named(decoded.sides, OFF)
    speedups: dict[str, str] = {}
    for side in decoded.sides:
        found = None if off is None else ratios(side, off, "tokens_per_s")
        if found is not None:
            speedups[side.name] = f"{found.median:.2f} ({found.least:.2f} … {found.most:.2f})"
    return decoded_table(decoded, {"speed-up (least … most of the rounds)": speedups})


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
