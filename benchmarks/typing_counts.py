"""What a typed session cost: tokens, passes and milliseconds by what the human did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.typing_session import Step, TypedRequest, TypedSession
from speclsp.request import SessionStats

STEPS: Final[tuple[Step, ...]] = ("line", "newline", "jump")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How ``n`` numbers lie; all 0 where there are none."""

    n: int = 0
    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    most: float = 0.0

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Take it from the numbers."""
        if not values:
            return cls()
        p50, p95, p99 = np.percentile(values, [50, 95, 99]).tolist()
        return cls(
            n=len(values), mean=float(np.mean(values)), p50=p50, p95=p95, p99=p99, most=max(values)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TypingCounts:
    """A session's figures.

    ``evaluated``: prompt tokens per request that reached the model, by step and for ``all``.
    ``ms``: milliseconds per request, by who answered and for ``all``.
    """

    n_requests: int
    n_keys: int
    n_jumps: int
    n_takes: int
    n_chars: int
    n_chars_saved: int
    n_shown: int
    n_fitting: int
    """Requests behind something that left a rest of what was shown."""
    n_fitting_from_memory: int
    n_after_taking: int
    """Requests behind a suggestion that was taken as a whole."""
    n_after_taking_from_memory: int
    n_from_memory: int
    n_filtered: int
    n_target_passes: int
    n_predicted: int
    evaluated: dict[str, Spread]
    ms: dict[str, Spread]
    n_evaluated: int
    """Prompt tokens of all requests."""
    n_idle_evaluated: int
    """Prompt tokens that were evaluated in idle time for later requests."""
    n_prefetch_evaluated: int
    """Prompt tokens that were evaluated to complete behind a suggestion on the screen."""
    n_prefetch_predicted: int
    """Tokens that were predicted there."""

    @property
    def memory_share(self) -> float:
        """Share of the requests that fit what was shown and were answered from memory."""
        return self.n_fitting_from_memory / self.n_fitting if self.n_fitting else 0.0

    @property
    def evaluated_per_char(self) -> float:
        """Prompt tokens, those of idle work and prefetch among them, per character written."""
        n_all = self.n_evaluated + self.n_idle_evaluated + self.n_prefetch_evaluated
        return n_all / self.n_chars if self.n_chars else 0.0


def count_typing(session: TypedSession, stats: SessionStats) -> TypingCounts:
    """Add up a session; ``stats`` are the completer's own sums over it."""
    asked = session.requests
    fitting = [request for request in asked if request.was_fitting]
    taken = [request for request in asked if request.after_taking]
    return TypingCounts(
        n_requests=len(asked),
        n_keys=session.n_keys,
        n_jumps=session.n_jumps,
        n_takes=session.n_takes,
        n_chars=session.n_chars,
        n_chars_saved=session.n_chars_saved,
        n_shown=sum(bool(request.answer.text) for request in asked),
        n_fitting=len(fitting),
        n_fitting_from_memory=_n_from(fitting, "memory"),
        n_after_taking=len(taken),
        n_after_taking_from_memory=_n_from(taken, "memory"),
        n_from_memory=_n_from(asked, "memory"),
        n_filtered=_n_from(asked, "filter"),
        n_target_passes=sum(request.answer.stats.n_target_passes for request in asked),
        n_predicted=sum(request.answer.stats.n_predicted for request in asked),
        evaluated=_evaluated(asked),
        ms=_milliseconds(asked),
        n_evaluated=sum(request.answer.stats.n_prompt_evaluated for request in asked),
        n_idle_evaluated=stats.n_idle_evaluated,
        n_prefetch_evaluated=stats.prefetch.n_prompt_evaluated,
        n_prefetch_predicted=stats.prefetch.n_predicted,
    )


def _n_from(asked: Sequence[TypedRequest], source: str) -> int:
    return sum(request.answer.source == source for request in asked)


def _evaluated(asked: Sequence[TypedRequest]) -> dict[str, Spread]:
    numbers: dict[str, list[float]] = {step: [] for step in (*STEPS, "all")}
    for request in asked:
        # A request that was withheld by the settings has no prompt.
        if request.answer.source == "model" and request.answer.stats.n_prompt:
            for name in (request.step, "all"):
                numbers[name].append(request.answer.stats.n_prompt_evaluated)
    return {name: Spread.of(values) for name, values in numbers.items()}


def _milliseconds(asked: Sequence[TypedRequest]) -> dict[str, Spread]:
    numbers: dict[str, list[float]] = {name: [] for name in ("model", "memory", "filter", "all")}
    for request in asked:
        for name in (request.answer.source, "all"):
            numbers[name].append(request.answer.ms)
    return {name: Spread.of(values) for name, values in numbers.items()}
