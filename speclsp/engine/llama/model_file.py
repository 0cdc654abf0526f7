"""Reads the GGUF header of a model file before llama.cpp loads it, and explains unusable files.

The format is specified in ggml's docs/gguf.md.  Every length is checked against the file's size
before anything of that length is read.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from speclsp.errors import ModelLoadError, ModelNotFoundError

_MAGIC: Final = b"GGUF"
_LFS_MAGIC: Final = b"version https://git-lfs"
_SPLIT_NAME: Final = re.compile(r"^(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")
_VERSIONS: Final = (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS: Final = {
    kind: struct.Struct(f"<{code}")
    for kind, code in zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True)
}
"""The format's scalar types."""
_INTEGERS: Final = _SCALARS.keys() - {6, 7, 12}
_U32, _U64 = _SCALARS[4], _SCALARS[10]
_MAX_LAYERS: Final = 1024
"""Longer arrays describe tokens and are skipped."""
_MAX_DIMENSIONS: Final = 4
_DEFAULT_ALIGNMENT: Final = 32

Value = str | int | float | bool | list[int] | None
"""A metadata value.  Arrays of at most 1,024 integers are read, other arrays are None."""


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Metadata by key, and the size of each tensor by name: bytes, padding included."""

    metadata: dict[str, Value]
    tensor_bytes: dict[str, int]

    @property
    def n_layers(self) -> int:
        """Layers that can be offloaded: the repeating ones and the output layer."""
        return self.number("block_count", 0) + 1

    def number(self, key: str, default: int) -> int:
        """Return the architecture's integer ``key``; the largest where there is one per layer."""
        value = self._of_architecture(key, default)
        if isinstance(value, list):
            return max(value, default=default)
        return value if isinstance(value, int) else default

    def numbers(self, key: str, n_layers: int, default: int) -> list[int]:
        """Return the architecture's integer ``key`` for each layer."""
        value = self._of_architecture(key, default)
        if isinstance(value, list) and len(value) >= n_layers:
            return value[:n_layers]
        return [value if isinstance(value, int) else default] * n_layers

    def _of_architecture(self, key: str, default: int) -> Value:
        return self.metadata.get(f"{self.metadata.get('general.architecture')}.{key}", default)


def check_model_file(path: Path) -> None:
    """Check that ``path`` is a file that begins like a GGUF.

    Raises :class:`ModelNotFoundError` where there is no file, and :class:`ModelLoadError` for a
    folder, an unreadable file, a Git LFS pointer, another format, or an empty file.
    """
    if not path.exists():
        raise ModelNotFoundError(
            f"There is no model file at {path}.",
            remedy="Correct the path. For the embedded models leave `model` empty, and set "
            "`spec_draft_model` to `embedded`; left empty, there is no draft model.",
        )
    if path.is_dir():
        raise ModelLoadError(
            f"{path} is a folder, not a GGUF file.", remedy="Name the .gguf file inside it."
        )
    try:
        with path.open("rb") as file:
            start = file.read(len(_LFS_MAGIC))
    except OSError as error:
        raise ModelLoadError(
            f"The model file {path} cannot be read: {error.strerror or error}.",
            remedy="Check the file's permissions.",
        ) from error
    if start.startswith(_LFS_MAGIC):
        raise ModelLoadError(
            f"{path} is a Git LFS pointer, not the model itself.",
            remedy="Fetch the file with `git lfs pull`.",
        )
    if not start.startswith(_MAGIC):
        raise ModelLoadError(
            f"{path} is not a GGUF file." if start else f"{path} is empty.",
            remedy="Download a GGUF version of the model, or convert it with llama.cpp.",
        )


def read_gguf_header(path: Path) -> GgufHeader:
    """Read the header of a GGUF file, and of its other parts where the model is split.

    Raises :class:`ModelLoadError` where a header is damaged or tensors lie beyond the end of a
    file, and :class:`ModelNotFoundError` where a part is missing.
    """
    metadata: dict[str, Value] = {}
    tensor_bytes: dict[str, int] = {}
    for part in _parts(path):
        try:
            with part.open("rb") as file:
                header = _Reader(file, part.stat().st_size).header()
        except FileNotFoundError as error:
            raise ModelNotFoundError(
                f"The model's part {part} is missing.", remedy="Download all parts into one folder."
            ) from error
        except (struct.error, ValueError, KeyError, OSError) as error:
            raise ModelLoadError(
                f"The model file {part} is damaged or incomplete: its header cannot be read "
                f"({error}).",
                remedy="Download it again.",
            ) from error
        metadata = header.metadata | metadata
        tensor_bytes.update(header.tensor_bytes)
    return GgufHeader(metadata, tensor_bytes)


