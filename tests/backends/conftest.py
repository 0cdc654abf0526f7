"""Writes small GGUFs for the backends' tests."""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


class GgufMaker:
    """Writes GGUFs into one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, architecture: str, fill: Callable[[gguf.GGUFWriter], None]) -> Path:
        path = self.folder / name
        writer = gguf.GGUFWriter(path, architecture)
        fill(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    def bpe_vocabulary(
        self, name: str, tokens: list[str], types: list[int] | None = None, **settings: int | bool
    ) -> Path:
        """A vocabulary-only GGUF with a byte-level BPE of single characters."""

        def fill(writer: gguf.GGUFWriter) -> None:
            shape(writer)
            add_tokens(writer, tokens, types)
            for key, value in settings.items():
                add = writer.add_bool if isinstance(value, bool) else writer.add_uint32
                add(f"tokenizer.ggml.{key}", value)

        return self.write(name, "qwen2", fill)

    def spm_vocabulary(self, name: str, tokens: list[str], with_bytes: bool = True) -> Path:
        """A vocabulary-only GGUF with a SentencePiece tokenizer that prefixes a space."""
        everything = ["<unk>", "<s>", "</s>", *(BYTES if with_bytes else []), *tokens]
        types = [2, 3, 3, *([6] * 256 if with_bytes else []), *[1] * len(tokens)]

        def fill(writer: gguf.GGUFWriter) -> None:
            shape(writer)
            writer.add_tokenizer_model("llama")
            writer.add_token_list(everything)
            writer.add_token_types(types)
            writer.add_token_scores([-float(idx) for idx in range(len(everything))])
            writer.add_bos_token_id(1)
            writer.add_eos_token_id(2)
            writer.add_unk_token_id(0)

        return self.write(name, "llama", fill)

    def narrow_model(self, name: str, tokens: list[str]) -> Path:
        """A llama model of one layer with two heads of 24 values and random weights."""
        width, hidden = 48, 64
        shapes = {
            "token_embd": (len(tokens), width),
            "output_norm": (width,),
            "blk.0.attn_norm": (width,),
            "blk.0.attn_q": (width, width),
            "blk.0.attn_k": (width, width),
            "blk.0.attn_v": (width, width),
            "blk.0.attn_output": (width, width),
            "blk.0.ffn_norm": (width,),
            "blk.0.ffn_gate": (hidden, width),
            "blk.0.ffn_up": (hidden, width),
            "blk.0.ffn_down": (width, hidden),
        }

        def fill(writer: gguf.GGUFWriter) -> None:
            shape(writer, width=width, hidden=hidden)
            add_tokens(writer, tokens)
            add_tensors(writer, {f"{key}.weight": size for key, size in shapes.items()})

        return self.write(name, "llama", fill)


def add_tokens(writer: gguf.GGUFWriter, tokens: list[str], types: list[int] | None = None) -> None:
    """A byte-level BPE with one merge."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(types or [1] * len(tokens))
    writer.add_token_merges(["a b"])


def add_tensors(writer: gguf.GGUFWriter, shapes: dict[str, tuple[int, ...]]) -> None:
    """Random weights, the same every time."""
    random = np.random.default_rng(1)
    for key, size in shapes.items():
        writer.add_tensor(key, random.standard_normal(size).astype(np.float32) * 0.2)


def shape(writer: gguf.GGUFWriter, *, width: int = 64, hidden: int = 128) -> None:
    """The numbers that llama.cpp wants of any model, even without its weights."""
    writer.add_context_length(512)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)


@pytest.fixture
def gguf_maker(tmp_path):
    return GgufMaker(tmp_path)
