"""Reads a GGUF's header: how large each tensor is, before anything is loaded.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

It is read and not mapped, since a file that is being downloaded anew may be cut meanwhile: that is
a damaged header then, and not the end of the process.
"""

from __future__ import annotations

import itertools
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from speclsp.errors import ModelLoadError, ModelNotFoundError

# Value types of the format that are scalars, as struct's codes; 8 is a text, 9 an array.
_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_STRING, _ARRAY = 8, 9
_MOST_LAYERS = 1024
"""Longer arrays of numbers are about tokens, not layers."""
_BUFFER_BYTES = 1 << 20
"""A large vocabulary has a header of some MiB, most of which is passed over."""
_SPLIT_NAME = re.compile(r"^(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")

Value = str | int | float | bool | list[int] | None
"""Metadata: arrays only where they hold integers (numbers per layer), else None."""


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Metadata, and the size in bytes of each tensor by its name."""

    metadata: dict[str, Value]
    tensor_bytes: dict[str, int]

    def number(self, key: str, default: int) -> int:
        """Return the architecture's whole number ``key``; the largest of one per layer."""
        value = self.metadata.get(f"{self.metadata.get('general.architecture')}.{key}", default)
        if isinstance(value, list):
            return max(value, default=default)
        return value if isinstance(value, int) else default

    def numbers(self, key: str, n_layers: int, default: int) -> list[int]:
        """Return the architecture's whole number ``key`` for each layer."""
        value = self.metadata.get(f"{self.metadata.get('general.architecture')}.{key}", default)
        if isinstance(value, list) and len(value) >= n_layers:
            return value[:n_layers]
        return [value if isinstance(value, int) else default] * n_layers


def read_gguf_header(path: Path) -> GgufHeader:
    """Read the header of a GGUF and of the other parts where it is split.

    Raises :class:`ModelLoadError` where a header is damaged, :class:`ModelNotFoundError` where a
    part is missing.
    """
    metadata: dict[str, Value] = {}
    tensor_bytes: dict[str, int] = {}
    for part in _parts(path):
        try:
            header = _read_one(part)
        except FileNotFoundError as error:
            raise ModelNotFoundError(
                f"The model's part {part} is missing.", remedy="Download all parts into one folder."
            ) from error
        except (OSError, ValueError, struct.error) as error:
            raise ModelLoadError(
                f"The model file {part} is damaged or incomplete: its header cannot be read "
                f"({error}).",
                remedy="Download it again.",
            ) from error
        metadata = header.metadata | metadata
        tensor_bytes.update(header.tensor_bytes)
    return GgufHeader(metadata, tensor_bytes)


def _parts(path: Path) -> list[Path]:
    name = _SPLIT_NAME.match(path.name)
    if name is None:
        return [path]
    count = int(name["count"])
    return [
        path.with_name(f"{name['stem']}-{number:05d}-of-{count:05d}.gguf")
        for number in range(1, count + 1)
    ]


def _read_one(path: Path) -> GgufHeader:
    with path.open("rb", buffering=_BUFFER_BYTES) as file:
        reader = _Reader(file)
        reader.scalar("I")  # magic
        reader.scalar("I")  # version
        n_tensors, n_items = reader.scalar("Q"), reader.scalar("Q")
        metadata = {}
        for _ in range(n_items):
            key = reader.string()
            metadata[key] = reader.value(reader.scalar("I"))
        names, offsets = [], []
        for _ in range(n_tensors):
            names.append(reader.string())
            reader.skip(8 * reader.scalar("I") + 4)  # dimensions, type
            offsets.append(reader.scalar("Q"))
        alignment = metadata.get("general.alignment")
        alignment = alignment if isinstance(alignment, int) and alignment > 0 else 32
        data_start = -(-reader.position // alignment) * alignment
        ends = sorted({*offsets, max(0, reader.n_bytes - data_start)})
    following = dict(itertools.pairwise(ends))
    sizes = [max(0, following.get(offset, offset) - offset) for offset in offsets]
    return GgufHeader(metadata, dict(zip(names, sizes, strict=True)))


class _Reader:
    """Reads little-endian values; lengths beyond the file's end are errors."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.n_bytes = os.fstat(file.fileno()).st_size
        self.position = 0

    def scalar(self, code: str) -> int:
        layout = f"<{code}"
        value: int = struct.unpack(layout, self._take(struct.calcsize(layout)))[0]
        return value

    def string(self) -> str:
        return self._take(self.scalar("Q")).decode("utf-8", "replace")

    def skip(self, n_bytes: int) -> None:
        self._file.seek(self._behind(n_bytes))

    def _skip_strings(self, n_items: int) -> None:
        """Pass over a vocabulary: short texts, which are read faster than passed over."""
        read, position = self._file.read, self.position
        for _ in range(n_items):
            n_bytes = int.from_bytes(read(8), "little")
            position += 8 + n_bytes
            if position > self.n_bytes or len(read(n_bytes)) < n_bytes:
                raise struct.error(f"a text of {n_bytes} bytes reaches beyond the file's end")
        self.position = position

    def _take(self, n_bytes: int) -> bytes:
        self._behind(n_bytes)
        data = self._file.read(n_bytes)
        if len(data) < n_bytes:
            raise struct.error("it was cut while it was read")
        return data

    def _behind(self, n_bytes: int) -> int:
        """Move on by so many bytes, and return the position."""
        self.position += n_bytes
        if self.position > self.n_bytes:
            raise struct.error(f"{n_bytes} bytes reach beyond the file's end")
        return self.position

    def value(self, kind: int) -> Value:
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            return self.scalar(self._code(kind))
        item_kind, n_items = self.scalar("I"), self.scalar("Q")
        if item_kind == _STRING:
            self._skip_strings(n_items)
            return None
        code = self._code(item_kind)
        if code not in "iIhHbB" or n_items > _MOST_LAYERS:
            self.skip(struct.calcsize(f"<{code}") * n_items)
            return None
        return [self.scalar(code) for _ in range(n_items)]

    def _code(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise struct.error(f"a value of the unknown kind {kind}")
        return _SCALARS[kind]
