"""speclsp's own statistics files, which are mapped into memory and so are open at once.

::

    magic [8]   version u32   header size u32   header's CRC-32 u32   0 u32
    header: JSON, padded to a multiple of 64 bytes
    body: for each order the arrays of its NgramTable, as they are in memory
    CRC-32 of each MiB of the body: u32 …, and of these checksums: u32

All numbers are little-endian.  Opening checks the header and the file's size, and reads nothing
else.  The body's checksums are checked by :meth:`MappedFile.verify`, which a server does in the
background; a look-up in a body that is damaged gives wrong counts or none, and no harm.

A file must not be changed in place while it is mapped; :func:`~speclsp.ngram_store.files.write`
replaces it instead.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Annotated, BinaryIO, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from speclsp.ngram_store.damage import damaged, size_of, unreadable
from speclsp.ngram_store.table import NgramTable, NgramTables

MAGIC: Final = b"\x93SPNGRM\n"
VERSION: Final = 1
BLOCK_BYTES: Final = 1 << 20
"""Bytes of the body that share a checksum."""

_PREAMBLE: Final = Struct("<8sIIII")
_ALIGNMENT: Final = 64
_CRC: Final = Struct("<I")
_MAX_HEADER_BYTES: Final = 1 << 20
_Number = TypeVar("_Number", bound=np.generic)


_Positive = Annotated[int, msgspec.Meta(ge=1)]
_NotNegative = Annotated[int, msgspec.Meta(ge=0)]


class TableHeader(msgspec.Struct, frozen=True):
    """How many of what one order's table has."""

    order: _Positive
    n_buckets: _Positive
    n_ngrams: _NotNegative
    n_followers: _NotNegative


