"""The training loop, on a CPU or a GPU, in bf16 with fp32 weights: optimisers, workers and states.

Muon (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024) may update the
layers' matrices, and AdamW everything else.  Muon's step size is matched to AdamW's (Liu et al.,
arXiv 2502.16982, section 2.2), so that both take the same learning rate.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - the name everybody knows
from torch import Tensor
from torch.optim import Optimizer

from training.layouts import Sample
from training.model import Model
from training.presets import Budget, Shape, rate_factor
from training.producers import Row


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
                # They may be stopped (SIGSTOP) for as long as the machine is needed.
                timeout=timedelta(days=365),
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


def write_state(
    path: Path, model: Model, optimisers: list[Optimizer], totals: dict[str, float]
) -> None:
    """Write all that going on needs; an interrupted write leaves the previous file."""
    state = {
        "shape": asdict(model.shape),
        "weights": model.state_dict(),
        "optimisers": [optimiser.state_dict() for optimiser in optimisers],
        "totals": totals,
    }
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


def read_state(path: Path) -> dict[str, Any]:
    """Read a state as :func:`write_state` wrote it, or a file of half-precision weights."""
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def write_weights(path: Path, model: Model, totals: dict[str, float]) -> None:
    """Write the weights alone in half precision: small enough to be kept with the sources."""
    weights = {name: weight.half() for name, weight in model.state_dict().items()}
    state = {"shape": asdict(model.shape), "weights": weights, "totals": totals}
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


def model_of_state(state: dict[str, Any]) -> Model:
    """Make the model that a state or a file of weights describes."""
    model = Model(Shape(**state["shape"]))
    model.load_state_dict({name: weight.float() for name, weight in state["weights"].items()})
    return model


def read_run(path: Path) -> tuple[Shape, dict[str, float]]:
    """Return the shape of a state's model and the totals of its training."""
    state = read_state(path)
    return Shape(**state["shape"]), state["totals"]


