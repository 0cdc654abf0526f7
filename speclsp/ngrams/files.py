"""Opens and writes statistics files of either layout."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from speclsp.atomic_write import PRIVATE, write_atomically
from speclsp.errors import StoreError
from speclsp.ngrams import llama_cpp_layout, own_layout
from speclsp.ngrams.counting import merge
from speclsp.ngrams.own_layout import VocabularyIdentity
from speclsp.ngrams.reading import OTHER_MODEL, damaged, read_bytes
from speclsp.ngrams.table import NgramTables, TableArrays
from speclsp.storage.locations import locked

_LOCK_WAIT_S: Final = 30.0

Layout = Literal["llama.cpp", "speclsp"]
Role = Literal["static", "dynamic"]
"""llama.cpp's roles: static files hold n-grams of two tokens, dynamic ones of one to four."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class StatisticsFile:
    """A file's content, checked."""

    path: Path
    tables: NgramTables
    header: VocabularyIdentity | None
    """The vocabulary that the file names; None for llama.cpp's layout, which names none."""

    @property
    def n_ngrams(self) -> Mapping[int, int]:
        """Number of n-grams by order."""
        return {order: len(table) for order, table in self.tables.by_order.items()}

    @property
    def layout(self) -> Layout:
        """The file's layout."""
        return "llama.cpp" if self.header is None else "speclsp"

    @property
    def role(self) -> Role:
        """The file's role."""
        return role_of(self.tables.by_order)


def role_of(orders: Collection[int]) -> Role:
    """Return the role of a file with these orders: static if all n-grams have two tokens."""
    return "static" if list(orders) == [llama_cpp_layout.STATIC_ORDER] else "dynamic"


def open_statistics(
    path: Path, vocabulary: VocabularyIdentity | None, role: Role | None = None
) -> StatisticsFile:
    """Read and check a file of either layout.

    ``vocabulary`` None accepts any vocabulary, ``role`` None any orders.  Raises StoreError with
    the file, the offset and the reason.
    """
    data = read_bytes(path)
    if not data.startswith(own_layout.MAGIC):
        orders = [2] if role == "static" else llama_cpp_layout.ALL_ORDERS
        n_vocab = None if vocabulary is None else vocabulary.n_tokens
        return StatisticsFile(path, llama_cpp_layout.parse(path, data, n_vocab, orders), None)
    header, tables = own_layout.parse(path, data)
    if vocabulary is not None and header.fingerprint != vocabulary.fingerprint:
        raise damaged(
            path,
            None,
            f"it belongs to another vocabulary ({header.n_tokens:,} tokens, fingerprint "
            f"{header.fingerprint[:8]}…, not {vocabulary.n_tokens:,} and "
            f"{vocabulary.fingerprint[:8]}…)",
            OTHER_MODEL,
        )
    if role == "static" and llama_cpp_layout.STATIC_ORDER not in tables.by_order:
        raise damaged(
            path,
            None,
            "it has no n-grams of 2 tokens, which static statistics are",
            "Name it in lookup_cache_dynamic instead.",
        )
    return StatisticsFile(path, tables, header)


def add_counts(path: Path, counted: NgramTables, vocabulary: VocabularyIdentity) -> None:
    """Add counts to a dynamic file; a missing one is written in llama.cpp's layout.

    Processes that do this at the same time wait for each other.
    Raises StoreError where the file cannot be read or written, or has another vocabulary.
    """
    path = path.resolve()
    try:
        with locked(path.with_name(f".{path.name}.lock"), _LOCK_WAIT_S):
            if not path.exists():
                write(path, counted.by_order, "llama.cpp", vocabulary)
                return
            file = open_statistics(path, vocabulary, "dynamic")
            write(path, merge([file.tables, counted]).by_order, file.layout, vocabulary)
    except OSError as error:  # filelock's Timeout, too
        raise _unwritable(path, error) from error


def write(
    path: Path,
    tables: Mapping[int, TableArrays],
    layout: Layout,
    vocabulary: VocabularyIdentity | None,
) -> None:
    """Write canonical tables by order, atomically.

    speclsp's layout needs a vocabulary.  Raises StoreError.
    """
    if layout == "speclsp" and vocabulary is None:
        raise StoreError(
            "speclsp's layout names the vocabulary, which a file of llama.cpp's layout lacks.",
            remedy="Name the model with --model.",
        )
    try:
        with (
            write_atomically(path, f".{path.name}.", PRIVATE) as partial,
            partial.open("wb") as stream,
        ):
            if layout == "llama.cpp":
                llama_cpp_layout.write(tables, stream)
            elif vocabulary is not None:
                own_layout.write(tables, vocabulary, stream)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {error.strerror or error}.",
        remedy="Name a file in a folder that may be written to and has enough space.",
    )
