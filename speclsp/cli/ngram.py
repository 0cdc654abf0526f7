"""``speclsp ngram``: makes, merges, shows, converts, checks and evaluates statistics files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args
from zlib import crc32

import click
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.filesize import decimal
from rich.progress import Progress
from rich.table import Table

from speclsp.backends.llama.vocabulary import LlamaVocabulary, load_vocabulary
from speclsp.cli.ngram_build import (
    Counting,
    count_files,
    found_files,
    in_processes,
    on_cluster,
    rows_in,
    texts_tokens,
    work_folder,
)
from speclsp.cli.options import (
    OutputFile,
    SettingOption,
    given_settings,
    hf_token_option,
    target_options,
)
from speclsp.cores import physical_cpu_count
from speclsp.drafting.drafter import NO_STATISTICS, DraftContext, Statistics, TokenArray
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.registry import load_drafters
from speclsp.drafting.teacher_forcing import ReplayCounts, replay
from speclsp.embedded import model_files
from speclsp.errors import StoreError
from speclsp.ngrams import counting, files
from speclsp.ngrams.files import Layout, StatisticsFile, open_statistics, role_of
from speclsp.ngrams.llama_cpp_layout import MAX_ORDER, STATIC_ORDER
from speclsp.ngrams.own_layout import VocabularyIdentity
from speclsp.ngrams.table import NgramTables, TableArrays
from speclsp.settings import Settings
from speclsp.settings_resolution import ngram_cache_length

MAX_BUILT_ORDER: Final = 32
_MAX_PULLED_BYTES: Final = 4 << 30
_STRETCH: Final = 512
"""Tokens that ``evaluate`` replays in a row, with the file's text before them as context."""

_Path = partial(click.Path, path_type=Path)
_ORDER = click.IntRange(1, MAX_BUILT_ORDER)
_output_option = click.option(
    "-o", "--output", required=True, type=OutputFile(), help="The file to write."
)
_order_option = click.option(
    "--order",
    type=_ORDER,
    help="Tokens of the longest n-grams to keep, as for build; all if unset.",
)
_format_option = partial(click.option, "--format", "layout", type=click.Choice(get_args(Layout)))


@click.group()
def ngram() -> None:
    """Work with statistics files, for the drafter ngram-cache.

    They count which token followed which n-gram, and how often. speclsp writes them in a format
    of its own, which names its vocabulary, or in the format of llama.cpp's llama-lookup-create.
    All commands read both formats.
    """


@ngram.command(params=[*target_options(), SettingOption("exclude")])
@click.argument(
    "folders", metavar="DIR...", nargs=-1, required=True, type=_Path(exists=True, file_okay=False)
)
@_output_option
@click.option(
    "--order",
    type=_ORDER,
    default=MAX_ORDER,
    show_default=True,
    help="Tokens of the longest n-grams; shorter ones are counted too. With llama.cpp's format, 2 "
    "counts n-grams of two tokens only, which makes a static file.",
)
@_format_option(default="speclsp", show_default=True, help="How to write the file.")
@click.option(
    "--min-count",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Leave out followers that were seen less often in all files together.",
)
@click.option(
    "--share",
    type=click.IntRange(1, 100),
    metavar="PERCENT",
    default=100,
    show_default=True,
    help="Count only a share of the files, chosen by their paths; a larger share includes the "
    "smaller ones. `evaluate` then shows what more code is worth.",
)
@click.option(
    "--processes", type=click.IntRange(1), help="Processes to count in; one per core if unset."
)
@click.option(
    "--memory",
    type=click.IntRange(1),
    metavar="MB",
    default=512,
    show_default=True,
    help="Memory for each process's counts.",
)
@click.option(
    "--scheduler",
    metavar="tcp://HOST:PORT",
    help="Count on the workers of a Dask cluster, which find DIR, the model and the folder of the "
    "output at the same paths.",
)
def build(
    folders: tuple[Path, ...],
    output: Path,
    order: int,
    layout: Layout,
    min_count: int,
    share: int,
    processes: int | None,
    memory: int,
    scheduler: str | None,
    **options: Any,
) -> None:
    """Count the n-grams of the source files below folders.

    Counts are kept beside the output until it is written, so that the same command continues an
    interrupted build.
    """
    resolved = _target_settings(options)
    output = _without_links(output)
    orders = _orders(order, layout)
    model = model_files(resolved).target
    vocabulary = load_vocabulary(model)
    found, warnings = found_files(folders, resolved)
    for warning in warnings:
        click.echo(warning, err=True)
    found = [file for file in found if crc32(os.fsencode(file.relative)) % 100 < share]
    how = Counting(
        work=output.with_name(f".{output.name}.build"),
        model=model.resolve(),
        fingerprint=vocabulary.fingerprint,
        orders=tuple(orders),
        n_rows=rows_in(memory * 2**20),
    )
    n_processes = processes or physical_cpu_count()
    workers = on_cluster(scheduler) if scheduler else nullcontext(in_processes(n_processes))
    with work_folder(how.work), workers as map_tasks, _progress() as progress:
        counted = count_files(
            found, how, min_count=min_count, map_tasks=map_tasks, progress=progress
        )
        if counted.tables:
            files.write(output, counted.tables, layout, vocabulary)
    if not counted.tables:
        raise StoreError(
            f"there is nothing to count: {counted.n_files} files, {counted.n_tokens} tokens.",
            remedy="Name folders with source files that no .gitignore leaves out, or a smaller "
            "--min-count.",
        )
    click.echo(f"{counted.n_files:,} files, {counted.n_tokens:,} tokens.")
    _show(output, vocabulary if layout == "speclsp" else None, counted.tables)


