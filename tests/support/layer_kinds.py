"""Small models with random weights whose layers keep states, or a window, instead of all positions.

Their vocabulary is the embedded target's.  Each of the architectures takes tokens back in another
way, which is what they are for; what they say means nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np

from speclsp.embedded import embedded_target

_WIDTH: Final = 64
_N_HEADS: Final = 2
_HEAD: Final = _WIDTH // _N_HEADS
_HIDDEN: Final = 96
_N_CTX: Final = 2048

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class LayerKind:
    """An architecture: its layers' tensors, and what else llama.cpp wants to know."""

    architecture: str
    shapes: Callable[[], Shapes]
    describe: Callable[[gguf.GGUFWriter], None]
    n_layers: int = 2


def _feed_forward(layer: int) -> Shapes:
    return {
        f"blk.{layer}.ffn_gate.weight": (_HIDDEN, _WIDTH),
        f"blk.{layer}.ffn_up.weight": (_HIDDEN, _WIDTH),
        f"blk.{layer}.ffn_down.weight": (_WIDTH, _HIDDEN),
    }


def _attention(layer: int, *, n_query: int = _WIDTH, head: int = _HEAD) -> Shapes:
    return {
        f"blk.{layer}.attn_q.weight": (n_query, _WIDTH),
        f"blk.{layer}.attn_k.weight": (_N_HEADS * head, _WIDTH),
        f"blk.{layer}.attn_v.weight": (_N_HEADS * head, _WIDTH),
        f"blk.{layer}.attn_output.weight": (_WIDTH, _N_HEADS * head),
    }


def _norms(layer: int, *names: str, size: int = _WIDTH) -> Shapes:
    return {f"blk.{layer}.{name}.weight": (size,) for name in names}


def _mamba() -> Shapes:
    inner, state, rank, kernel = 2 * _WIDTH, 16, 4, 4
    return {
        key: size
        for layer in range(2)
        for key, size in {
            **_norms(layer, "attn_norm"),
            f"blk.{layer}.ssm_in.weight": (2 * inner, _WIDTH),
            f"blk.{layer}.ssm_conv1d.weight": (inner, kernel),
            f"blk.{layer}.ssm_conv1d.bias": (inner,),
            f"blk.{layer}.ssm_x.weight": (rank + 2 * state, inner),
            f"blk.{layer}.ssm_dt.weight": (inner, rank),
            f"blk.{layer}.ssm_dt.bias": (inner,),
            f"blk.{layer}.ssm_a": (inner, state),
            f"blk.{layer}.ssm_d": (inner,),
            f"blk.{layer}.ssm_out.weight": (_WIDTH, inner),
        }.items()
    }


def _describe_mamba(writer: gguf.GGUFWriter) -> None:
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_inner_size(2 * _WIDTH)
    writer.add_ssm_state_size(16)
    writer.add_ssm_time_step_rank(4)


