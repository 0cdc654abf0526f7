"""speclsp's layout of statistics files, with the vocabulary's fingerprint and checksums.

The files are NumPy's ``.npz``, a ZIP archive of uncompressed arrays with a CRC-32 for each:
``vocabulary`` (its fingerprint), ``n_tokens`` (its size) and, for each order, the arrays of an
:class:`~speclsp.ngrams.table.NgramTable`, as in ``grams_3``.  A file that speclsp created to keep
what it learns in has an id, ``learned``.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import numpy as np

from speclsp.drafting.drafter import TokenArray
from speclsp.ngrams.reading import check_regular, damaged
from speclsp.ngrams.table import MAX_COUNT, NgramTable, NgramTables, TableArrays, rows_of_grams

MAGIC: Final = b"PK\x03\x04"

_ARRAYS: Final = ("grams", "lengths", "tokens", "counts")


class VocabularyIdentity(Protocol):
    """What identifies a vocabulary."""

    @property
    def n_tokens(self) -> int:
        """How many token ids there are."""

    @property
    def fingerprint(self) -> str:
        """A hash over all tokens."""


@dataclass(frozen=True, slots=True)
class FileHeader:
    """The vocabulary of a file."""

    fingerprint: str
    """See :class:`speclsp.vocabulary_protocol.Vocabulary`."""
    n_tokens: int
    learned_id: str = ""
    """The id of a file that speclsp created for what it learns; "" for other files."""


def read_header(path: Path) -> FileHeader | None:
    """Return a file's header without its counts; None for another layout.

    Raises StoreError for a damaged or unreadable file.
    """
    check_regular(path)
    try:
        with path.open("rb") as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                return None
        with np.load(path, allow_pickle=False) as arrays:
            return _header(arrays)
    except Exception as error:  # a damaged archive makes zipfile and NumPy raise anything
        raise damaged(path, None, f"the file is cut or damaged ({error})") from error


def _header(arrays: Mapping[str, Any]) -> FileHeader:
    learned_id = str(arrays["learned"]) if "learned" in arrays else ""
    return FileHeader(str(arrays["vocabulary"]), int(arrays["n_tokens"]), learned_id)


def parse(path: Path, data: bytes) -> tuple[FileHeader, NgramTables]:
    """Read a file's content and verify all checksums.

    Raises StoreError with the reason.
    """
    try:
        header, tables = _read(data)
    except Exception as error:  # a damaged archive makes zipfile and NumPy raise anything
        raise damaged(path, None, f"the file is cut or damaged ({error})") from error
    return header, NgramTables(tables)


def _read(data: bytes) -> tuple[FileHeader, dict[int, NgramTable]]:
    """Read all arrays.  Raises ValueError, and what zipfile and NumPy raise."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        # Compressed or overlapping members could fill the memory.
        if sum(member.file_size for member in archive.infolist()) > len(data):
            raise ValueError("its arrays are larger than the file")
        broken = archive.testzip()
    if broken is not None:
        raise ValueError(f"the checksum of {broken} is wrong")
    arrays = dict(np.load(io.BytesIO(data), allow_pickle=False))
    header = _header(arrays)
    orders = sorted(int(name.removeprefix("grams_")) for name in arrays if "grams_" in name)
    return header, {
        order: _table(order, header.n_tokens, *(arrays[f"{name}_{order}"] for name in _ARRAYS))
        for order in orders
    }


def _table(
    order: int,
    n_vocab: int,
    grams: TokenArray,
    lengths: TokenArray,
    tokens: TokenArray,
    counts: TokenArray,
) -> NgramTable:
    """Return a checked table.

    Raises ValueError if the arrays do not fit together, or a number is out of range.
    """
    n_rows, n_followers = len(grams), len(tokens)
    arrays = (grams, lengths, tokens, counts)
    sizes = ((n_rows, order), (n_rows,), (n_followers,), (n_followers,))
    are_whole = all(array.dtype.kind in "iu" for array in arrays)
    if not are_whole or not n_rows or tuple(array.shape for array in arrays) != sizes:
        raise ValueError(f"the arrays of order {order} do not fit together")
    if int(lengths.min()) < 1 or int(lengths.sum(dtype=np.int64)) != n_followers:
        raise ValueError(
            f"the n-grams of order {order} do not have as many followers as they claim"
        )
    if not all(0 <= int(ids.min()) <= int(ids.max()) < n_vocab for ids in (grams, tokens)):
        raise ValueError(f"order {order} has tokens outside of {n_vocab:,}")
    if not 1 <= int(counts.min()) <= int(counts.max()) <= MAX_COUNT:
        raise ValueError(f"order {order} has counts out of range")
    return NgramTable(
        order=order,
        rows=rows_of_grams(grams),
        lengths=np.ascontiguousarray(lengths, np.uint32),
        tokens=np.ascontiguousarray(tokens, np.int32),
        counts=np.ascontiguousarray(counts, np.int32),
    )


def write(
    tables: Mapping[int, TableArrays],
    vocabulary: VocabularyIdentity,
    stream: BinaryIO,
    learned_id: str = "",
) -> None:
    """Write canonical tables by order.  NumPy copies 16 MiB of an array at a time."""
    arrays: dict[str, Any] = {
        "vocabulary": vocabulary.fingerprint,
        "n_tokens": vocabulary.n_tokens,
    }
    if learned_id:
        arrays["learned"] = learned_id
    for order, table in sorted(tables.items()):
        arrays |= {f"{name}_{order}": getattr(table, name) for name in _ARRAYS}
    np.savez(stream, **arrays)
