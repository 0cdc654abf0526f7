"""A statistics file as a line and a table."""

from __future__ import annotations

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.filesize import decimal
from rich.table import Table

from speclsp.ngrams.counting import rows_of
from speclsp.ngrams.files import StatisticsFile


def info_line(file: StatisticsFile) -> str:
    """Say what a file is."""
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
