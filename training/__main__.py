"""The command line: ``python -m training``."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from training.corpus import (
    Found,
    Tree,
    files_of_node_modules,
    files_of_site,
    files_of_tree,
    read_files,
    read_list,
    standard_library,
    texts_by_path,
)
from training.folder import PAIR, ROLES, Checkpoint, Role, WorkFolder, file_hash
from training.presets import PRESETS, ModelPreset

_FIXTURES = Path(__file__).parent.parent / "fixtures" / "models"
_CHECKPOINT = Checkpoint(Path(__file__).parent / "checkpoint")

_Command = Callable[..., Any]


def _source_options(command: _Command) -> _Command:
    for option in (
        click.option("--site", "sites", multiple=True, type=Path, help="A site-packages folder."),
        click.option(
            "--tree",
            "trees",
            multiple=True,
            help="NAME=VERSION=LICENCE=FOLDER of sources under a permissive licence.",
        ),
        click.option("--node-modules", multiple=True, type=Path, help="A node_modules folder."),
    ):
        command = option(command)
    return command


def _folder_option(command: _Command) -> _Command:
    option = click.option(
        "--folder", required=True, type=Path, help="Where all steps leave their results."
    )
    return option(command)


def _preset_option(command: _Command) -> _Command:
    return click.option("--preset", type=click.Choice(list(PRESETS)), default="cpu")(command)


@click.group()
def main() -> None:
    """Train the embedded pair of models; README.md beside this module says how."""


@main.command()
@_folder_option
@_source_options
def collect(
    folder: Path, sites: tuple[Path, ...], trees: tuple[str, ...], node_modules: tuple[Path, ...]
) -> None:
    """Collect sources: this Python's standard library and what the options name."""
    from training import steps  # noqa: PLC0415 - torch takes seconds to import

    steps.collect(WorkFolder(folder), _sources(sites, trees, node_modules))


@main.command("collect-earlier")
@_folder_option
@click.option(
    "--site", "sites", multiple=True, type=Path, required=True, help="A site-packages folder."
)
def collect_earlier(folder: Path, sites: tuple[Path, ...]) -> None:
    """Collect files of the packages' releases before, for the samples of next edits."""
    from training import steps  # noqa: PLC0415

    steps.collect_earlier(
        WorkFolder(folder), (one for site in sites for one in files_of_site(site))
    )


@main.command()
@_folder_option
@_preset_option
@click.option("--anew", is_flag=True, help="Begin with random weights and a new vocabulary.")
def begin(folder: Path, preset: str, anew: bool) -> None:
    """Put tokenizer and weights of the checkpoint into the folder, or make a new tokenizer."""
    _begin(WorkFolder(folder), preset, anew)


@main.command()
@_folder_option
def checkpoint(folder: Path) -> None:
    """Keep the target as it is now in training/checkpoint, to go on from elsewhere."""
    from training import steps  # noqa: PLC0415

    steps.keep_checkpoint(WorkFolder(folder), _CHECKPOINT)


@main.command()
@_folder_option
@_preset_option
@click.option("--role", type=click.Choice(ROLES), required=True)
@click.option("--minutes", type=float, help="How long; the preset's where it is left out.")
@click.option("--pid-file", type=Path, help="Where the processes' ids are written.")
def train(
    folder: Path, preset: str, role: Role, minutes: float | None, pid_file: Path | None
) -> None:
    """Train one model, or go on where its last run ended."""
    _train(WorkFolder(folder), preset, role, minutes, pid_file)


@main.command("train-worker", hidden=True)
@_folder_option
@_preset_option
@click.option("--role", type=click.Choice(ROLES), required=True)
@click.option("--minutes", type=float)
@click.option("--rank", type=int, required=True)
def train_worker(folder: Path, preset: str, role: Role, minutes: float | None, rank: int) -> None:
    """Train as one of several processes."""
    from training import steps  # noqa: PLC0415

    steps.train_worker(WorkFolder(folder), PRESETS[preset], role, minutes, rank)


@main.command()
@_folder_option
def export(folder: Path) -> None:
    """Write both models as GGUF in F16 and Q8_0."""
    from training import steps  # noqa: PLC0415

    steps.export(WorkFolder(folder))


@main.command()
@_folder_option
@click.option("--against", type=Path, help="A GGUF to print side by side.")
@click.option("--probes", default=300, help="Places at which the models are asked.")
@click.option("--threads", default=2)
def evaluate(folder: Path, against: Path | None, probes: int, threads: int) -> None:
    """Measure the exported models through llama.cpp and write the model card.

    The card takes over the Markdown of FOLDER/through-speclsp.md, for the benchmarks' figures.
    """
    _evaluate(WorkFolder(folder), against, probes, threads)


