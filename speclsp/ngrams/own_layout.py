"""speclsp's own statistics files, which are looked up where they lie and so are open at once.

::

    magic [8]   version u32   header size u32   header's CRC-32 u32   0 u32
    header: JSON, padded to a multiple of 64 bytes
    body: for each order the arrays of its NgramTable, as they are in memory
    CRC-32 of each MiB of the body: u32 …, and of these checksums: u32

All numbers are little-endian.  Opening checks the header and the file's size, and reads nothing
else but where the buckets begin.  The body's checksums are checked by :meth:`OwnFile.verify`, which
a server does in the background; a look-up in a body that is damaged gives wrong counts or none, and
no harm.

Nothing is mapped into memory: anybody may cut a file or copy another onto it while a server looks
n-grams up in it (:mod:`~speclsp.ngrams.file_bytes`).
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Annotated, BinaryIO, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from speclsp.ngrams.damage import damaged, size_of, unreadable
from speclsp.ngrams.file_bytes import FileBytes
from speclsp.ngrams.file_table import FileTable, FileTables, TablePlaces
from speclsp.ngrams.table import NgramTable, NgramTables

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
    """The vocabulary's; see :class:`speclsp.prompt.protocol.Vocabulary`."""
    n_tokens: int
    """Tokens of the vocabulary."""
    tables: tuple[TableHeader, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OwnFile:
    """An open file."""

    path: Path
    header: FileHeader
    counts: FileTables
    """What is looked up in the file itself."""
    stored: FileBytes
    body_offset: int
    n_body_bytes: int

    def tables(self) -> NgramTables:
        """Read everything.  Raises StoreError where the file was cut meanwhile."""
        body = self._read(self.body_offset, self.n_body_bytes)
        return NgramTables(dict(_tables(self.header, memoryview(body))))

    def verify(self, go_on: Callable[[float], bool] = lambda _share: True) -> None:
        """Check every checksum.  Raises StoreError with the offset of the first bad block.

        ``go_on`` is told the share that is done, and returns whether to go on.
        """
        end = self.body_offset + self.n_body_bytes
        n_blocks = -(-self.n_body_bytes // BLOCK_BYTES)
        checksums = self._read(end, _CRC.size * (n_blocks + 1))
        *expected, own = np.frombuffer(checksums, dtype="<u4").tolist()
        if zlib.crc32(checksums[: -_CRC.size]) != own:
            raise damaged(self.path, end, "the table of checksums is damaged")
        for block_idx, checksum in enumerate(expected):
            offset = self.body_offset + block_idx * BLOCK_BYTES
            if zlib.crc32(self._read(offset, min(BLOCK_BYTES, end - offset))) != checksum:
                raise damaged(self.path, offset, f"the checksum of {BLOCK_BYTES:,} bytes is wrong")
            if not go_on((block_idx + 1) / len(expected)):
                return

    def _read(self, offset: int, n_bytes: int) -> bytes:
        try:
            data = self.stored.read(offset, n_bytes)
        except OSError as error:
            raise unreadable(self.path, error) from error
        if len(data) < n_bytes:
            raise damaged(self.path, offset + len(data), "the file was cut while it was read")
        return data


def is_own_layout(path: Path) -> bool:
    """Whether a file begins as one of ours does.  Raises StoreError where it cannot be read."""
    size_of(path)
    try:
        with path.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise unreadable(path, error) from error


def open_own(path: Path) -> OwnFile:
    """Open a file.  Raises StoreError where it is no such file, cut, or its header is damaged."""
    size_of(path)
    try:
        stored = FileBytes(path)
        header, body_offset = _header(path, stored)
        n_body_bytes = sum(_table_bytes(table) for table in header.tables)
        n_blocks = -(-n_body_bytes // BLOCK_BYTES)
        n_expected = body_offset + n_body_bytes + _CRC.size * (n_blocks + 1)
        if n_expected != stored.n_bytes:
            raise damaged(
                path,
                min(stored.n_bytes, n_expected),
                f"the file has {stored.n_bytes:,} bytes instead of {n_expected:,}",
            )
        places = _places(header, body_offset)
        counts = FileTables({place.order: FileTable(stored, place) for place in places})
    except OSError as error:
        raise unreadable(path, error) from error
    return OwnFile(path, header, counts, stored, body_offset, n_body_bytes)


def write_own(tables: NgramTables, fingerprint: str, n_tokens: int, stream: BinaryIO) -> None:
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


def _header(path: Path, stored: FileBytes) -> tuple[FileHeader, int]:
    preamble = stored.read(0, _PREAMBLE.size)
    if len(preamble) < _PREAMBLE.size:
        raise damaged(path, len(preamble), "the file is truncated within its header")
    magic, version, n_bytes, checksum, _ = _PREAMBLE.unpack(preamble)
    if magic != MAGIC:
        raise damaged(path, 0, "it is no statistics file of speclsp", "Correct the path.")
    if version != VERSION:
        raise damaged(path, len(MAGIC), f"its version is {version}, not {VERSION}")
    encoded = stored.read(_PREAMBLE.size, min(n_bytes, _MAX_HEADER_BYTES))
    end = _PREAMBLE.size + len(encoded)
    if len(encoded) != n_bytes:
        raise damaged(path, end, "the file is truncated within its header")
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


def _places(header: FileHeader, offset: int) -> Iterator[TablePlaces]:
    """Say where each table's arrays lie in a file whose body begins at ``offset``."""
    for table in header.tables:
        sizes = (
            8 * (table.n_buckets + 1),
            4 * table.n_ngrams,
            4 * table.n_ngrams * table.order,
            4 * table.n_ngrams,
            4 * table.n_ngrams,
            4 * table.n_followers,
            4 * table.n_followers,
        )
        begins = (offset + before for before in itertools.accumulate(sizes, initial=0))
        yield TablePlaces(
            order=table.order,
            n_buckets=table.n_buckets,
            n_ngrams=table.n_ngrams,
            n_followers=table.n_followers,
            **dict(zip(_SECTIONS, begins, strict=False)),
        )
        offset += _table_bytes(table)


def _tables(header: FileHeader, body: memoryview) -> Iterator[tuple[int, NgramTable]]:
    """Return the tables of a whole body."""
    for places in _places(header, 0):
        n_ngrams, n_followers = places.n_ngrams, places.n_followers
        grams = _array(body, places.grams, n_ngrams * places.order, np.int32)
        yield (
            places.order,
            NgramTable(
                starts=_array(body, places.starts, places.n_buckets + 1, np.int64),
                tags=_array(body, places.tags, n_ngrams, np.uint32),
                grams=grams.reshape(n_ngrams, places.order),
                begins=_array(body, places.begins, n_ngrams, np.uint32),
                lengths=_array(body, places.lengths, n_ngrams, np.uint32),
                tokens=_array(body, places.tokens, n_followers, np.int32),
                counts=_array(body, places.counts, n_followers, np.int32),
            ),
        )


def _array(body: memoryview, offset: int, n_items: int, dtype: type[_Number]) -> NDArray[_Number]:
    stored = np.dtype(dtype).newbyteorder("<")
    array = np.frombuffer(body, dtype=stored, count=n_items, offset=offset)
    # A copy on big-endian machines only.  The view makes the byte order the implicit one,
    # since a memoryview reads no other.
    return array.view(dtype) if array.dtype == dtype else array.astype(dtype)
