"""A copy of a model whose tokens have other ids and whose special tokens have other names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np

_TOKENS, _TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
_BY_TOKEN = ("token_embd.weight", "output.weight")


def write_with_other_vocabulary(
    source: Path, goal: Path, *, first: int, last: int, names: Mapping[str, str]
) -> None:
    """Reverse the ids from ``first`` to ``last``, and rename the tokens that ``names`` holds.

    The copy computes what the original does: the rows of its weights go with the ids.
    """
    reader = gguf.GGUFReader(source)
    n_tokens = len(reader.fields[_TOKENS].data)
    order = np.arange(n_tokens)
    order[first : last + 1] = order[first : last + 1][::-1]
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(goal, architecture)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        value = field.contents()
        if key == _TOKENS:
            value = [names.get(value[token], value[token]) for token in order]
        elif key == _TYPES:
            value = [value[token] for token in order]
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, value, kind, sub_type=inner)
    for tensor in reader.tensors:
        data = tensor.data[order] if tensor.name in _BY_TOKEN else tensor.data
        writer.add_tensor(tensor.name, data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
