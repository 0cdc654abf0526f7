"""Reads and writes speclsp's statistics files, which name their vocabulary and have checksums.

::

    magic [8]   version u32   header size u32   header's CRC-32 u32   0 u32
    header: JSON, padded to a multiple of 64 bytes
    body: for each order the arrays of its NgramTable
    CRC-32 of each MiB of the body: u32 …, and of these checksums: u32

All numbers are little-endian.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Annotated, Any, BinaryIO, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from speclsp.ngrams.reading import damaged
from speclsp.ngrams.table import NgramTable, NgramTables

MAGIC: Final = b"\x93SPNGRM\n"
VERSION: Final = 1
BLOCK_BYTES: Final = 1 << 20
"""Bytes of the body that share a checksum."""

_PREAMBLE: Final = Struct("<8sIIII")
_ALIGNMENT: Final = 64
_CRC: Final = Struct("<I")

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_NotNegative = Annotated[int, msgspec.Meta(ge=0)]


class TableHeader(msgspec.Struct, frozen=True):
    """Sizes of one order's table."""

    order: _Positive
    n_buckets: _Positive
    n_ngrams: _NotNegative
    n_followers: _NotNegative

    def arrays(self) -> Iterator[tuple[str, Any, tuple[int, ...]]]:
        """Yield the name, type and shape of each array, in the file's order."""
        rows, followers = (self.n_ngrams,), (self.n_followers,)
        yield "starts", np.int64, (self.n_buckets + 1,)
        yield "tags", np.uint32, rows
        yield "grams", np.int32, (self.n_ngrams, self.order)
        yield "begins", np.uint32, rows
        yield "lengths", np.uint32, rows
        yield "tokens", np.int32, followers
        yield "counts", np.int32, followers

    @property
    def n_bytes(self) -> int:
        """Bytes in the file, with the padding that aligns the next table's first array."""
        n_words = self.n_ngrams * (self.order + 3) + 2 * self.n_followers
        return 8 * (self.n_buckets + 1) + 4 * (n_words + n_words % 2)


class FileHeader(msgspec.Struct, frozen=True):
    """A file's header."""

    fingerprint: str
    """See :class:`speclsp.prompt.protocol.Vocabulary`."""
    n_tokens: int
    """Size of the vocabulary."""
    tables: tuple[TableHeader, ...]


def parse(path: Path, data: bytes) -> tuple[FileHeader, NgramTables]:
    """Read the content of a file that begins with the magic; verify checksums, tokens and counts.

    Raises StoreError with the offset of the first error.
    """
    header, body_offset = _header(path, data)
    end = body_offset + sum(table.n_bytes for table in header.tables)
    n_blocks = -(-(end - body_offset) // BLOCK_BYTES)
    n_expected = end + _CRC.size * (n_blocks + 1)
    if n_expected != len(data):
        raise damaged(
            path,
            min(len(data), n_expected),
            f"the file has {len(data):,} bytes instead of {n_expected:,}",
        )
    checksums = data[end:]
    *expected, own = np.frombuffer(checksums, dtype="<u4").tolist()
    if zlib.crc32(checksums[: -_CRC.size]) != own:
        raise damaged(path, end, "the table of checksums is damaged")
    view = memoryview(data)
    for offset, checksum in zip(range(body_offset, end, BLOCK_BYTES), expected, strict=True):
        if zlib.crc32(view[offset : min(offset + BLOCK_BYTES, end)]) != checksum:
            raise damaged(path, offset, f"the checksum of {BLOCK_BYTES:,} bytes is wrong")
    tables = {}
    offset = body_offset
    for table in header.tables:
        found = tables[table.order] = _table(data, table, offset)
        is_possible = (found.tokens >= 0) & (found.tokens < header.n_tokens) & (found.counts >= 1)
        if not is_possible.all():
            raise damaged(
                path, offset, "a follower is outside the vocabulary, or its count below 1"
            )
        offset += table.n_bytes
    return header, NgramTables(tables)


def write(tables: NgramTables, fingerprint: str, n_tokens: int, stream: BinaryIO) -> None:
    """Write canonical tables."""
    headers, parts = [], []
    for order, table in sorted(tables.by_order.items()):
        header = TableHeader(order, len(table.starts) - 1, len(table), table.n_followers)
        headers.append(header)
        arrays = b"".join(_stored(getattr(table, name)) for name, *_ in header.arrays())
        parts.append(arrays.ljust(header.n_bytes, b"\0"))
    encoded = msgspec.json.encode(FileHeader(fingerprint, n_tokens, tuple(headers)))
    stream.write(_PREAMBLE.pack(MAGIC, VERSION, len(encoded), zlib.crc32(encoded), 0))
    stream.write(encoded)
    stream.write(bytes(-(_PREAMBLE.size + len(encoded)) % _ALIGNMENT))
    body = memoryview(b"".join(parts))
    stream.write(body)
    blocks = (body[start : start + BLOCK_BYTES] for start in range(0, len(body), BLOCK_BYTES))
    checksums = b"".join(_CRC.pack(zlib.crc32(block)) for block in blocks)
    stream.write(checksums + _CRC.pack(zlib.crc32(checksums)))


def _header(path: Path, data: bytes) -> tuple[FileHeader, int]:
    """Return the header and the offset of the body."""
    if len(data) < _PREAMBLE.size:
        raise damaged(path, len(data), "the file is truncated within its header")
    _, version, n_bytes, checksum, _ = _PREAMBLE.unpack_from(data)
    if version != VERSION:
        raise damaged(path, len(MAGIC), f"its version is {version}, not {VERSION}")
    end = _PREAMBLE.size + n_bytes
    if end > len(data):
        raise damaged(path, len(data), "the file is truncated within its header")
    encoded = data[_PREAMBLE.size : end]
    if zlib.crc32(encoded) != checksum:
        raise damaged(path, _PREAMBLE.size, "the header's checksum is wrong")
    try:
        header = msgspec.json.decode(encoded, type=FileHeader)
    except msgspec.MsgspecError as error:
        raise damaged(path, _PREAMBLE.size, f"the header cannot be read ({error})") from error
    return header, end + -end % _ALIGNMENT


def _table(data: bytes, header: TableHeader, offset: int) -> NgramTable:
    arrays: dict[str, NDArray[Any]] = {}
    for name, dtype, shape in header.arrays():
        stored = np.dtype(dtype).newbyteorder("<")
        n_items = int(np.prod(shape))
        array = np.frombuffer(data, dtype=stored, count=n_items, offset=offset)
        # Copies on big-endian machines only.  The view has native byte order, which memoryviews
        # need.
        native = array.view(dtype) if array.dtype == dtype else array.astype(dtype)
        arrays[name] = native.reshape(shape)
        offset += array.nbytes
    return NgramTable(**arrays)


def _stored(array: NDArray[Any]) -> bytes:
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
