"""Where a small model's numbers go in a large one that computes the same function.

With d and D hidden values and heads of c and C values (C = c or 2c), small and large, a padded
hidden state is the small one followed by D − d zeros, and stays so from layer to layer:

* RMSNorm divides by sqrt(mean(x²) + ε).  Over D values the mean is d/D of the small one's, so
  ε' = ε · d/D makes the quotient sqrt(D/d) times as large, and weights times sqrt(d/D) undo that.
* A matrix's new columns meet zeros, and its new rows are zeros or meet zeros in the next matrix.
* Query head j of key head i of the small model is the same pair of the large one: it has as many
  query heads for each key head, or more.  New heads have zero values, so they add nothing.
* Where heads grow from c to 2c, the value i of a query or key goes to 2i.  The rotation turns the
  pair (i, i + c/2) by the angle base^(−2i/c), which is that of the pair (2i, 2i + c) among 2c.
  Attention divides by sqrt(2c) instead of sqrt(c), so queries are multiplied by sqrt(2).
* New layers add what their output matrices give, and these are zero.
* New tokens get a bias of −10⁹ on their logits, so that no sampler ever takes one.

Columns move by whole heads only, so blocks of 32 columns hold the same numbers as in the small
model and are quantised alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.model_shapes import ModelShape

SHUT_OUT = -1e9
"""The logits' bias of tokens that only make the vocabulary larger."""

Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class PaddedTensor:
    """A tensor that is zero outside a few rows; those are computed when they are asked for."""

    name: str
    shape: tuple[int, ...]
    """As NumPy has it: rows first."""
    rows: Callable[[], tuple[Places, NDArray[np.float32]]]
    """Returns which rows are not zero, and these rows in full width."""

    @property
    def is_matrix(self) -> bool:
        """Whether it is stored in the model's quantisation; vectors stay as they are."""
        return len(self.shape) > 1


class ModelPadding:
    """Brings the tensors of a model of shape ``small`` to ``large``.

    ``read`` returns a tensor of the small model by its name, ``names`` are what it has.
    Raises :class:`~benchmarks.model_shapes.ShapeError` where the small one does not fit.
    """

    def __init__(
        self,
        small: ModelShape,
        large: ModelShape,
        names: frozenset[str],
        read: Callable[[str], NDArray[np.float32]],
    ) -> None:
        large.check_room_for(small)
        self._small = small
        self._large = large
        self._names = names
        self._read = read
        self._norm_scale = math.sqrt(small.width / large.width)
        self._query_scale = math.sqrt(large.head_size / small.head_size)

    def epsilon(self, epsilon: float) -> float:
        """Return RMSNorm's ε of the large model."""
        return epsilon * self._small.width / self._large.width

    def tensors(self) -> Iterator[PaddedTensor]:
        """Yield the large model's tensors in the order of the file."""
        small, large = self._small, self._large
        yield self._matrix("token_embd.weight", large.n_vocab, large.width)
        yield self._norm("output_norm.weight")
        if not large.tied:
            source = "token_embd.weight" if small.tied else "output.weight"
            yield self._matrix("output.weight", large.n_vocab, large.width, source=source)
        if large.n_vocab > small.n_vocab or "output.bias" in self._names:
            yield self._output_bias()
        for layer in range(large.n_layers):
            yield from self._layer(f"blk.{layer}")

    def _layer(self, block: str) -> Iterator[PaddedTensor]:
        large = self._large
        n_query, n_kv = large.n_heads * large.head_size, large.n_kv_heads * large.head_size
        stride = large.head_size // self._small.head_size
        queries, keys = self._query_places(stride), self._kv_places(stride)
        values, attended = self._kv_places(1), self._query_places(1)
        yield self._norm(f"{block}.attn_norm.weight")
        yield self._norm(f"{block}.ffn_norm.weight")
        for name, n_rows, places, scale in (
            ("attn_q", n_query, queries, self._query_scale),
            ("attn_k", n_kv, keys, 1.0),
            ("attn_v", n_kv, values, 1.0),
        ):
            yield self._matrix(
                f"{block}.{name}.weight", n_rows, large.width, rows=places, scale=scale
            )
            yield self._vector(f"{block}.{name}.bias", n_rows, places, scale)
        yield self._matrix(f"{block}.attn_output.weight", large.width, n_query, columns=attended)
        yield self._matrix(f"{block}.ffn_gate.weight", large.n_feed_forward, large.width)
        yield self._matrix(f"{block}.ffn_up.weight", large.n_feed_forward, large.width)
        yield self._matrix(f"{block}.ffn_down.weight", large.width, large.n_feed_forward)

    def _query_places(self, stride: int) -> Places:
        small, large = self._small, self._large
        heads = np.arange(small.n_heads)
        group, member = np.divmod(heads, small.heads_per_kv_head)
        return self._head_places(group * large.heads_per_kv_head + member, stride)

    def _kv_places(self, stride: int) -> Places:
        return self._head_places(np.arange(self._small.n_kv_heads), stride)

    def _head_places(self, heads: NDArray[np.intp], stride: int) -> Places:
        """Return where the small model's values of these heads are, as the large one counts.

        Within a head they are ``stride`` apart: queries and keys, which positions rotate, fill
        a larger head evenly, and the rest fills its beginning.
        """
        within = stride * np.arange(self._small.head_size)
        return np.asarray(heads[:, None] * self._large.head_size + within, dtype=np.intp).ravel()

    def _matrix(
        self,
        name: str,
        n_rows: int,
        n_columns: int,
        *,
        rows: Places | None = None,
        columns: Places | None = None,
        scale: float = 1.0,
        source: str | None = None,
    ) -> PaddedTensor:
        source = source or name

        def fill() -> tuple[Places, NDArray[np.float32]]:
            if source not in self._names:
                return np.empty(0, dtype=np.intp), np.empty((0, n_columns), dtype=np.float32)
            values = self._read(source)
            padded = np.zeros((values.shape[0], n_columns), dtype=np.float32)
            places = np.arange(values.shape[1]) if columns is None else columns
            padded[:, places] = values * np.float32(scale)
            return np.arange(values.shape[0]) if rows is None else rows, padded

        return PaddedTensor(name, (n_rows, n_columns), fill)

    def _vector(self, name: str, size: int, places: Places, scale: float) -> PaddedTensor:
        def fill() -> tuple[Places, NDArray[np.float32]]:
            if name not in self._names:
                return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.float32)
            return places, self._read(name) * np.float32(scale)

        return PaddedTensor(name, (size,), fill)

    def _norm(self, name: str) -> PaddedTensor:
        return self._vector(name, self._large.width, np.arange(self._small.width), self._norm_scale)

    def _output_bias(self) -> PaddedTensor:
        small, large = self._small, self._large

        def fill() -> tuple[Places, NDArray[np.float32]]:
            bias = np.full(large.n_vocab, SHUT_OUT, dtype=np.float32)
            known = self._read("output.bias") if "output.bias" in self._names else 0.0
            bias[: small.n_vocab] = known
            return np.arange(large.n_vocab), bias

        return PaddedTensor("output.bias", (large.n_vocab,), fill)
