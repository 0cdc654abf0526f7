"""What a sampled draft token was drawn from, which verifying it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Probabilities of the tokens that can be drawn; all others have none."""

    token_ids: NDArray[np.int64]
    """Shape [n], rising."""
    probabilities: NDArray[np.float64]
    """Shape [n], sum 1."""

    def of(self, token: int) -> float:
        """Return the probability of ``token``."""
        return float(self.of_all(np.array([token], dtype=np.int64))[0])

    def of_all(self, token_ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probabilities of ``token_ids``, of whatever order."""
        places = np.searchsorted(self.token_ids, token_ids)
        places = np.minimum(places, self.token_ids.size - 1)
        found = self.token_ids[places] == token_ids
        return np.where(found, self.probabilities[places], 0.0)


class DraftSampling(Protocol):
    """Draws draft tokens as the target draws its own, from random numbers of its own."""

    def draw(self, row: NDArray[np.float32]) -> tuple[int, Distribution]:
        """Return a token for logits of shape [n_vocab], and what it was drawn from."""


def residual(target: Distribution, draft: Distribution) -> Distribution:
    """Return norm((p − q)+): what to draw from after a token of ``draft`` was refused."""
    left = np.maximum(target.probabilities - draft.of_all(target.token_ids), 0.0)
    mass = float(left.sum())
    if mass <= 0.0:
        # The two agree to the last bit, so that nothing is refused but by rounding.
        return target
    return Distribution(target.token_ids, left / mass)
