"""Estimates what a model wants of the GPU's memory, from its file alone."""

from __future__ import annotations

import re

from speclsp.engine.llama.fit import ModelShape
from speclsp.engine.llama.gguf_header import GgufHeader
from speclsp.engine.params import ContextParams, ModelParams
from speclsp.settings import KvCacheType

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
_ROWS_OF_LOGITS = 128
_ACTIVATIONS_PER_WIDTH = 16
"""Rough number of intermediate tensors, each as wide as the model, alive at once."""


def estimate_shape(
    header: GgufHeader, model_params: ModelParams, context_params: ContextParams
) -> ModelShape:
    """Return the bytes per layer: weights by the tensors' sizes, the KV cache by its shape.

    Tensors that are placed in CPU memory by name do not count.  The intermediate results are a
    rough guess; where it is too low, loading fails and the next attempt takes less.
    """
    n_layers = header.number("block_count", 0)
    on_cpu = [
        re.compile(pattern) for pattern, kind in model_params.tensor_placements if kind == "CPU"
    ]
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
    if "output.weight" not in header.tensor_bytes:
        # The embedding serves as output too, and then a second copy of it lies on the GPU.
        output_bytes += header.tensor_bytes.get("token_embd.weight", 0)
    return ModelShape(
        layer_bytes=tuple(layer_bytes),
        output_bytes=output_bytes,
        kv_bytes_per_position=_kv_bytes(header, n_layers, context_params),
        compute_bytes=_compute_bytes(header, context_params),
    )


def _kv_bytes(header: GgufHeader, n_layers: int, params: ContextParams) -> tuple[int, ...]:
    """Bytes of one position in each layer: n_head_kv · (head width) · bytes per value."""
    if not params.kv_offload:
        return (0,) * n_layers
    n_heads = max(1, header.number("attention.head_count", 1))
    width = header.number("embedding_length", 0) // n_heads
    key_width = header.number("attention.key_length", width)
    value_width = header.number("attention.value_length", width)
    bytes_per_head = (
        key_width * _BYTES_PER_VALUE[params.type_k] + value_width * _BYTES_PER_VALUE[params.type_v]
    )
    heads = header.numbers("attention.head_count_kv", n_layers, n_heads)
    return tuple(round(n_heads_kv * bytes_per_head) for n_heads_kv in heads)


def _compute_bytes(header: GgufHeader, params: ContextParams) -> int:
    width = header.number("embedding_length", 0)
    feed_forward = header.number("feed_forward_length", 4 * width)
    n_vocab = header.tensor_bytes.get("token_embd.weight", 0) // max(1, width)
    n_rows = params.n_ubatch
    activations = n_rows * (_ACTIVATIONS_PER_WIDTH * width + 2 * feed_forward) * 4
    logits = min(n_rows, _ROWS_OF_LOGITS) * n_vocab * 4
    scores = 0
    if params.flash_attn == "off":
        scores = n_rows * params.n_ctx * header.number("attention.head_count", 1) * 4
    return activations + logits + scores
