"""An index segment in a file, which is mapped into memory.

::

    magic [8]  version u32  files u32  text tokens u32  places u32  bytes per file key u32
    CRC-32 of the body u32  hash of the vocabulary's fingerprint [16]  CRC-32 of all this u32
    (padded to a page)
    body: reversed text (padded to a page), keys, deeper keys, order, spans, file keys

Numbers are in the machine's byte order, save the text, which is big-endian: a file from a machine
of the other order shows another version, and is built again like any other foreign one.
A file is never changed in place: writing makes a new one, and removing leaves the old one to whom
has it mapped.  That is enough, though a mapped file that is cut ends the process: these files are
ours alone (mode 0600, in the cache folder, with names that nobody would think of), and other users'
programs cannot cut them.
"""

from __future__ import annotations

import hashlib
import mmap
import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final

import numpy as np

from speclsp.drafting.segment import Segment, SegmentParts
from speclsp.drafting.suffix_array import DEPTH
from speclsp.errors import StoreError
from speclsp.storage.private_files import write_whole

VERSION: Final = 1

_MAGIC: Final = b"\x93SPSEG\r\n"
_HEADER: Final = Struct("=8s6I16s")
_CRC: Final = Struct("=I")
_PAGE: Final = mmap.ALLOCATIONGRANULARITY
_NAME_BYTES: Final = 16


class SegmentFileError(StoreError):
    """The file is damaged, or belongs to another version or vocabulary."""


def segment_name(segment: Segment) -> str:
    """Return what a segment is known by: its files in their order decide all that it holds."""
    digest = hashlib.blake2b(digest_size=_NAME_BYTES)
    for key, (start, _) in segment.spans.items():
        digest.update(key)
        digest.update(start.to_bytes(4, "little"))
    return digest.hexdigest()


def write_segment(path: Path, segment: Segment, fingerprint: str) -> None:
    """Write a segment for a vocabulary.  Raises StoreError."""
    parts = segment.parts
    key_bytes = len(next(iter(segment.spans), b""))
    assert all(len(key) == key_bytes for key in segment.spans), "keys of one length"
    checksum = 0
    for piece in _body(parts):
        checksum = zlib.crc32(piece, checksum)
    n_text = len(parts.text) // 4
    fields = (VERSION, len(parts.spans), n_text, len(parts.order), key_bytes, checksum)
    header = _HEADER.pack(_MAGIC, *fields, _vocabulary_id(fingerprint))

    def write(stream: BinaryIO) -> None:
        stream.write((header + _CRC.pack(zlib.crc32(header))).ljust(_PAGE, b"\0"))
        for piece in _body(parts):
            stream.write(piece)

    write_whole(path, write)


def read_segment(path: Path, fingerprint: str) -> Segment:
    """Map a segment, after its checksum was found right.

    Raises :class:`SegmentFileError` for a file to set aside, FileNotFoundError for none, and
    StoreError where it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            n_bytes = stream.seek(0, 2)
            if n_bytes <= _PAGE:
                raise _wrong(path, "it is truncated")
            whole = mmap.mmap(stream.fileno(), n_bytes, access=mmap.ACCESS_READ)
            n_files, n_text, n_places, key_bytes, checksum = _fields(path, whole, fingerprint)
            text_end = _PAGE + _padded(4 * n_text)
            n_expected = text_end + n_places * (8 + 8 + 4) + n_files * (2 * 4 + key_bytes)
            if n_bytes != n_expected:
                raise _wrong(path, f"it has {n_bytes:,} bytes instead of {n_expected:,}")
            if zlib.crc32(memoryview(whole)[_PAGE:]) != checksum:
                raise _wrong(path, "its checksum is wrong")
            text = mmap.mmap(stream.fileno(), 4 * n_text, access=mmap.ACCESS_READ, offset=_PAGE)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}.") from error
    keys = np.frombuffer(whole, np.uint64, n_places, text_end)
    deeper_keys = np.frombuffer(whole, np.uint64, n_places, text_end + 8 * n_places)
    order = np.frombuffer(whole, np.int32, n_places, text_end + 16 * n_places)
    spans_start = text_end + 20 * n_places
    spans = np.frombuffer(whole, np.int32, 2 * n_files, spans_start).reshape(n_files, 2).tolist()
    names = whole[spans_start + 8 * n_files :]
    return Segment(
        SegmentParts(
            spans={
                names[idx * key_bytes : (idx + 1) * key_bytes]: (start, end)
                for idx, (start, end) in enumerate(spans)
            },
            text=text,
            order=order,
            keys=keys,
            deeper_keys=deeper_keys,
        )
    )


def _fields(path: Path, whole: mmap.mmap, fingerprint: str) -> tuple[int, int, int, int, int]:
    """Check a header; returns counts of files, text tokens and places, key bytes, checksum."""
    magic, version, *fields, vocabulary = _HEADER.unpack_from(whole)
    if magic != _MAGIC:
        raise _wrong(path, "it is no index segment")
    if version != VERSION:
        raise _wrong(path, f"its version is {version}, not {VERSION}")
    if _CRC.unpack_from(whole, _HEADER.size) != (zlib.crc32(whole[: _HEADER.size]),):
        raise _wrong(path, "its header's checksum is wrong")
    if vocabulary != _vocabulary_id(fingerprint):
        raise _wrong(path, "it belongs to another vocabulary")
    n_files, n_text, n_places, key_bytes, checksum = fields
    return n_files, n_text, n_places, key_bytes, checksum


def _body(parts: SegmentParts) -> Iterator[bytes | memoryview]:
    text = memoryview(parts.text)
    yield text
    yield bytes(_padded(len(text)) - len(text))
    for array in (parts.keys, parts.deeper_keys, parts.order):
        yield array.view(np.uint8).data
    yield np.array(list(parts.spans.values()), dtype=np.int32).tobytes()
    yield b"".join(parts.spans)


def _padded(n_bytes: int) -> int:
    return n_bytes + -n_bytes % _PAGE


def _vocabulary_id(fingerprint: str) -> bytes:
    # What is sorted depends on the depth, too.
    text = f"{DEPTH} {fingerprint}"
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _wrong(path: Path, reason: str) -> SegmentFileError:
    return SegmentFileError(f"{path}: {reason}.", remedy="It was set aside and is built again.")
