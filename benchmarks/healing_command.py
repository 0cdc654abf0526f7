"""``python -m benchmarks healing``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.healing_splits import SplitCounts, count_splits, healing, no_healing, word_splits
from speclsp import settings
from speclsp.cli.options import SettingsCommand, given_options
from speclsp.engine.models import LlamaLoader

_N_EXAMPLES = 8


@click.command(cls=SettingsCommand, name="healing")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE...",
)
def healing_command(files: tuple[Path, ...], **options: Any) -> None:
    """Complete at every place inside the identifiers of FILEs, with token healing and without."""
    resolved = settings.resolve([given_options(options)]).settings
    splits = [
        split
        for file in files
        for split in word_splits(file.name, file.read_text(encoding="utf-8", errors="replace"))
    ]
    console = Console()
    with console.status("Loading") as status:
        loader = LlamaLoader(lambda _level, _line: None)
        tokenizer = loader.tokenizer(resolved)
        weights = loader.weights(
            resolved, tokenizer, lambda _share: True, lambda _level, _line: None
        )
        try:
            counts: dict[str, SplitCounts] = {}
            for name, hold_back in (("without", no_healing), ("with", healing(tokenizer))):
                status.update(f"{len(splits)} places {name} healing")
                counts[name] = count_splits(
                    splits, tokenizer, weights.target, time.perf_counter, hold_back
                )
        finally:
            weights.close()
    console.print(_table(counts))
    for example in counts["without"].examples[:_N_EXAMPLES]:
        console.print(f"broken without healing: {example}", markup=False, highlight=False)


def _table(counts: dict[str, SplitCounts]) -> Table:
    table = Table("healing", "places", "word right", "disagreeing", "moved", "broken", "said again")
    for name, count in counts.items():
        table.add_row(
            name,
            str(count.n_splits),
            str(count.n_right),
            str(count.n_disagreeing),
            str(count.n_moved),
            str(count.n_broken),
            f"{count.n_held_back / max(1, count.n_splits):.2f} tokens",
        )
    return table
