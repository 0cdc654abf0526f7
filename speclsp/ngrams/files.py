"""Opens and writes statistics files of either layout."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from speclsp.atomic_write import PRIVATE, write_atomically
from speclsp.errors import StoreError
from speclsp.ngrams import llama_cpp_layout, own_layout
from speclsp.ngrams.learned import LearnedCounts
from speclsp.ngrams.own_layout import FileHeader, VocabularyIdentity
from speclsp.ngrams.reading import OTHER_MODEL, damaged, read_bytes
from speclsp.ngrams.table import NgramTables, TableArrays

Layout = Literal["llama.cpp", "speclsp"]
Role = Literal["static", "dynamic"]
"""llama.cpp's roles: static files hold n-grams of two tokens, dynamic ones of one to four."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class StatisticsFile:
    """A file's content, checked."""

    path: Path
    tables: NgramTables
    header: FileHeader | None
    """The vocabulary that the file names; None for llama.cpp's layout, which names none."""
    counted_as: str = ""
    """The id under which it counts learned texts; see
    :class:`~speclsp.ngrams.learned_file.LearnedFile`."""
    learned: LearnedCounts | None = None
    """What the file lacks of what was learned: its journal's counts, which grow."""

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
    return parse_statistics(path, read_bytes(path), vocabulary, role)


def parse_statistics(
    path: Path, data: bytes, vocabulary: VocabularyIdentity | None, role: Role | None = None
) -> StatisticsFile:
    """Check a file's content, as :func:`open_statistics` does."""
    if not data.startswith(own_layout.MAGIC):
        orders = [2] if role == "static" else llama_cpp_layout.ALL_ORDERS
        n_vocab = None if vocabulary is None else vocabulary.n_tokens
        return StatisticsFile(path, llama_cpp_layout.parse(path, data, n_vocab, orders), None)
    header, tables = own_layout.parse(path, data)
    if vocabulary is not None:
        check_vocabulary(path, header, vocabulary)
    if role == "static" and llama_cpp_layout.STATIC_ORDER not in tables.by_order:
        raise damaged(
            path,
            None,
            "it has no n-grams of 2 tokens, which static statistics are",
            "Name it in lookup_cache_dynamic instead.",
        )
    return StatisticsFile(path, tables, header)


def check_vocabulary(path: Path, header: FileHeader, vocabulary: VocabularyIdentity) -> None:
    """Raise StoreError if a file of speclsp's layout is another vocabulary's."""
    if header.fingerprint != vocabulary.fingerprint:
        raise damaged(
            path,
            None,
            f"it belongs to another vocabulary ({header.n_tokens:,} tokens, fingerprint "
            f"{header.fingerprint[:8]}…, not {vocabulary.n_tokens:,} and "
            f"{vocabulary.fingerprint[:8]}…)",
            OTHER_MODEL,
        )


def write(
    path: Path,
    tables: Mapping[int, TableArrays],
    layout: Layout,
    vocabulary: VocabularyIdentity | None,
    *,
    learned_id: str = "",
    ready: Callable[[Path], None] = lambda _partial: None,
) -> None:
    """Write canonical tables by order, atomically.

    speclsp's layout needs a vocabulary, and takes the id of a file for what is learned.  ``ready``
    gets the whole new file before it replaces the former one; what it raises prevents that.
    Raises StoreError.
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
                own_layout.write(tables, vocabulary, stream, learned_id)
            stream.flush()
            os.fsync(stream.fileno())
            ready(partial)
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> StoreError:
    """Return the error for a file that the system does not let write."""
    return StoreError(
        f"{path} cannot be written: {error.strerror or error}.",
        remedy="Name a file in a folder that may be written to and has enough space.",
    )
