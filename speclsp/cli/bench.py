"""``speclsp bench``: measurements, run by hand."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console
from rich.table import Table

from speclsp import settings
from speclsp.bench.host_overhead import HEADER, host_benchmark, render_rows
from speclsp.cli.options import SettingsCommand, given_options
from speclsp.engine.models import model_files


@click.group()
def bench() -> None:
    """Measure."""


@bench.command(cls=SettingsCommand)
def host(**options: Any) -> None:
    """Measure what the host adds to each llama_decode: drafts, verifying, sampling, stop rules."""
    resolved = settings.resolve([given_options(options)]).settings
    overheads = host_benchmark(model_files(resolved).target, resolved)
    table = Table(*HEADER)
    for row in render_rows(overheads):
        table.add_row(*row)
    console = Console()
    console.print(table)
    for overhead in overheads:
        for line in overhead.profile:
            console.print(line, markup=False, highlight=False)
