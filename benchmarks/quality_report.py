"""The comparison of suggestions with the baseline's, as tables, as JSON and as a chart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.table import Table

from benchmarks.bar_chart import bar_chart
from benchmarks.defects import DefectKind
from benchmarks.quality_replay import JudgedCase
from benchmarks.quality_scores import (
    SCORES,
    Estimate,
    Score,
    comparison,
    defect_counts,
    estimates,
    score_sums,
    score_values,
)

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
_CHARTED: Final[tuple[Score, ...]] = ("saved", "exact", "defects")


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
    table = Table(
        title=f"Suggestions at {n_places} places of {len(judged)} edits, 95 % intervals",
        title_justify="left",
    )
    table.add_column("", no_wrap=True)
    for name in compared.scores:
        table.add_column(name, justify="right")
    table.add_column(f"{compared.ours.name} / {compared.baseline.name}", justify="right")
    for score in SCORES:
        table.add_row(
            _NAMES[score],
            *(_written(one[score], _factor(score)) for one in compared.scores.values()),
            _written(compared.ratios[score], 1.0),
        )
    return table


def defects_table(compared: Comparison) -> Table:
    """Return how many suggestions had which defect."""
    table = Table(title="Suggestions with a defect", title_justify="left")
    table.add_column("defect", no_wrap=True)
    counts: list[dict[DefectKind, int]] = []
    for run in (compared.ours, *compared.baselines):
        table.add_column(run.name, justify="right")
        counts.append(defect_counts(run.judged))
    for kind in counts[0]:
        table.add_row(kind.replace("_", " "), *(str(one[kind]) for one in counts))
    return table


def groups_table(compared: Comparison) -> Table:
    """Return the scores of ours and the baseline apart by kind of edit and by language."""
    table = Table(title="By kind of edit and by language", title_justify="left")
    table.add_column("edits", no_wrap=True)
    table.add_column("number", justify="right")
    runs = (compared.ours, compared.baseline)
    for score in _GROUPED:
        for run in runs:
            table.add_column(f"{_NAMES[score]}: {run.name}", justify="right")
    for field in ("kind", "language_id"):
        names = Counter(str(getattr(one.case, field)) for one in compared.ours.judged)
        for name, n_cases in names.most_common():
            parts = [
                score_values([one for one in run.judged if getattr(one.case, field) == name])
                for run in runs
            ]
            values = [_number(part[score], score) for score in _GROUPED for part in parts]
            table.add_row(name or "–", str(n_cases), *values)
        table.add_section()
    return table


def cost_table(compared: Comparison) -> Table:
    """Return what the runs' requests cost the model."""
    table = Table(title="What it took", title_justify="left")
    table.add_column("", no_wrap=True)
    rows: dict[str, list[str]] = {}
    for run in (compared.ours, *compared.baselines):
        table.add_column(run.name, justify="right")
        for name, value in _costs(run).items():
            rows.setdefault(name, []).append(f"{value:.2f}" if value < 10 else f"{value:.0f}")
    for name, values in rows.items():
        table.add_row(name, *values)
    return table


def quality_aims(compared: Comparison) -> list[str]:
    """Return what our way is held to against the baseline, and whether it gets there."""
    aims: tuple[tuple[Score, str, float, Callable[[float, float], bool]], ...] = (
        ("saved", "≥", 1.1, float.__ge__),
        ("exact", "≥", 1.1, float.__ge__),
        ("defects", "≤", 0.5, float.__le__),
        ("shown", "≥", 0.9, float.__ge__),
    )
    lines: list[str] = []
    for score, sign, aim, holds in aims:
        ratio = compared.ratios[score]
        reached = "reached" if holds(ratio.value, aim) else "missed"
        lines.append(
            f"{_NAMES[score].partition(',')[0]}: {_written(ratio, 1.0)} of "
            f"{compared.baseline.name} (aim {sign} {aim}: {reached})"
        )
    return lines


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
    return bar_chart(
        title,
        [_NAMES[score].partition(",")[0] for score in _CHARTED],
        [(name, [_charted(scores, score) for score in _CHARTED]) for name, scores in pairs],
        reference=0.0,
    )


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