@ngram.command(params=[*target_options(), hf_token_option()])
@click.argument("source", metavar="URL|OWNER/NAME:FILE")
@_output_option
@click.option(
    "--sha256", default="", metavar="HEX", help="The file's SHA-256, instead of its publisher's."
)
def pull(source: str, output: Path, sha256: str, **options: Any) -> None:
    """Download a published file and check it before it replaces the output.

    The SHA-256 comes from Hugging Face, or from a file beside it whose name ends in `.sha256`; the
    vocabulary has to be the model's.
    """
    # Imported here: the other commands open no connection.
    from speclsp.models import download  # noqa: PLC0415

    resolved = _target_settings(options)
    vocabulary = load_vocabulary(model_files(resolved).target)
    output = _without_links(output)
    wanted = download.locate(source, sha256=sha256)
    if wanted.size > _MAX_PULLED_BYTES:
        raise StoreError(
            f"{wanted.origin} has {decimal(wanted.size)}, and {decimal(_MAX_PULLED_BYTES)} are the "
            "most that is pulled.",
            remedy="Servers read the whole file into memory: build a smaller one with --min-count.",
        )
    with _progress() as progress:
        bar = progress.add_task("Downloading", total=wanted.size)
        arrived = download.fetch(
            wanted, output, report=lambda n_bytes: progress.update(bar, completed=n_bytes)
        )
    try:
        open_statistics(arrived, vocabulary)
        arrived.replace(output)
    except OSError as error:
        raise StoreError(
            f"{output}: {error.strerror or error}.",
            remedy="Name another output, or wait until no other command writes this one.",
        ) from error
    finally:
        arrived.unlink(missing_ok=True)
    _show_file(open_statistics(output, vocabulary))


@ngram.command(params=target_options())
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=_Path())
@_output_option
@_format_option(help="How to write the file; as the first FILE if unset.")
@_order_option
def merge(
    paths: tuple[Path, ...],
    output: Path,
    layout: Layout | None,
    order: int | None,
    **options: Any,
) -> None:
    """Add up the counts of several files.

    llama.cpp's format does not name its model: to write its files in speclsp's, give --model.
    This takes memory of about five times the files' size; `build`, given all folders, takes less.
    """
    opened, vocabulary = _opened_together(paths, _named_vocabulary(options))
    _write_merged(opened, vocabulary, output, layout or opened[0].layout, order)


