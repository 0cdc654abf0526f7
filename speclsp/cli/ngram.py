"""``speclsp ngram``: makes, merges, shows, converts, checks and evaluates statistics files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import click
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from speclsp import embedded, settings
from speclsp.cli.ngram_build import build_tables, found_files, texts_tokens
from speclsp.cli.options import OutputFile, SettingOption, given_options
from speclsp.drafting.ngram_cache import NgramCacheDrafter
from speclsp.drafting.proposer import DrafterChain
from speclsp.drafting.protocol import NO_STATISTICS, DraftContext, Statistics, TokenArray
from speclsp.drafting.teacher_forcing import ReplayCounts, replay
from speclsp.engine.llama.vocabulary import LlamaVocabulary, load_vocabulary
from speclsp.engine.models import EMBEDDED, model_files
from speclsp.engine.params import physical_cpu_count
from speclsp.errors import StoreError
from speclsp.ngrams import counting, files
from speclsp.ngrams.counting import rows_of
from speclsp.ngrams.files import Layout, StatisticsFile, VocabularyIdentity, open_statistics
from speclsp.ngrams.llama_cpp_layout import MAX_ORDER, STATIC_ORDER
from speclsp.ngrams.table import NgramTables
from speclsp.settings import Settings

MAX_BUILT_ORDER = 32

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Path(click.Path):
    """A click path that is a Path."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(path_type=Path, **attributes)


def _scan_options() -> list[click.Parameter]:
    """Return the options for the settings that choose the files and the vocabulary."""
    return [SettingOption(name) for name in ("model", "exclude", "max_file_size", "max_files")]


def _output_option(command: _Command) -> _Command:
    return click.option(
        "-o", "--output", required=True, type=OutputFile(), help="The file to write."
    )(command)


def _format_option(**attributes: Any) -> Callable[[_Command], _Command]:
    layouts = click.Choice(get_args(Layout))
    return click.option("--format", "layout", type=layouts, **attributes)


def _model_option(command: _Command) -> _Command:
    return click.option(
        "--model",
        metavar="GGUF",
        help="The model whose tokens are counted; `embedded` for the one that comes with speclsp.",
    )(command)


@click.group()
def ngram() -> None:
    """Work with statistics files, for the drafter ngram-cache.

    They count which token followed which n-gram, and how often. speclsp writes them in a format
    of its own, which names its vocabulary, or in the format of llama.cpp's llama-lookup-create.
    All commands read both formats.
    """


@ngram.command(params=_scan_options())
@click.argument(
    "folders", metavar="DIR...", nargs=-1, required=True, type=_Path(exists=True, file_okay=False)
)
@_output_option
@click.option(
    "--order",
    type=click.IntRange(1, MAX_BUILT_ORDER),
    default=MAX_ORDER,
    show_default=True,
    help="Tokens of the longest n-grams. Shorter ones are counted too; but 2 with llama.cpp's "
    "format counts n-grams of two tokens only, which is a static file.",
)
@_format_option(default="speclsp", show_default=True, help="How to write the file.")
@click.option(
    "--processes", type=click.IntRange(1), help="Processes to count in; all cores' worth if unset."
)
def build(
    folders: tuple[Path, ...],
    output: Path,
    order: int,
    layout: Layout,
    processes: int | None,
    **options: Any,
) -> None:
    """Count the n-grams of the source files below folders."""
    resolved = settings.resolve([given_options(options)]).settings
    orders = _orders(order, layout)
    model = model_files(resolved).target
    vocabulary = load_vocabulary(model)
    found, truncated = found_files(folders, resolved)
    if truncated:
        click.echo(
            f"Only {resolved.max_files} files of a folder are read: see --max-files.", err=True
        )
    with _progress() as progress:
        task = progress.add_task("Counting", total=sum(f.signature.n_bytes for f in found))
        built = build_tables(
            found,
            model,
            orders=orders,
            max_file_size=resolved.max_file_size,
            n_processes=processes or physical_cpu_count(),
            progress=lambda n_bytes: progress.advance(task, n_bytes),
        )
    if not built.tables.by_order:
        raise StoreError(
            f"there is nothing to count: {built.n_files} source files, {built.n_tokens} tokens.",
            remedy="Name folders with source files that no .gitignore leaves out.",
        )
    files.write(output, built.tables, layout, vocabulary)
    click.echo(f"{built.n_files:,} files, {built.n_tokens:,} tokens.")
    _show([open_statistics(output, vocabulary)])


