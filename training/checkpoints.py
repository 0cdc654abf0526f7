"""States of a training run, from which it goes on after a stop."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer

from training.model import Model
from training.shape import Shape


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
