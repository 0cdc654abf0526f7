"""Tables of an :class:`~benchmarks.index_bench.IndexReport`, with the aims beside."""

from __future__ import annotations

from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.index_bench import IndexReport
from benchmarks.look_up_times import Quantiles
from benchmarks.source_corpus import SourceCorpus

AIM_BUILD_MTOK_S: Final = 0.8
AIM_BYTES_PER_TOKEN: Final = 24.0
AIM_LOOK_UP_US: Final = 60.0
AIM_REPLACE_US: Final = 2.0


def corpus_line(corpus: SourceCorpus) -> str:
    """Say what is indexed."""
    line = (
        f"{len(corpus.files):,} Python files of this machine, {corpus.n_tokens:,} tokens of "
        f"{corpus.mean_token_chars:.1f} characters; {len(corpus.held_out):,} files held out."
    )
    if corpus.n_repeated_tokens:
        share = corpus.n_repeated_tokens / corpus.n_tokens
        line += f" {share:.0%} of the tokens are repetitions with one token in a hundred exchanged."
    return line


def growth_table(report: IndexReport) -> Table:
    """How the index grows."""
    table = _table(
        "Growth",
        *("M tokens", "files", "indexes", "Mtok/s", "B/token", "resident"),
        *_LOOK_UP_COLUMNS,
    )
    for size in report.sizes:
        table.add_row(
            f"{size.n_tokens / 1e6:.1f}",
            f"{size.n_files:,}",
            str(size.n_indexes),
            f"{size.n_tokens / size.build.wall_s / 1e6:.2f}",
            f"{size.array_bytes / size.n_tokens:.1f}",
            _per_token(size.resident_bytes, size.n_tokens),
            *_look_up_cells(size.look_up),
        )
    return table


def look_up_table(report: IndexReport) -> Table:
    """Look-ups in all states of the whole index."""
    table = _table("Look-ups", "state", "indexes", *_LOOK_UP_COLUMNS)
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
        table.add_row(name, str(n_indexes), *_look_up_cells(quantiles))
    return table


def aims_table(report: IndexReport) -> Table:
    """What was to be reached, at the largest size."""
    size, replacing = report.sizes[-1], report.replacing
    build = size.n_tokens / size.build.wall_s / 1e6
    replace_us = 1e6 * replacing.spent.wall_s / max(1, replacing.n_tokens)
    memory = max(size.array_bytes, size.resident_bytes or 0) / size.n_tokens
    slowest = max(size.look_up.p50, replacing.look_up.p50)
    table = _table("Aims", "what", "aim", "measured", "")
    for name, aim, unit, measured, is_reached in (
        (
            "build after tokenising",
            f"≥ {AIM_BUILD_MTOK_S}",
            "Mtok/s",
            build,
            build >= AIM_BUILD_MTOK_S,
        ),
        ("memory", f"≤ {AIM_BYTES_PER_TOKEN}", "B/token", memory, memory <= AIM_BYTES_PER_TOKEN),
        (
            "look-up, median in the slowest state",
            f"≤ {AIM_LOOK_UP_US}",
            "µs",
            slowest,
            slowest <= AIM_LOOK_UP_US,
        ),
        (
            "replace a file after tokenising, sorting included",
            f"≤ {AIM_REPLACE_US}",
            "µs/token",
            replace_us,
            replace_us <= AIM_REPLACE_US,
        ),
    ):
        verdict = "reached" if is_reached else "missed"
        table.add_row(name, f"{aim} {unit}", f"{measured:.2f} {unit}", verdict)
    return table


def remarks(report: IndexReport) -> list[str]:
    """What stands behind the figures."""
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


def _table(title: str, first: str, *rest: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column(first)
    for header in rest:
        table.add_column(header, justify="right")
    return table


def _per_token(n_bytes: int | None, n_tokens: int) -> str:
    return "unknown" if n_bytes is None else f"{n_bytes / n_tokens:.1f}"


def size_marks(n_tokens: int) -> list[int]:
    """Return the sizes at which a growing index is measured: 1, 2, 5, 10 … million tokens."""
    marks = [mantissa * 10**exponent for exponent in (6, 7) for mantissa in (1, 2, 5)]
    return [mark for mark in marks if mark < n_tokens]