@main.command("evaluate-edits")
@_folder_option
@click.option("--probes", default=600, help="Examples of next edits that the model is asked for.")
@click.option("--threads", default=2)
def evaluate_edits(folder: Path, probes: int, threads: int) -> None:
    """Measure the exported model for next edits on held-out packages and write its card."""
    from training.card import (  # noqa: PLC0415
        data_of,
        edit_model_card,
        edits_table,
        model_file,
        write_card,
    )
    from training.edit_samples import Examples  # noqa: PLC0415
    from training.measurement import measure_edits  # noqa: PLC0415
    from training.trainer import read_run  # noqa: PLC0415

    work = WorkFolder(folder)
    earlier = texts_by_path(read_files(work.earlier))
    examples = Examples(read_files(work.held_out), earlier, rng=random.Random(1))
    drawn = [examples.draw() for _ in range(probes)]
    figures = measure_edits(work.gguf("edit", "q8_0"), drawn, n_threads=threads)
    click.echo(edits_table(figures))
    card = edit_model_card(
        model_file(work.gguf("edit", "q8_0"), "the model for next edits, in Q8_0"),
        read_run(work.state("edit")),
        read_run(work.state("target"))[1]["tokens"],
        data_of(work.manifest, work.file_list),
        sum(1 for _ in read_list(work.earlier_list)),
        file_hash(work.earlier_list),
        figures,
    )
    write_card(card, work.edit_card)


@main.command()
@_folder_option
def install(folder: Path) -> None:
    """Put models and cards that are there into fixtures/models."""
    from training import steps  # noqa: PLC0415

    steps.install(WorkFolder(folder), _FIXTURES)


@main.command("all")
@_folder_option
@_preset_option
@_source_options
@click.option("--anew", is_flag=True, help="Begin with random weights and a new vocabulary.")
@click.option("--minutes", type=float, help="How long the target is trained.")
@click.option("--draft-minutes", type=float, help="How long the draft model is trained.")
@click.option("--against", type=Path, help="A GGUF to print side by side.")
def run_all(
    folder: Path,
    preset: str,
    sites: tuple[Path, ...],
    trees: tuple[str, ...],
    node_modules: tuple[Path, ...],
    anew: bool,
    minutes: float | None,
    draft_minutes: float | None,
    against: Path | None,
) -> None:
    """Collect, train both models, export, evaluate and write the model card.

    Steps whose results lie in the folder are not done again; training goes on from its last state.
    """
    from training import steps  # noqa: PLC0415

    work = WorkFolder(folder)
    if not work.corpus.is_file():
        steps.collect(work, _sources(sites, trees, node_modules))
    if not work.tokenizer.is_file():
        _begin(work, preset, anew)
    _train(work, preset, "target", minutes)
    _train(work, preset, "draft", draft_minutes)
    steps.export(work)
    _evaluate(work, against, 300, 2)


def _begin(work: WorkFolder, preset: str, anew: bool) -> None:
    from training import steps  # noqa: PLC0415

    if anew:
        steps.make_tokenizer(work, PRESETS[preset])
    else:
        steps.go_on_from(work, _CHECKPOINT)


def _train(
    work: WorkFolder, preset: str, role: Role, minutes: float | None, pid_file: Path | None = None
) -> None:
    from training import steps  # noqa: PLC0415

    chosen = PRESETS[preset]
    planned: ModelPreset = getattr(chosen, role)
    steps.train_together(work, preset, chosen, role, minutes or planned.minutes, pid_file)


def _evaluate(work: WorkFolder, against: Path | None, n_probes: int, n_threads: int) -> None:
    from training.card import data_of, model_card, model_file, write_card  # noqa: PLC0415
    from training.measurement import measured_once  # noqa: PLC0415
    from training.trainer import read_run  # noqa: PLC0415

    held_out = read_files(work.held_out)
    # The target is asked; of the others, bits per byte are enough.
    named = [
        ("target, F16", work.gguf("target", "f16"), n_probes),
        ("target, Q8_0", work.gguf("target", "q8_0"), 0),
        ("draft, Q8_0", work.gguf("draft", "q8_0"), 0),
    ]
    if against is not None:
        named.append((f"before: {against.stem}", against, n_probes))
    figures = [
        (
            name,
            measured_once(
                path,
                held_out,
                work.root,
                n_probes=n_asked,
                n_threads=n_threads,
            ),
        )
        for name, path, n_asked in named
    ]
    card = model_card(
        [
            model_file(work.gguf("target", "f16"), "the target model, in F16"),
            model_file(work.gguf("draft", "q8_0"), "the draft model, in Q8_0"),
        ],
        {role: read_run(work.state(role)) for role in PAIR},
        data_of(work.manifest, work.file_list),
        figures,
        work.through_speclsp.read_text(encoding="utf-8") if work.through_speclsp.is_file() else "",
    )
    write_card(card, work.card)


def _sources(
    sites: tuple[Path, ...], trees: tuple[str, ...], node_modules: tuple[Path, ...]
) -> Iterator[Found]:
    yield from files_of_tree(standard_library())
    for site in sites:
        yield from files_of_site(site)
    for tree in trees:
        name, version, licence, root = tree.split("=", 3)
        yield from files_of_tree(Tree(name, version, licence, Path(root)))
    for folder in node_modules:
        yield from files_of_node_modules(folder)


if __name__ == "__main__":
    main()
