"""The tokenizer: byte-level BPE with the qwen2 pre-tokenizer and Qwen2.5-Coder's special tokens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from training.layouts import Encode, SpecialTokens

SPECIAL_NAMES = (
    "<|endoftext|>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
)

_QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""llama.cpp's pre-tokenizer ``qwen2``."""


def train_tokenizer(texts: Iterable[str], n_vocab: int) -> Tokenizer:
    """Train a vocabulary of ``n_vocab`` tokens, the special ones last."""
    tokenizer = _untrained(BPE())
    trainer = BpeTrainer(
        vocab_size=n_vocab - len(SPECIAL_NAMES),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(list(SPECIAL_NAMES))
    return tokenizer


def tokenizer_of(tokens: Sequence[str], merges: Sequence[str]) -> Tokenizer:
    """Make the tokenizer that a GGUF holds, from its list of tokens and its merges."""
    vocab = {text: token for token, text in enumerate(tokens) if text not in SPECIAL_NAMES}
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    tokenizer = _untrained(BPE(vocab=vocab, merges=pairs))
    tokenizer.add_special_tokens(list(SPECIAL_NAMES))
    return tokenizer


def _untrained(model: BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_QWEN2_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    # A source may hold the text "<|endoftext|>"; that is not the token.
    tokenizer.encode_special_tokens = True
    return tokenizer


def read_tokenizer(path: Path) -> Tokenizer:
    """Read a tokenizer's file."""
    tokenizer = Tokenizer.from_file(str(path))
    # A source may hold the text "<|endoftext|>"; that is not the token.
    tokenizer.encode_special_tokens = True
    return tokenizer


def special_tokens(tokenizer: Tokenizer) -> SpecialTokens:
    """Return the ids of the special tokens."""
    ids = {name: tokenizer.token_to_id(name) for name in SPECIAL_NAMES}
    return SpecialTokens(
        end=ids["<|endoftext|>"],
        prefix=ids["<|fim_prefix|>"],
        middle=ids["<|fim_middle|>"],
        suffix=ids["<|fim_suffix|>"],
        repo=ids["<|repo_name|>"],
        separator=ids["<|file_sep|>"],
        pad=ids["<|fim_pad|>"],
    )


def encoder(tokenizer: Tokenizer) -> Encode:
    """Return what turns a text into tokens."""

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return encode


def vocabulary_of(tokenizer: Tokenizer) -> tuple[list[str], list[str]]:
    """Return the tokens in the order of their ids, and the merges, as GGUF has them."""
    by_id = {token: text for text, token in tokenizer.get_vocab().items()}
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return (
        [by_id[token] for token in range(len(by_id))],
        [merge if isinstance(merge, str) else " ".join(merge) for merge in merges],
    )
