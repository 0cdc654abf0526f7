"""``python -m benchmarks quality``: whether suggestions are right, beside a plain client's."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

import click

from benchmarks.askers import local_asker
from benchmarks.cases import EditCase, drawn_cases, load_cases
from benchmarks.cases_command import CASES, REPLAY_SEED
from benchmarks.charts import BarChart, svg
from benchmarks.machine import print_remarks
from benchmarks.output_file import write_text
from benchmarks.progress import RunProgress
from benchmarks.quality_scores import (
    SCORES,
    Estimate,
    JudgedCase,
    Score,
    comparison,
    defect_counts,
    estimates,
    replay_quality,
    score_sums,
    score_values,
)
from benchmarks.tables import Table
from speclsp import settings
from speclsp.cli.options import OutputFile, SettingsCommand, given_options
from speclsp.hub.choice import resolve_models
from speclsp.settings import FimLayout, Settings
from speclsp.settings_resolution import resolve

SWITCHED_OFF: Final[dict[str, Any]] = {
    "healing": False,
    "speculation": False,
    "n_context": 0,
    "min_confidence": 0.0,
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
        f"{layout} baseline": dataclasses.replace(settings, **SWITCHED_OFF, fim_layout=layout)
        for layout in LAYOUTS
    }


_NAMES: Final[Mapping[Score, str]] = {
    "exact": "first line exact, %",
    "exact_at_start": "… with nothing typed yet, %",
    "similarity": "edit similarity of what is shown",
    "saved": "characters saved, %",
    "defects": "with a defect, per 100 shown",
    "shown": "requests with a suggestion, %",
}
_IN_PERCENT: Final = frozenset[Score](("exact", "exact_at_start", "saved", "shown"))
_GROUPED: Final[tuple[Score, ...]] = ("saved", "exact", "defects")


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityRun:
    """One way of completing: its name and its judged cases."""

    name: str
    judged: Sequence[JudgedCase]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Our way and the baselines, the best of them and how ours compares with it."""

    ours: QualityRun
    baselines: Sequence[QualityRun]
    baseline: QualityRun
    """The one that saves most characters."""
    scores: Mapping[str, Mapping[Score, Estimate]]
    """By the run's name."""
    ratios: Mapping[Score, Estimate]


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
    for score in SCORES:
        table.add(
            _NAMES[score],
            *(_written(one[score], _factor(score)) for one in compared.scores.values()),
            _written(compared.ratios[score], 1.0),
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
    scores = (f"{_NAMES[score]}: {run.name}" for score in _GROUPED for run in runs)
    table = Table("By kind of edit and by language", ("edits", "number", *scores))
    for field in ("kind", "language_id"):
        names = Counter(str(getattr(one.case, field)) for one in compared.ours.judged)
        for name, n_cases in names.most_common():
            parts = [
                score_values([one for one in run.judged if getattr(one.case, field) == name])
                for run in runs
            ]
            values = [_number(part[score], score) for score in _GROUPED for part in parts]
            table.add(name or "–", str(n_cases), *values)
    return table


def cost_table(compared: Comparison) -> Table:
    """Return what the runs' requests cost the model."""
    runs = (compared.ours, *compared.baselines)
    table = Table("What it took", ("", *(run.name for run in runs)))
    costs = [_costs(run) for run in runs]
    for name in costs[0]:
        values = (one[name] for one in costs)
        table.add(name, *(f"{value:.2f}" if value < 10 else f"{value:.0f}" for value in values))
    return table


def quality_object(options: dict[str, Any], compared: Comparison) -> dict[str, Any]:
    """Return everything as plain data for JSON, every judged place among it."""
    return {
        "options": options,
        "baseline": compared.baseline.name,
        "scores": {name: _plain(scores) for name, scores in compared.scores.items()},
        "ratios": _plain(compared.ratios),
        "runs": {
            run.name: {
                "defects": defect_counts(run.judged),
                "costs": _costs(run),
                "cases": [_case_object(case) for case in run.judged],
            }
            for run in (compared.ours, *compared.baselines)
        },
    }


def quality_chart(title: str, compared: Comparison) -> str:
    """Return our way and the baseline as an SVG, in per cent."""
    pairs = [(run.name, compared.scores[run.name]) for run in (compared.ours, compared.baseline)]
    chart = BarChart(
        title,
        [_NAMES[score].partition(",")[0] for score in _GROUPED],
        [(name, [_charted(scores, score) for score in _GROUPED]) for name, scores in pairs],
    )
    return svg([chart])


def _charted(scores: Mapping[Score, Estimate], score: Score) -> float:
    value = scores[score].value * _factor(score)
    return 0.0 if math.isnan(value) else value


def _factor(score: Score) -> float:
    return 100.0 if score in _IN_PERCENT else 1.0


def _number(value: float, score: Score) -> str:
    return "–" if math.isnan(value) else f"{_factor(score) * value:.1f}"


def _costs(run: QualityRun) -> dict[str, float]:
    answers = [place.answer for case in run.judged for place in case.places]
    n = max(1, len(answers))
    reached = [answer for answer in answers if answer.source == "model"]
    return {
        "requests that reached the model": float(len(reached)),
        "prompt tokens evaluated per request": sum(a.stats.n_prompt_evaluated for a in answers) / n,
        "target passes per request": sum(a.stats.n_target_passes for a in answers) / n,
        "ms per request": sum(a.ms for a in answers) / n,
    }


def _case_object(judged: JudgedCase) -> dict[str, Any]:
    return {
        "id": judged.case.id,
        "kind": judged.case.kind,
        "language_id": judged.case.language_id,
        "places": [
            {
                "n_typed": place.n_typed,
                "text": place.answer.text,
                "n_replaced": place.answer.n_replaced,
                "source": place.answer.source,
                "exact": place.is_exact,
                "similarity": round(place.similarity, 4),
                "n_chars_saved": place.n_chars_saved,
                "defects": sorted(place.defects),
            }
            for place in judged.places
        ],
    }


def _plain(scores: Mapping[Score, Estimate]) -> dict[str, list[float | None]]:
    """Value, low and high by score; None where there is no number."""
    return {
        score: [None if math.isnan(number) else number for number in (one.value, one.low, one.high)]
        for score, one in scores.items()
    }


def _written(one: Estimate, factor: float) -> str:
    if math.isnan(one.value):
        return "–"
    return f"{factor * one.value:.2f} ({factor * one.low:.2f} … {factor * one.high:.2f})"


_OURS: Final = "speclsp"
_DEADLINE_MS: Final = 600_000
"""As with no latency budget: suggestions shall not depend on how busy the machine is."""


@click.command("quality", cls=SettingsCommand)
@CASES
@click.option(
    "--n-cases", type=click.IntRange(min=1), default=80, show_default=True,
    help="Number of cases, drawn evenly.",
)  # fmt: skip
@click.option(
    "--stride", type=click.IntRange(min=1), default=4, show_default=True,
    help="Keys of a line between two requests.",
)  # fmt: skip
@REPLAY_SEED
@click.option(
    "--json", "json_path", type=OutputFile(),
    help="Write the figures and every suggestion to a file.",
)  # fmt: skip
@click.option(
    "--svg", "svg_path", type=OutputFile(),
    help="Write a chart to a file.",
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
    resolved = resolve_models(resolve([{"debounce_ms": 0, "t_max_predict_ms": 0}, given]).settings)
    cases = drawn_cases(load_cases(cases_path), n_cases, replay_seed)
    ways = {_OURS: resolved, **baselines(resolved)}
    with RunProgress() as progress:
        ours, *others = [_run(name, cases, one, stride, progress) for name, one in ways.items()]
    compared = compare(ours, others, replay_seed)
    print_remarks(resolved)
    for make in (quality_table, groups_table, defects_table, cost_table):
        click.echo(make(compared))
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
    progress: RunProgress,
) -> QualityRun:
    task = progress.add_task(name, total=len(cases))
    with local_asker(resolved, deadline_ms=_DEADLINE_MS) as asker:
        judged = replay_quality(
            cases, asker, stride=stride, progress=lambda: progress.advance(task)
        )
    return QualityRun(name=name, judged=judged)