@ngram.command(params=target_options())
@click.argument("path", metavar="FILE", type=_Path())
@_output_option
@_format_option(help="How to write the file; in the format that FILE does not have if unset.")
@_order_option
def convert(
    path: Path,
    output: Path,
    layout: Layout | None,
    order: int | None,
    **options: Any,
) -> None:
    """Write a file in the other format.

    llama.cpp's format does not name its model: to write its files in speclsp's, give --model.
    """
    opened, vocabulary = _opened_together([path], _named_vocabulary(options))
    other: Layout = "llama.cpp" if opened[0].layout == "speclsp" else "speclsp"
    _write_merged(opened, vocabulary, output, layout or other, order)


def _write_merged(
    opened: Sequence[StatisticsFile],
    vocabulary: VocabularyIdentity | None,
    output: Path,
    layout: Layout,
    order: int | None,
) -> None:
    """Write the sum of files' counts, of n-grams up to ``order``, and show it."""
    kept = counting.merge([file.tables for file in opened])
    if order is not None:
        wanted = _orders(order, layout)
        kept = NgramTables({n: table for n, table in kept.by_order.items() if n in wanted})
    if not kept.by_order:
        raise StoreError(
            f"There are no n-grams that --order {order} keeps.",
            remedy="`speclsp ngram info` shows which orders the files have.",
        )
    files.write(output, kept.by_order, layout, vocabulary)
    _show_file(open_statistics(output, vocabulary))


@ngram.command(params=target_options())
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=_Path())
def info(paths: tuple[Path, ...], **options: Any) -> None:
    """Show the contents of files."""
    vocabulary = _named_vocabulary(options)
    for path in paths:
        _show_file(open_statistics(path, vocabulary))


@ngram.command(params=target_options())
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=_Path())
def verify(paths: tuple[Path, ...], **options: Any) -> None:
    """Check files from end to end, checksums included."""
    vocabulary = _named_vocabulary(options)
    exit_code = 0
    for path in paths:
        try:
            open_statistics(path, vocabulary)
        except StoreError as error:
            click.echo(f"Problem: {error}", err=True)
            exit_code = 1
        else:
            click.echo(f"{path}: fine.")
    raise SystemExit(exit_code)


@ngram.command(
    params=[
        *target_options(),
        *map(SettingOption, ("exclude", "drafters", "draft_max")),
    ]
)
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=_Path())
@click.argument("folder", metavar="DIR", type=_Path(exists=True, file_okay=False))
@click.option(
    "--tokens",
    "n_tokens",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="About how many tokens to replay, spread over all of the folder's files.",
)
def evaluate(paths: tuple[Path, ...], folder: Path, n_tokens: int, **options: Any) -> None:
    """Measure files on text that they were not built from.

    Replays the source files below DIR token by token, as if a model generated them, with drafts of
    --drafters from the text so far: once without statistics, and once with each file. Files of
    growing shares of a corpus show what more code would be worth.
    """
    resolved = _target_settings(options)
    vocabulary = load_vocabulary(model_files(resolved).target)
    found, _ = found_files([folder], resolved)
    texts = list(texts_tokens(found, vocabulary))
    if not texts:
        raise StoreError(f"{folder} has no source files.", remedy="Name a folder that has some.")
    stretches = list(_stretches(texts, n_tokens))
    columns = ("tokens", "per pass", "hit rate", "drafted", "accepted", "")
    table = _table(columns, "drafts from")
    with _progress() as progress:
        bar = progress.add_task("Drafting", total=(1 + len(paths)) * len(stretches))
        for path in (None, *paths):
            name, statistics = "the text so far", NO_STATISTICS
            if path is not None:
                file = open_statistics(path, vocabulary)
                name = f"and the {file.role} {path.name}"
                statistics = Statistics(**{file.role: (file.tables,)})
            # Drafters learn, so each file gets new ones.
            drafters, problems = load_drafters(resolved, draft_model=None)
            if problems:
                raise problems[0]
            counts = ReplayCounts()
            merger = DraftMerger(drafters, mode="tree")
            for before, truth in stretches:
                context = DraftContext(prompt=(), prefix=before, statistics=statistics)
                replay(merger, context, truth.tolist(), ngram_cache_length(resolved), counts)
                progress.advance(bar)
            table.add_row(
                name,
                f"{counts.n_tokens:,}",
                f"{counts.tokens_per_pass:.3f}",
                # Of all passes, those with a draft.
                f"{counts.n_draft_passes / max(1, counts.n_passes):.1%}",
                f"{counts.n_drafted:,}",
                f"{counts.n_accepted:,}",
                f"{counts.acceptance:.1%}",
            )
    Console().print(table)