def _granite_hybrid() -> Shapes:
    inner, state, groups, heads, kernel = 2 * _WIDTH, 16, 1, 4, 4
    mixed = inner + 2 * groups * state
    return {
        **_norms(0, "attn_norm", "ffn_norm"),
        "blk.0.ssm_in.weight": (2 * inner + 2 * groups * state + heads, _WIDTH),
        "blk.0.ssm_conv1d.weight": (mixed, kernel),
        "blk.0.ssm_conv1d.bias": (mixed,),
        "blk.0.ssm_dt.bias": (heads,),
        "blk.0.ssm_a": (heads, 1),
        "blk.0.ssm_d": (heads, 1),
        "blk.0.ssm_norm.weight": (groups, inner // groups),
        "blk.0.ssm_out.weight": (_WIDTH, inner),
        **_feed_forward(0),
        **_norms(1, "attn_norm", "ffn_norm"),
        **_attention(1),
        **_feed_forward(1),
    }


def _describe_granite_hybrid(writer: gguf.GGUFWriter) -> None:
    writer.add_head_count(_N_HEADS)
    writer.add_head_count_kv([0, _N_HEADS])
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_inner_size(2 * _WIDTH)
    writer.add_ssm_state_size(16)
    writer.add_ssm_time_step_rank(4)
    writer.add_ssm_group_count(1)


def _lfm2() -> Shapes:
    return {
        **_norms(0, "attn_norm", "ffn_norm"),
        "blk.0.shortconv.conv.weight": (_WIDTH, 3),
        "blk.0.shortconv.in_proj.weight": (3 * _WIDTH, _WIDTH),
        "blk.0.shortconv.out_proj.weight": (_WIDTH, _WIDTH),
        **_feed_forward(0),
        **_norms(1, "attn_norm", "ffn_norm"),
        **_norms(1, "attn_q_norm", "attn_k_norm", size=_HEAD),
        **_attention(1),
        **_feed_forward(1),
    }


def _describe_lfm2(writer: gguf.GGUFWriter) -> None:
    writer.add_head_count(_N_HEADS)
    writer.add_head_count_kv([0, _N_HEADS])
    writer.add_shortconv_l_cache(3)


def _qwen35() -> Shapes:
    state, n_keys, n_values, kernel = 16, 2, 4, 4
    keys, values = state * n_keys, state * n_values
    return {
        **_norms(0, "attn_norm", "post_attention_norm"),
        "blk.0.attn_qkv.weight": (2 * keys + values, _WIDTH),
        "blk.0.attn_gate.weight": (values, _WIDTH),
        "blk.0.ssm_conv1d.weight": (2 * keys + values, kernel),
        "blk.0.ssm_dt.bias": (n_values,),
        "blk.0.ssm_a": (n_values,),
        "blk.0.ssm_beta.weight": (n_values, _WIDTH),
        "blk.0.ssm_alpha.weight": (n_values, _WIDTH),
        "blk.0.ssm_norm.weight": (state,),
        "blk.0.ssm_out.weight": (_WIDTH, values),
        **_feed_forward(0),
        **_norms(1, "attn_norm", "post_attention_norm"),
        **_norms(1, "attn_q_norm", "attn_k_norm", size=_HEAD),
        **_attention(1, n_query=2 * _WIDTH),
        **_feed_forward(1),
    }


def _describe_qwen35(writer: gguf.GGUFWriter) -> None:
    writer.add_head_count(_N_HEADS)
    writer.add_head_count_kv(_N_HEADS)
    writer.add_key_length(_HEAD)
    writer.add_value_length(_HEAD)
    writer.add_rope_dimension_count(_HEAD // 2)
    writer.add_rope_dimension_sections([4, 2, 2, 0])
    writer.add_uint32("qwen35.full_attention_interval", 2)
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_inner_size(64)
    writer.add_ssm_state_size(16)
    writer.add_ssm_time_step_rank(4)
    writer.add_ssm_group_count(2)


def _gemma2() -> Shapes:
    return {
        key: size
        for layer in range(2)
        for key, size in {
            **_norms(layer, "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"),
            **_attention(layer),
            **_feed_forward(layer),
        }.items()
    }


def _describe_gemma2(writer: gguf.GGUFWriter) -> None:
    writer.add_head_count(_N_HEADS)
    writer.add_head_count_kv(_N_HEADS)
    writer.add_key_length(_HEAD)
    writer.add_value_length(_HEAD)
    writer.add_sliding_window(32)
    writer.add_attn_logit_softcapping(50.0)
    writer.add_final_logit_softcapping(30.0)


LAYER_KINDS: Final[Mapping[str, LayerKind]] = {
    "mamba": LayerKind("mamba", _mamba, _describe_mamba),
    "granitehybrid": LayerKind("granitehybrid", _granite_hybrid, _describe_granite_hybrid),
    "lfm2": LayerKind("lfm2", _lfm2, _describe_lfm2),
    "qwen35": LayerKind("qwen35", _qwen35, _describe_qwen35),
    "gemma2": LayerKind("gemma2", _gemma2, _describe_gemma2),
}
"""By architecture: a state alone; states and attention without snapshots; with snapshots of short
convolutions; with snapshots of delta-net states; attention in a sliding window."""

_OUTPUT_NORMS: Final = {"lfm2": "token_embd_norm.weight"}


def write_layer_kind(path: Path, name: str) -> Path:
    """Write the model ``name`` of :data:`LAYER_KINDS`, the same weights every time."""
    kind = LAYER_KINDS[name]
    source = gguf.GGUFReader(embedded_target())
    writer = gguf.GGUFWriter(path, kind.architecture)
    writer.add_context_length(_N_CTX)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(kind.n_layers)
    writer.add_feed_forward_length(0 if name == "mamba" else _HIDDEN)
    writer.add_layer_norm_rms_eps(1e-5)
    kind.describe(writer)
    _copy_vocabulary(source, writer)
    n_tokens = len(source.fields["tokenizer.ggml.tokens"].data)
    random = np.random.default_rng(7)
    shapes: Shapes = {
        "token_embd.weight": (n_tokens, _WIDTH),
        _OUTPUT_NORMS.get(name, "output_norm.weight"): (_WIDTH,),
        **kind.shapes(),
    }
    for key, size in shapes.items():
        values = random.standard_normal(size).astype(np.float32)
        if "norm" in key:
            values = 1.0 + 0.1 * values
        elif key.endswith("ssm_a"):
            values = -np.exp(0.3 * values)
        elif key.endswith("ssm_conv1d.weight") or "shortconv.conv" in key:
            values *= 0.5
        elif key == "token_embd.weight":
            values *= 0.6
        else:
            values *= 1.4 / np.sqrt(size[-1])
        writer.add_tensor(key, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _copy_vocabulary(source: Any, writer: gguf.GGUFWriter) -> None:
    for key, one in source.fields.items():
        if not key.startswith("tokenizer."):
            continue
        kinds = [gguf.GGUFValueType(kind) for kind in one.types]
        if kinds[0] == gguf.GGUFValueType.ARRAY:
            writer.add_array(key, one.contents())
        else:
            writer.add_key_value(key, one.contents(), kinds[0])
