"""Counts the n-grams of folders in several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
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

_N_FILES_SENT: Final = 16
"""Files that a process gets at once."""
_MERGE_ROWS: Final = 4_000_000


@dataclass(slots=True)
class Counted:
    """The n-grams of some files."""

    tables: NgramTables
    n_files: int = 0
    n_tokens: int = 0


@dataclass(frozen=True, slots=True)
class _FileCounts:
    """The counts of one file by order, in a form that can be sent between processes."""

    rows: dict[int, Observations]
    n_texts: int
    """1, or 0 where the file is no source text."""
    n_tokens: int
    n_bytes: int


def found_files(folders: Sequence[Path], settings: Settings) -> tuple[list[FoundFile], bool]:
    """Return the readable files below some folders, and whether ``max_files`` left some out.

    Ignored files and files that look like secrets are left out, as in the project index.  A file
    that two folders hold counts once.
    """
    found: dict[str, FoundFile] = {}
    truncated = False
    for folder in folders:
        root, tally = folder.resolve(), ScanTally()
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


def count_files(
    files: Sequence[FoundFile],
    model: Path,
    *,
    orders: Sequence[int],
    max_file_size: int,
    n_processes: int,
    progress: Callable[[int], None],
) -> Counted:
    """Count the n-grams of files; the counts do not depend on the number of processes.

    ``progress`` is called with the number of bytes counted since the last call.
    Raises SpecLspError.
    """
    counted = Counted(NgramTables({}))
    pending: list[dict[int, Observations]] = []
    n_pending = 0
    count = partial(_count_file, model, tuple(orders), max_file_size)
    for of_file in _mapped(count, files, n_processes):
        counted.n_files += of_file.n_texts
        counted.n_tokens += of_file.n_tokens
        pending.append(of_file.rows)
        n_pending += sum(rows.tokens.size for rows in of_file.rows.values())
        # Merge many at a time, so that each count is copied few times.
        n_merged = sum(table.n_followers for table in counted.tables.by_order.values())
        if n_pending > max(_MERGE_ROWS, n_merged):
            counted.tables = summed([rows_by_order(counted.tables), *pending])
            pending, n_pending = [], 0
        progress(of_file.n_bytes)
    counted.tables = summed([rows_by_order(counted.tables), *pending])
    return counted


def _count_file(
    model: Path, orders: tuple[int, ...], max_file_size: int, file: FoundFile
) -> _FileCounts:
    """Count the n-grams of a file; runs in any process."""
    texts = list(texts_tokens([file], max_file_size, _vocabulary(model)))
    return _FileCounts(
        rows=rows_by_order(count_tokens(texts, orders)),
        n_texts=len(texts),
        n_tokens=sum(tokens.size for tokens in texts),
        n_bytes=file.signature.n_bytes,
    )


@cache
def _vocabulary(model: Path) -> LlamaVocabulary:
    """Load a vocabulary once in each process."""
    return load_vocabulary(model)


def _mapped(
    count: Callable[[FoundFile], _FileCounts], files: Sequence[FoundFile], n_processes: int
) -> Iterator[_FileCounts]:
    n_processes = min(n_processes, len(files) // _N_FILES_SENT)
    if n_processes < 2:
        yield from map(count, files)
        return
    # Spawned, since llama.cpp and its threads do not survive a fork.
    pool = ProcessPoolExecutor(n_processes, mp_context=multiprocessing.get_context("spawn"))
    try:
        yield from pool.map(count, files, chunksize=_N_FILES_SENT)
    except (OSError, RuntimeError) as error:
        raise SpecLspError(
            f"a process that counts ended: {error}.", remedy="Try --processes 1."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
