"""The Qwen2 architecture in PyTorch, as llama.cpp computes it for ``general.architecture`` qwen2.

Described in the Qwen2 technical report (arXiv 2407.10671): RMSNorm, grouped-query attention with
biases on Q, K and V, rotary positions over halves of a head, SwiGLU, tied embeddings.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody knows
from torch import Tensor, nn

from training.shape import Shape

RMS_EPS = 1e-6
ROPE_BASE = 10_000.0


class Block(nn.Module):
    """One layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        kv = shape.n_kv_heads * shape.head_size
        self.n1 = nn.RMSNorm(shape.width, eps=RMS_EPS)
        self.q = nn.Linear(shape.width, shape.width)
        self.k = nn.Linear(shape.width, kv)
        self.v = nn.Linear(shape.width, kv)
        self.o = nn.Linear(shape.width, shape.width, bias=False)
        self.n2 = nn.RMSNorm(shape.width, eps=RMS_EPS)
        self.g = nn.Linear(shape.width, shape.n_ffn, bias=False)
        self.u = nn.Linear(shape.width, shape.n_ffn, bias=False)
        self.d = nn.Linear(shape.n_ffn, shape.width, bias=False)

    def forward(self, hidden: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Transform ``hidden`` (batch, positions, width)."""
        n_batch, n_positions, _ = hidden.shape
        shape = self.shape
        x = self.n1(hidden)
        q = self.q(x).view(n_batch, n_positions, shape.n_heads, shape.head_size).transpose(1, 2)
        k = self.k(x).view(n_batch, n_positions, shape.n_kv_heads, shape.head_size).transpose(1, 2)
        v = self.v(x).view(n_batch, n_positions, shape.n_kv_heads, shape.head_size).transpose(1, 2)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        n_repeats = shape.n_heads // shape.n_kv_heads
        if n_repeats > 1:
            k, v = k.repeat_interleave(n_repeats, 1), v.repeat_interleave(n_repeats, 1)
        attended = F.scaled_dot_product_attention(q, k, v.to(q.dtype), is_causal=True)
        hidden = hidden + self.o(attended.transpose(1, 2).reshape(n_batch, n_positions, -1))
        x = self.n2(hidden)
        return hidden + self.d(F.silu(self.g(x)) * self.u(x))


class Model(nn.Module):
    """A decoder with tied embeddings."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.e = nn.Embedding(shape.n_vocab, shape.width)
        self.b = nn.ModuleList(Block(shape) for _ in range(shape.n_layers))
        self.n = nn.RMSNorm(shape.width, eps=RMS_EPS)
        scale = 0.02
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                out = name.endswith(("o.weight", "d.weight"))
                std = scale / math.sqrt(2 * shape.n_layers) if out else scale
                nn.init.normal_(weight, std=std)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def hidden(self, tokens: Tensor) -> Tensor:
        """Return the normalised last hidden states (batch, positions, width) of token ids."""
        hidden = self.e(tokens)
        cos, sin = rotations(tokens.shape[1], self.shape.head_size, tokens.device)
        for block in self.b:
            hidden = block(hidden, cos, sin)
        normalised: Tensor = self.n(hidden)
        return normalised

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits (batch, positions, vocabulary) of token ids (batch, positions)."""
        return F.linear(self.hidden(tokens), self.e.weight)


def rotations(n_positions: int, head_size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return cosines and sines (positions, head size) of the rotary angles."""
    frequencies = ROPE_BASE ** (-torch.arange(0, head_size, 2, device=device) / head_size)
    angles = torch.outer(torch.arange(n_positions, device=device).float(), frequencies)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate dimension i of each head with dimension i + half a head."""
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return x * cos.to(x.dtype) + turned * sin.to(x.dtype)
