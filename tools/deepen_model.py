"""Make a slow model that says the same as a small one: what benchmarks of time need.

The copy has more layers, of which the new ones add nothing to what passes through them: their
output matrices are zero.  So every token comes out as before, and takes as many times longer as
there are more layers::

    python tools/deepen_model.py fixtures/models/embedded-target-f16.gguf slow.gguf --layers 110
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter

SILENCED = ("attn_output.weight", "ffn_down.weight")
"""What a layer adds to its input goes through these."""
UNQUANTISED = ("F16", "F32", "BF16")
"""Types in which zeros are zero bytes."""


def deepen(source: Path, target: Path, n_layers: int) -> None:
    """Write ``target``: the model ``source`` with ``n_layers`` layers.

    Raises ValueError where the model has as many layers already, or quantised ones.
    """
    reader = GGUFReader(source)
    fields = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    architecture = fields.pop("general.architecture").contents()
    count = f"{architecture}.block_count"
    n_before = fields[count].contents()
    first = [tensor for tensor in reader.tensors if tensor.name.startswith("blk.0.")]
    if n_layers <= n_before:
        raise ValueError(f"{source} has {n_before} layers already")
    if any(t.tensor_type.name not in UNQUANTISED for t in first if t.name.endswith(SILENCED)):
        raise ValueError(f"{source} is quantised; take one in F16")
    writer = GGUFWriter(target, architecture)
    for name, field in fields.items():
        kind = field.types[0]
        value = n_layers if name == count else field.contents()
        writer.add_key_value(
            name, value, kind, sub_type=field.types[-1] if kind == GGUFValueType.ARRAY else None
        )
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    for layer in range(n_before, n_layers):
        for tensor in first:
            name = tensor.name.replace("blk.0.", f"blk.{layer}.", 1)
            silent = name.endswith(SILENCED)
            data = np.zeros_like(tensor.data) if silent else tensor.data
            writer.add_tensor(name, data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--layers", type=int, required=True)
    given = parser.parse_args()
    try:
        deepen(given.source, given.target, given.layers)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"Problem: {error}.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
