"""Measures the project index: building, looking up, replacing files.

Everything is wall-clock time of one thread on a machine that does other things too.  Tokenising is
left out: it is done before.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final

import numpy as np

from benchmarks.look_up_times import Quantiles, look_up_ns, measure_look_up, typed_tails
from benchmarks.resident_memory import resident_bytes
from benchmarks.source_corpus import IndexedFile, SourceCorpus, varied
from benchmarks.stopwatch import Stopwatch
from speclsp.drafting.protocol import TokenArray
from speclsp.drafting.token_index import FileKey, TokenIndex
from speclsp.project.corpus import Corpus

Tell = Callable[[str], None]

_SEED: Final = 7
_FIRST_FLUSH: Final = 8_192
_REPLACED_SHARE: Final = 0.1
_LARGEST_REPLACED: Final = 20_000
_SORTED_TOKENS: Final = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSize:
    """An index of one size, as it is while files come."""

    n_tokens: int
    n_files: int
    n_indexes: int
    build: Stopwatch
    """Since the first token, sorting included."""
    array_bytes: int
    resident_bytes: int | None
    """How much the process grew; None where the system does not say."""
    look_up: Quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacing:
    """Files that were replaced one by one, each searchable before the next came."""

    n_files: int
    n_tokens: int
    spent: Stopwatch
    """On all of them, sorting included."""
    median_us_per_token: float
    slowest_s: float
    n_sorted_tokens: int
    n_indexes: int
    look_up: Quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """All that was measured."""

    sizes: tuple[IndexSize, ...]
    replacing: Replacing
    sorting_s: float
    sorted_tokens: int
    look_up_while_sorting: Quantiles


def measure_index(corpus: SourceCorpus, marks: Sequence[int], tell: Tell) -> IndexReport:
    """Measure an index that grows over the ``marks`` (tokens) to the whole corpus."""
    random = np.random.default_rng(_SEED)
    tails = typed_tails(corpus, random)
    index = Corpus()
    tell("building")
    sizes = _grow(index, corpus.files, marks, tails)
    tell("looking up while sorting")
    sorting_s, sorted_tokens, while_sorting = _look_up_while_sorting(index, corpus.files, tails)
    tell("replacing files")
    return IndexReport(
        sizes=tuple(sizes),
        replacing=_replacing(index, dict(corpus.files), tails, random),
        sorting_s=sorting_s,
        sorted_tokens=sorted_tokens,
        look_up_while_sorting=while_sorting,
    )


def _grow(
    index: Corpus,
    files: Sequence[IndexedFile],
    marks: Sequence[int],
    tails: Sequence[TokenArray],
) -> list[IndexSize]:
    """Add all files, as an index does, and measure at each mark and at the end."""
    gc.collect()
    resident_before = resident_bytes()
    sizes: list[IndexSize] = []
    due = sorted({*marks, sum(len(tokens) for _, tokens in files)})
    build = Stopwatch()
    n_added = 0
    for number, (key, tokens) in enumerate(files, start=1):
        index.add(key, tokens)
        n_added += len(tokens)
        is_marked = n_added >= due[0]
        if is_marked or index.n_pending_tokens >= max(_FIRST_FLUSH, index.n_tokens):
            with build:
                index.flush()
        if is_marked:
            due = [mark for mark in due if mark > n_added] or [n_added + 1]
            gc.collect()
            resident = resident_bytes()
            has_grown = resident is not None and resident_before is not None
            sizes.append(
                IndexSize(
                    n_tokens=n_added,
                    n_files=number,
                    n_indexes=index.n_indexes,
                    build=replace(build),
                    array_bytes=index.n_bytes,
                    resident_bytes=(resident or 0) - (resident_before or 0) if has_grown else None,
                    look_up=measure_look_up(index, tails),
                )
            )
    return sizes


def _look_up_while_sorting(
    index: Corpus, files: Sequence[IndexedFile], tails: Sequence[TokenArray]
) -> tuple[float, int, Quantiles]:
    """Look up for as long as another thread sorts a large segment."""
    chosen: list[IndexedFile] = []
    n_tokens = 0
    for key, tokens in files:
        if n_tokens >= _SORTED_TOKENS:
            break
        chosen.append((key, tokens))
        n_tokens += len(tokens)
    thread = threading.Thread(target=TokenIndex, args=(chosen,))
    times: list[int] = []
    start_s = perf_counter()
    thread.start()
    while thread.is_alive() or not times:
        tail = tails[len(times) % len(tails)]
        times.append(look_up_ns(index, tail))
    thread.join()
    return perf_counter() - start_s, n_tokens, Quantiles.of(times)


def _replacing(
    index: Corpus,
    files: dict[FileKey, TokenArray],
    tails: Sequence[TokenArray],
    random: np.random.Generator,
) -> Replacing:
    """Replace files by variations of themselves until a tenth of all tokens is new."""
    keys = [key for key, tokens in files.items() if 0 < len(tokens) <= _LARGEST_REPLACED]
    n_wanted = int(sum(map(len, files.values())) * _REPLACED_SHARE)
    n_sorted_before = index.n_sorted_tokens
    n_tokens = 0
    spent = Stopwatch()
    slowest_s = 0.0
    each: list[float] = []
    for old_key in (keys[number] for number in random.permutation(len(keys)).tolist()):
        if n_tokens >= n_wanted:
            break
        tokens = varied(files[old_key], random)
        new_key = random.bytes(len(old_key))
        former_s = spent.wall_s
        with spent:
            index.remove(old_key)
            index.add(new_key, tokens)
            index.flush()
        slowest_s = max(slowest_s, spent.wall_s - former_s)
        each.append((spent.wall_s - former_s) / len(tokens))
        n_tokens += len(tokens)
    n_sorted = index.n_sorted_tokens - n_sorted_before
    return Replacing(
        n_files=len(each),
        n_tokens=n_tokens,
        spent=spent,
        median_us_per_token=1e6 * float(np.median(each)) if each else 0.0,
        slowest_s=slowest_s,
        n_sorted_tokens=n_sorted,
        n_indexes=index.n_indexes,
        look_up=measure_look_up(index, tails),
    )
