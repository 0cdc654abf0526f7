"""The model card: what the pair was trained on, how far, and how good it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from training.corpus import Manifest
from training.holdout import MEASURED, MEASURED_BEFORE
from training.measurement import CONTEXTS, AnswerFigures, ModelFigures
from training.presets import Shape

_N_PACKAGES = 30
"""Packages that the card names; the manifest names all."""

_ANSWER_ROWS = (
    ("first line exact inside a line", "exact_mid_line"),
    ("at a line's start", "exact_line_start"),
    ("ended by itself", "ended"),
    ("loops", "looping"),
)


def model_card(
    manifest: Manifest,
    runs: Mapping[str, tuple[Shape, dict[str, float]]],
    figures: Sequence[tuple[str, ModelFigures]],
    remark: str,
) -> str:
    """Return the card as Markdown.

    ``runs`` has shape and totals by role, ``figures`` the measured models with a name for each,
    the first of them being what the card is about.
    """
    parts = [
        "# The embedded models",
        remark,
        (
            "Two tiny models of the qwen2 architecture with Qwen2.5-Coder's fill-in-the-middle "
            "and repository tokens, made by `training/` (its README.md says how). They are there "
            "so that speclsp can be tried and tested without a download, and replace no real "
            "model."
        ),
        _runs_table(runs),
        "## Data",
        _data(manifest),
        "## Figures",
        _figures_text(),
        _figures_table(figures),
        "## Answers",
        (
            "The first of the measured places, in the anchored layout, raw and greedy (128 tokens "
            "at most): what was typed on the line, what stood behind it, and what the target "
            "answers."
        ),
        _answers(figures[0][1]),
        "## Licence",
        (
            "MIT, as speclsp. All sources that were trained on stand under permissive licences, "
            "which `training/corpus.json` names by package."
        ),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def write_card(text: str, path: Path) -> None:
    """Write a card."""
    path.write_text(text, encoding="utf-8")


def _runs_table(runs: Mapping[str, tuple[Shape, dict[str, float]]]) -> str:
    rows = [
        (
            "| model | parameters | shape | tokens in these runs | steps | loss of the context "
            "| loss of the middle |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    for role, (shape, totals) in runs.items():
        rows.append(
            f"| {role} | {shape.n_parameters() / 1e6:.2f} M | {shape.n_layers} layers, width "
            f"{shape.width}, {shape.n_heads} heads of {shape.head_size}, {shape.n_kv_heads} KV "
            f"head, FFN {shape.n_ffn}, vocabulary {shape.n_vocab:,} "
            f"| {totals['tokens'] / 1e6:.1f} M | {int(totals['steps']):,} "
            f"| {totals.get('context', 0):.2f} | {totals.get('middle', 0):.2f} |"
        )
    return "\n".join(rows)


def _data(manifest: Manifest) -> str:
    total = sum(manifest.languages.values())
    languages = ", ".join(f"{name} {n / 1e6:.1f} MB" for name, n in manifest.languages.items())
    licences: Counter[str] = Counter()
    for entry in manifest.trained_on:
        licences[entry.licence] += entry.n_chars
    shares = ", ".join(f"{name} {100 * n / total:.0f} %" for name, n in licences.most_common(6))
    names = ", ".join(entry.package for entry in manifest.trained_on[:_N_PACKAGES])
    n_files = sum(entry.n_files for entry in manifest.trained_on)
    held_out = ", ".join(entry.package for entry in manifest.held_out)
    return "\n\n".join(
        (
            (
                f"{total / 1e6:.0f} MB in {n_files:,} files of {len(manifest.trained_on)} "
                f"packages, without copies ({languages}). Licences: {shares}."
            ),
            f"The largest: {names}.",
            f"Never trained on, whole packages and copies of them: {held_out}.",
        )
    )


def _figures_text() -> str:
    before, since = ", ".join(sorted(MEASURED_BEFORE)), ", ".join(sorted(MEASURED))
    return (
        f"Bits per byte on packages that neither pair was trained on ({before}), and on others "
        f"that this one was not trained on ({since}; the provisional pair may have been). "
        "First line exact: share of places whose rest of the line the raw greedy answer begins "
        "with, inside a line and at a line's start, in both layouts; the cursor as it is, or "
        "healed: what was typed last held back and said again, as the product does. "
        "Loops: share of answers that repeat a line three times, without stop rules."
    )


def _figures_table(figures: Sequence[tuple[str, ModelFigures]]) -> str:
    names = [name for name, _ in figures]
    rows = ["| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]

    def add(label: str, values: Sequence[str]) -> None:
        rows.append(f"| {label} | " + " | ".join(values) + " |")

    models = [model for _, model in figures]
    add("size", [f"{model.n_bytes / 2**20:.1f} MiB" for model in models])
    for n in CONTEXTS:
        add(f"bits per byte, context {n}", [f"{m.bits_before[str(n)]:.3f}" for m in models])
        add(f"the same, other packages, {n}", [f"{m.bits_since[str(n)]:.3f}" for m in models])
    asked = [model for model in models if model.answers]
    for way_idx in range(len(asked[0].answers) if asked else 0):
        found = [m.answers[way_idx] if m.answers else None for m in models]
        way = f"{asked[0].answers[way_idx].layout}, {asked[0].answers[way_idx].cursor}"
        add(
            f"first line exact inside a line ({way})",
            [_percent(f, "exact_mid_line") for f in found],
        )
        add(f"at a line's start ({way})", [_percent(f, "exact_line_start") for f in found])
        add(f"ended by itself ({way})", [_percent(f, "ended") for f in found])
        add(f"loops ({way})", [_percent(f, "looping") for f in found])
    return "\n".join(rows)


def _percent(figures: AnswerFigures | None, name: str) -> str:
    return "" if figures is None else f"{100 * getattr(figures, name):.1f} %"


def _answers(figures: ModelFigures) -> str:
    blocks = []
    for shown in figures.shown:
        text = "\n".join(f"    {line}" for line in shown.text.rstrip().split("\n")[:6])
        blocks.append(
            f"`{shown.path}`: behind `{shown.typed.strip()}` stood `{shown.expected}`\n\n{text}"
        )
    return "\n\n".join(blocks)
