"""The steps of a training: each reads what the ones before left in the work folder."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import torch

from training.corpus import (
    Found,
    SourceFile,
    build_corpus,
    listed,
    manifest_of,
    read_files,
    read_manifest,
    texts_by_path,
    write_files,
    write_list,
    write_manifest,
)
from training.edit_samples import EditStream, repeats_words
from training.export import About, write_gguf
from training.folder import ROLES, VERSION, Checkpoint, Role, WorkFolder, file_hash
from training.growth import pruned
from training.holdout import held_out_package
from training.model import Model
from training.presets import CPU, Budget, ModelPreset, Preset, Shape
from training.producers import ProducedRows
from training.samples import SampleStream
from training.tokens import encoder, read_tokenizer, special_tokens, train_tokenizer
from training.trainer import (
    Run,
    Workers,
    batches,
    make_optimisers,
    model_of_state,
    read_state,
    train,
    write_weights,
)

_N_PACKAGE_CHARS = 1_200_000
"""Most characters of one package, so that a few large ones do not make up the corpus."""

_LARGER = {"python": 10_000_000, "llama.cpp": 4_000_000}
_N_TOKENIZER_CHARS = 30_000_000
_N_CTX = 2048


def collect(folder: WorkFolder, sources: Iterable[Found]) -> None:
    """Write corpus, held-out files, manifest and lists of what was taken and what was left out."""
    corpus = build_corpus(sources, n_package_chars=_N_PACKAGE_CHARS, larger=_LARGER)
    folder.root.mkdir(parents=True, exist_ok=True)
    write_files(corpus.held_out, folder.held_out)
    write_manifest(manifest_of(corpus), folder.manifest)
    write_list(listed(corpus.files), folder.file_list)
    write_list(map(asdict, corpus.left_out), folder.left_out)
    write_files(corpus.files, folder.corpus)


def collect_earlier(folder: WorkFolder, sources: Iterable[Found]) -> None:
    """Write those files of earlier releases whose changes repeat replaced words, held out or not.

    The later ones are the corpus's and the held-out files.
    """
    later = texts_by_path([*read_files(folder.corpus), *read_files(folder.held_out)])
    found = [
        file
        for file in sources
        if isinstance(file, SourceFile)
        and (text := later.get((file.package, file.path))) is not None
        and repeats_words(file.text, text)
    ]
    write_files(found, folder.earlier)
    trained_on = (file for file in found if held_out_package(file.path) is None)
    write_list(listed(trained_on), folder.earlier_list)


def make_tokenizer(folder: WorkFolder, preset: Preset) -> None:
    """Train the vocabulary on a part of the corpus."""
    files = _shuffled(folder)
    texts: list[str] = []
    n_left = _N_TOKENIZER_CHARS
    while files and n_left > 0:
        texts.append(files.pop().text)
        n_left -= len(texts[-1])
    train_tokenizer(texts, preset.n_vocab).save(str(folder.tokenizer))


def go_on_from(folder: WorkFolder, checkpoint: Checkpoint) -> None:
    """Let the trainings go on from a checkpoint, with new optimisers.

    Raises FileExistsError where a training has begun in the folder, and RuntimeError where its
    corpus is not the checkpoint's.
    """
    if folder.state("target").is_file():
        raise FileExistsError(f"{folder.state('target')} is there: its training goes on from it")
    if file_hash(folder.file_list) != file_hash(checkpoint.file_list):
        raise RuntimeError(
            f"{folder.file_list} lists other files than {checkpoint.file_list}, which the "
            "checkpoint was trained on: collect the same versions, or begin anew"
        )
    folder.run("target").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(checkpoint.tokenizer, folder.tokenizer)
    shutil.copyfile(checkpoint.weights, folder.state("target"))
    if checkpoint.edit_weights.is_file():
        folder.run("edit").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(checkpoint.edit_weights, folder.state("edit"))
        if not folder.earlier_list.is_file():
            shutil.copyfile(checkpoint.earlier_list, folder.earlier_list)


def keep_checkpoint(folder: WorkFolder, checkpoint: Checkpoint) -> None:
    """Write weights in half precision, the tokenizer and what was trained on.

    The exported draft model is kept as it is, since no training goes on from it.
    """
    state = read_state(folder.state("target"))
    checkpoint.root.mkdir(parents=True, exist_ok=True)
    write_weights(checkpoint.weights, model_of_state(state), state["totals"])
    for source, target in (
        (folder.tokenizer, checkpoint.tokenizer),
        (folder.manifest, checkpoint.manifest),
        (folder.file_list, checkpoint.file_list),
    ):
        shutil.copyfile(source, target)
    if folder.state("edit").is_file():
        edit = read_state(folder.state("edit"))
        write_weights(checkpoint.edit_weights, model_of_state(edit), edit["totals"])
        shutil.copyfile(folder.earlier_list, checkpoint.earlier_list)
    checkpoint.draft.unlink(missing_ok=True)
    if folder.gguf("draft", "q8_0").is_file():
        shutil.copyfile(folder.gguf("draft", "q8_0"), checkpoint.draft)
    checkpoint.readme.write_text(
        _checkpoint_page(Shape(**state["shape"]), state["totals"], checkpoint), encoding="utf-8"
    )


def _checkpoint_page(shape: Shape, totals: dict[str, float], checkpoint: Checkpoint) -> str:
    """Return the README of a checkpoint: how far the training got, and how it goes on."""
    manifest = read_manifest(checkpoint.manifest)
    n_files = sum(entry.n_files for entry in manifest.trained_on)
    return f"""# Checkpoint of the target

