"""``python -m benchmarks index``: building, looking up, replacing files.

Everything is wall-clock time of one thread on a machine that does other things too.  Tokenising is
left out: it is done before.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter, perf_counter_ns, thread_time
from typing import Final, NamedTuple

import numpy as np
import psutil

from benchmarks.progress import RunProgress
from benchmarks.report import Report
from benchmarks.source_corpus import IndexedFile, SourceCorpus, source_corpus, varied
from benchmarks.tables import Table
from speclsp.drafting.protocol import TokenArray
from speclsp.drafting.token_index import DEPTH, FileKey, TokenIndex
from speclsp.embedded import model_files
from speclsp.engine.llama.vocabulary import load_vocabulary
from speclsp.project.corpus import Corpus
from speclsp.settings import Settings


@dataclass(slots=True)
class Stopwatch:
    """Adds up the time of ``with`` blocks; belongs to one thread."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    """Of this thread: less than on the wall where other processes want the processor too."""
    _start: tuple[float, float] = field(default=(0.0, 0.0), repr=False)

    def __enter__(self) -> None:
        self._start = perf_counter(), thread_time()

    def __exit__(self, *_: object) -> None:
        self.wall_s += perf_counter() - self._start[0]
        self.cpu_s += thread_time() - self._start[1]


_N_LOOK_UPS: Final = 4_000
_N_WARM_UP: Final = 200
_N_DRAFTED: Final = 15
_TAIL_TOKENS: Final = 64
_TYPED_TOKENS: Final = 8


class Quantiles(NamedTuple):
    """Microseconds."""

    p50: float
    p95: float
    p99: float
    slowest: float

    @classmethod
    def of(cls, nanoseconds: Sequence[int]) -> Quantiles:
        """Compute them from measured times."""
        p50, p95, p99 = (np.percentile(nanoseconds, [50, 95, 99]) / 1000).tolist()
        return cls(p50, p95, p99, max(nanoseconds) / 1000)


def measure_look_up(corpus: Corpus, tails: Sequence[TokenArray]) -> Quantiles:
    """Time look-ups of matches of any length."""
    for tail in tails[:_N_WARM_UP]:
        corpus.continuation(tail, 1, DEPTH, _N_DRAFTED)
    return Quantiles.of([look_up_ns(corpus, tail) for tail in tails])


def look_up_ns(corpus: Corpus, tail: TokenArray) -> int:
    """Time one look-up in nanoseconds."""
    start_ns = perf_counter_ns()
    corpus.continuation(tail, 1, DEPTH, _N_DRAFTED)
    return perf_counter_ns() - start_ns


def typed_tails(corpus: SourceCorpus, random: np.random.Generator) -> list[TokenArray]:
    """Ends of texts being typed: half new files, half indexed ones with a change just before."""
    known = [tokens for _, tokens in corpus.files]
    sources = [
        [tokens for tokens in group if len(tokens) > _TAIL_TOKENS]
        for group in (corpus.held_out, known)
    ]
    tails: list[TokenArray] = []
    for number in range(_N_LOOK_UPS):
        choices = sources[number % 2] or sources[1]
        tokens = choices[int(random.integers(len(choices)))]
        end = int(random.integers(_TAIL_TOKENS, len(tokens)))
        tail = tokens[end - _TAIL_TOKENS : end].copy()
        if number % 2:
            tail[-int(random.integers(1, _TYPED_TOKENS))] = random.choice(tokens)
        tails.append(tail)
    return tails


Tell = Callable[[str], None]

_SEED: Final = 7
_FIRST_FLUSH: Final = 8_192
_REPLACED_SHARE: Final = 0.1
_LARGEST_REPLACED: Final = 20_000
_SORTED_TOKENS: Final = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSize:
    """The index at one size, while files are added."""

    n_tokens: int
    n_files: int
    n_indexes: int
    build: Stopwatch
    """Since the first token, sorting included."""
    array_bytes: int
    resident_bytes: int
    """How much the process grew."""
    look_up: Quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacing:
    """Files replaced one by one, each searchable before the next."""

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
    process = psutil.Process()
    resident_before = process.memory_info().rss
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
            sizes.append(
                IndexSize(
                    n_tokens=n_added,
                    n_files=number,
                    n_indexes=index.n_indexes,
                    build=replace(build),
                    array_bytes=index.n_bytes,
                    resident_bytes=process.memory_info().rss - resident_before,
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


def corpus_line(corpus: SourceCorpus) -> str:
    """Describe the indexed files."""
    line = (
        f"{len(corpus.files):,} Python files of this machine, {corpus.n_tokens:,} tokens of "
        f"{corpus.mean_token_chars:.1f} characters; {len(corpus.held_out):,} files held out."
    )
    if corpus.n_repeated_tokens:
        share = corpus.n_repeated_tokens / corpus.n_tokens
        line += f" {share:.0%} of the tokens are repetitions with one token in a hundred exchanged."
    return line


def growth_table(report: IndexReport) -> Table:
    """Return the index's figures at each size."""
    table = Table(
        "Growth",
        ("M tokens", "files", "indexes", "Mtok/s", "B/token", "resident", *_LOOK_UP_COLUMNS),
    )
    for size in report.sizes:
        table.add(
            f"{size.n_tokens / 1e6:.1f}",
            f"{size.n_files:,}",
            str(size.n_indexes),
            f"{size.n_tokens / size.build.wall_s / 1e6:.2f}",
            f"{size.array_bytes / size.n_tokens:.1f}",
            f"{size.resident_bytes / size.n_tokens:.1f}",
            *_look_up_cells(size.look_up),
        )
    return table


