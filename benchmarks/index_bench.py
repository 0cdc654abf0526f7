"""Measures the project index: building, looking up, replacing files, opening what was kept.

Everything is wall-clock time of one thread on a machine that does other things too.  Tokenising is
left out: it is done before.
"""

from __future__ import annotations

import gc
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

from benchmarks.look_up_times import Quantiles, look_up_ns, measure_look_up, typed_tails
from benchmarks.resident_memory import drop_from_page_cache, resident_bytes
from benchmarks.source_corpus import IndexedFile, SourceCorpus, varied
from benchmarks.stopwatch import Stopwatch
from speclsp.drafting.corpus import SegmentedCorpus
from speclsp.drafting.corpus_builder import CorpusBuilder, tokens_to_flush
from speclsp.drafting.protocol import TokenArray
from speclsp.drafting.segment import FileKey
from speclsp.drafting.segment_building import build_segment
from speclsp.storage.index_contents import KeptFile, path_id
from speclsp.storage.segment_store import SegmentStore

Tell = Callable[[str], None]

_SEED: Final = 7
_REPLACED_SHARE: Final = 0.1
_LARGEST_REPLACED: Final = 20_000
_MERGED_TOKENS: Final = 2_000_000
_FINGERPRINT: Final = "benchmark"
_ROOT: Final = "/benchmark"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSize:
    """An index of one size, as it is while files come."""

    n_tokens: int
    n_files: int
    n_segments: int
    build: Stopwatch
    """Since the first token, merging included."""
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
    """On all of them, merging included."""
    median_us_per_token: float
    slowest_s: float
    n_sorted_tokens: int
    settle_s: float
    """Merging afterwards, in idle time."""
    n_segments: int
    look_up: Quantiles
    """Before that merging, with the removed files still in their segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """An index that was kept and is opened again."""

    n_tokens: int
    n_segments: int
    save_s: float
    disk_bytes: int
    cold_s: float | None
    """With nothing in the page cache; None where that cannot be had."""
    warm_s: float
    resident_bytes: int | None
    look_up: Quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """All that was measured."""

    sizes: tuple[IndexSize, ...]
    settle_s: float
    settled_segments: int
    settled_look_up: Quantiles
    replacing: Replacing
    opening: Opening
    merging_s: float
    merged_tokens: int
    look_up_while_merging: Quantiles


def measure_index(corpus: SourceCorpus, marks: Sequence[int], tell: Tell) -> IndexReport:
    """Measure an index that grows over the ``marks`` (tokens) to the whole corpus."""
    random = np.random.default_rng(_SEED)
    tails = typed_tails(corpus, random)
    builder = CorpusBuilder()
    tell("building")
    sizes = _grow(builder, corpus.files, marks, tails)
    tell("merging in idle time")
    start_s = perf_counter()
    builder.settle()
    settle_s = perf_counter() - start_s
    settled = builder.snapshot()
    settled_look_up = measure_look_up(settled, tails)
    tell("looking up while merging")
    merging_s, merged_tokens, while_merging = _look_up_while_merging(settled, corpus.files, tails)
    tell("saving and opening")
    opening = _opening(builder, tails)
    tell("replacing files")
    replacing = _replacing(builder, dict(corpus.files), tails, random)
    return IndexReport(
        sizes=tuple(sizes),
        settle_s=settle_s,
        settled_segments=settled.n_segments,
        settled_look_up=settled_look_up,
        replacing=replacing,
        opening=opening,
        merging_s=merging_s,
        merged_tokens=merged_tokens,
        look_up_while_merging=while_merging,
    )


def _grow(
    builder: CorpusBuilder,
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
        builder.add(key, tokens)
        n_added += len(tokens)
        is_marked = n_added >= due[0]
        if is_marked or builder.n_pending_tokens >= tokens_to_flush(builder.n_indexed_tokens):
            with build:
                builder.flush()
                snapshot = builder.snapshot()
        if is_marked:
            due = [mark for mark in due if mark > n_added] or [n_added + 1]
            gc.collect()
            resident = resident_bytes()
            has_grown = resident is not None and resident_before is not None
            sizes.append(
                IndexSize(
                    n_tokens=n_added,
                    n_files=number,
                    n_segments=snapshot.n_segments,
                    build=replace(build),
                    array_bytes=snapshot.n_bytes,
                    resident_bytes=(resident or 0) - (resident_before or 0) if has_grown else None,
                    look_up=measure_look_up(snapshot, tails),
                )
            )
    return sizes


def _look_up_while_merging(
    corpus: SegmentedCorpus, files: Sequence[IndexedFile], tails: Sequence[TokenArray]
) -> tuple[float, int, Quantiles]:
    """Look up for as long as another thread sorts a large segment."""
    chosen: list[IndexedFile] = []
    n_tokens = 0
    for key, tokens in files:
        if n_tokens >= _MERGED_TOKENS:
            break
        chosen.append((key, tokens))
        n_tokens += len(tokens)
    thread = threading.Thread(target=build_segment, args=(chosen,))
    times: list[int] = []
    start_s = perf_counter()
    thread.start()
    while thread.is_alive() or not times:
        tail = tails[len(times) % len(tails)]
        times.append(look_up_ns(corpus, tail))
    thread.join()
    return perf_counter() - start_s, n_tokens, Quantiles.of(times)


def _opening(builder: CorpusBuilder, tails: Sequence[TokenArray]) -> Opening:
    keys = [key for segment in builder.segments for key in segment.spans]
    kept = {path_id(key.hex()): KeptFile((len(key), 0, 0, 0), key) for key in keys}
    with tempfile.TemporaryDirectory() as folder:
        store = SegmentStore(Path(folder) / "index")
        start_s = perf_counter()
        store.save(_ROOT, _FINGERPRINT, builder.segments, kept)
        save_s = perf_counter() - start_s
        cold_s = None
        if drop_from_page_cache(Path(folder)):
            cold_s, _ = _opened(Path(folder), keys)
        gc.collect()
        resident_before = resident_bytes()
        warm_s, corpus = _opened(Path(folder), keys)
        look_up = measure_look_up(corpus, tails)
        resident = resident_bytes()
        has_grown = resident is not None and resident_before is not None
        return Opening(
            n_tokens=corpus.n_tokens,
            n_segments=corpus.n_segments,
            save_s=save_s,
            disk_bytes=store.n_bytes,
            cold_s=cold_s,
            warm_s=warm_s,
            resident_bytes=(resident or 0) - (resident_before or 0) if has_grown else None,
            look_up=look_up,
        )


def _opened(folder: Path, keys: Sequence[FileKey]) -> tuple[float, SegmentedCorpus]:
    """Open what was saved, and find all files unchanged."""
    start_s = perf_counter()
    store = SegmentStore(folder / "index")
    builder = CorpusBuilder()
    builder.adopt(store.load(_ROOT, _FINGERPRINT).segments)
    for key in keys:
        builder.revive(key)
    builder.release()
    snapshot = builder.snapshot()
    return perf_counter() - start_s, snapshot


def _replacing(
    builder: CorpusBuilder,
    files: dict[FileKey, TokenArray],
    tails: Sequence[TokenArray],
    random: np.random.Generator,
) -> Replacing:
    """Replace files by variations of themselves until a tenth of all tokens is new."""
    keys = [key for key, tokens in files.items() if 0 < len(tokens) <= _LARGEST_REPLACED]
    n_wanted = int(sum(map(len, files.values())) * _REPLACED_SHARE)
    n_sorted_before = builder.n_sorted_tokens
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
            builder.remove(old_key)
            builder.add(new_key, tokens)
            builder.flush()
            builder.snapshot()
        slowest_s = max(slowest_s, spent.wall_s - former_s)
        each.append((spent.wall_s - former_s) / len(tokens))
        n_tokens += len(tokens)
    n_sorted = builder.n_sorted_tokens - n_sorted_before
    corpus = builder.snapshot()
    look_up = measure_look_up(corpus, tails)
    start_s = perf_counter()
    builder.settle()
    return Replacing(
        n_files=len(each),
        n_tokens=n_tokens,
        spent=spent,
        median_us_per_token=1e6 * float(np.median(each)) if each else 0.0,
        slowest_s=slowest_s,
        n_sorted_tokens=n_sorted,
        settle_s=perf_counter() - start_s,
        n_segments=corpus.n_segments,
        look_up=look_up,
    )
