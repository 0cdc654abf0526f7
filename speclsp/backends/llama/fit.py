"""Estimates from the file's header how many layers and how large a KV cache fit the GPUs.

The estimate decides the first attempt; :mod:`speclsp.backends.llama.loading` retries with less.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from speclsp.backends.llama.model_file import GgufHeader
from speclsp.backends.params import tensor_placements
from speclsp.settings import KvCacheType, Settings

if TYPE_CHECKING:  # it imports llama.cpp
    from speclsp.backends.llama.library import DeviceInfo

FIT_CTX = 2048
"""Positions of the smallest KV cache that `fit` chooses: a prompt of the default size."""
_LAYER_STEPS = 8
"""Attempts between all layers on the GPU and none."""
_MEMORY_KEPT_FREE = 512 * 1024 * 1024
"""Bytes of each GPU reserved for the backend itself and for other programs."""
_BLOCK = re.compile(r"^blk\.(\d+)\.")
_INPUT_TENSORS = ("token_embd.weight", "position_embd.weight", "token_types.weight")
# Bytes per value: a block of 32 values with its scale, and its minimum where there is one.
_BYTES_PER_VALUE: dict[KvCacheType, float] = {
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}
MAX_OUTPUTS = 128
"""Most rows of logits of one llama_decode.

