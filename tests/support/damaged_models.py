"""Variants of a GGUF file, each damaged in one place of its structure.

The format is specified in ggml's docs/gguf.md.
"""

import math
import struct
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

U32, F32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
SCALARS = {**dict(zip(range(8), "BbHhIif?", strict=True)), 10: "Q", 11: "q", 12: "d"}
N_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
ALIGNMENT = 32
U32_VALUES = [0, 1, 2, 3, 7, 63, 65, 513, 2**16, 2**20, 2**24, 2**31 - 1, 2**31, 2**32 - 1]
F32_VALUES = [0.0, -1.0, 1e-45, 1.0, 1e30, math.inf, -math.inf, math.nan]
ARCHITECTURES = [
    "llama", "mamba", "mamba2", "rwkv6", "t5", "bert", "gemma3", "qwen2moe", "qwen3", "qwen2vl",
    "deepseek2", "falcon-h1", "jamba", "lfm2", "phi3", "gpt-oss", "clip", "", "x" * 3000, "\xff",
]  # fmt: skip


@dataclass
class Tensor:
    name: bytes
    shape: list[int]
    kind: int
    offset: int


@dataclass
class Model:
    """A parsed file.  A value is (type, value); an array's value is (type of its items, items)."""

    values: dict[bytes, tuple[int, Any]]
    tensors: list[Tensor]
    data: bytes
    version: int = 3
    n_values: int | None = None
    n_tensors: int | None = None
    """Other numbers than there are."""
    padding: int = ALIGNMENT

    def set(self, key: str, value: Any, kind: int | None = None) -> None:
        """Set a value, of the type that it had."""
        name = key.encode()
        self.values[name] = (self.values[name][0] if kind is None else kind, value)

    def items(self, key: str) -> list[Any]:
        """Return an array's items, which may be changed."""
        found: list[Any] = self.values[key.encode()][1][1]
        return found

    def tensor(self, name: str) -> Tensor:
        return next(tensor for tensor in self.tensors if tensor.name == name.encode())

    def encoded(self) -> bytes:
        n_values = len(self.values) if self.n_values is None else self.n_values
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        parts = [b"GGUF", struct.pack("<IQQ", self.version, n_tensors, n_values)]
        for key, (kind, value) in self.values.items():
            parts += [_text(key), struct.pack("<I", kind), _encoded(kind, value)]
        for tensor in self.tensors:
            shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
            parts += [_text(tensor.name), shape, struct.pack("<IQ", tensor.kind, tensor.offset)]
        header = b"".join(parts)
        return header + bytes(-len(header) % self.padding) + self.data