class FileHeader(msgspec.Struct, frozen=True):
    """What a file says of itself."""

    fingerprint: str
    """The vocabulary's; see :class:`speclsp.fim.protocol.Vocabulary`."""
    n_tokens: int
    """Tokens of the vocabulary."""
    tables: tuple[TableHeader, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MappedFile:
    """An open file."""

    path: Path
    header: FileHeader
    tables: NgramTables
    body: memoryview
    checksums: memoryview
    body_offset: int

    def verify(self, go_on: Callable[[float], bool] = lambda _share: True) -> None:
        """Check every checksum.  Raises StoreError with the offset of the first bad block.

        ``go_on`` is told the share that is done, and returns whether to go on.
        """
        end = self.body_offset + len(self.body)
        *expected, own = np.frombuffer(self.checksums, dtype="<u4").tolist()
        if zlib.crc32(self.checksums[: -_CRC.size]) != own:
            raise damaged(self.path, end, "the table of checksums is damaged")
        for block_idx, checksum in enumerate(expected):
            begin = block_idx * BLOCK_BYTES
            if zlib.crc32(self.body[begin : begin + BLOCK_BYTES]) != checksum:
                offset = self.body_offset + begin
                raise damaged(self.path, offset, f"the checksum of {BLOCK_BYTES:,} bytes is wrong")
            if not go_on((block_idx + 1) / len(expected)):
                return


def is_mapped_format(path: Path) -> bool:
    """Whether a file begins as one of ours does.  Raises StoreError where it cannot be read."""
    size_of(path)
    try:
        with path.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise unreadable(path, error) from error


def open_mapped(path: Path) -> MappedFile:
    """Map a file.  Raises StoreError where it is no such file, cut, or its header is damaged."""
    n_bytes = size_of(path)
    try:
        with path.open("rb") as stream:
            mapped = mmap.mmap(stream.fileno(), n_bytes, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise unreadable(path, OSError(str(error))) from error
    whole = memoryview(mapped)
    header, body_offset = _header(path, whole)
    n_body_bytes = sum(_table_bytes(table) for table in header.tables)
    n_blocks = -(-n_body_bytes // BLOCK_BYTES)
    n_expected = body_offset + n_body_bytes + _CRC.size * (n_blocks + 1)
    if n_expected != n_bytes:
        raise damaged(
            path,
            min(n_bytes, n_expected),
            f"the file has {n_bytes:,} bytes instead of {n_expected:,}",
        )
    body = whole[body_offset : body_offset + n_body_bytes]
    tables = dict(_tables(header, body))
    checksums = whole[body_offset + n_body_bytes :]
    return MappedFile(path, header, NgramTables(tables), body, checksums, body_offset)


def write_mapped(tables: NgramTables, fingerprint: str, n_tokens: int, stream: BinaryIO) -> None:
    """Write canonical tables."""
    header = FileHeader(
        fingerprint,
        n_tokens,
        tuple(
            TableHeader(order, len(table.starts) - 1, len(table), table.n_followers)
            for order, table in sorted(tables.by_order.items())
        ),
    )
    encoded = msgspec.json.encode(header)
    stream.write(_PREAMBLE.pack(MAGIC, VERSION, len(encoded), zlib.crc32(encoded), 0))
    stream.write(encoded)
    stream.write(bytes(-(_PREAMBLE.size + len(encoded)) % _ALIGNMENT))
    checksums = _BlockChecksums()
    for _, table in sorted(tables.by_order.items()):
        for array in _arrays(table):
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            stream.write(data)
            checksums.add(data)
    encoded = checksums.finish()
    stream.write(encoded)
    stream.write(_CRC.pack(zlib.crc32(encoded)))


class _BlockChecksums:
    """Checksums of the blocks of a stream."""

    def __init__(self) -> None:
        self._done = bytearray()
        self._crc = 0
        self._n_open = 0

    def add(self, data: memoryview) -> None:
        while len(data):
            part = data[: BLOCK_BYTES - self._n_open]
            self._crc = zlib.crc32(part, self._crc)
            self._n_open += len(part)
            data = data[len(part) :]
            if self._n_open == BLOCK_BYTES:
                self._end_block()

    def finish(self) -> bytes:
        if self._n_open:
            self._end_block()
        return bytes(self._done)

    def _end_block(self) -> None:
        self._done += _CRC.pack(self._crc)
        self._crc = self._n_open = 0


def _header(path: Path, whole: memoryview) -> tuple[FileHeader, int]:
    if len(whole) < _PREAMBLE.size:
        raise damaged(path, len(whole), "the file is truncated within its header")
    magic, version, n_bytes, checksum, _ = _PREAMBLE.unpack_from(whole)
    if magic != MAGIC:
        raise damaged(path, 0, "it is no statistics file of speclsp", "Correct the path.")
    if version != VERSION:
        raise damaged(path, len(MAGIC), f"its version is {version}, not {VERSION}")
    end = _PREAMBLE.size + n_bytes
    if n_bytes > _MAX_HEADER_BYTES or end > len(whole):
        raise damaged(path, len(whole), "the file is truncated within its header")
    encoded = whole[_PREAMBLE.size : end].tobytes()
    if zlib.crc32(encoded) != checksum:
        raise damaged(path, _PREAMBLE.size, "the header's checksum is wrong")
    try:
        header = msgspec.json.decode(encoded, type=FileHeader)
    except msgspec.MsgspecError as error:
        raise damaged(path, _PREAMBLE.size, f"the header cannot be read ({error})") from error
    return header, end + -end % _ALIGNMENT


_SECTIONS: Final = ("starts", "tags", "grams", "begins", "lengths", "tokens", "counts")


def _arrays(table: NgramTable) -> Iterator[NDArray[np.generic]]:
    for name in _SECTIONS:
        array: NDArray[np.generic] = getattr(table, name)
        yield array.astype(array.dtype.newbyteorder("<"), copy=False)
    if _padding(len(table), table.order, table.n_followers):
        yield np.zeros(1, dtype=np.int32)


def _padding(n_ngrams: int, order: int, n_followers: int) -> int:
    """Bytes after a table, so that the next one's first array is aligned."""
    return 4 * ((n_ngrams * (order + 3) + 2 * n_followers) % 2)


def _table_bytes(header: TableHeader) -> int:
    n_words = header.n_ngrams * (header.order + 3) + 2 * header.n_followers
    padding = _padding(header.n_ngrams, header.order, header.n_followers)
    return 8 * (header.n_buckets + 1) + 4 * n_words + padding


def _tables(header: FileHeader, body: memoryview) -> Iterator[tuple[int, NgramTable]]:
    offset = 0
    for table in header.tables:
        part = _Reader(body, offset)
        yield (
            table.order,
            NgramTable(
                starts=part.take(table.n_buckets + 1, np.int64),
                tags=part.take(table.n_ngrams, np.uint32),
                grams=part.take(table.n_ngrams * table.order, np.int32).reshape(
                    table.n_ngrams, table.order
                ),
                begins=part.take(table.n_ngrams, np.uint32),
                lengths=part.take(table.n_ngrams, np.uint32),
                tokens=part.take(table.n_followers, np.int32),
                counts=part.take(table.n_followers, np.int32),
            ),
        )
        offset += _table_bytes(table)


class _Reader:
    """Takes arrays from the body, one after the other."""

    def __init__(self, body: memoryview, offset: int) -> None:
        self._body = body
        self._offset = offset

    def take(self, n_items: int, dtype: type[_Number]) -> NDArray[_Number]:
        stored = np.dtype(dtype).newbyteorder("<")
        array = np.frombuffer(self._body, dtype=stored, count=n_items, offset=self._offset)
        self._offset += array.nbytes
        # A copy on big-endian machines only.  The view makes the byte order the implicit one,
        # since a memoryview reads no other.
        return array.view(dtype) if array.dtype == dtype else array.astype(dtype)
