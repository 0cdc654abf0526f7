"""What updates the weights: Muon for the layers' matrices, AdamW for everything else.

Muon (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024) with the
step size matched to AdamW's (Liu et al., arXiv 2502.16982, section 2.2), so that both take the
same learning rate.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.optim import Optimizer

from training.model import Model


def make_optimisers(
    model: Model, *, learning_rate: float, weight_decay: float, with_muon: bool
) -> list[Optimizer]:
    """Return the optimisers of a model's parameters, which are to be stepped together."""
    matrices: list[Tensor] = []
    others: list[Tensor] = []
    for name, weight in model.named_parameters():
        is_matrix = weight.dim() == 2 and name.startswith("b.")
        (matrices if is_matrix and with_muon else others).append(weight)
    optimisers: list[Optimizer] = [
        torch.optim.AdamW(
            _adam_groups(others, weight_decay), lr=learning_rate, betas=(0.9, 0.95), eps=1e-8
        )
    ]
    if matrices:
        muon = torch.optim.Muon(
            matrices, lr=learning_rate, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"
        )
        optimisers.append(muon)
    return optimisers


def set_learning_rate(optimisers: list[Optimizer], learning_rate: float) -> None:
    """Let the next step take this learning rate."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = learning_rate


def gradient_norm(model: Model, limit: float) -> float:
    """Clip the gradients to a norm and return what it was before."""
    return float(torch.nn.utils.clip_grad_norm_(model.parameters(), limit))


def _adam_groups(weights: list[Tensor], weight_decay: float) -> Iterator[dict[str, object]]:
    yield {"params": [w for w in weights if w.dim() == 2], "weight_decay": weight_decay}
    yield {"params": [w for w in weights if w.dim() != 2], "weight_decay": 0.0}