@ngram.command()
@click.argument("parts", metavar="FILE...", nargs=-1, required=True, type=_Path())
@_output_option
@_format_option(help="How to write the file; as the first FILE if unset.")
@_model_option
def merge(parts: tuple[Path, ...], output: Path, layout: Layout | None, model: str | None) -> None:
    """Add up the counts of several files."""
    opened, vocabulary = _opened_together(parts, model)
    tables = counting.merge([file.tables for file in opened])
    files.write(output, tables, layout or opened[0].layout, vocabulary)
    _show([open_statistics(output, vocabulary)])


@ngram.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=_Path())
@_model_option
def info(paths: tuple[Path, ...], model: str | None) -> None:
    """Show the contents of files."""
    vocabulary = _vocabulary(model)
    _show([open_statistics(path, vocabulary) for path in paths])


@ngram.command()
@click.argument("path", metavar="FILE", type=_Path())
@_output_option
@_format_option(required=True, help="How to write the file.")
@click.option(
    "--order",
    type=click.IntRange(1, MAX_BUILT_ORDER),
    help="Tokens of the longest n-grams to keep, as for build; all if unset.",
)
@_model_option
def convert(path: Path, output: Path, layout: Layout, order: int | None, model: str | None) -> None:
    """Write a file in the other format.

    llama.cpp's does not say which model it belongs to, so this takes --model.
    """
    (opened,), vocabulary = _opened_together([path], model)
    kept = opened.tables.by_order
    if order is not None:
        wanted = _orders(order, layout)
        kept = {n_tokens: table for n_tokens, table in kept.items() if n_tokens in wanted}
    if not kept:
        raise StoreError(
            f"{path} has no n-grams that --order {order} keeps.",
            remedy="`speclsp ngram info` shows which it has.",
        )
    files.write(output, counting.merge([NgramTables(kept)]), layout, vocabulary)
    _show([open_statistics(output, vocabulary)])


@ngram.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=_Path())
@_model_option
def verify(paths: tuple[Path, ...], model: str | None) -> None:
    """Check files from end to end, checksums included."""
    vocabulary = _vocabulary(model)
    problems: list[StoreError] = []
    for path in paths:
        try:
            open_statistics(path, vocabulary)
        except StoreError as error:
            problems.append(error)
        else:
            click.echo(f"{path}: fine.")
    for problem in problems:
        click.echo(f"Problem: {problem}", err=True)
    if problems:
        raise SystemExit(1)


@ngram.command(params=[*_scan_options(), SettingOption("spec_ngram_cache_n_max")])
@click.argument("path", metavar="FILE", type=_Path())
@click.argument("folder", metavar="DIR", type=_Path(exists=True, file_okay=False))
@click.option(
    "--tokens",
    "n_tokens",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="About how many tokens to replay, spread over all of the folder's files.",
)
def evaluate(path: Path, folder: Path, n_tokens: int, **options: Any) -> None:
    """Try a file on text that it was not built from.

    Replays the source files below DIR token by token, as if a model wrote them, with drafts from
    the text so far, once without and once with the statistics.
    """
    resolved = settings.resolve([given_options(options)]).settings
    vocabulary = load_vocabulary(model_files(resolved).target)
    statistics = open_statistics(path, vocabulary)
    texts = _held_out(folder, resolved, vocabulary)
    with _progress() as progress:
        task = progress.add_task("Drafting", total=1.0)
        compared = compare(
            texts,
            statistics,
            n_draft=resolved.spec_ngram_cache_n_max,
            n_tokens=n_tokens,
            progress=_report_share(progress, task),
        )
    Console().print(comparison_table(compared))


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
    paths: Sequence[Path], model: str | None
) -> tuple[list[StatisticsFile], VocabularyIdentity | None]:
    """Open files of one vocabulary: the model's, or the first that a file names."""
    vocabulary: VocabularyIdentity | None = _vocabulary(model)
    if vocabulary is None:
        headers = (open_statistics(path, None).header for path in paths)
        vocabulary = next((header for header in headers if header is not None), None)
    return [open_statistics(path, vocabulary) for path in paths], vocabulary


