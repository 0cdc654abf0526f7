"""``speclsp bench``: measurements, run by hand."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console
from rich.table import Table

from speclsp import settings
from speclsp.bench.host_overhead import HEADER, host_benchmark, render_rows
from speclsp.bench.index_bench import measure_index
from speclsp.bench.index_tables import (
    aims_table,
    corpus_line,
    growth_table,
    look_up_table,
    remarks,
    size_marks,
)
from speclsp.bench.source_corpus import source_corpus
from speclsp.cli.bench_cases import cases_command, make_cases_command
from speclsp.cli.bench_drafters import calibration, drafters
from speclsp.cli.bench_healing import healing_command
from speclsp.cli.bench_make_model import make_model_command
from speclsp.cli.bench_peers import peers_command
from speclsp.cli.bench_quality import quality_command
from speclsp.cli.bench_typing import typing_command
from speclsp.cli.cost_true_remarks import print_remarks
from speclsp.cli.options import SettingsCommand, given_options
from speclsp.engine.llama.vocabulary import load_vocabulary
from speclsp.engine.models import model_files


@click.group()
def bench() -> None:
    """Measure."""


bench.add_command(drafters)
bench.add_command(calibration)
bench.add_command(cases_command)
bench.add_command(healing_command)
bench.add_command(make_cases_command)
bench.add_command(make_model_command)
bench.add_command(peers_command)
bench.add_command(quality_command)
bench.add_command(typing_command)


@bench.command(cls=SettingsCommand)
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


@bench.command(cls=SettingsCommand)
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
