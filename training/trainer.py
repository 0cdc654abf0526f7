"""The training loop: the same on a CPU and on a GPU, in bf16 with fp32 weights."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody knows
from torch import Tensor
from torch.optim import Optimizer

from training.checkpoints import write_state
from training.layouts import Sample
from training.model import Model
from training.optimiser import gradient_norm, set_learning_rate
from training.parallel import Workers
from training.schedule import Budget, rate_factor

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
    rows: Callable[[int], Iterator[Sample]], shapes: Iterator[tuple[int, int]]
) -> Iterator[Batch]:
    """Yield batches; ``shapes`` yields rows and positions of each."""
    streams: dict[int, Iterator[Sample]] = {}
    for n_rows, n_positions in shapes:
        if n_positions not in streams:
            streams[n_positions] = rows(n_positions)
        taken = [next(streams[n_positions]) for _ in range(n_rows)]
        yield Batch(
            torch.tensor([row.tokens for row in taken]),
            torch.tensor([row.targets for row in taken]),
            torch.tensor([row.weights for row in taken]),
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
