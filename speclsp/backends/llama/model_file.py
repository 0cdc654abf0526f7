"""Reads the GGUF header of a model file before llama.cpp loads it, and explains unusable files.

The format is specified in ggml's docs/gguf.md.  Every length is checked against the file's size
before anything of that length is read.  Values with which llama.cpp would end the process or never
finish loading are refused here; llama.cpp refuses all other wrong values itself.
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
_MAX_LAYERS: Final = 512
"""llama.cpp's ``LLAMA_MAX_LAYERS``; longer arrays describe tokens and are skipped."""
_MAX_EXPERTS: Final = 512
"""llama.cpp's ``LLAMA_MAX_EXPERTS``."""
_MAX_HEAD_WIDTH: Final = 8192
"""Ten times the width of any known model's heads."""
_MAX_KEY_BYTES: Final = 1024
"""llama.cpp's time to read a key grows with the square of its length."""
_LEAST_ALIGNMENT: Final = 8
_FLOAT_TYPES: Final = frozenset({0, 1, 30})
"""F32, F16 and BF16."""
_TOKENS: Final = "tokenizer.ggml.tokens"
_MAX_DIMENSIONS: Final = 4
_DEFAULT_ALIGNMENT: Final = 32

Value = str | int | float | bool | list[int] | None
"""A metadata value.  Arrays of at most 512 integers are read, other arrays are None."""


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

    def check(self) -> None:
        """Raise ValueError for values with which llama.cpp would fail, not refuse the file."""
        n_experts, n_used = self.number("expert_count", 0), self.number("expert_used_count", 0)
        if n_used > n_experts or (n_used == 0) != (n_experts == 0):
            raise ValueError(f"it uses {n_used:,} experts of {n_experts:,}")
        n_blocks = self.number("block_count", 1)
        n_predicting = self.number("nextn_predict_layers", 0)
        if n_predicting >= n_blocks > 0:
            raise ValueError(f"{n_predicting:,} of its {n_blocks:,} blocks predict further tokens")
        n_heads = max(1, self.number("attention.head_count", 1))
        width = self.number("attention.key_length", self.number("embedding_length", 0) // n_heads)
        for key, least, most in (
            ("block_count", 1, _MAX_LAYERS),
            ("expert_count", 0, _MAX_EXPERTS),
            ("context_length", 1, 2**31 - 1),
            ("attention.key_length", 1, _MAX_HEAD_WIDTH),
            ("attention.value_length", 1, _MAX_HEAD_WIDTH),
            ("rope.dimension_count", 0, max(1, width)),
        ):
            value = self.number(key, least)
            if not least <= value <= most:
                raise ValueError(f"its {key} is {value:,}, not {least:,} to {most:,}")
        for key, epsilon in self.metadata.items():
            if key.endswith("_epsilon") and isinstance(epsilon, float) and not epsilon >= 0:
                raise ValueError(f"its {key} is {epsilon}")

    def _of_architecture(self, key: str, default: int) -> Value:
        return self.metadata.get(f"{self.metadata.get('general.architecture')}.{key}", default)


def check_model_file(path: Path) -> None:
    """Check that ``path`` is a file that starts with GGUF's magic number.

    Raises :class:`ModelNotFoundError` where there is no file, and :class:`ModelLoadError` for a
    folder, an unreadable file, a Git LFS pointer, another format, or an empty file.
    """
    if not path.exists():
        raise ModelNotFoundError(
            f"There is no model file at {path}.",
            remedy="Correct the path. The embedded models are called `embedded`; where "
            "`spec_draft_model` is empty, there is no draft model.",
        )
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or device"
        raise ModelLoadError(
            f"{path} is {kind}, not a GGUF file.", remedy="Name the path of a .gguf file."
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
    for part in gguf_parts(path):
        try:
            with part.open("rb") as file:
                header = _Reader(file, part.stat().st_size).header()
                header.check()
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
    if any(
        sign in text
        for sign in ("gguf_init", "not within the file bounds", "failed to read", "unexpectedly")
    ):
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
        if line.startswith("gguf_init"):
            break
        _, found, reason = line.partition("error loading model: ")
        if found:
            return reason.rstrip(". ")
    if not reasons:
        return "it gives no reason"
    return reasons[0].split(": ", 1)[-1].rstrip(". ")


def gguf_parts(path: Path) -> list[Path]:
    """Return all files of a model, the first part first.  ``path`` may be any of them."""
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
        metadata = dict(self._key_value() for _ in range(n_values))
        return GgufHeader(metadata, self._tensors(n_tensors, metadata.get("general.alignment")))

    def _tensors(self, n_tensors: int, alignment: Value) -> dict[str, int]:
        """Return the bytes from each tensor's offset to the next one."""
        offsets: dict[str, int] = {}
        for _ in range(n_tensors):
            name, n_dimensions = self._string(), self._scalar(_U32)
            if n_dimensions > _MAX_DIMENSIONS:
                raise ValueError(f"tensor {name!r} has {n_dimensions} dimensions")
            self._file.read(_U64.size * n_dimensions)
            kind = self._scalar(_U32)
            if name.endswith("_norm.weight") and kind not in _FLOAT_TYPES:
                raise ValueError(f"tensor {name!r} is quantised (type {kind})")
            offsets[name] = self._scalar(_U64)
        step = _DEFAULT_ALIGNMENT if alignment is None else alignment
        if not isinstance(step, int) or step < _LEAST_ALIGNMENT:
            raise ValueError(f"its alignment is {step!r}")
        n_data = self._n_bytes - -(-self._file.tell() // step) * step
        ordered = sorted(offsets.items(), key=lambda item: item[1])
        ends = [*(offset for _, offset in ordered[1:]), n_data]
        if ordered and ordered[-1][1] >= n_data:
            raise ValueError(f"tensor {ordered[-1][0]!r} begins beyond the end of the file")
        return {name: end - start for (name, start), end in zip(ordered, ends, strict=False)}

    def _key_value(self) -> tuple[str, Value]:
        key = self._string(_MAX_KEY_BYTES)
        kind = self._scalar(_U32)
        if kind == _STRING:
            return key, self._string()
        if kind == _ARRAY:
            return key, self._array(key)
        value: int | float | bool = self._scalar(_SCALARS[kind])
        return key, value

    def _array(self, key: str) -> list[int] | None:
        kind, n_items = self._scalar(_U32), self._scalar(_U64)
        if kind == _STRING:
            read, unpack = self._file.read, _U64.unpack
            texts = [read(self._checked(unpack(read(8))[0])) for _ in range(n_items)]
            if key == _TOKENS and len(set(texts)) != n_items:
                raise ValueError("two tokens have the same text")
            return None
        item = _SCALARS[kind]
        data = self._file.read(self._checked(n_items * item.size))
        if kind not in _INTEGERS or not 0 < n_items <= _MAX_LAYERS:
            return None
        return [value for (value,) in item.iter_unpack(data)]

    def _string(self, max_bytes: int | None = None) -> str:
        n_bytes = self._checked(self._scalar(_U64), max_bytes)
        return self._file.read(n_bytes).decode("utf-8", "replace")

    def _scalar(self, kind: struct.Struct) -> int:
        value: int = kind.unpack(self._file.read(kind.size))[0]
        return value

    def _checked(self, n_bytes: int, max_bytes: int | None = None) -> int:
        """Return a length that may be read."""
        limit = self._n_bytes if max_bytes is None else max_bytes
        if n_bytes > limit:
            raise ValueError(f"something in it claims {n_bytes:,} bytes of {limit:,}")
        return n_bytes
