"""How high the learning rate is: warm-up, a long stable stretch, and a decay when told so.

The decay may begin at any time ("warmup-stable-decay", Hu et al., arXiv 2404.06395), so that a
run can be ended where a deadline wants it, and a later one can go on from before the decay.
"""

from __future__ import annotations

from dataclasses import dataclass

_LONGEST_STEP_S = 60.0
"""A step that took longer was stopped in between; that time does not count."""

_FLOOR = 0.02


@dataclass(slots=True)
class Budget:
    """How long a run lasts: seconds of computing, tokens, or both; what ends first counts."""

    seconds: float | None
    tokens: int | None
    decay_share: float
    """Part of the run, at its end, in which the learning rate falls."""
    seconds_used: float = 0.0
    tokens_used: int = 0

    def use(self, seconds: float, tokens: int) -> None:
        """Account for one step."""
        self.seconds_used += min(seconds, _LONGEST_STEP_S)
        self.tokens_used += tokens

    def progress(self) -> float:
        """Return how much of the run is over: 0 to 1."""
        shares = [0.0]
        if self.seconds is not None:
            shares.append(self.seconds_used / self.seconds)
        if self.tokens is not None:
            shares.append(self.tokens_used / self.tokens)
        return min(1.0, max(shares))


def rate_factor(budget: Budget, step: int, n_warmup_steps: int) -> float:
    """Return what the peak learning rate is multiplied by at a step of this run."""
    warm = min(1.0, (step + 1) / n_warmup_steps) if n_warmup_steps else 1.0
    left = 1.0 - budget.progress()
    falling = 1.0 if left >= budget.decay_share else left / budget.decay_share
    return warm * (_FLOOR + (1 - _FLOOR) * falling)
