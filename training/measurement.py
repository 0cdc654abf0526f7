"""All figures of one pair of models, and how they are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from training.corpus import SourceFile
from training.evaluate import Completion, Cursor, Layout, MeasuredModel, bits_per_byte
from training.holdout import MEASURED, MEASURED_BEFORE
from training.probes import draw_probes
from training.scores import repeats_a_line

CONTEXTS = (640, 2048)
WAYS: tuple[tuple[Layout, Cursor], ...] = (
    ("plain", "as it is"),
    ("plain", "healed"),
    ("anchored", "as it is"),
    ("anchored", "healed"),
)
"""In this order a probe's prompts share most with the one before."""
_N_TOLD = 60_000
"""Tokens by which bits per byte are measured, of each group and context."""

_N_SHOWN = 12


@dataclass(frozen=True, slots=True)
class AnswerFigures:
    """What a model answered in one way of asking: shares of its raw greedy answers."""

    layout: Layout
    cursor: Cursor

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
    answers: tuple[AnswerFigures, ...]
    """Empty where the model was not asked."""
    shown: tuple[Shown, ...]


def measure(
    path: Path, held_out: Sequence[SourceFile], *, n_probes: int, n_threads: int
) -> ModelFigures:
    """Take all figures of one GGUF; with no probes, bits per byte alone."""
    before = [file for file in held_out if file.package in MEASURED_BEFORE]
    since = [file for file in held_out if file.package in MEASURED]
    probes = draw_probes([*before, *since], n_probes, seed=1)
    found: dict[tuple[Layout, Cursor], list[Completion]] = {way: [] for way in WAYS}
    model = MeasuredModel(path, n_threads)
    try:
        bits = [
            {str(n): bits_per_byte(model, files, n, _N_TOLD) for n in CONTEXTS}
            for files in (before, since)
        ]
        for probe in probes:
            for layout, cursor in WAYS:
                found[layout, cursor].append(model.answer(probe, layout, cursor))
    finally:
        model.close()
    return ModelFigures(
        file_name=path.name,
        n_bytes=path.stat().st_size,
        bits_before=bits[0],
        bits_since=bits[1],
        answers=tuple(_figures(way, answers) for way, answers in found.items() if answers),
        shown=tuple(_shown(answer) for answer in found["anchored", "healed"][:_N_SHOWN]),
    )


def measured_once(
    path: Path,
    held_out: Sequence[SourceFile],
    kept: Path,
    *,
    n_probes: int,
    n_threads: int,
) -> ModelFigures:
    """Return the figures that the file ``kept`` holds, and take them where the GGUF is newer."""
    if not kept.is_file() or kept.stat().st_mtime < path.stat().st_mtime:
        figures = measure(path, held_out, n_probes=n_probes, n_threads=n_threads)
        kept.write_bytes(msgspec.json.format(msgspec.json.encode(figures)))
    return msgspec.json.decode(kept.read_bytes(), type=ModelFigures)


def _figures(way: tuple[Layout, Cursor], answers: Sequence[Completion]) -> AnswerFigures:
    n_answers = len(answers)
    return AnswerFigures(
        layout=way[0],
        cursor=way[1],
        exact_mid_line=_share_exact([a for a in answers if a.probe.kind == "mid-line"]),
        exact_line_start=_share_exact([a for a in answers if a.probe.kind == "line start"]),
        ended=sum(answer.ended for answer in answers) / n_answers,
        looping=sum(repeats_a_line(answer.text) for answer in answers) / n_answers,
    )


def _share_exact(answers: Sequence[Completion]) -> float:
    return sum(answer.is_exact for answer in answers) / len(answers)


def _shown(answer: Completion) -> Shown:
    probe = answer.probe
    return Shown(probe.path, probe.typed, probe.expected, answer.text)
