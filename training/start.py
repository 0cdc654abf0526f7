"""Where training starts from: a GGUF, or some layers of a larger model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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


def pruned(model: Model, layers: Sequence[int], n_ffn: int) -> Model:
    """Return a model of some layers of ``model`` with ``n_ffn`` units in each feed-forward part.

    The units with the largest product of the norms of their three weight vectors are kept.
    """
    weights = model.state_dict()
    taken = {name: weights[name] for name in ("e.weight", "n.weight")}
    for layer_idx, source_idx in enumerate(layers):
        source = f"b.{source_idx}."
        gate, up, down = (weights[f"{source}{part}.weight"] for part in "gud")
        norms = gate.norm(dim=1) * up.norm(dim=1) * down.norm(dim=0)
        kept = norms.topk(n_ffn).indices.sort().values
        for name, weight in weights.items():
            if not name.startswith(source):
                continue
            part = name.removeprefix(source)
            chosen = weight
            if part in {"g.weight", "u.weight"}:
                chosen = weight[kept]
            elif part == "d.weight":
                chosen = weight[:, kept]
            taken[f"b.{layer_idx}.{part}"] = chosen
    smaller = Model(replace(model.shape, n_layers=len(layers), n_ffn=n_ffn))
    smaller.load_state_dict(taken)
    return smaller