def _vocabulary(model: str | None) -> LlamaVocabulary | None:
    if model is None:
        return None
    path = embedded.embedded_target() if model == EMBEDDED else Path(model).expanduser()
    return load_vocabulary(path)


def _held_out(folder: Path, resolved: Settings, vocabulary: LlamaVocabulary) -> list[Any]:
    found, _ = found_files([folder], resolved)
    texts = list(texts_tokens(found, resolved.max_file_size, vocabulary))
    if not texts:
        raise StoreError(f"{folder} has no source files.", remedy="Name a folder that has some.")
    return texts


def _show(opened: Sequence[StatisticsFile]) -> None:
    for file in opened:
        click.echo(info_line(file))
        Console().print(info_table(file))


def _progress() -> Progress:
    """Return progress bars on stderr, if it is a terminal; they vanish when they are done."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _report_share(progress: Progress, task: Any) -> Callable[[float], bool]:
    def report(share: float) -> bool:
        progress.update(task, completed=share)
        return True

    return report


def info_line(file: StatisticsFile) -> str:
    """Return a line with a file's size, format, role and vocabulary."""
    size = decimal(file.path.stat().st_size)
    header = file.header
    if header is None:
        return f"{file.path}: {size}, llama.cpp's format, {file.role}, vocabulary not said"
    return (
        f"{file.path}: {size}, speclsp's format, {file.role}, "
        f"vocabulary {header.fingerprint[:8]} of {header.n_tokens:,} tokens"
    )


def info_table(file: StatisticsFile) -> Table:
    """Return a row for each order of a file."""
    table = Table(box=SIMPLE_HEAD)
    for column in ("order", "n-grams", "followers", "sightings"):
        table.add_column(column, justify="right", no_wrap=True)
    for order, counts in sorted(file.tables.by_order.items()):
        n_sightings = int(rows_of(counts).counts.sum(dtype=np.int64))
        table.add_row(str(order), f"{len(counts):,}", f"{counts.n_followers:,}", f"{n_sightings:,}")
    return table


_STRETCH: Final = 512
"""Tokens that are replayed in a row, with the file's text before them as context."""

Compared = dict[str, ReplayCounts]
"""Counts by the drafts' source."""


def compare(
    texts: Sequence[TokenArray],
    file: StatisticsFile,
    *,
    n_draft: int,
    n_tokens: int,
    progress: Callable[[float], bool],
) -> Compared:
    """Replay about ``n_tokens`` tokens of texts, without and with a file's statistics."""
    sources = (file.tables,)
    given = Statistics(static=sources) if file.role == "static" else Statistics(dynamic=sources)
    kinds = {"the text so far": NO_STATISTICS, f"and the {file.role} file": given}
    compared: Compared = {}
    for kind_idx, (name, statistics) in enumerate(kinds.items()):
        counts = compared.setdefault(name, ReplayCounts())
        stretches = list(_stretches(texts, n_tokens))
        for idx, (before, truth) in enumerate(stretches, 1):
            drafter = DrafterChain([NgramCacheDrafter(n_draft=n_draft)])
            context = DraftContext(prompt=(), prefix=before, statistics=statistics)
            replay(drafter, context, truth.tolist(), n_draft, counts)
            progress((kind_idx + idx / len(stretches)) / len(kinds))
    return compared


def comparison_table(compared: Compared) -> Table:
    """Return a row for each source of drafts.

    Hit rate is the share of passes with a draft, the last column the share of drafted tokens that
    were accepted.
    """
    table = Table(box=SIMPLE_HEAD)
    table.add_column("drafts from", overflow="fold")
    for column in ("tokens", "per pass", "hit rate", "drafted", "accepted", ""):
        table.add_column(column, justify="right", no_wrap=True)
    for name, counts in compared.items():
        hit_rate = counts.n_draft_passes / counts.n_passes if counts.n_passes else 0.0
        table.add_row(
            name,
            f"{counts.n_tokens:,}",
            f"{counts.tokens_per_pass:.3f}",
            f"{hit_rate:.1%}",
            f"{counts.n_drafted:,}",
            f"{counts.n_accepted:,}",
            f"{counts.acceptance:.1%}",
        )
    return table


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
