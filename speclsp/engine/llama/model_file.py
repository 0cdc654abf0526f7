"""A model file before it is loaded: its GGUF header, and clear errors for what is wrong with it."""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from speclsp.engine.llama.library import collected_lines, library_function
from speclsp.errors import ModelLoadError, ModelNotFoundError

_GGUF_MAGIC = b"GGUF"
_LFS_MAGIC = b"version https://git-lfs"
_HEADER_LENGTH = 64
_SPLIT_NAME = re.compile(r"^(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")
_MAX_LAYERS = 1024
"""Longer arrays of numbers are about tokens, not about layers."""

Value = str | int | float | bool | list[int] | None
"""A metadata value.  Arrays are read where they hold at most 1,024 integers, else None."""


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Metadata by key, and the size in bytes of each tensor by name."""

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
    """Raise where ``path`` is certainly no GGUF model.

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
            header = file.read(_HEADER_LENGTH)
    except OSError as error:
        raise ModelLoadError(
            f"The model file {path} cannot be read: {error.strerror or error}.",
            remedy="Check the file's permissions.",
        ) from error
    if header.startswith(_LFS_MAGIC):
        raise ModelLoadError(
            f"{path} is a Git LFS pointer, not the model itself.",
            remedy="Fetch the file with `git lfs pull`.",
        )
    if not header.startswith(_GGUF_MAGIC):
        raise ModelLoadError(
            f"{path} is not a GGUF file." if header else f"{path} is empty.",
            remedy="Download a GGUF version of the model, or convert it with llama.cpp.",
        )


def read_gguf_header(path: Path) -> GgufHeader:
    """Read the header of a GGUF file, and of its other parts where the model is split.

    Raises :class:`ModelLoadError` where a header is damaged, :class:`ModelNotFoundError` where a
    part is missing.
    """
    metadata: dict[str, Value] = {}
    tensor_bytes: dict[str, int] = {}
    for part in _parts(path):
        if not part.exists():
            raise ModelNotFoundError(
                f"The model's part {part} is missing.", remedy="Download all parts into one folder."
            )
        header = _read_header(part)
        metadata = header.metadata | metadata
        tensor_bytes.update(header.tensor_bytes)
    return GgufHeader(metadata, tensor_bytes)


def load_error(path: Path, reasons: Sequence[str]) -> ModelLoadError:
    """Return the error for what llama.cpp logged when it refused ``path``."""
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
            remedy="Upgrade llama-cpp-python, or take another model.",
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


class _GgufInitParams(ctypes.Structure):
    """``struct gguf_init_params``."""

    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


_ID = ctypes.c_int64
_FILE = ctypes.c_void_p
_STRING, _ARRAY = 8, 9
_SCALARS: dict[int, Any] = {
    0: ctypes.c_uint8,
    1: ctypes.c_int8,
    2: ctypes.c_uint16,
    3: ctypes.c_int16,
    4: ctypes.c_uint32,
    5: ctypes.c_int32,
    6: ctypes.c_float,
    7: ctypes.c_bool,
    10: ctypes.c_uint64,
    11: ctypes.c_int64,
    12: ctypes.c_double,
}
"""The format's scalar value types."""
_INTEGERS = _SCALARS.keys() - {6, 7, 12}


@functools.cache
def _gguf() -> Any:
    """Return libggml's functions on GGUF files, named without ``gguf_``."""
    prototypes: dict[str, tuple[list[Any], Any]] = {
        "init_from_file": ([ctypes.c_char_p, _GgufInitParams], _FILE),
        "free": ([_FILE], None),
        "get_n_kv": ([_FILE], _ID),
        "get_key": ([_FILE, _ID], ctypes.c_char_p),
        "get_kv_type": ([_FILE, _ID], ctypes.c_int),
        "get_val_str": ([_FILE, _ID], ctypes.c_char_p),
        "get_val_data": ([_FILE, _ID], ctypes.c_void_p),
        "get_arr_type": ([_FILE, _ID], ctypes.c_int),
        "get_arr_n": ([_FILE, _ID], ctypes.c_size_t),
        "get_arr_data": ([_FILE, _ID], ctypes.c_void_p),
        "get_n_tensors": ([_FILE], _ID),
        "get_tensor_name": ([_FILE, _ID], ctypes.c_char_p),
        "get_tensor_size": ([_FILE, _ID], ctypes.c_size_t),
    }
    functions = {name: library_function(f"gguf_{name}", *row) for name, row in prototypes.items()}
    return SimpleNamespace(**functions)


def _read_header(path: Path) -> GgufHeader:
    gguf = _gguf()
    with collected_lines() as lines:
        file = gguf.init_from_file(os.fsencode(path), _GgufInitParams(no_alloc=True, ctx=None))
    if not file:
        reasons = [line for level, line in lines if level == "error"]
        raise ModelLoadError(
            f"The model file {path} is damaged or incomplete: its header cannot be read "
            f"({_plain_reason(reasons)}).",
            remedy="Download it again.",
        )
    try:
        metadata = {
            gguf.get_key(file, key_idx).decode("utf-8", "replace"): _value(file, key_idx)
            for key_idx in range(gguf.get_n_kv(file))
        }
        tensor_bytes = {
            gguf.get_tensor_name(file, idx).decode("utf-8", "replace"): gguf.get_tensor_size(
                file, idx
            )
            for idx in range(gguf.get_n_tensors(file))
        }
    finally:
        gguf.free(file)
    return GgufHeader(metadata, tensor_bytes)


def _value(file: int, key_idx: int) -> Value:
    """Return a metadata value.  libggml ends the process where it is asked for another type."""
    gguf = _gguf()
    kind = gguf.get_kv_type(file, key_idx)
    if kind == _STRING:
        text: str = gguf.get_val_str(file, key_idx).decode("utf-8", "replace")
        return text
    if kind in _SCALARS:
        scalar: int | float | bool = (
            _SCALARS[kind].from_address(gguf.get_val_data(file, key_idx)).value
        )
        return scalar
    if kind != _ARRAY or gguf.get_arr_type(file, key_idx) not in _INTEGERS:
        return None
    n_items = gguf.get_arr_n(file, key_idx)
    if not 0 < n_items <= _MAX_LAYERS:
        return None
    item_type = _SCALARS[gguf.get_arr_type(file, key_idx)]
    return list((item_type * n_items).from_address(gguf.get_arr_data(file, key_idx)))
