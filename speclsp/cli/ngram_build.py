"""Counts the n-grams of folders in several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Final

from speclsp.drafting.protocol import TokenArray
from speclsp.engine.llama.vocabulary import LlamaVocabulary, load_vocabulary
from speclsp.errors import SpecLspError
from speclsp.ngrams.counting import Observations, count_tokens, rows_by_order, summed
from speclsp.ngrams.table import NgramTables
from speclsp.project.ignore import IgnoreRules
from speclsp.project.scan import FoundFile, ScanTally, scan
from speclsp.project.source_text import SourceText, read_source
from speclsp.settings import Settings

Progress = Callable[[int], None]
"""Called with the number of bytes counted since the last call."""

_SHARD_BYTES: Final = 2 * 2**20
_MERGE_ROWS: Final = 4_000_000

Rows = dict[int, Observations]
"""Counts by order, in a form that can be sent between processes."""


@dataclass(slots=True)
class Shard:
    """The counts of some files."""

    n_files: int = 0
    n_tokens: int = 0
    n_bytes: int = 0
    rows: Rows = field(default_factory=dict)


@dataclass(slots=True)
class Built:
    """The counts of all files."""

    tables: NgramTables
    n_files: int = 0
    n_tokens: int = 0


def found_files(folders: Sequence[Path], settings: Settings) -> tuple[list[FoundFile], bool]:
    """Return the readable files below some folders, and whether ``max_files`` left some out.

    Ignored files and files that look like secrets are left out, as in the project index.  A file
    that two folders hold counts once.
    """
    found: dict[str, FoundFile] = {}
    truncated = False
    for folder in folders:
        root = folder.resolve()
        tally = ScanTally()
        files = scan(
            root,
            IgnoreRules(root, settings.exclude),
            tally,
            max_file_size=settings.max_file_size,
            max_files=settings.max_files,
        )
        found |= {file.path: file for file in files}
        truncated |= tally.truncated
    return list(found.values()), truncated


def texts_tokens(
    files: Sequence[FoundFile], max_file_size: int, vocabulary: LlamaVocabulary
) -> Iterator[TokenArray]:
    """Yield the tokens of the files that are source text."""
    for file in files:
        source = read_source(file.path, max_file_size)
        if isinstance(source, SourceText):
            yield vocabulary.tokenize(source.text)


def build_tables(
    files: Sequence[FoundFile],
    model: Path,
    *,
    orders: Sequence[int],
    max_file_size: int,
    n_processes: int,
    progress: Progress,
) -> Built:
    """Count the n-grams of files; the counts do not depend on the number of processes.

    Raises SpecLspError.
    """
    shards = list(_shards(files))
    built = Built(NgramTables({}))
    pending: list[Rows] = []
    n_pending = 0
    for shard in _counted(shards, model, tuple(orders), max_file_size, n_processes):
        built.n_files += shard.n_files
        built.n_tokens += shard.n_tokens
        pending.append(shard.rows)
        n_pending += sum(rows.tokens.size for rows in shard.rows.values())
        # Merge many at a time, so that each count is copied few times.
        if n_pending > max(_MERGE_ROWS, _n_rows(built.tables)):
            built.tables = summed([rows_by_order(built.tables), *pending])
            pending, n_pending = [], 0
        progress(shard.n_bytes)
    built.tables = summed([rows_by_order(built.tables), *pending])
    return built


def count_shard(
    model: Path, files: Sequence[FoundFile], orders: tuple[int, ...], max_file_size: int
) -> Shard:
    """Count the n-grams of some files; runs in any process."""
    texts = list(texts_tokens(files, max_file_size, _vocabulary(model)))
    return Shard(
        n_files=len(texts),
        n_tokens=sum(tokens.size for tokens in texts),
        n_bytes=sum(file.signature.n_bytes for file in files),
        rows=rows_by_order(count_tokens(texts, orders)),
    )


@cache
def _vocabulary(model: Path) -> LlamaVocabulary:
    """Load a vocabulary once in each process."""
    return load_vocabulary(model)


def _counted(
    shards: Sequence[Sequence[FoundFile]],
    model: Path,
    orders: tuple[int, ...],
    max_file_size: int,
    n_processes: int,
) -> Iterator[Shard]:
    count = partial(count_shard, model, orders=orders, max_file_size=max_file_size)
    if n_processes == 1 or len(shards) < 2:
        yield from map(count, shards)
        return
    # Spawned, since llama.cpp and its threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(n_processes, len(shards)), mp_context=context)
    try:
        yield from pool.map(count, shards)
    except (OSError, RuntimeError) as error:
        raise SpecLspError(
            f"a process that counts ended: {error}.", remedy="Try --processes 1."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _shards(files: Sequence[FoundFile]) -> Iterator[list[FoundFile]]:
    """Split files into lists of about equal size in bytes."""
    shard: list[FoundFile] = []
    n_bytes = 0
    for file in files:
        shard.append(file)
        n_bytes += file.signature.n_bytes
        if n_bytes >= _SHARD_BYTES:
            yield shard
            shard, n_bytes = [], 0
    if shard:
        yield shard


def _n_rows(tables: NgramTables) -> int:
    return sum(table.n_followers for table in tables.by_order.values())