def load_error(path: Path, reasons: Sequence[str]) -> ModelLoadError:
    """Return the error to raise for ``path``, given what llama.cpp logged when it refused it."""
    text = " ".join(reasons)
    reason = _plain_reason(reasons)
    if "not within the file bounds" in text or "failed to read" in text or "unexpectedly" in text:
        return ModelLoadError(
            f"The model file {path} is damaged or incomplete: {reason}.",
            remedy="Download it again.",
        )
    if "unknown model architecture" in text or "unknown pre-tokenizer" in text:
        return ModelLoadError(
            f"llama.cpp does not know the model {path}: {reason}.",
            remedy="Upgrade llama-cpp-python, or choose another model.",
        )
    if "does not support split buffers" in text:
        return ModelLoadError(
            f"llama.cpp cannot spread {path} by rows: {reason}.",
            remedy="Set split_mode to layer.",
        )
    return ModelLoadError(
        f"llama.cpp cannot load {path}: {reason}.",
        remedy="The log at debug level says more; try another file of the model.",
    )


def _plain_reason(reasons: Sequence[str]) -> str:
    """Return llama.cpp's most specific line, without the function's name before it."""
    for line in reasons:
        _, found, reason = line.partition("error loading model: ")
        if found:
            return reason.rstrip(". ")
    if not reasons:
        return "it gives no reason"
    return reasons[0].split(": ", 1)[-1].rstrip(". ")


def _parts(path: Path) -> list[Path]:
    name = _SPLIT_NAME.match(path.name)
    if name is None:
        return [path]
    count = int(name["count"])
    return [
        path.with_name(f"{name['stem']}-{number:05d}-of-{count:05d}.gguf")
        for number in range(1, count + 1)
    ]


class _Reader:
    """Reads one file's header.  Damage raises ValueError, KeyError or struct.error."""

    def __init__(self, file: BinaryIO, n_bytes: int) -> None:
        self._file = file
        self._n_bytes = n_bytes

    def header(self) -> GgufHeader:
        if self._file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("it does not begin with GGUF")
        version = self._scalar(_U32)
        if version not in _VERSIONS:
            raise ValueError(f"its format version is {version}")
        n_tensors, n_values = self._scalar(_U64), self._scalar(_U64)
        metadata = {self._string(): self._value() for _ in range(n_values)}
        return GgufHeader(metadata, self._tensors(n_tensors, metadata.get("general.alignment")))

    def _tensors(self, n_tensors: int, alignment: Value) -> dict[str, int]:
        """Return the bytes from each tensor's offset to the next one."""
        offsets: dict[str, int] = {}
        for _ in range(n_tensors):
            name, n_dimensions = self._string(), self._scalar(_U32)
            if n_dimensions > _MAX_DIMENSIONS:
                raise ValueError(f"tensor {name!r} has {n_dimensions} dimensions")
            self._file.read(_U64.size * n_dimensions + _U32.size)  # sizes and type
            offsets[name] = self._scalar(_U64)
        step = alignment if isinstance(alignment, int) and alignment > 0 else _DEFAULT_ALIGNMENT
        n_data = self._n_bytes - -(-self._file.tell() // step) * step
        ordered = sorted(offsets.items(), key=lambda item: item[1])
        ends = [*(offset for _, offset in ordered[1:]), n_data]
        if ordered and ordered[-1][1] >= n_data:
            raise ValueError(f"tensor {ordered[-1][0]!r} begins beyond the end of the file")
        return {name: end - start for (name, start), end in zip(ordered, ends, strict=False)}

    def _value(self) -> Value:
        kind = self._scalar(_U32)
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        value: int | float | bool = self._scalar(_SCALARS[kind])
        return value

    def _array(self) -> list[int] | None:
        kind, n_items = self._scalar(_U32), self._scalar(_U64)
        if kind == _STRING:
            read, unpack = self._file.read, _U64.unpack
            for _ in range(n_items):
                read(self._checked(unpack(read(8))[0]))
            return None
        item = _SCALARS[kind]
        data = self._file.read(self._checked(n_items * item.size))
        if kind not in _INTEGERS or not 0 < n_items <= _MAX_LAYERS:
            return None
        return [value for (value,) in item.iter_unpack(data)]

    def _string(self) -> str:
        return self._file.read(self._checked(self._scalar(_U64))).decode("utf-8", "replace")

    def _scalar(self, kind: struct.Struct) -> int:
        value: int = kind.unpack(self._file.read(kind.size))[0]
        return value

    def _checked(self, n_bytes: int) -> int:
        """Return a length that may be read."""
        if n_bytes > self._n_bytes:
            raise ValueError(f"something in it claims {n_bytes:,} bytes of {self._n_bytes:,}")
        return n_bytes
