"""Statistics files of either layout: opened for a purpose and a vocabulary, written in one go."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from speclsp.atomic_write import PRIVATE, written_whole
from speclsp.drafting.ngram_statistics import NgramCounts
from speclsp.errors import StoreError
from speclsp.ngrams import llama_cpp_layout
from speclsp.ngrams.damage import OTHER_MODEL, damaged
from speclsp.ngrams.own_layout import OwnFile, is_own_layout, open_own, write_own
from speclsp.ngrams.table import NgramTables

Layout = Literal["llama.cpp", "speclsp"]
IN_MEMORY_BYTES = 32 << 20
"""Files of speclsp's layout that are no larger are read at once, which takes some 15 ms, and looked
up in a quarter of the time that reading from the file takes."""
Role = Literal["static", "dynamic"]
"""As llama.cpp has it: static files hold n-grams of two tokens, dynamic ones of one to four."""


class VocabularyIdentity(Protocol):
    """What tells vocabularies apart."""

    @property
    def n_tokens(self) -> int:
        """How many token ids there are."""

    @property
    def fingerprint(self) -> str:
        """A hash over all tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsFile:
    """An open file."""

    path: Path
    counts: NgramCounts
    """What is looked up: in memory, or in the file itself where it is of speclsp's layout."""
    n_ngrams: Mapping[int, int]
    """How many n-grams there are of each order."""
    tables: Callable[[], NgramTables]
    """Returns everything, read from the file if need be.  Raises StoreError."""
    own: OwnFile | None
    """The file itself where it is of speclsp's layout."""

    @property
    def layout(self) -> Layout:
        """How it is written."""
        return "llama.cpp" if self.own is None else "speclsp"

    @property
    def role(self) -> Role:
        """What it is fit for: static where it holds nothing but n-grams of two tokens."""
        is_static = list(self.n_ngrams) == [llama_cpp_layout.STATIC_ORDER]
        return "static" if is_static else "dynamic"


def open_statistics(
    path: Path, vocabulary: VocabularyIdentity | None, role: Role | None = None
) -> StatisticsFile:
    """Open a file; llama.cpp's layout is read as a whole, as are small files of speclsp's.

    ``vocabulary`` None takes any.  ``role`` None takes any orders.  Raises StoreError that names
    file, offset and reason.
    """
    if not is_own_layout(path):
        orders = [2] if role == "static" else llama_cpp_layout.ALL_ORDERS
        n_vocab = None if vocabulary is None else vocabulary.n_tokens
        tables = llama_cpp_layout.read(path, n_vocab, orders)
        n_ngrams = {order: len(table) for order, table in tables.by_order.items()}
        return StatisticsFile(path, tables, n_ngrams, lambda: tables, None)
    own = open_own(path)
    header = own.header
    n_ngrams = {table.order: table.n_ngrams for table in header.tables}
    if vocabulary is not None and header.fingerprint != vocabulary.fingerprint:
        raise damaged(
            path,
            0,
            f"it belongs to another vocabulary ({header.n_tokens:,} tokens, fingerprint "
            f"{header.fingerprint[:8]}…, not {vocabulary.n_tokens:,} and "
            f"{vocabulary.fingerprint[:8]}…)",
            OTHER_MODEL,
        )
    if role == "static" and llama_cpp_layout.STATIC_ORDER not in n_ngrams:
        raise damaged(
            path,
            0,
            "it has no n-grams of 2 tokens, which static statistics are",
            "Name it in lookup_cache_dynamic instead.",
        )
    is_small = own.stored.n_bytes <= IN_MEMORY_BYTES
    return StatisticsFile(path, own.tables() if is_small else own.counts, n_ngrams, own.tables, own)


def write(
    path: Path, tables: NgramTables, layout: Layout, vocabulary: VocabularyIdentity | None
) -> None:
    """Write canonical tables, replacing the file at once or not at all.

    speclsp's layout needs a vocabulary.  Raises StoreError.
    """
    if layout == "llama.cpp":
        llama_cpp_layout.check_orders(tables)
    elif vocabulary is None:
        raise StoreError(
            "speclsp's layout notes the vocabulary, and llama.cpp's does not say it.",
            remedy="Name the model with --model.",
        )
    try:
        with (
            written_whole(path, f".{path.name}.", PRIVATE) as partial,
            partial.open("wb") as stream,
        ):
            if layout == "llama.cpp":
                llama_cpp_layout.write(tables, stream)
            elif vocabulary is not None:
                write_own(tables, vocabulary.fingerprint, vocabulary.n_tokens, stream)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {error.strerror or error}.",
        remedy="Name a file in a folder that may be written to and has enough space.",
    )
