"""``python -m benchmarks index``: building, looking up, replacing files.

Everything is wall-clock time of one thread on a machine that does other things too.  Tokenising is
left out: it is done before.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter, perf_counter_ns, thread_time
from typing import Final

import numpy as np
import psutil

from benchmarks.figures import Percentiles
from benchmarks.progress import RunProgress
from benchmarks.report import Report
from benchmarks.source_corpus import IndexedFile, SourceCorpus, source_corpus, varied
from benchmarks.tables import Table
from speclsp.backends.llama.vocabulary import load_vocabulary
from speclsp.drafting.drafter import TokenArray
from speclsp.drafting.token_index import DEPTH, FileKey
from speclsp.embedded import model_files
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


def measure_look_up(corpus: Corpus, tails: Sequence[TokenArray]) -> Percentiles:
    """Time look-ups of matches of any length, in microseconds."""
    times: list[float] = []
    for tail in (*tails[:_N_WARM_UP], *tails):
        start_ns = perf_counter_ns()
        corpus.continuation(tail, 1, DEPTH, _N_DRAFTED)
        times.append((perf_counter_ns() - start_ns) / 1000)
    return Percentiles.of(times[_N_WARM_UP:])


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
    look_up: Percentiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacing:
    """Files replaced one by one, each searchable before the next."""

    n_files: int
    n_tokens: int
    spent: Stopwatch
    """On all of them, sorting included."""
    slowest_s: float
    n_sorted_tokens: int
    n_indexes: int
    look_up: Percentiles


@dataclass(frozen=True, slots=True)
class IndexReport:
    """All that was measured."""

    sizes: Sequence[IndexSize]
    replacing: Replacing


def measure_index(corpus: SourceCorpus, marks: Sequence[int], tell: Tell) -> IndexReport:
    """Measure an index that grows over the ``marks`` (tokens) to the whole corpus."""
    random = np.random.default_rng(_SEED)
    tails = typed_tails(corpus, random)
    index = Corpus()
    tell("building")
    sizes = _grow(index, corpus.files, marks, tails)
    tell("replacing files")
    return IndexReport(sizes, _replacing(index, dict(corpus.files), tails, random))


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
    n_files = n_tokens = 0
    spent = Stopwatch()
    slowest_s = 0.0
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
        n_files += 1
        n_tokens += len(tokens)
    return Replacing(
        n_files=n_files,
        n_tokens=n_tokens,
        spent=spent,
        slowest_s=slowest_s,
        n_sorted_tokens=index.n_sorted_tokens - n_sorted_before,
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


_LOOK_UP_COLUMNS: Final = ("p50 µs", "p95 µs", "p99 µs", "most µs")


def _look_up_cells(found: Percentiles) -> list[str]:
    return [f"{value:,.0f}" for value in (found.p50, found.p95, found.p99, found.most)]


def growth_table(sizes: Sequence[IndexSize]) -> Table:
    """Return the index's figures at each size."""
    headers = ("M tokens", "files", "indexes", "Mtok/s", "CPU s", "B/token", "resident")
    table = Table("Growth", (*headers, *_LOOK_UP_COLUMNS))
    for size in sizes:
        table.add(
            f"{size.n_tokens / 1e6:.1f}",
            f"{size.n_files:,}",
            str(size.n_indexes),
            f"{size.n_tokens / size.build.wall_s / 1e6:.2f}",
            f"{size.build.cpu_s:.2f}",
            f"{size.array_bytes / size.n_tokens:.1f}",
            f"{size.resident_bytes / size.n_tokens:.1f}",
            *_look_up_cells(size.look_up),
        )
    return table


def replacing_table(found: Replacing) -> Table:
    """Return what replacing files took, and look-ups behind it."""
    headers = ("tokens", "files", "indexes", "µs/token", "CPU µs/token", "slowest, ms", "sorted")
    table = Table(
        "Files replaced one by one, each searchable before the next",
        (*headers, *_LOOK_UP_COLUMNS),
        caption="*sorted*: how often a token was sorted, the mean.",
    )
    n_tokens = max(1, found.n_tokens)
    table.add(
        f"{found.n_tokens:,}",
        f"{found.n_files:,}",
        str(found.n_indexes),
        f"{1e6 * found.spent.wall_s / n_tokens:.2f}",
        f"{1e6 * found.spent.cpu_s / n_tokens:.2f}",
        f"{1e3 * found.slowest_s:,.0f}",
        f"{found.n_sorted_tokens / n_tokens:.1f}",
        *_look_up_cells(found.look_up),
    )
    return table


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
    tables = growth_table(report.sizes), replacing_table(report.replacing)
    return Report([corpus_line(corpus), *tables], report)
