"""The journal beside a statistics file: texts that were learned and are not in the file yet.

It is a text file that is only appended to.  Each line holds the CRC-32 of a record and the record,
in JSON::

    9c5b3a11 {"type":"learned","vocabulary":"…","tokens":[1,2,3],"n_known":1,"counted_as":"…"}

Before a file with the counts of the records so far replaces the statistics file, a record with its
hash is appended (:class:`Folded`): if the process ends between the two renames that then follow,
the hash tells whether the counts are in the file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final
from zlib import crc32

import msgspec

from speclsp.atomic_write import PRIVATE, write_atomically
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
    counted_as: str = ""
    """The id of the statistics file that the store of accepted texts names for this text; "" if
    the store does not have it."""


class Folded(msgspec.Struct, frozen=True, tag="folded", kw_only=True):
    """The first records count in the statistics file that has this hash."""

    n_bytes: _NonNegative
    """The length of these records."""
    file_hash: str


_decoder: Final[msgspec.json.Decoder[Learned | Folded]] = msgspec.json.Decoder(Learned | Folded)


@dataclass(frozen=True, slots=True)
class JournalContent:
    """The records of a journal that the statistics file lacks."""

    texts: Sequence[Learned]
    n_damaged: int
    """Lines that could not be read."""


class JournalFullError(OSError):
    """A record would make the journal too long."""


class Journal:
    """A journal by its path.  Its users hold a lock; all methods raise OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def n_bytes(self) -> int:
        """Return the journal's length; 0 if there is none."""
        try:
            return self.path.lstat().st_size
        except OSError:
            return 0

    def append(self, record: Learned | Folded) -> None:
        """Append a record, which is on the disk when the call returns.

        Raises JournalFullError where the journal has no room.
        """
        line = _line_of(record)
        make_private_file(self.path)
        room = MAX_BYTES - (_ROOM_FOR_FOLDS if isinstance(record, Learned) else 0)
        with self.path.open("r+b", buffering=0) as stream:
            n_before = stream.seek(0, os.SEEK_END)
            if n_before:
                stream.seek(-1, os.SEEK_END)
                if stream.read(1) != b"\n":  # a process ended while it wrote
                    line = b"\n" + line
            if n_before + len(line) > room:
                raise JournalFullError(errno.EFBIG, "it has reached its largest size")
            try:
                while line:  # a disk that is nearly full takes a part
                    line = line[stream.write(line) :]
                os.fsync(stream.fileno())
            except OSError:
                with suppress(OSError):
                    stream.truncate(n_before)
                raise

    def read(self) -> bytes:
        """Return the journal's content; empty if there is none."""
        check_own(self.path)
        try:
            with self.path.open("rb") as stream:
                return stream.read(MAX_BYTES)
        except FileNotFoundError:
            return b""

    def keep(self, rest: bytes) -> None:
        """Replace the content by ``rest``; remove the journal where that is empty."""
        if not rest:
            self.path.unlink(missing_ok=True)
            return
        with write_atomically(self.path, f"{self.path.name}.", PRIVATE) as partial:
            partial.write_bytes(rest)


def parse(data: bytes, file_hash: Callable[[], str]) -> JournalContent:
    """Return the records that the statistics file lacks; ``file_hash`` returns that file's."""
    records: list[tuple[int, Learned | Folded]] = []
    n_damaged = place = 0
    for line in data.split(b"\n"):
        record = _record_of(line)
        if record is not None:
            records.append((place, record))
        elif line:
            n_damaged += 1
        place += len(line) + 1
    folds = [record for _, record in records if isinstance(record, Folded)]
    n_folded = 0
    if folds:
        found = file_hash()
        n_folded = max((fold.n_bytes for fold in folds if fold.file_hash == found), default=0)
    texts = [text for at, text in records if at >= n_folded and isinstance(text, Learned)]
    return JournalContent(texts, n_damaged)


def _line_of(record: Learned | Folded) -> bytes:
    data = msgspec.json.encode(record)
    return b"%08x %s\n" % (crc32(data), data)


def _record_of(line: bytes) -> Learned | Folded | None:
    checksum, _, data = line.partition(b" ")
    if checksum != b"%08x" % crc32(data):
        return None
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError:
        return None
