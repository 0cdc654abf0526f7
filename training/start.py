"""Reads a model and its tokenizer back from a GGUF in half precision, to go on with it."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer

from training.export import gguf_name
from training.model import Model
from training.shape import Shape
from training.tokens import tokenizer_of


def read_gguf(path: Path) -> tuple[Model, Tokenizer]:
    """Return the model and the tokenizer that :func:`training.export.write_gguf` wrote."""
    reader = gguf.GGUFReader(path)

    def number(key: str) -> int:
        return int(reader.fields[f"qwen2.{key}"].contents())

    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    shape = Shape(
        n_vocab=len(tokens),
        n_layers=number("block_count"),
        width=number("embedding_length"),
        n_heads=number("attention.head_count"),
        n_kv_heads=number("attention.head_count_kv"),
        n_ffn=number("feed_forward_length"),
    )
    model = Model(shape)
    tensors = {
        tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors
    }
    weights = {
        name: torch.from_numpy(np.array(tensors[gguf_name(name)], dtype=np.float32)).view_as(weight)
        for name, weight in model.state_dict().items()
    }
    model.load_state_dict(weights)
    merges = reader.fields["tokenizer.ggml.merges"].contents()
    return model, tokenizer_of(tokens, merges)