`target.pt` has the weights in half precision, {shape.n_parameters() / 1e6:.2f} M parameters, \
trained from random weights on {totals["tokens"] / 1e6:.1f} M tokens in \
{int(totals["steps"]):,} steps.
The loss of its last samples was {totals.get("context", 0):.2f} nats a token in the context and \
{totals.get("middle", 0):.2f} in middles.
`tokenizer.json` was trained on the same corpus.
`embedded-draft-q8_0.gguf`, where it is, was distilled from these weights.
`corpus-files.jsonl.xz` lists the corpus: {n_files:,} files with package, version, licence and \
SHA-256; the list's own SHA-256 is {file_hash(checkpoint.file_list)}.
`corpus.json` counts by package.
`edit.pt` has the weights of the model for [next edits](../README.md#next-edits), and \
`earlier-files.jsonl.xz` lists the files of earlier releases that it was trained on.

To go on, collect the same versions ([how](../README.md#sources)) into a folder `work`, then:

    python -m training begin --folder work
    python -m training train --folder work --role target
    python -m training checkpoint --folder work

The run ends after {(CPU.target.n_tokens or 0) / 1e6:.0f} M tokens in all, and the learning rate \
falls in the last quarter of them; it may be ended before (`kill $(cat FILE)` with `--pid-file`), \
and the last command keeps what it got to.
"""


def make_stream(folder: WorkFolder, preset: Preset, role: Role, seed: int) -> SampleStream:
    """Return the stream of samples of one seed for the training of one model."""
    tokenizer = read_tokenizer(folder.tokenizer)
    kind: Callable[..., SampleStream] = SampleStream
    if role == "edit":
        kind = partial(EditStream, earlier=texts_by_path(read_files(folder.earlier)))
    return kind(
        _shuffled(folder),
        special=special_tokens(tokenizer),
        encode=encoder(tokenizer),
        mix=preset.mix,
        seed=seed,
    )


def train_together(
    folder: WorkFolder,
    preset_name: str,
    preset: Preset,
    role: Role,
    minutes: float | None,
    pid_file: Path | None = None,
) -> None:
    """Train in as many processes as the preset says, and wait for them.

    ``pid_file`` gets the processes' ids, for ``kill -STOP`` and ``kill -CONT``: time stopped does
    not count.  Raises RuntimeError where one of them fails; the others are then stopped.
    """
    meeting_file = folder.run(role) / "meeting"
    folder.run(role).mkdir(parents=True, exist_ok=True)
    meeting_file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "training", "train-worker", "--folder", str(folder.root)]
    command += ["--preset", preset_name, "--role", role]
    if minutes is not None:
        command += ["--minutes", str(minutes)]
    workers = [
        subprocess.Popen([*command, "--rank", str(rank)]) for rank in range(preset.n_workers)
    ]
    if pid_file is not None:
        pids = [os.getpid(), *(worker.pid for worker in workers)]
        pid_file.write_text(" ".join(map(str, pids)) + "\n", encoding="ascii")
    try:
        for rank, worker in enumerate(workers):
            if worker.wait() != 0:
                raise RuntimeError(f"worker {rank} of the {role}'s training failed")
    finally:
        for worker in workers:
            worker.terminate()


def train_worker(
    folder: WorkFolder, preset: Preset, role: Role, minutes: float | None, rank: int
) -> None:
    """Train one model as one of the preset's workers."""
    plan: ModelPreset = getattr(preset, role)
    workers = Workers(rank, preset.n_workers)
    if preset.device == "cpu":
        torch.set_num_threads(1 if preset.n_workers > 1 else torch.get_num_threads())
    workers.join(folder.run(role) / "meeting")
    model, totals, optimiser_states = _begun(folder, plan, role)
    model.to(preset.device)
    optimisers = make_optimisers(
        model,
        learning_rate=plan.learning_rate,
        weight_decay=preset.weight_decay,
        with_muon=plan.with_muon,
    )
    if len(optimiser_states) == len(optimisers):
        for optimiser, state in zip(optimisers, optimiser_states, strict=True):
            optimiser.load_state_dict(state)
    lengths = plan.lengths or preset.lengths
    # A run that goes on draws other samples than the one before it.
    seed = 1000 * int(totals["steps"]) + rank
    source = (
        ProducedRows(
            partial(make_stream, folder, preset, role),
            lengths,
            seed=seed,
            n_processes=preset.n_producers,
            n_uses=preset.n_uses,
        )
        if preset.n_producers
        else make_stream(folder, preset, role, seed)
    )
    run = Run(
        folder=folder.run(role),
        learning_rate=plan.learning_rate,
        n_warmup_steps=preset.n_warmup_steps,
        middle_weight=preset.mix.weights.middle,
        context_share=plan.context_share,
        teacher=_teacher(folder, preset) if role == "draft" else None,
        save_every_s=preset.save_every_s,
        keep_every_s=preset.keep_every_s,
    )
    budget = Budget(
        seconds=None if minutes is None else 60 * minutes,
        tokens=plan.n_tokens,
        decay_share=preset.decay_share,
        tokens_used=int(totals["tokens"]),
    )
    shapes = _shapes(preset.n_batch_tokens, lengths, random.Random(int(totals["steps"])))
    train(model, optimisers, batches(source.rows, shapes), budget, run, totals, workers)


def export(folder: WorkFolder) -> None:
    """Write the models that were trained as GGUF."""
    tokenizer = read_tokenizer(folder.tokenizer)
    n_files = sum(entry.n_files for entry in read_manifest(folder.manifest).trained_on)
    description = (
        f"Trained from random weights on {n_files} source files under permissive licences; "
        f"the list of them has the SHA-256 {file_hash(folder.file_list)}."
    )
    for role in ROLES:
        if not folder.state(role).is_file():
            continue
        model = model_of_state(read_state(folder.state(role)))
        about = About(f"speclsp embedded {role}", VERSION, description)
        if role == "edit":
            also = f" Then on next edits, also of the releases in {file_hash(folder.earlier_list)}."
            about = replace(about, description=description + also)
        for precision in ("f16", "q8_0"):
            path = folder.gguf(role, precision)
            write_gguf(model, tokenizer, path, precision, about=about, n_ctx=_N_CTX)


def install(folder: WorkFolder, fixtures: Path) -> None:
    """Put what is there of models, cards and sources where the product's sources have them."""
    for path, name in (
        (folder.gguf("target", "f16"), folder.gguf("target", "f16").name),
        (folder.gguf("draft", "q8_0"), folder.gguf("draft", "q8_0").name),
        (folder.card, folder.card.name),
        (folder.gguf("edit", "q8_0"), folder.gguf("edit", "q8_0").name),
        (folder.edit_card, folder.edit_card.name),
        (folder.manifest, "sources.json"),
    ):
        if path.is_file():
            shutil.copyfile(path, fixtures / name)


def _begun(
    folder: WorkFolder, plan: ModelPreset, role: Role
) -> tuple[Model, dict[str, float], list[dict[str, object]]]:
    """The model where its training stands, the totals, and the optimisers' states."""
    if not folder.state(role).is_file():
        torch.manual_seed(0)
        if not plan.target_layers:
            return Model(plan.shape), _no_totals(), []
        target = model_of_state(read_state(folder.state("target")))
        return pruned(target, plan.target_layers, plan.shape.n_ffn), _no_totals(), []
    state = read_state(folder.state(role))
    return model_of_state(state), state["totals"], state.get("optimisers", [])


def _teacher(folder: WorkFolder, preset: Preset) -> Model:
    model = model_of_state(read_state(folder.state("target")))
    model.to(preset.device).eval()
    return model


def _shapes(
    n_batch_tokens: int, lengths: Sequence[tuple[int, float]], rng: random.Random
) -> Iterator[tuple[int, int]]:
    positions, shares = zip(*lengths, strict=True)
    while True:
        (n_positions,) = rng.choices(positions, weights=shares)
        yield max(1, n_batch_tokens // n_positions), n_positions


def _shuffled(folder: WorkFolder) -> list[SourceFile]:
    files = read_files(folder.corpus)
    random.Random(0).shuffle(files)
    return files


def _no_totals() -> dict[str, float]:
    return {"steps": 0, "tokens": 0, "seconds": 0.0}
