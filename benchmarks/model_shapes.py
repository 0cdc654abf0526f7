"""The shapes and types that ``make-model`` writes a model in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from speclsp.errors import SpecLspError

Quantisation = Literal["q8_0", "q4_0", "f16"]
QUANTISATIONS: Final[tuple[Quantisation, ...]] = ("q8_0", "q4_0", "f16")


class ShapeError(SpecLspError):
    """A model cannot be brought to a shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The shape of a model of the Qwen2 architecture."""

    n_layers: int
    width: int
    """Values of a token's hidden state: d in the formulas of ``model_padding``."""
    n_heads: int
    n_kv_heads: int
    head_size: int
    n_feed_forward: int
    n_vocab: int
    tied: bool
    """Whether the embedding serves as output matrix too."""

    @property
    def heads_per_kv_head(self) -> int:
        """How many query heads share a key head."""
        return self.n_heads // self.n_kv_heads

    def check_room_for(self, small: ModelShape) -> None:
        """Raise :class:`ShapeError` where ``small`` does not fit into this shape."""
        for what, has, needs in (
            ("layers", self.n_layers, small.n_layers),
            ("hidden values", self.width, small.width),
            ("key heads", self.n_kv_heads, small.n_kv_heads),
            ("query heads for each key head", self.heads_per_kv_head, small.heads_per_kv_head),
            ("feed-forward values", self.n_feed_forward, small.n_feed_forward),
            ("tokens", self.n_vocab, small.n_vocab),
        ):
            if has < needs:
                raise ShapeError(
                    f"The model has {needs} {what}, and the shape has room for {has}.",
                    remedy="Take a larger shape.",
                )
        if self.head_size not in {small.head_size, 2 * small.head_size}:
            raise ShapeError(
                f"The model's heads have {small.head_size} values, and the shape's have "
                f"{self.head_size}: only the same size or twice as much is exact."
            )
        if self.tied and not small.tied:
            raise ShapeError(
                "The model has an output matrix of its own, and the shape has none.",
                remedy="Take a shape with an output matrix: 7b or 14b.",
            )


QWEN2_5_CODER: Final = {
    "qwen2.5-coder-0.5b": ModelShape(
        n_layers=24, width=896, n_heads=14, n_kv_heads=2, head_size=64, n_feed_forward=4864,
        n_vocab=151936, tied=True,
    ),
    "qwen2.5-coder-1.5b": ModelShape(
        n_layers=28, width=1536, n_heads=12, n_kv_heads=2, head_size=128, n_feed_forward=8960,
        n_vocab=151936, tied=True,
    ),
    "qwen2.5-coder-7b": ModelShape(
        n_layers=28, width=3584, n_heads=28, n_kv_heads=4, head_size=128, n_feed_forward=18944,
        n_vocab=152064, tied=False,
    ),
    "qwen2.5-coder-14b": ModelShape(
        n_layers=48, width=5120, n_heads=40, n_kv_heads=8, head_size=128, n_feed_forward=13824,
        n_vocab=152064, tied=False,
    ),
}  # fmt: skip
"""By the models' published configurations.

The embeddings of 7b and 14b have 128 rows more than the smaller ones', all of them unused.
"""
