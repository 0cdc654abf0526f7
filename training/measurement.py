"""All figures of one pair of models, and how they are taken."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from training.corpus import SourceFile
from training.evaluate import (
    Completion,
    Layout,
    MeasuredModel,
    bits_per_byte,
    share_exact,
    share_looping,
)
from training.holdout import MEASURED, MEASURED_BEFORE
from training.probes import Probe, draw_probes

CONTEXTS = (640, 2048)
_LAYOUTS: tuple[Layout, ...] = ("plain", "anchored")
_N_TOLD = 60_000
"""Tokens by which bits per byte are measured, of each group and context."""

_N_SHOWN = 12


@dataclass(frozen=True, slots=True)
class LayoutFigures:
    """What a model answered in one layout: shares of its raw greedy answers."""

    exact_mid_line: float
    exact_line_start: float
    ended: float
    looping: float


@dataclass(frozen=True, slots=True)
class Shown:
    """One answer, to look at."""

    path: str
    typed: str
    expected: str
    text: str


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """All figures of one model."""

    file_name: str
    n_bytes: int
    bits_before: dict[str, float]
    """Bits per byte by context, on what the provisional models were not trained on either."""
    bits_since: dict[str, float]
    """The same on what is held out from now on."""
    layouts: dict[str, LayoutFigures]
    shown: tuple[Shown, ...]


def measure(
    path: Path, held_out: Sequence[SourceFile], *, n_probes: int, n_threads: int
) -> ModelFigures:
    """Take all figures of one GGUF."""
    before = [file for file in held_out if file.package in MEASURED_BEFORE]
    since = [file for file in held_out if file.package in MEASURED]
    probes = draw_probes([*before, *since], n_probes, seed=1)
    model = MeasuredModel(path, n_threads)
    try:
        bits = [
            {str(n): bits_per_byte(model, files, n, _N_TOLD) for n in CONTEXTS}
            for files in (before, since)
        ]
        answers = {layout: _answers(model, probes, layout) for layout in _LAYOUTS}
    finally:
        model.close()
    return ModelFigures(
        file_name=path.name,
        n_bytes=path.stat().st_size,
        bits_before=bits[0],
        bits_since=bits[1],
        layouts={layout: _figures(found) for layout, found in answers.items()},
        shown=tuple(_shown(answer) for answer in answers["anchored"][:_N_SHOWN]),
    )


def write_figures(figures: Sequence[ModelFigures], path: Path) -> None:
    """Write figures as JSON."""
    path.write_text(json.dumps([asdict(entry) for entry in figures], indent=1), encoding="utf-8")


def _answers(model: MeasuredModel, probes: Sequence[Probe], layout: Layout) -> list[Completion]:
    return [model.answer(probe, layout) for probe in probes]


def _figures(answers: Sequence[Completion]) -> LayoutFigures:
    return LayoutFigures(
        exact_mid_line=share_exact([a for a in answers if a.probe.kind == "mid-line"]),
        exact_line_start=share_exact([a for a in answers if a.probe.kind == "line start"]),
        ended=sum(answer.ended for answer in answers) / len(answers),
        looping=share_looping(answers),
    )


def _shown(answer: Completion) -> Shown:
    probe = answer.probe
    return Shown(probe.path, probe.typed, probe.expected, answer.text)