def read_model(path: Path) -> Model:
    """Parse an intact file."""
    data = path.read_bytes()
    at = 4

    def take(code: str) -> Any:
        nonlocal at
        values = struct.unpack_from(f"<{code}", data, at)
        at += struct.calcsize(f"<{code}")
        return values[0] if len(values) == 1 else list(values)

    def text() -> bytes:
        nonlocal at
        n_bytes = take("Q")
        at += n_bytes
        return data[at - n_bytes : at]

    def value(kind: int) -> Any:
        if kind == STRING:
            return text()
        if kind == ARRAY:
            item, n_items = take("I"), take("Q")
            return item, [value(item) for _ in range(n_items)]
        return take(SCALARS[kind])

    version, n_tensors, n_values = take("I"), take("Q"), take("Q")
    values = {}
    for _ in range(n_values):
        key, kind = text(), take("I")
        values[key] = kind, value(kind)
    tensors = []
    for _ in range(n_tensors):
        name, n_dimensions = text(), take("I")
        shape = [take("Q") for _ in range(n_dimensions)]
        tensors.append(Tensor(name, shape, take("I"), take("Q")))
    start = -(-at // ALIGNMENT) * ALIGNMENT
    return Model(values, tensors, data[start:], version)


def _text(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _encoded(kind: int, value: Any) -> bytes:
    if kind == STRING:
        return _text(value)
    if kind == ARRAY:
        item, items = value
        head = struct.pack("<IQ", item, len(items))
        return head + b"".join(_encoded(item, each) for each in items)
    if kind not in SCALARS:
        return struct.pack("<I", value)
    if not isinstance(value, float) and SCALARS[kind] not in "fd?":
        return struct.pack("<Q", value % 2**64)[: N_BYTES[kind]]
    return struct.pack(f"<{SCALARS[kind]}", value)


def variants(intact: Model) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the name of each variant, unique, and what makes its content."""

    def made(damage: Callable[[Model], object]) -> bytes:
        model = deepcopy(intact)
        damage(model)
        return model.encoded()

    for name, damage in _damages(intact):
        yield name, partial(made, damage)
    whole = intact.encoded()
    n_header = len(whole) - len(intact.data)
    for n_kept in range(0, n_header, n_header // 10):
        yield f"cut at {n_kept}", partial(whole.__getitem__, slice(n_kept))
    for n_kept in range(n_header, len(whole), len(intact.data) // 10):
        yield f"data cut at {n_kept}", partial(whole.__getitem__, slice(n_kept))
    for at in range(4, 28, 2):
        flipped = bytes([whole[at] ^ 0xFF])
        yield (
            f"byte {at} flipped",
            lambda at=at, flipped=flipped: whole[:at] + flipped + whole[at + 1 :],
        )


def _damages(intact: Model) -> Iterator[tuple[str, Callable[[Model], object]]]:
    for key, (kind, _) in intact.values.items():
        name = key.decode()
        yield f"{name} missing", lambda model, key=key: model.values.pop(key)
        if kind == U32:
            for number in U32_VALUES:
                yield f"{name} = {number}", lambda model, n=name, v=number: model.set(n, v)
            yield f"{name} as text", lambda model, n=name: model.set(n, b"5", STRING)
            yield f"{name} as array", lambda model, n=name: model.set(n, (U32, [5] * 9), ARRAY)
            yield f"{name} as i64", lambda model, n=name: model.set(n, -(2**40), 11)
        elif kind == F32:
            for value in F32_VALUES:
                yield f"{name} = {value}", lambda model, n=name, v=value: model.set(n, v)
            yield f"{name} as u32", lambda model, n=name: model.set(n, 1, U32)
        elif kind == STRING:
            for text in (b"", b"\xff\xfe", b"x" * 5000, b"a\0b"):
                yield f"{name} = {text[:4]!r}", lambda model, n=name, t=text: model.set(n, t)
            yield f"{name} as u32", lambda model, n=name: model.set(n, 1, U32)
        elif kind == ARRAY:
            yield from _array_damages(name)
    for architecture in ARCHITECTURES:
        yield f"architecture {architecture[:9]!r}", lambda model, a=architecture: _rename(model, a)
    for key in (
        "expert_count", "expert_used_count", "attention.key_length", "attention.value_length",
        "rope.dimension_count", "attention.sliding_window", "vocab_size", "rope.scaling.factor",
        "attention.causal", "pooling_type", "leading_dense_block_count", "rope.freq_base_train",
        "logit_scale", "embedding_length_out", "nextn_predict_layers", "rope.scaling.type",
        "attention.max_alibi_bias", "attention.clamp_kqv", "full_attention_interval",
    ):  # fmt: skip
        for number in (0, 1, 65, 513, 2**20, 2**31, 2**32 - 1):
            yield (
                f"qwen2.{key} = {number}",
                lambda model, k=key, v=number: model.set(f"qwen2.{k}", v, U32),
            )
    for number in (0, 1, 3, 8, 33, 64, 2**20, 2**31, 2**32 - 1):
        yield f"alignment {number}", lambda model, v=number: model.set("general.alignment", v, U32)
    yield "alignment as text", lambda model: model.set("general.alignment", b"32", STRING)
    for number in (0, 1, 2**16, 2**32 - 1):
        yield f"split.count = {number}", lambda model, v=number: model.set("split.count", v, 2)
    for number in (0, 1, 2, 4, 2**31, 2**32 - 1):
        yield f"version {number}", lambda model, v=number: setattr(model, "version", v)
    for name in ("n_values", "n_tensors"):
        for number in (0, 1, 10, 25, 63, 2**20, 2**40, 2**63, 2**64 - 1):
            yield f"{name} {number}", lambda model, n=name, v=number: setattr(model, n, v)
    yield "a key of 70,000 bytes", lambda model: model.set("k" * 70_000, 1, U32)
    yield "an empty key", lambda model: model.set("", 1, U32)
    yield "a value of type 99", lambda model: model.set("x", 1, 99)
    yield "an array of arrays", lambda model: model.set("x", (ARRAY, [(U32, [1])]), ARRAY)
    yield "100,000 values", lambda model: [model.set(f"x{n}", 1, U32) for n in range(100_000)]
    yield from _tensor_damages(intact)


def _array_damages(name: str) -> Iterator[tuple[str, Callable[[Model], object]]]:
    yield f"{name} empty", lambda model: model.items(name).clear()
    yield f"{name} halved", lambda model: model.items(name).__delitem__(slice(0, None, 2))
    yield f"{name} one short", lambda model: model.items(name).pop()
    yield f"{name} one more", lambda model: model.items(name).append(model.items(name)[0])
    yield f"{name} doubled", lambda model: model.items(name).extend(model.items(name)[:])
    yield f"{name} all the same", lambda model: _fill(model.items(name))
    yield f"{name} as scalar", lambda model: model.set(name, 1, U32)
    yield f"{name} of u8", lambda model: model.set(name, (0, [1] * 4096), ARRAY)
    if name.endswith("token_type"):
        for number in (0, 2, 3, 4, 5, 6, 7, 2**31 - 1):
            yield f"{name} all {number}", lambda model, v=number: _fill(model.items(name), v)
    else:
        for text in (b"", b"\xff\xfe", b" ", b"a b", b"x" * 20_000, b"\0"):
            yield f"{name} first {text[:4]!r}", lambda model, t=text: _put(model.items(name), 0, t)
            yield f"{name} last {text[:4]!r}", lambda model, t=text: _put(model.items(name), -1, t)
            yield f"{name} some {text[:4]!r}", lambda model, t=text: _some(model.items(name), t)


def _tensor_damages(intact: Model) -> Iterator[tuple[str, Callable[[Model], object]]]:
    for name in (
        "token_embd.weight", "output_norm.weight", "blk.0.attn_q.weight", "blk.0.attn_q.bias",
        "blk.1.ffn_down.weight", "blk.2.attn_norm.weight",
    ):  # fmt: skip
        for kind in (
            0,
            1,
            2,
            3,
            6,
            8,
            9,
            10,
            16,
            19,
            24,
            27,
            30,
            31,
            36,
            39,
            40,
            99,
            2**31,
            2**32 - 1,
        ):
            yield (
                f"{name} of type {kind}",
                lambda m, n=name, k=kind: setattr(m.tensor(n), "kind", k),
            )
        for offset in (0, 1, 16, 32, 2**20, 2**31, 2**40, 2**63, 2**64 - 32, 2**64 - 1):
            yield (
                f"{name} at {offset}",
                lambda m, n=name, o=offset: setattr(m.tensor(n), "offset", o),
            )
        for shape in (
            [], [0], [1], [192], [191], [192, 0], [192, 1], [1, 192], [2**31, 2], [2**62, 4],
            [2**63], [2**64 - 1, 2**64 - 1], [192, 4097], [192, 4095], [192, 4096, 1, 1],
            [192, 2, 2, 2], [32] * 5, [1] * 100,
        ):  # fmt: skip
            yield (
                f"{name} of shape {str(shape)[:30]}",
                lambda m, n=name, s=shape: setattr(m.tensor(n), "shape", s),
            )
        yield f"{name} missing", lambda m, n=name: m.tensors.remove(m.tensor(n))
        yield f"{name} twice", lambda m, n=name: m.tensors.append(m.tensor(n))
        yield f"{name} renamed", lambda m, n=name: setattr(m.tensor(n), "name", b"x" * 63)
        yield f"{name} with a long name", lambda m, n=name: setattr(m.tensor(n), "name", b"x" * 64)
        yield f"{name} with an empty name", lambda m, n=name: setattr(m.tensor(n), "name", b"")
    yield "data of NaN", lambda model: setattr(model, "data", b"\xff" * len(model.data))
    yield "data of zeros", lambda model: setattr(model, "data", bytes(len(model.data)))
    yield "data missing", lambda model: setattr(model, "data", b"")
    yield (
        "blocks renumbered",
        lambda model: [
            setattr(tensor, "name", tensor.name.replace(b"blk.2.", b"blk.900."))
            for tensor in model.tensors
        ],
    )


def _rename(model: Model, architecture: str) -> None:
    """Give the model another architecture, with its hyperparameters under that name."""
    name = architecture.encode("latin-1")
    model.set("general.architecture", name)
    for key in [key for key in model.values if key.startswith(b"qwen2.")]:
        model.values[name + key[5:]] = model.values.pop(key)


def _fill(items: list[Any], value: Any = None) -> None:
    items[:] = [items[0] if value is None else value] * len(items)


def _put(items: list[Any], place: int, value: Any) -> None:
    items[place] = value


def _some(items: list[Any], value: Any) -> None:
    items[::7] = [value] * len(items[::7])
