"""The commands of ``python -m benchmarks``: each is run by hand and prints tables."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.cases_command import cases_command, make_cases_command
from benchmarks.cost_true_remarks import print_remarks
from benchmarks.drafters_command import calibration, drafters
from benchmarks.healing_command import healing_command
from benchmarks.host_overhead import HEADER, host_benchmark, render_rows
from benchmarks.index_bench import measure_index
from benchmarks.index_tables import (
    aims_table,
    corpus_line,
    growth_table,
    look_up_table,
    remarks,
    size_marks,
)
from benchmarks.make_model_command import make_model_command
from benchmarks.peers_command import peers_command
from benchmarks.quality_command import quality_command
from benchmarks.source_corpus import source_corpus
from benchmarks.typing_command import typing_command
from speclsp import settings
from speclsp.cli.options import SettingsCommand, given_options
from speclsp.engine.llama.vocabulary import load_vocabulary
from speclsp.engine.models import model_files


@click.group()
def cli() -> None:
    """Measure speclsp; each command says what it measures."""


cli.add_command(drafters)
cli.add_command(calibration)
cli.add_command(cases_command)
cli.add_command(healing_command)
cli.add_command(make_cases_command)
cli.add_command(make_model_command)
cli.add_command(peers_command)
cli.add_command(quality_command)
cli.add_command(typing_command)


@cli.command(cls=SettingsCommand)
def host(**options: Any) -> None:
    """Measure what the host adds to each llama_decode: drafts, verifying, sampling, stop rules."""
    resolved = settings.resolve([given_options(options)]).settings
    overheads = host_benchmark(resolved)
    table = Table(*HEADER)
    for row in render_rows(overheads):
        table.add_row(*row)
    console = Console()
    print_remarks(console, resolved)
    console.print(table)
    for overhead in overheads:
        for line in overhead.profile:
            console.print(line, markup=False, highlight=False)


@cli.command(cls=SettingsCommand)
@click.option(
    "--tokens",
    "n_tokens",
    type=click.IntRange(min=10_000),
    default=10_000_000,
    show_default=True,
    help="Size of the index.",
)
def index(n_tokens: int, **options: Any) -> None:
    """Measure the project index: build, memory, look-up, replacing files, opening."""
    resolved = settings.resolve([given_options(options)]).settings
    vocabulary = load_vocabulary(model_files(resolved).target)
    console = Console()
    try:
        with console.status("tokenising") as status:
            corpus = source_corpus(vocabulary.tokenize, n_tokens)
            report = measure_index(corpus, size_marks(n_tokens), status.update)
    finally:
        vocabulary.close()
    print_remarks(console, resolved)
    console.print(corpus_line(corpus), highlight=False)
    for table in (growth_table(report), look_up_table(report), aims_table(report)):
        console.print(table)
    for remark in remarks(report):
        console.print(remark, highlight=False)
