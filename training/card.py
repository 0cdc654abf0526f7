"""The model card: what the pair was trained on, how far, and how good it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from training.corpus import Manifest, read_list, read_manifest
from training.folder import LICENCE, VERSION, file_hash
from training.holdout import MEASURED, MEASURED_BEFORE
from training.measurement import CONTEXTS, AnswerFigures, EditFigures, ModelFigures
from training.presets import Shape

_N_PACKAGES = 30
"""Packages that the card names; the manifest names all."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file that the card is about."""

    name: str
    what: str
    n_bytes: int
    sha256: str


def model_file(path: Path, what: str) -> ModelFile:
    """Describe a file."""
    return ModelFile(path.name, what, path.stat().st_size, file_hash(path))


@dataclass(frozen=True, slots=True)
class Data:
    """What was trained on: counts by package, what named each file's licence, the list's hash."""

    manifest: Manifest
    n_judged: Mapping[str, int]
    list_sha256: str


def data_of(manifest: Path, file_list: Path) -> Data:
    """Read what a corpus was made of."""
    judged = Counter(_kind(entry["judged"]) for entry in read_list(file_list))
    return Data(read_manifest(manifest), dict(judged.most_common()), file_hash(file_list))


def _kind(judged: str) -> str:
    return {
        "given": "the tree's licence",
        "header": "its header",
        "SPDX line": "its SPDX line",
    }.get(
        judged,
        "its package's metadata" if judged in {"metadata", "package.json"} else "a licence file",
    )


