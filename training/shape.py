"""A model's sizes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model's sizes."""

    n_vocab: int
    n_layers: int
    width: int
    n_heads: int
    n_kv_heads: int
    n_ffn: int

    @property
    def head_size(self) -> int:
        """Dimensions of one attention head."""
        return self.width // self.n_heads

    def n_parameters(self) -> int:
        """Parameters, the shared embedding counted once."""
        kv = self.n_kv_heads * self.head_size
        attention = 2 * self.width * self.width + 2 * self.width * kv + self.width + 2 * kv
        layer = attention + 3 * self.width * self.n_ffn + 2 * self.width
        return self.n_vocab * self.width + self.n_layers * layer + self.width
