"""``python -m benchmarks make-model``."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from benchmarks.model_comparison import ModelComparison, compare_models, real_prompts
from benchmarks.model_making import QUANTISATIONS, Quantisation, SmallModel, make_model
from benchmarks.model_shapes import QWEN2_5_CODER
from speclsp.cli.options import OutputFile
from speclsp.decoding.report import verify_times_line
from speclsp.embedded import embedded_target
from speclsp.settings import Settings

_GIB = 1 << 30


@click.command("make-model")
@click.argument("out", type=OutputFile())
@click.option(
    "--like", type=click.Choice(list(QWEN2_5_CODER)),
    help="Whose shape the model takes; without it, the shape it has.",
)  # fmt: skip
@click.option(
    "--layers", "n_layers", type=click.IntRange(min=1),
    help="Layers, where they are not to be as many as in that shape.",
)  # fmt: skip
@click.option(
    "--vocabulary", "n_vocab", type=click.IntRange(min=1),
    help="Tokens, where they are not to be as many as in that shape: a draft model needs its "
    "target's.",
)  # fmt: skip
@click.option(
    "--from", "source", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The small model: a GGUF of the Qwen2 architecture; the embedded one by default.",
)  # fmt: skip
@click.option(
    "--quantise", "quantisation", type=click.Choice(QUANTISATIONS), default=QUANTISATIONS[0],
    show_default=True, help="What its matrices are stored in.",
)  # fmt: skip
@click.option(
    "--compare", "n_prompts", type=click.IntRange(min=0), default=0, show_default=True,
    help="Greedy completions that are compared with the small model's in the same quantisation.",
)  # fmt: skip
def make_model_command(
    out: Path,
    like: str | None,
    n_layers: int | None,
    n_vocab: int | None,
    source: Path | None,
    quantisation: Quantisation,
    n_prompts: int,
) -> None:
    """Write a model OUT that says what a small one says and takes as long as a large one.

    The small model is padded with zeros to the large one's shape.
    """
    small = SmallModel(source or embedded_target())
    shape = QWEN2_5_CODER[like] if like is not None else small.shape
    cost_of = like or f"{small.path.name}'s shape"
    if n_layers is not None:
        shape = replace(shape, n_layers=n_layers)
        cost_of = f"{cost_of} with {n_layers} layers"
    if n_vocab is not None:
        shape = replace(shape, n_vocab=n_vocab)
        cost_of = f"{cost_of} with {n_vocab:,} tokens"
    console = Console()
    with Progress(console=console, transient=True) as bars:
        task = bars.add_task(f"Writing {out}", total=1.0)
        made = make_model(
            small,
            out,
            shape,
            cost_of=cost_of,
            quantisation=quantisation,
            progress=lambda share: bars.update(task, completed=share),
        )
        console.print(
            f"{out}: {made.n_parameters / 1e6:,.1f} M parameters, {made.n_bytes / _GIB:.2f} GiB, "
            f"{made.remark}",
            highlight=False,
            soft_wrap=True,
        )
        if not n_prompts:
            return
        task = bars.add_task("Comparing", total=1.0)
        comparison = _compare(
            small, out, quantisation, n_prompts, lambda share: bars.update(task, completed=share)
        )
    console.print(str(comparison), highlight=False, soft_wrap=True)
    console.print(verify_times_line(comparison.verify_times), highlight=False, soft_wrap=True)


def _compare(
    small: SmallModel,
    large: Path,
    quantisation: Quantisation,
    n_prompts: int,
    progress: Callable[[float], None],
) -> ModelComparison:
    with tempfile.TemporaryDirectory(prefix="speclsp-") as folder:
        path = Path(folder) / small.path.name
        make_model(
            small,
            path,
            small.shape,
            cost_of=small.path.name,
            quantisation=quantisation,
            progress=lambda _share: None,
        )
        settings = Settings(model=str(path))
        return compare_models(path, large, settings, real_prompts(settings, n_prompts), progress)