_CLIP = 1.0
_N_LOGGED = 20
"""Steps between two lines of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Settings of one run."""

    folder: Path
    learning_rate: float
    n_warmup_steps: int
    middle_weight: float
    context_share: float = 1.0
    """Share of the predictions in the context that count."""
    teacher: Model | None = None
    """A model whose distributions are learned in place of the texts' own tokens."""
    save_every_s: float
    keep_every_s: float


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of samples (batch, positions)."""

    tokens: Tensor
    targets: Tensor
    weights: Tensor

    def on(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        return Batch(self.tokens.to(device), self.targets.to(device), self.weights.to(device))


def batches(
    rows: Callable[[int], Iterator[Sample | Row]], shapes: Iterator[tuple[int, int]]
) -> Iterator[Batch]:
    """Yield batches; ``shapes`` yields rows and positions of each."""
    streams: dict[int, Iterator[Sample | Row]] = {}
    for n_rows, n_positions in shapes:
        if n_positions not in streams:
            streams[n_positions] = rows(n_positions)
        taken = [next(streams[n_positions]) for _ in range(n_rows)]
        yield Batch(
            torch.from_numpy(np.array([row.tokens for row in taken], dtype=np.int64)),
            torch.from_numpy(np.array([row.targets for row in taken], dtype=np.int64)),
            torch.from_numpy(np.array([row.weights for row in taken], dtype=np.float32)),
        )


def train(
    model: Model,
    optimisers: list[Optimizer],
    data: Iterator[Batch],
    budget: Budget,
    run: Run,
    totals: dict[str, float],
    workers: Workers,
) -> None:
    """Train until the budget is used, and write states and a log into ``run.folder``.

    ``totals`` has the steps, tokens and seconds of all runs so far, and is kept up to date.
    """
    device = next(model.parameters()).device
    model.train()
    log = (run.folder / f"log-{workers.rank}.jsonl").open("a", encoding="utf-8")
    sums = _Sums()
    started = saved = kept = time.monotonic()
    step = 0
    while budget.progress() < 1.0:
        batch = next(data)
        factor = rate_factor(budget, step, run.n_warmup_steps)
        set_learning_rate(optimisers, run.learning_rate * factor)
        batch = batch.on(device)
        chosen = chosen_positions(batch.weights, run.context_share, run.middle_weight)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            losses, distances = token_losses(model, batch, chosen, run.teacher)
        weights = batch.weights.flatten()[chosen]
        learned = losses if run.teacher is None else distances
        (learned * weights).sum().div(weights.sum()).backward()
        seconds = workers.average(model, time.monotonic() - started)
        started = time.monotonic()
        norm = gradient_norm(model, _CLIP)
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        now = time.monotonic()
        used_before = budget.seconds_used
        n_tokens = batch.tokens.numel() * workers.n_workers
        budget.use(seconds, n_tokens)
        step += 1
        totals["steps"] += 1
        totals["tokens"] += n_tokens
        totals["seconds"] += budget.seconds_used - used_before
        shown = losses if run.teacher is None else distances
        sums.add(shown.detach(), weights, run.middle_weight, n_tokens)
        if step % _N_LOGGED == 0:
            means = sums.means()
            totals.update(context=means["context"], middle=means["middle"])
            line = {**totals, **means, "rate": run.learning_rate * factor, "norm": norm}
            log.write(json.dumps(line) + "\n")
            log.flush()
            sums = _Sums()
        if workers.rank == 0 and now - saved > run.save_every_s:
            write_state(run.folder / "state.pt", model, optimisers, totals)
            saved = now
        if workers.rank == 0 and now - kept > run.keep_every_s:
            name = f"state-{int(totals['tokens'] / 1e6)}M.pt"
            write_state(run.folder / name, model, optimisers, totals)
            kept = now
    if workers.rank == 0:
        write_state(run.folder / "state.pt", model, optimisers, totals)
    log.close()


def chosen_positions(weights: Tensor, context_share: float, middle_weight: float) -> Tensor:
    """Return the indices of the predictions that count, in the flattened batch.

    These are those of middles, and a random share of those of the context.
    """
    flat = weights.flatten()
    counts = flat >= middle_weight / 2
    if context_share > 0:
        counts |= (flat > 0) & (torch.rand_like(flat) < context_share)
    return counts.nonzero().squeeze(1)


def token_losses(
    model: Model, batch: Batch, chosen: Tensor, teacher: Model | None
) -> tuple[Tensor, Tensor]:
    """Return each chosen prediction's loss and its distance from the teacher's (chosen).

    Both in nats.  Without a teacher the distances are 0; with one they are Kullback-Leibler
    divergences of the teacher's distribution from the model's.
    """
    log_odds = F.log_softmax(_logits(model, batch.tokens, chosen), dim=-1)
    losses = F.nll_loss(log_odds, batch.targets.flatten()[chosen], reduction="none")
    distances = torch.zeros_like(losses)
    if teacher is not None:
        with torch.no_grad():
            wanted = F.softmax(_logits(teacher, batch.tokens, chosen), dim=-1)
        distances = F.kl_div(log_odds, wanted, reduction="none").sum(-1)
    return losses, distances


def _logits(model: Model, tokens: Tensor, chosen: Tensor) -> Tensor:
    hidden = model.hidden(tokens).flatten(0, 1)[chosen]
    return F.linear(hidden, model.e.weight).float()


class _Sums:
    """Losses (distances under a teacher) of middles and of all else since the log's last line."""

    def __init__(self) -> None:
        self._middle = self._context = 0.0
        self._n_middle = self._n_context = self._n_tokens = 0
        self._started = time.monotonic()

    def add(self, losses: Tensor, weights: Tensor, middle_weight: float, n_tokens: int) -> None:
        is_middle = weights == middle_weight
        is_context = (weights > 0) & (weights < middle_weight / 2)
        self._middle += float(losses[is_middle].sum())
        self._n_middle += int(is_middle.sum())
        self._context += float(losses[is_context].sum())
        self._n_context += int(is_context.sum())
        self._n_tokens += n_tokens

    def means(self) -> dict[str, float]:
        seconds = time.monotonic() - self._started
        return {
            "middle": self._middle / max(1, self._n_middle),
            "context": self._context / max(1, self._n_context),
            "n_middle": self._n_middle,
            "per_second": self._n_tokens / seconds,
        }
