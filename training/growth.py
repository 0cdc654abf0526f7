"""Models made from a trained one: a smaller one to draft, a larger one to train on.

The larger model computes what the smaller one computes (Net2Net: Chen et al., arXiv 1511.05641).
Its new units read with random weights and write with zero weights.  Zeros on both sides would
never train: each gradient would be a product with one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from training.model import Model
from training.presets import Shape


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


_WRITERS = frozenset({"o.weight", "d.weight"})
_NORMS = frozenset({"n.weight", "n1.weight", "n2.weight"})


def grown(model: Model, shape: Shape) -> Model:
    """Return a model of a larger shape with the logits of ``model``.

    The vocabulary, the head size and the KV heads stay.  New layers follow the old ones evenly.

    Raises ValueError where ``shape`` is no such shape.
    """
    old = model.shape
    is_same = (old.n_vocab, old.head_size, old.n_kv_heads) == (
        shape.n_vocab,
        shape.head_size,
        shape.n_kv_heads,
    )
    is_larger = (
        shape.n_layers >= old.n_layers and shape.width >= old.width and shape.n_ffn >= old.n_ffn
    )
    if not (is_same and is_larger) or (old.n_kv_heads > 1 and shape.n_heads != old.n_heads):
        message = f"{old} cannot grow to {shape}"
        raise ValueError(message)
    # The mean square is taken over more dimensions, of which the new ones are 0.
    share = old.width / shape.width
    larger = Model(replace(shape, rms_eps=old.rms_eps * share))
    weights, trained = larger.state_dict(), model.state_dict()
    sources = {
        str(source_idx * shape.n_layers // old.n_layers): source_idx
        for source_idx in range(old.n_layers)
    }
    for name, weight in weights.items():
        _, layer, part = name.split(".", 2) if name.startswith("b.") else ("", "", name)
        if part in _WRITERS or part == "e.weight":
            weight.zero_()
        if layer and layer not in sources:
            continue
        source = trained[f"b.{sources[layer]}.{part}" if layer else name]
        if part in _NORMS:
            source = source * math.sqrt(share)
        weight[tuple(slice(size) for size in source.shape)] = source
    larger.load_state_dict(weights)
    return larger