llama.cpp reserves n_vocab · 4 bytes on the device for each, so a batch has fewer rows than tokens.
"""
SNAPSHOTS_SHARE = 8
"""Snapshots of recurrent layers' states take at most the memory of the weights divided by this."""
_STATE_KEYS = ("ssm.inner_size", "shortconv.l_cache")
"""Metadata of models whose layers keep states."""
_ACTIVATIONS_PER_WIDTH = 16
"""Rough number of intermediate tensors of the model's width in memory at the same time."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Layers to load on GPUs (the output layer counts) and positions of the KV cache."""

    n_gpu_layers: int
    n_ctx: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Bytes that a model occupies on the devices to which it is offloaded.

    Weights placed on the CPU by name do not count.
    """

    layer_bytes: tuple[int, ...]
    """Weights of each repeating layer, first to last."""
    output_bytes: int
    """Weights of the output layer."""
    kv_bytes_per_position: tuple[int, ...]
    """Of each repeating layer; zeros where the KV cache stays on the CPU."""
    compute_bytes: int
    """Intermediate results; independent of the number of layers."""

    @property
    def n_layers(self) -> int:
        """Layers that can be offloaded: the repeating ones and the output."""
        return len(self.layer_bytes) + 1

    def offloaded_bytes(self, n_gpu_layers: int, n_ctx: int) -> int:
        """Return the bytes of the last ``n_gpu_layers`` layers, the output layer among them."""
        if n_gpu_layers <= 0:
            return 0
        first = max(0, self.n_layers - n_gpu_layers)
        weights = sum(self.layer_bytes[first:]) + self.output_bytes
        cache = sum(self.kv_bytes_per_position[first:]) * n_ctx
        return weights + cache + self.compute_bytes

    def most_layers(self, free_bytes: int, n_ctx: int) -> int:
        """Return the most layers that fit into ``free_bytes``."""
        for n_gpu_layers in range(self.n_layers, 0, -1):
            if self.offloaded_bytes(n_gpu_layers, n_ctx) <= free_bytes:
                return n_gpu_layers
        return 0


def first_attempt(
    header: GgufHeader,
    settings: Settings,
    gpus: Sequence[DeviceInfo],
    *,
    n_bytes_reserved: int = 0,
) -> Attempt:
    """Return the first attempt.

    A number of layers from the settings is used as given; ``auto`` uses as many layers as are
    estimated to fit beside ``n_bytes_reserved``, or all of them without ``settings.fit``.
    """
    n_ctx = _wanted_ctx(header, settings)
    if not gpus:
        return Attempt(0, n_ctx)
    if settings.n_gpu_layers != "auto" or not settings.fit:
        return Attempt(layers_asked(settings, header.n_layers), n_ctx)
    free = sum(max(0, gpu.memory_free - _MEMORY_KEPT_FREE) for gpu in gpus)
    shape = estimate_shape(header, replace(settings, ctx_size=n_ctx))
    return Attempt(shape.most_layers(free - n_bytes_reserved, n_ctx), n_ctx)


def next_attempt(failed: Attempt, n_layers: int, n_ctx_min: int) -> Attempt | None:
    """Return the attempt after ``failed`` did not fit; None after the last one.

    First an eighth of ``n_layers`` fewer at a time, down to none; then half the KV cache at a
    time, down to ``n_ctx_min``.
    """
    if failed.n_gpu_layers > 0:
        step = max(1, n_layers // _LAYER_STEPS)
        return Attempt(max(0, failed.n_gpu_layers - step), failed.n_ctx)
    if failed.n_ctx <= n_ctx_min:
        return None
    return Attempt(0, max(failed.n_ctx // 2, n_ctx_min))


def estimate_shape(header: GgufHeader, settings: Settings) -> ModelShape:
    """Return the bytes per layer: weights from the tensors' sizes, the KV cache from its shape.

    The intermediate results are a rough guess; where it is too low, loading fails and is retried
    with less.
    """
    n_layers = header.n_layers - 1
    placements = tensor_placements(settings)
    on_cpu = [re.compile(pattern) for pattern, kind in placements if kind == "CPU"]
    layer_bytes = [0] * n_layers
    output_bytes = 0
    for name, n_bytes in header.tensor_bytes.items():
        block = _BLOCK.match(name)
        if any(pattern.search(name) for pattern in on_cpu):
            continue
        if block is not None and int(block[1]) < n_layers:
            layer_bytes[int(block[1])] += n_bytes
        elif name not in _INPUT_TENSORS:
            output_bytes += n_bytes
    if any(header.number(key, 0) for key in _STATE_KEYS):
        # Of the layers' states llama.cpp keeps snapshots, in as much memory at the most.
        layer_bytes = [n_bytes + n_bytes // SNAPSHOTS_SHARE for n_bytes in layer_bytes]
    if "output.weight" not in header.tensor_bytes:
        # The embedding serves as output too, and then a second copy of it is on the GPU.
        output_bytes += header.tensor_bytes.get("token_embd.weight", 0)
    return ModelShape(
        layer_bytes=tuple(layer_bytes),
        output_bytes=output_bytes,
        kv_bytes_per_position=kv_bytes(header, settings)
        if settings.kv_offload
        else (0,) * n_layers,
        compute_bytes=_compute_bytes(header, settings),
    )


def gpu_bytes(header: GgufHeader, settings: Settings) -> int:
    """Return the bytes on GPUs of a model that is offloaded as the settings say, ``auto`` whole."""
    n_gpu_layers = layers_asked(settings, header.n_layers)
    shape = estimate_shape(header, settings)
    return shape.offloaded_bytes(n_gpu_layers, _wanted_ctx(header, settings))


def layers_asked(settings: Settings, n_layers: int) -> int:
    """Return how many of ``n_layers`` the settings want on GPUs; all for ``auto`` and ``all``."""
    n_asked = settings.n_gpu_layers
    # llama.cpp takes a negative number for all.
    return min(n_asked, n_layers) if isinstance(n_asked, int) and n_asked >= 0 else n_layers


def _wanted_ctx(header: GgufHeader, settings: Settings) -> int:
    n_ctx_train = header.number("context_length", settings.ctx_size)
    return min(settings.ctx_size or n_ctx_train, n_ctx_train)


def kv_bytes(header: GgufHeader, settings: Settings) -> tuple[int, ...]:
    """Return the bytes of one position per layer: n_head_kv · head width · bytes per value."""
    n_heads = max(1, header.number("attention.head_count", 1))
    width = header.number("embedding_length", 0) // n_heads
    key_width = header.number("attention.key_length", width)
    value_width = header.number("attention.value_length", width)
    bytes_per_head = (
        key_width * _BYTES_PER_VALUE[settings.cache_type_k]
        + value_width * _BYTES_PER_VALUE[settings.cache_type_v]
    )
    heads = header.numbers("attention.head_count_kv", header.n_layers - 1, n_heads)
    return tuple(round(n_heads_kv * bytes_per_head) for n_heads_kv in heads)


def least_kv_bytes(header: GgufHeader, settings: Settings) -> int:
    """Return the bytes of the smallest KV cache with which the model is loaded."""
    n_ctx = _wanted_ctx(header, settings)
    n_least = min(n_ctx, FIT_CTX) if settings.fit else n_ctx
    return sum(kv_bytes(header, settings)) * n_least


def _compute_bytes(header: GgufHeader, settings: Settings) -> int:
    width = header.number("embedding_length", 0)
    feed_forward = header.number("feed_forward_length", 4 * width)
    n_vocab = header.tensor_bytes.get("token_embd.weight", 0) // max(1, width)
    n_rows = min(settings.ubatch_size, settings.batch_size)
    activations = n_rows * (_ACTIVATIONS_PER_WIDTH * width + 2 * feed_forward) * 4
    logits = min(n_rows, MAX_OUTPUTS) * n_vocab * 4
    scores = 0
    if settings.flash_attn == "off":
        scores = n_rows * settings.ctx_size * header.number("attention.head_count", 1) * 4
    return activations + logits + scores
