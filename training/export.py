"""Writes a model as GGUF, in half precision or with its matrices as Q8_0, and reads it back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training.folder import LICENCE
from training.model import ROPE_BASE, Model
from training.presets import Shape
from training.tokens import SPECIAL_NAMES, special_tokens, tokenizer_of, vocabulary_of

Precision = Literal["f16", "q8_0"]


@dataclass(frozen=True, slots=True)
class About:
    """What a GGUF's metadata say of the model."""

    name: str
    version: str
    description: str


_LAYER_NAMES = {
    "n1": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "n2": "ffn_norm",
    "g": "ffn_gate",
    "u": "ffn_up",
    "d": "ffn_down",
}
_EPS_KEY = "qwen2.attention.layer_norm_rms_epsilon"
_MATRIX_TYPES = {
    "f16": gguf.GGMLQuantizationType.F16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
}


def write_gguf(
    model: Model,
    tokenizer: Tokenizer,
    path: Path,
    precision: Precision,
    *,
    about: About,
    n_ctx: int,
) -> None:
    """Write ``model`` and its vocabulary; norms and biases stay in single precision.

    ``n_ctx`` is the longest text that it was trained on.  An interrupted write leaves the file
    that was there.
    """
    partial = path.with_suffix(".partial")
    writer = gguf.GGUFWriter(partial, "qwen2")
    _add_about(writer, about)
    _add_metadata(writer, model, tokenizer, n_ctx=n_ctx)
    writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{precision.upper()}"])
    for tensor_name, values in named_tensors(model):
        if values.ndim == 1:
            writer.add_tensor(tensor_name, values)
        elif precision == "f16":
            writer.add_tensor(tensor_name, values.astype(np.float16))
        else:
            kind = _MATRIX_TYPES[precision]
            writer.add_tensor(tensor_name, gguf.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.replace(path)


def named_tensors(model: Model) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield the weights under llama.cpp's names, as rows of outputs."""
    for name, weight in model.state_dict().items():
        yield gguf_name(name), weight.detach().float().cpu().numpy()


def gguf_name(name: str) -> str:
    """Return llama.cpp's name of a weight: ``b.0.q.bias`` is ``blk.0.attn_q.bias``."""
    if name == "e.weight":
        return "token_embd.weight"
    if name == "n.weight":
        return "output_norm.weight"
    _, layer, part, kind = name.split(".")
    return f"blk.{layer}.{_LAYER_NAMES[part]}.{kind}"


def _add_about(writer: gguf.GGUFWriter, about: About) -> None:
    writer.add_name(about.name)
    writer.add_version(about.version)
    writer.add_license(LICENCE)
    writer.add_description(about.description)


def _add_metadata(
    writer: gguf.GGUFWriter, model: Model, tokenizer: Tokenizer, *, n_ctx: int
) -> None:
    shape = model.shape
    writer.add_context_length(n_ctx)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.n_layers)
    writer.add_feed_forward_length(shape.n_ffn)
    writer.add_head_count(shape.n_heads)
    writer.add_head_count_kv(shape.n_kv_heads)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(shape.rms_eps)
    tokens, merges = vocabulary_of(tokenizer)
    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    special = special_tokens(tokenizer)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([control if text in SPECIAL_NAMES else normal for text in tokens])
    writer.add_token_merges(merges)
    writer.add_eos_token_id(special.end)
    writer.add_bos_token_id(special.end)
    writer.add_pad_token_id(special.end)
    writer.add_add_bos_token(False)
    for key, token in (
        ("fim_pre", special.prefix),
        ("fim_suf", special.suffix),
        ("fim_mid", special.middle),
        ("fim_pad", special.pad),
        ("fim_rep", special.repo),
        ("fim_sep", special.separator),
    ):
        writer.add_uint32(f"tokenizer.ggml.{key}_token_id", token)


def read_gguf(path: Path) -> tuple[Model, Tokenizer]:
    """Return the model and the tokenizer that :func:`write_gguf` wrote."""
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
        rms_eps=round(float(reader.fields[_EPS_KEY].contents()), 12),
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
