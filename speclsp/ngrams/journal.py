"""The journal beside a statistics file: texts that were learned and are not in the file yet.

It is a text file that is only appended to.  Each line holds the CRC-32 of a record and the record,
in JSON::

    9c5b3a11 {"type":"learned","vocabulary":"…","tokens":[1,2,3],"n_known":1}

Before a file with the counts of all records replaces the statistics file, a record with its hash is
appended (:class:`Folded`), and afterwards the journal is removed.  If the process ends in between,
the hash tells whether the file counts the texts before that record.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final
from zlib import crc32

import msgspec

from speclsp.errors import StoreError
from speclsp.storage.locations import check_own, make_private_file

MAX_BYTES: Final = 2**20
"""Largest journal.  A text of 40 tokens takes about 300 bytes."""

_ROOM_FOR_FOLDS: Final = 1024
"""Bytes that texts leave free for records of their folding."""

_NonNegative = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class Learned(msgspec.Struct, frozen=True, tag="learned", kw_only=True):
    """A text whose n-grams count."""

    vocabulary: str
    """The fingerprint of the tokens' vocabulary."""
    tokens: list[_NonNegative]
    n_known: _NonNegative
    """How many tokens at the beginning stood there before; they follow no n-gram."""


class Folded(msgspec.Struct, frozen=True, tag="folded", kw_only=True):
    """The texts before this record count in the statistics file that has this hash."""

    file_hash: str


_decoder: Final[msgspec.json.Decoder[Learned | Folded]] = msgspec.json.Decoder(Learned | Folded)


def append(path: Path, record: Learned | Folded) -> None:
    """Append a record, which is on the disk when the call returns; the caller holds a lock.

    Raises OSError, and StoreError where the journal has no room for a text.
    """
    data = msgspec.json.encode(record)
    # The line break stands first, so that it also ends a line that a process wrote only in part.
    line = b"\n%08x %s" % (crc32(data), data)
    make_private_file(path)
    with path.open("r+b", buffering=0) as stream:
        n_before = stream.seek(0, os.SEEK_END)
        if isinstance(record, Learned) and n_before + len(line) > MAX_BYTES - _ROOM_FOR_FOLDS:
            raise StoreError(
                f"{path} is full: its counts cannot be added to the file.",
                remedy="The log has the reason; repair or remove the file.",
            )
        try:
            while line:  # a disk that is nearly full takes a part
                line = line[stream.write(line) :]
            os.fsync(stream.fileno())
        except OSError:
            with suppress(OSError):
                stream.truncate(n_before)
            raise


def read(path: Path) -> bytes:
    """Return a journal's content; empty if there is none.  Raises OSError."""
    check_own(path)
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES)
    except FileNotFoundError:
        return b""


def parse(data: bytes, file_hash: Callable[[], str]) -> tuple[list[Learned], int]:
    """Return the texts that the statistics file lacks, and how many lines cannot be read.

    ``file_hash`` returns that file's.
    """
    texts: list[Learned] = []
    n_damaged = 0
    for line in data.split(b"\n"):
        record = _record_of(line)
        if isinstance(record, Learned):
            texts.append(record)
        elif record is None:
            n_damaged += bool(line)
        elif record.file_hash == file_hash():
            texts.clear()
    return texts, n_damaged


def _record_of(line: bytes) -> Learned | Folded | None:
    checksum, _, data = line.partition(b" ")
    if checksum != b"%08x" % crc32(data):
        return None
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError:
        return None
