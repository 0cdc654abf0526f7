"""``python -m benchmarks quality``: whether suggestions are right, beside a plain client's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, get_args

import click

from benchmarks.askers import local_asker
from benchmarks.cases import EditCase, drawn_cases, load_cases
from benchmarks.pace import measured_pace
from benchmarks.progress import RunProgress
from benchmarks.quality_scores import (
    SCORES,
    Estimate,
    JudgedCase,
    asked_places,
    comparison,
    defect_counts,
    estimates,
    replay_quality,
    score_sums,
    score_values,
)
from benchmarks.report import Report, printed_if_ended_early
from benchmarks.tables import Table
from speclsp.settings import FimLayout, Settings

SWITCHED_OFF: Final[dict[str, Any]] = {
    "healing": False,
    "speculation": False,
    "n_context": 0,
    "min_probability": 0.0,
    "suggestion_memory": False,
    "idle_work": "prompts",
    "automatic_filters": False,
    "debounce_ms": 0,
}
"""Settings of every baseline."""

LAYOUTS: Final[tuple[FimLayout, ...]] = get_args(FimLayout)


def baselines(settings: Settings) -> dict[str, Settings]:
    """Return the baselines' settings by name: one for each layout of the prompt."""
    return {
        f"{layout} baseline": replace(settings, **SWITCHED_OFF, fim_layout=layout)
        for layout in LAYOUTS
    }


_GROUPED: Final = ("saved", "exact", "defects")


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityRun:
    """One way of completing: its name and its judged cases."""

    name: str
    judged: list[JudgedCase]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Our way and the baselines, the best of them and how ours compares with it."""

    ours: QualityRun
    baselines: Sequence[QualityRun]
    baseline: QualityRun
    """The one that saves most characters."""
    scores: Mapping[str, Mapping[str, Estimate]]
    """By the run's name."""
    ratios: Mapping[str, Estimate]


def compare(ours: QualityRun, baselines: Sequence[QualityRun], seed: int) -> Comparison:
    """Score all runs over the same cases; ``seed`` draws the intervals."""
    sums = {run.name: score_sums(run.judged) for run in (ours, *baselines)}
    scores = {name: estimates(one, seed) for name, one in sums.items()}
    best = max(
        baselines,
        key=lambda run: (scores[run.name]["saved"].value, scores[run.name]["exact"].value),
    )
    return Comparison(
        ours=ours,
        baselines=baselines,
        baseline=best,
        scores=scores,
        ratios=comparison(sums[ours.name], sums[best.name], seed),
    )


def quality_table(compared: Comparison) -> Table:
    """Return the scores with their 95 % intervals, one column per run."""
    judged = compared.ours.judged
    n_places = sum(len(case.places) for case in judged)
    title = f"Suggestions at {n_places} places of {len(judged)} edits, 95 % intervals"
    ratio = f"{compared.ours.name} / {compared.baseline.name}"
    table = Table(title, ("", *compared.scores, ratio))
    for name, kind in SCORES.items():
        table.add(
            kind.label,
            *(_written(one[name], kind.factor) for one in compared.scores.values()),
            _written(compared.ratios[name], 1.0),
        )
    return table


def defects_table(compared: Comparison) -> Table:
    """Return how many suggestions had which defect."""
    runs = (compared.ours, *compared.baselines)
    table = Table("Suggestions with a defect", ("defect", *(run.name for run in runs)))
    counts = [defect_counts(run.judged) for run in runs]
    for kind in counts[0]:
        table.add(kind.replace("_", " "), *(str(one[kind]) for one in counts))
    return table


def groups_table(compared: Comparison) -> Table:
    """Return the scores of ours and the baseline apart by kind of edit and by language."""
    runs = (compared.ours, compared.baseline)
    scores = (f"{SCORES[score].label}: {run.name}" for score in _GROUPED for run in runs)
    table = Table("By kind of edit and by language", ("edits", "number", *scores))
    for field in ("kind", "language_id"):
        names = Counter(str(getattr(one.case, field)) for one in compared.ours.judged)
        for name, n_cases in names.most_common():
            parts = [
                score_values([one for one in run.judged if getattr(one.case, field) == name])
                for run in runs
            ]
            values = (SCORES[score].text(part[score]) for score in _GROUPED for part in parts)
            table.add(name or "–", str(n_cases), *values)
    return table


def _written(one: Estimate, factor: float) -> str:
    if math.isnan(one.value):
        return "–"
    return f"{factor * one.value:.2f} ({factor * one.low:.2f} … {factor * one.high:.2f})"


_OURS: Final = "speclsp"
_DEADLINE_MS: Final = 600_000
"""As with no latency budget: suggestions shall not depend on how busy the machine is."""


def run(
    settings: Settings, *, cases_path: Path, n_cases: int, stride: int, replay_seed: int
) -> Report:
    """Compare suggestions with what humans wrote, and with a plain client's."""
    cases = drawn_cases(load_cases(cases_path), n_cases, replay_seed)
    ways = {_OURS: settings, **baselines(settings)}
    click.echo(_bound(settings, cases, stride, len(ways)))
    runs = {name: QualityRun(name=name, judged=[]) for name in ways}
    with printed_if_ended_early(lambda: _tables(runs, replay_seed)):
        _judge_all(cases, ways, stride, runs)
    return Report(_tables(runs, replay_seed), quality_figures(_compared(runs, replay_seed)))


def _bound(settings: Settings, cases: Sequence[EditCase], stride: int, n_ways: int) -> str:
    n_places = sum(len(asked_places(case.typed, stride)) for case in cases)
    pace = measured_pace(settings).bound(n_ways * len(cases), n_ways * n_places)
    return f"{n_places} places of {len(cases)} edits, {n_ways} ways of completing: {pace}."


def _judge_all(
    cases: Sequence[EditCase],
    ways: Mapping[str, Settings],
    stride: int,
    runs: Mapping[str, QualityRun],
) -> None:
    """Replay each case in all ways, so that all of them have the same cases at any time."""
    with RunProgress() as progress, ExitStack() as stack:
        askers = {
            name: stack.enter_context(local_asker(replace(way, deadline_ms=_DEADLINE_MS)))
            for name, way in ways.items()
        }
        task = progress.add_task("Edits", total=len(cases))
        for case in cases:
            found = {
                name: replay_quality(case, asker, stride=stride) for name, asker in askers.items()
            }
            for name, judged in found.items():
                runs[name].judged.append(judged)
            progress.advance(task)


def _compared(runs: Mapping[str, QualityRun], seed: int) -> Comparison:
    ours, *others = runs.values()
    return compare(ours, others, seed)


def _tables(runs: Mapping[str, QualityRun], seed: int) -> list[Table | str]:
    """Return the tables of the cases that are done; none for none."""
    if not runs[_OURS].judged:
        return []
    compared = _compared(runs, seed)
    return [make(compared) for make in (quality_table, groups_table, defects_table)]


def quality_figures(compared: Comparison) -> dict[str, Any]:
    """Return everything as plain data, every judged place among it."""
    return {
        "baseline": compared.baseline.name,
        "scores": compared.scores,
        "ratios": compared.ratios,
        "runs": {
            run.name: {
                "defects": defect_counts(run.judged),
                "cases": [{"id": one.case.id, "places": one.places} for one in run.judged],
            }
            for run in (compared.ours, *compared.baselines)
        },
    }
