"""Counts the n-grams of folders: in processes of this machine, or on the workers of a Dask cluster.

The files are counted shard by shard, and the counts are summed range by range, as
:mod:`speclsp.ngrams.parts` describes.  Each task writes a folder below a work folder, whose name is
a hash of everything that its content depends on: a build that was interrupted finds the finished
tasks, and another worker can do a lost worker's task again.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

import click
from filelock import FileLock, Timeout
from rich.progress import Progress

from speclsp import __version__
from speclsp.backends.llama.vocabulary import LlamaVocabulary, load_vocabulary
from speclsp.cli.extras import install_extra
from speclsp.drafting.drafter import TokenArray
from speclsp.errors import SpecLspError, StoreError
from speclsp.ngrams.counting import count_tokens
from speclsp.ngrams.parts import Range, boundaries, joined_parts, store, stored_tally, sum_range
from speclsp.ngrams.table import TableArrays
from speclsp.project.ignore import IgnoreRules
from speclsp.project.scan import FoundFile, ScanTally, scan
from speclsp.project.source_text import SourceText, read_source
from speclsp.settings import Settings
from speclsp.storage.locations import lacks_locks

Task = TypeVar("Task")
Result = TypeVar("Result")

_BYTES_PER_ROW: Final = 256
"""Most memory that a row takes while rows are sorted; measured."""
_BYTES_PER_TOKEN: Final = 3
"""Fewest bytes of source text for each token; 3.3 to 4 are typical."""
_CONNECT_TIMEOUT_S: Final = 10
_MAX_LOST: Final = 3
"""Processes that may end in a row without a finished task."""


class MapTasks(Protocol):
    """Runs tasks on workers."""

    def __call__(
        self, function: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterator[Result]:
        """Yield the results as they become available, in any order.  Raises SpecLspError."""


@dataclass(frozen=True, slots=True)
class Counting:
    """How files are counted; each worker gets a copy."""

    work: Path
    """The folder for the parts."""
    model: Path
    fingerprint: str
    """The vocabulary's."""
    orders: tuple[int, ...]
    n_rows: int
    """Maximum rows that a task sorts at once."""

    def part(self, *content: object) -> Path:
        """Return the folder of a part, whose name is a hash of what its content depends on."""
        key = (__version__, self.fingerprint, self.orders, self.n_rows, content)
        return self.work / hashlib.blake2b(repr(key).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Counted:
    """The n-grams of all files."""

    tables: Mapping[int, TableArrays]
    """By order; empty if there are none."""
    n_files: int
    n_tokens: int


def found_files(folders: Sequence[Path], settings: Settings) -> tuple[list[FoundFile], list[str]]:
    """Return the readable files below some folders, and what to tell about others.

    Ignored files and files that look like secrets are left out, as in the project index.  A file
    that two folders hold counts once.
    """
    found: dict[str, FoundFile] = {}
    warnings: dict[str, None] = {}
    for folder in folders:
        root = folder.resolve()
        rules = IgnoreRules(root, settings.exclude)
        files = scan(root, rules, ScanTally(), max_files=sys.maxsize)
        found |= {file.path: file for file in files}
        warnings |= dict.fromkeys(rules.too_large)
    return list(found.values()), list(warnings)


def texts_tokens(files: Iterable[FoundFile], vocabulary: LlamaVocabulary) -> Iterator[TokenArray]:
    """Yield the tokens of the files that are source text, with secrets masked."""
    for file in files:
        source = read_source(file.path)
        if isinstance(source, SourceText):
            yield vocabulary.tokenize(source.text)


def rows_in(memory_bytes: int) -> int:
    """Return how many rows a task may sort at once with ``memory_bytes``."""
    return max(1, memory_bytes // _BYTES_PER_ROW)


@contextmanager
def work_folder(path: Path) -> Generator[None]:
    """Make a folder for parts; remove it unless the block raises.

    Raises StoreError for an OSError of the block, or where another build has the folder.
    """
    removed = path.with_name(f"{path.name}.removed")
    try:
        is_there = path.exists()
        path.mkdir(mode=0o700, exist_ok=True)
        with _held(FileLock(path / "build.lock", timeout=0.0)) as lock:
            if is_there:
                click.echo(f"Continuing with the counts of an earlier build in {path}.", err=True)
            yield
            if os.name == "nt":  # which renames no folder with an open file
                lock.release()
            # Renamed first: a build must not continue with a folder that was removed by half.
            shutil.rmtree(removed, ignore_errors=True)
            path.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)
    except Timeout as error:
        raise StoreError(
            f"another build writes to {path}.",
            remedy="Wait until it is done, or name another output.",
        ) from error
    except OSError as error:
        raise StoreError(
            f"{error.filename or path}: {error.strerror or error}.",
            remedy="Name an output in a folder that may be written to and has enough space; what "
            "is counted is kept.",
        ) from error


def _held(lock: FileLock) -> AbstractContextManager[FileLock]:
    """Acquire a lock, which the ``with`` statement releases.

    Raises StoreError where the file system has no locks, Timeout and OSError.
    """
    try:
        return lock.acquire()
    except (OSError, NotImplementedError) as error:
        if not lacks_locks(error):
            raise
        raise StoreError(
            f"the file system of {lock.lock_file} has no file locks ({error}), which keep other "
            "builds out.",
            remedy="Name an output on a local disk, and move the file afterwards.",
        ) from error


def count_files(
    files: Sequence[FoundFile],
    counting: Counting,
    *,
    min_count: int,
    map_tasks: MapTasks,
    progress: Progress,
) -> Counted:
    """Count the n-grams of files, and keep followers that were seen ``min_count`` times.

    The counts do not depend on the workers, nor on the size of their tasks.
    Raises SpecLspError and OSError.
    """
    shards = list(_shards(files, counting.n_rows * _BYTES_PER_TOKEN))
    bar = progress.add_task("Counting", total=sum(file.signature.n_bytes for file in files))
    n_files = n_tokens = 0
    for shard_files, shard_tokens, n_bytes in map_tasks(partial(_count_shard, counting), shards):
        n_files += shard_files
        n_tokens += shard_tokens
        progress.advance(bar, n_bytes)
    parts = [counting.part(shard) for shard in shards]
    # In a file, since the list of all parts is too long to be sent with each task.
    list_of_parts = counting.part(parts).with_suffix(".list")
    list_of_parts.write_text("\n".join(part.name for part in parts), encoding="utf-8")
    sums = [
        _Sum(list_of_parts, order, within, min_count)
        for order in counting.orders
        for within in boundaries(parts, order, counting.n_rows)
    ]
    bar = progress.add_task("Adding up", total=len(sums))
    for _ in map_tasks(partial(_add_up, counting), sums):
        progress.advance(bar)
    tables: dict[int, TableArrays] = {}
    for order in counting.orders:
        ranges = [counting.part(one) for one in sums if one.order == order]
        if (table := joined_parts(ranges, order, counting.work.parent)) is not None:
            tables[order] = table
    return Counted(tables, n_files, n_tokens)


def _shards(files: Sequence[FoundFile], n_bytes: int) -> Iterator[tuple[FoundFile, ...]]:
    """Split files into runs of at least ``n_bytes``; the last one may be smaller."""
    shard: list[FoundFile] = []
    n_in_shard = 0
    for file in files:
        shard.append(file)
        n_in_shard += file.signature.n_bytes
        if n_in_shard >= n_bytes:
            yield tuple(shard)
            shard, n_in_shard = [], 0
    if shard:
        yield tuple(shard)


def _count_shard(counting: Counting, shard: tuple[FoundFile, ...]) -> tuple[int, int, int]:
    """Count files as a part; return how many of them are source text, tokens and bytes read."""
    part = counting.part(shard)
    if (done := stored_tally(part)) is None:
        vocabulary = _vocabulary(counting.model)
        if vocabulary.fingerprint != counting.fingerprint:
            raise StoreError(
                f"{counting.model} has another vocabulary on this worker.",
                remedy="Give all workers the same model file.",
            )
        texts = list(texts_tokens(shard, vocabulary))
        done = (len(texts), sum(tokens.size for tokens in texts))
        store(part, count_tokens(texts, counting.orders), done)
    n_files, n_tokens = done
    return n_files, n_tokens, sum(file.signature.n_bytes for file in shard)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A range of n-grams that one task adds up."""

    list_of_parts: Path
    order: int
    within: Range
    min_count: int


def _add_up(counting: Counting, wanted: _Sum) -> None:
    """Add up a range as a part."""
    part = counting.part(wanted)
    if stored_tally(part) is None:
        names = wanted.list_of_parts.read_text(encoding="utf-8").split()
        tables = sum_range(
            [counting.work / name for name in names],
            wanted.order,
            wanted.within,
            min_count=wanted.min_count,
            n_rows=counting.n_rows,
        )
        store(part, tables)


@cache
def _vocabulary(model: Path) -> LlamaVocabulary:
    """Load a vocabulary once in each process."""
    return load_vocabulary(model)


def in_processes(n_processes: int) -> MapTasks:
    """Run tasks in processes of this machine, which are replaced if they end early."""

    def map_tasks(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        n_done = n_lost = 0
        while n_done < len(tasks):
            # Spawned, since llama.cpp and its threads do not survive a fork.
            pool = ProcessPoolExecutor(
                min(n_processes, len(tasks)), mp_context=multiprocessing.get_context("spawn")
            )
            try:
                for result in pool.map(function, tasks[n_done:]):
                    n_done += 1
                    n_lost = 0
                    yield result
            except BrokenProcessPool as error:
                n_lost += 1
                if n_lost > _MAX_LOST:
                    raise SpecLspError(
                        f"{n_lost} counting processes in a row ended without a result.",
                        remedy="Try a smaller --memory or --processes 1: what is counted is kept.",
                    ) from error
            finally:
                pool.shutdown(cancel_futures=True)

    def map_here(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        return map(function, tasks)

    return map_here if n_processes == 1 else map_tasks


@contextmanager
def on_cluster(scheduler: str) -> Generator[MapTasks]:
    """Run tasks on the workers of a Dask cluster, which gives a lost worker's tasks to others.

    Raises SpecLspError where no scheduler answers, where it has no workers, or where each try of a
    task loses its worker.
    """
    try:
        from distributed import Client, KilledWorker, as_completed  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise SpecLspError(
            "--scheduler needs Dask, which is not installed.",
            remedy=install_extra("cluster"),
        ) from error

    def map_tasks(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        futures = client.map(function, tasks, pure=False)
        try:
            for _, result in as_completed(futures, with_results=True):
                yield result
        except KilledWorker as error:
            raise SpecLspError(
                f"several workers were lost with the same task: {error}.",
                remedy="Give them more memory than --memory, or make that smaller.",
            ) from error

    with ExitStack() as stack:
        try:
            client = stack.enter_context(Client(scheduler, timeout=_CONNECT_TIMEOUT_S))
            client.wait_for_workers(1, timeout=_CONNECT_TIMEOUT_S)
        except (OSError, ValueError) as error:
            raise SpecLspError(
                f"no Dask scheduler with a worker answers at {scheduler}: {error}.",
                remedy="Start one with `dask scheduler`, and workers with `dask worker`.",
            ) from error
        yield map_tasks