def look_up_table(report: IndexReport) -> Table:
    """Return look-up times in each state of the whole index."""
    table = Table("Look-ups", ("state", "indexes", *_LOOK_UP_COLUMNS))
    rows = (
        ("as built", report.sizes[-1].n_indexes, report.sizes[-1].look_up),
        (
            f"while {report.sorted_tokens / 1e6:.1f} M tokens are sorted",
            report.sizes[-1].n_indexes,
            report.look_up_while_sorting,
        ),
        ("after replacing files", report.replacing.n_indexes, report.replacing.look_up),
    )
    for name, n_indexes, quantiles in rows:
        table.add(name, str(n_indexes), *_look_up_cells(quantiles))
    return table


def summary_table(report: IndexReport) -> Table:
    """Return the figures of the largest size that stand for the others."""
    size, replacing = report.sizes[-1], report.replacing
    build = size.n_tokens / size.build.wall_s / 1e6
    replace_us = 1e6 * replacing.spent.wall_s / max(1, replacing.n_tokens)
    memory = max(size.array_bytes, size.resident_bytes) / size.n_tokens
    slowest = max(size.look_up.p50, replacing.look_up.p50)
    table = Table("At the largest size", ("", "measured"))
    table.add("build after tokenising", f"{build:.2f} Mtok/s")
    table.add("memory", f"{memory:.2f} B/token")
    table.add("look-up, median in the slowest state", f"{slowest:.2f} µs")
    table.add("replace a file after tokenising, sorting included", f"{replace_us:.2f} µs/token")
    return table


def remarks(report: IndexReport) -> list[str]:
    """Return further figures as sentences."""
    size, replacing = report.sizes[-1], report.replacing
    replace_cpu_us = 1e6 * replacing.spent.cpu_s / max(1, replacing.n_tokens)
    n_times = replacing.n_sorted_tokens / max(1, replacing.n_tokens)
    return [
        (
            f"Replaced: {replacing.n_files:,} files of {replacing.n_tokens:,} tokens, each token "
            f"sorted {n_times:.1f} times; median {replacing.median_us_per_token:.2f} µs/token, "
            f"slowest file {1e3 * replacing.slowest_s:,.0f} ms."
        ),
        (
            f"By processor time, whatever else the machine does: built at "
            f"{size.n_tokens / size.build.cpu_s / 1e6:.2f} Mtok/s, replaced at "
            f"{replace_cpu_us:.2f} µs/token."
        ),
        f"Sorting {report.sorted_tokens:,} tokens beside look-ups took {report.sorting_s:.1f} s.",
    ]


_LOOK_UP_COLUMNS: Final = ("p50 µs", "p95 µs", "p99 µs", "most µs")


def _look_up_cells(quantiles: Quantiles) -> list[str]:
    return [f"{value:,.0f}" for value in quantiles]


def size_marks(n_tokens: int) -> list[int]:
    """Return the sizes at which a growing index is measured: 1, 2, 5, 10 … million tokens."""
    marks = [mantissa * 10**exponent for exponent in (6, 7) for mantissa in (1, 2, 5)]
    return [mark for mark in marks if mark < n_tokens]


def run(settings: Settings, *, n_tokens: int) -> Report:
    """Measure an index of Python files of this machine."""
    vocabulary = load_vocabulary(model_files(settings).target)
    with RunProgress() as progress:
        task = progress.add_task("tokenising", total=None)
        corpus = source_corpus(vocabulary.tokenize, n_tokens)
        report = measure_index(
            corpus,
            size_marks(n_tokens),
            lambda what: progress.update(task, description=what, advance=1),
        )
    tables = growth_table(report), look_up_table(report), summary_table(report)
    return Report([corpus_line(corpus), *tables, *remarks(report)], report)