def _without_links(output: Path) -> Path:
    """Return the path of the file to write.  Raises StoreError where it is no regular file."""
    output = Path(os.path.realpath(output))
    if os.path.lexists(output) and not output.is_file():
        raise StoreError(f"{output} is not a regular file.", remedy="Name another output.")
    return output


def _stretches(
    texts: Sequence[TokenArray], n_tokens: int
) -> Iterator[tuple[TokenArray, TokenArray]]:
    """Yield stretches evenly spread over all texts, each with the text before it."""
    stretches = [
        (text[:start], text[start : start + _STRETCH])
        for text in texts
        for start in range(1, text.size, _STRETCH)
    ]
    n_in_all = sum(truth.size for _, truth in stretches)
    n_wanted = min(len(stretches), -(-n_tokens * len(stretches) // max(1, n_in_all)))
    for idx in range(n_wanted):
        yield stretches[idx * len(stretches) // n_wanted]


def _orders(order: int, layout: Layout) -> Sequence[int]:
    """Return the lengths of the n-grams for --order."""
    if layout == "speclsp":
        return range(1, order + 1)
    if order > MAX_ORDER:
        raise click.UsageError(
            f"llama.cpp's format has room for n-grams of {MAX_ORDER} tokens, not of {order}."
        )
    return [STATIC_ORDER] if order == STATIC_ORDER else range(1, order + 1)


def _opened_together(
    paths: Sequence[Path], vocabulary: VocabularyIdentity | None
) -> tuple[list[StatisticsFile], VocabularyIdentity | None]:
    """Open files of one vocabulary: a given one, or the first that a file names."""
    if vocabulary is None:
        headers = (open_statistics(path, None).header for path in paths)
        vocabulary = next((header for header in headers if header is not None), None)
    return [open_statistics(path, vocabulary) for path in paths], vocabulary


def _target_settings(options: Mapping[str, Any]) -> Settings:
    """Return the settings that the command line gives; tell where they name no model."""
    resolved = given_settings(options)
    if not resolved.model:
        click.echo(
            "No model is named, so the tokens are those of the trial model, which no other model "
            "can use: name yours by --model, or the trial model by --model embedded.",
            err=True,
        )
    return resolved


def _named_vocabulary(options: Mapping[str, Any]) -> LlamaVocabulary | None:
    """Return the vocabulary of the model that the command line names, None where it names none."""
    if not any(options[name] for name in ("model", "hf_repo", "hf_file")):
        return None
    return load_vocabulary(model_files(_target_settings(options)).target)


def _show_file(file: StatisticsFile) -> None:
    _show(file.path, file.header, file.tables.by_order)


def _show(path: Path, header: VocabularyIdentity | None, tables: Mapping[int, TableArrays]) -> None:
    """Print a file's size, format, role and vocabulary, and a row for each order."""
    layout, vocabulary = (
        ("llama.cpp", "vocabulary not named")
        if header is None
        else ("speclsp", f"vocabulary {header.fingerprint[:8]} of {header.n_tokens:,} tokens")
    )
    size = decimal(path.stat().st_size)
    click.echo(f"{path}: {size}, {layout}'s format, {role_of(tables)}, {vocabulary}")
    table = _table(("order", "n-grams", "followers", "sightings"))
    for order, counted in sorted(tables.items()):
        n_sightings = int(counted.counts.sum(dtype=np.int64))
        numbers = (order, len(counted.lengths), counted.tokens.size, n_sightings)
        table.add_row(*(f"{number:,}" for number in numbers))
    Console().print(table)


def _table(columns: Sequence[str], name_column: str = "") -> Table:
    table = Table(box=SIMPLE_HEAD)
    if name_column:
        table.add_column(name_column, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _progress() -> Progress:
    """Return progress bars on stderr, if it is a terminal; they are removed at the end."""
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)