def model_card(
    files: Sequence[ModelFile],
    runs: Mapping[str, tuple[Shape, dict[str, float]]],
    data: Data,
    figures: Sequence[tuple[str, ModelFigures]],
    through_speclsp: str,
) -> str:
    """Return the card as Markdown.

    ``runs`` has shape and totals by role, ``figures`` the measured models with a name for each,
    the first of them being what the card is about; ``through_speclsp`` is Markdown that tells the
    benchmarks' figures.
    """
    parts = [
        "# The embedded models",
        (
            "With these small models speclsp can be tried and tested without a download. They use "
            "the qwen2 architecture with Qwen2.5-Coder's fill-in-the-middle, repository and file "
            "tokens.\nThey copy patterns from the text around the cursor and know little else: "
            "they do not replace a real code model, and what they write must be read before it is "
            "kept."
        ),
        f"Version {VERSION}.",
        _files_table(files),
        "## Training",
        ("`training/` in the source distribution made them; its README.md has the commands."),
        (
            f"{_runs_table(runs)}\n\n"
            "The target began with random weights, the tokenizer was trained on the same corpus, "
            "and the draft model was distilled from the target on it; its losses are distances to "
            "the target. All in nats a token, on the last samples of the training."
        ),
        "## Data",
        _data(data),
        "## Figures",
        _figures_text(),
        _figures_table(figures),
        f"## Through speclsp\n\n{through_speclsp.strip()}" if through_speclsp else "",
        "## Answers",
        (
            "The first of the measured places, in the anchored layout, raw and greedy (128 tokens "
            "at most): what was typed on the line, what stood behind it, and what the target "
            "answers."
        ),
        _answers(figures[0][1]),
        "## Licence",
        (
            f"{LICENCE}, as speclsp.\nEvery source stands under a permissive licence, which "
            "`sources.json` names by package and the list by file."
        ),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def edit_model_card(
    file: ModelFile,
    run: tuple[Shape, dict[str, float]],
    n_target_tokens: float,
    data: Data,
    n_earlier: int,
    earlier_sha256: str,
    figures: Sequence[EditFigures],
) -> str:
    """Return the card of the model for next edits as Markdown.

    ``n_earlier`` files of earlier releases, in the list with the hash ``earlier_sha256``, were
    trained on beside the corpus.
    """
    n_edit_tokens = run[1]["tokens"]
    parts = [
        "# The embedded model for next edits",
        (
            "With this small model next edits can be tried and tested without a download: "
            "`edit_model` = `embedded`.\nIt repeats around the cursor what was changed before, "
            "such as a new name; it knows nothing else, and often errs."
        ),
        f"Version {VERSION}.",
        _files_table([file]),
        "## Training",
        (
            f"It began as the embedded target, after {n_target_tokens / 1e6:.1f} M tokens, and "
            f"saw {n_edit_tokens / 1e6:.1f} M tokens of next edits in the format `sweep-21`: "
            "names, annotated types and parameters that change, and releases of packages.\n"
            "`training/README.md` in the source distribution has the samples and the commands."
        ),
        _runs_table({"edit": run}),
        "## Data",
        _data(data),
        (
            f"Beside these, {n_earlier} files of the packages' releases before: "
            "`training/checkpoint/earlier-files.jsonl.xz` in the source distribution lists them "
            f"as above; its SHA-256 is {earlier_sha256}."
        ),
        "## Figures",
        (
            "By `python -m training evaluate-edits`: examples from packages that it was not "
            "trained on, raw and greedy, without speclsp's filters.\n"
            "Exact: share of the regions to be edited that it wrote as the change wants them; "
            "touched: those that it changed at all. "
            "These figures show how well it copies; they say nothing about whether an edit is "
            "useful."
        ),
        edits_table(figures),
        f"## Licence\n\n{LICENCE}, as speclsp.",
    ]
    return "\n\n".join(parts) + "\n"


def edits_table(figures: Sequence[EditFigures]) -> str:
    """Return how next edits were rewritten, by kind of change."""
    rows = ["| change | edits | exact | touched | quiet places | left as they are |"]
    rows.append("|---" * 6 + "|")
    rows += [
        f"| {one.kind} | {one.n_edits} | {one.exact:.0%} | {one.touched:.0%} "
        f"| {one.n_quiet} | {one.quiet:.0%} |"
        for one in figures
    ]
    return "\n".join(rows)


def write_card(text: str, path: Path) -> None:
    """Write a card."""
    path.write_text(text, encoding="utf-8")


def _files_table(files: Sequence[ModelFile]) -> str:
    rows = ["| file | what it is | bytes | SHA-256 |", "|---|---|---|---|"]
    rows += [f"| {f.name} | {f.what} | {f.n_bytes:,} | {f.sha256} |" for f in files]
    return "\n".join(rows)


def _runs_table(runs: Mapping[str, tuple[Shape, dict[str, float]]]) -> str:
    rows = [
        "| model | parameters | shape | tokens | steps | loss of the context | of the middle |",
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


def _data(data: Data) -> str:
    manifest = data.manifest
    total = sum(manifest.languages.values())
    languages = ", ".join(f"{name} {n / 1e6:.1f} M" for name, n in manifest.languages.items())
    licences: Counter[str] = Counter()
    for entry in manifest.trained_on:
        licences[entry.licence] += entry.n_chars
    shares = ", ".join(f"{name} {100 * n / total:.0f} %" for name, n in licences.most_common(6))
    names = ", ".join(entry.package for entry in manifest.trained_on[:_N_PACKAGES])
    n_files = sum(entry.n_files for entry in manifest.trained_on)
    held_out = ", ".join(entry.package for entry in manifest.held_out)
    judged = ", ".join(f"{kind} {n:,}" for kind, n in data.n_judged.items())
    return "\n".join(
        (
            (
                f"{total / 1e6:.0f} M characters in {n_files:,} files of "
                f"{len(manifest.trained_on)} packages, without copies ({languages})."
            ),
            f"Each file was judged by itself; its licence is named by: {judged}.",
            f"Licences by characters: {shares}.",
            "`sources.json` has each package's version, licences, files and a SHA-256 of them.",
            (
                "`training/checkpoint/corpus-files.jsonl.xz` in the source distribution lists each "
                f"file with its licence and SHA-256; the list's own SHA-256 is {data.list_sha256}."
            ),
            f"The largest packages: {names}.",
            f"Never trained on, whole packages and copies of them: {held_out}.",
        )
    )


def _figures_text() -> str:
    before, since = ", ".join(sorted(MEASURED_BEFORE)), ", ".join(sorted(MEASURED))
    return (
        "By `python -m training evaluate`.\n"
        f"Bits per byte on packages that no pair of speclsp was trained on ({before}), and on "
        f"others that this one was not trained on ({since}).\n"
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
