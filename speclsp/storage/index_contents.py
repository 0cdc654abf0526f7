"""The table of contents of a kept index: its segments, and its files as they were last read.

::

    magic [8]   CRC-32 of the rest u32   MessagePack
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Mapping
from struct import Struct
from typing import Annotated, Final

import msgspec

from speclsp.errors import StoreError

_MAGIC: Final = b"\x93SPIDX1\n"
_CRC: Final = Struct("<I")
_ID_BYTES: Final = 16

_ContentId = Annotated[bytes, msgspec.Meta(min_length=1, max_length=64)]
_SegmentName = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]+$")]


class KeptFile(msgspec.Struct, frozen=True, array_like=True):
    """A file as it was when last read."""

    signature: tuple[int, ...]
    """What changes when its content does."""
    content: _ContentId


class IndexContents(msgspec.Struct, frozen=True):
    """What an index consists of."""

    fingerprint: str
    """The vocabulary's."""
    segments: list[_SegmentName]
    """The oldest first."""
    n_tokens: int
    files: Mapping[bytes, KeptFile]
    """By :func:`path_id`."""


def path_id(path: str) -> bytes:
    """Return what a file is known by on disk: a hash of its path."""
    return hashlib.blake2b(os.fsencode(path), digest_size=_ID_BYTES).digest()


def encoded(contents: IndexContents) -> bytes:
    """Return the bytes of a file."""
    packed = msgspec.msgpack.encode(contents)
    return _MAGIC + _CRC.pack(zlib.crc32(packed)) + packed


def decoded(data: bytes) -> IndexContents:
    """Read a file's bytes.  Raises StoreError where they are damaged or of another version."""
    start = len(_MAGIC) + _CRC.size
    if data[:start] != _MAGIC + _CRC.pack(zlib.crc32(data[start:])):
        raise StoreError("it is damaged, or of another version")
    try:
        return msgspec.msgpack.decode(data[start:], type=IndexContents)
    except msgspec.MsgspecError as error:
        raise StoreError(f"it is damaged ({error})") from error
