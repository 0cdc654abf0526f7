"""Copies of a model with other vocabularies: other ids and names, or fewer tokens."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np

_TOKENS, _TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
_MERGES, _FIM = "tokenizer.ggml.merges", "tokenizer.ggml.fim_"
_BY_TOKEN = ("token_embd.weight", "output.weight")


def write_with_other_vocabulary(
    source: Path, goal: Path, *, first: int, last: int, names: Mapping[str, str]
) -> None:
    """Reverse the ids from ``first`` to ``last``, and rename the tokens that ``names`` holds.

    The copy computes what the original does: the rows of its weights go with the ids.  With
    ``names`` it does not say which tokens fill-in-the-middle prompts are made of.
    """
    tokens: list[str] = gguf.GGUFReader(source).fields[_TOKENS].contents()
    order = [*range(len(tokens))]
    order[first : last + 1] = order[first : last + 1][::-1]
    named = [names.get(tokens[idx], tokens[idx]) for idx in order]
    _write(source, goal, order, {_TOKENS: named}, left_out=_FIM if names else "-")


def write_with_fewer_tokens(source: Path, goal: Path, *, n_merges: int) -> None:
    """Keep the first ``n_merges`` merges of a BPE vocabulary, and leave out the tokens of others.

    The copy reads and writes shorter tokens than it was trained on.
    """
    fields = gguf.GGUFReader(source).fields
    tokens: list[str] = fields[_TOKENS].contents()
    merges: list[str] = fields[_MERGES].contents()
    left_out = {merge.replace(" ", "") for merge in merges[n_merges:]}
    left_out -= {merge.replace(" ", "") for merge in merges[:n_merges]}
    kept = [idx for idx, token in enumerate(tokens) if token not in left_out]
    changed: dict[str, Any] = {_TOKENS: [tokens[idx] for idx in kept], _MERGES: merges[:n_merges]}
    for key, field in fields.items():
        if key.startswith("tokenizer.ggml.") and key.endswith("_token_id"):
            changed[key] = kept.index(int(field.contents()))
    _write(source, goal, kept, changed)


def _write(
    source: Path,
    goal: Path,
    order: Sequence[int],
    changed: Mapping[str, Any],
    *,
    left_out: str = "-",
) -> None:
    """Write a model whose token i is the token ``order[i]`` of ``source``.

    Keys that begin with ``left_out`` are left out.
    """
    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(goal, architecture)
    for key, field in reader.fields.items():
        if key.startswith(("GGUF.", left_out)) or key == "general.architecture":
            continue
        value = changed.get(key, field.contents())
        if key == _TYPES:
            value = [value[token] for token in order]
        if key.endswith(".vocab_size"):
            value = len(order)
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, value, kind, sub_type=inner)
    rows = np.array(order)
    for tensor in reader.tensors:
        data = tensor.data[rows] if tensor.name in _BY_TOKEN else tensor.data
        writer.add_tensor(tensor.name, data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
