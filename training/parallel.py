"""Several processes that train one model together, each on its own samples.

On a CPU that others use too, this is much faster than several threads: the processes wait for
each other once a step, and not in every operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from training.model import Model


@dataclass(frozen=True, slots=True)
class Workers:
    """This process's place among those that train together."""

    rank: int = 0
    n_workers: int = 1

    def join(self, meeting_file: Path) -> None:
        """Wait for the others; all must name the same file, which must not exist before."""
        if self.n_workers > 1:
            dist.init_process_group(
                "gloo",
                init_method=meeting_file.resolve().as_uri(),
                rank=self.rank,
                world_size=self.n_workers,
            )

    def average(self, model: Model, seconds: float) -> float:
        """Average the gradients over all processes; return the average of ``seconds``."""
        if self.n_workers == 1:
            return seconds
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        flat = torch.cat([*(g.flatten() for g in gradients), torch.tensor([seconds])])
        dist.all_reduce(flat)
        flat /= self.n_workers
        start = 0
        for gradient in gradients:
            gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
            start += gradient.numel()
        return float(flat[-1])
