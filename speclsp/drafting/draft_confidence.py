"""What a draft model's own probabilities are worth: how often it was right where it was so sure.

A small model may be too sure, or, beside a target that it was made for, not sure enough.  So the
decile of its probability says how often tokens of that decile were right, as the merger's
calibration does; a drafter needs it while it drafts, to know when to stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_N_DECILES: Final = 10
_PRIOR_WEIGHT: Final = 4.0
"""Tokens that were seen of each decile, as many of them right as it says, to begin with."""
_MEMORY: Final = 256.0
"""Tokens of a decile after which an older one has lost 1 - 1/e of its weight."""


class DraftConfidence:
    """How often a model's best token is right, by how probable the model finds it."""

    def __init__(self) -> None:
        self._cells = [
            [_PRIOR_WEIGHT * (idx + 0.5) / _N_DECILES, _PRIOR_WEIGHT] for idx in range(_N_DECILES)
        ]
        self._drafted: tuple[tuple[int, float], ...] = ()
        self._n_before = 0

    def of(self, probability: float) -> float:
        """Return the share of tokens with this probability that were right."""
        right, seen = self._cell(probability)
        return right / seen

    def drafted(self, tokens: Sequence[tuple[int, float]], n_before: int) -> None:
        """Note a draft's tokens and their probabilities behind ``n_before`` emitted tokens."""
        self._drafted, self._n_before = tuple(tokens), n_before

    def learn(self, generated: Sequence[int]) -> None:
        """Learn what became output where the last draft stood, up to the first wrong token."""
        emitted = generated[self._n_before :]
        for (token, probability), real in zip(self._drafted, emitted, strict=False):
            cell = self._cell(probability)
            keep = 1.0 - 1.0 / _MEMORY
            cell[0] = cell[0] * keep + (token == real)
            cell[1] = cell[1] * keep + 1.0
            if token != real:
                break
        self._drafted = ()

    def _cell(self, probability: float) -> list[float]:
        return self._cells[min(int(probability * _N_DECILES), _N_DECILES - 1)]
