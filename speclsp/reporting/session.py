"""Sums over a session.  Memory is bounded however long the session lasts."""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Final

from speclsp.seam.completion import CompletionResult
from speclsp.seam.statistics import DrafterStats, Percentiles, RequestStats, SessionStats

N_LATENCIES: Final = 1024
"""Latest requests that the percentiles are taken over."""

STAGES: Final = ("queue", "tokenize", "prompt", "draft", "verify", "predict", "total")
MEMORY: Final = "memory"
"""The latency of requests that needed no model; the other stages are of those that did."""
ANSWER: Final = "answer"
"""The latency that a user sees: from a request's arrival to a suggestion that is new."""


class SessionRecorder:
    """Adds up the costs of requests.

    Not thread-safe: callers on several threads hold a lock.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        """By the fields of :class:`~speclsp.seam.statistics.SessionStats`."""
        self._prefetch = RequestStats()
        self._totals = RequestStats()
        self._latencies: dict[str, deque[float]] = {
            s: deque(maxlen=N_LATENCIES) for s in (ANSWER, *STAGES, MEMORY)
        }

    def add(self, result: CompletionResult) -> None:
        """Count a request that was answered."""
        self._counts["n_requests"] += 1
        if result.generated.finish_reason == "cancelled":
            self._counts["n_cancelled"] += 1
        elif not result.is_empty:
            self._counts["n_completions"] += 1
            self._counts["n_cut"] += result.source == "model" and result.unsure > 0.0
        else:
            self._counts["n_empty"] += 1
            self._counts["n_withheld"] += result.is_withheld
        stats = result.stats
        if result.source == "memory":
            self._counts["n_memory"] += 1
            self._latencies[MEMORY].append(stats.ms_total)
            return
        self._counts["n_filtered"] += result.source == "filter"
        self._totals = summed(self._totals, stats)
        if stats.n_target_passes:
            for stage in _stages_of(stats):
                self._latencies[stage].append(getattr(stats, f"ms_{stage}"))

    def answered(self, ms: float) -> None:
        """Note the milliseconds from a request's arrival to a new suggestion."""
        self._latencies[ANSWER].append(round(ms, 2))

    def forget_times(self) -> None:
        """Forget all times: another model has others."""
        for kept in self._latencies.values():
            kept.clear()

    def prefetched(self, stats: RequestStats) -> None:
        """Count a generation that nobody had asked for."""
        self._counts["n_prefetches"] += 1
        self._prefetch = summed(self._prefetch, stats)

    def prefetch_used(self) -> None:
        """Count a prefetch that a request was answered from."""
        self._counts["n_prefetches_used"] += 1

    def unavailable(self) -> None:
        """Count a request that was answered empty, since the engine was not ready."""
        self._counts.update(("n_requests", "n_empty"))

    def failed(self) -> None:
        """Count a request that ended in an error."""
        self._counts.update(("n_requests", "n_failed"))

    def snapshot(self, engine: SessionStats) -> SessionStats:
        """Return the sums so far, with the ``engine``'s own figures."""
        figures: dict[str, Any] = {
            **self._counts,
            "prefetch": self._prefetch,
            "totals": summed(engine.totals, self._totals),
            "answer_ms": tuple(self._latencies[ANSWER]),
            "latency": {s: percentiles(kept) for s, kept in self._latencies.items() if kept},
        }
        return dataclasses.replace(engine, **figures)


def percentiles(samples: Sequence[float]) -> Percentiles:
    """Return the nearest-rank percentiles of ``samples``."""
    if not samples:
        return Percentiles()
    ranked = sorted(samples)

    def rank(percent: int) -> float:
        # The smallest sample that at least ``percent`` of all samples do not exceed.
        return ranked[max(-(-percent * len(ranked) // 100) - 1, 0)]

    return Percentiles(n=len(ranked), p50=rank(50), p95=rank(95), p99=rank(99))


def summed(left: RequestStats, right: RequestStats) -> RequestStats:
    """Return the sums of all counts and times, drafters by name."""
    numbers = {
        name: getattr(left, name) + getattr(right, name)
        for name in RequestStats.__dataclass_fields__
        if name != "drafters"
    }
    drafters = dict(left.drafters)
    for name, stats in right.drafters.items():
        drafters[name] = _summed_drafter(drafters[name], stats) if name in drafters else stats
    return RequestStats(**numbers, drafters=drafters)


def _summed_drafter(left: DrafterStats, right: DrafterStats) -> DrafterStats:
    sums: dict[str, Any] = {}
    for name in DrafterStats.__dataclass_fields__:
        a, b = getattr(left, name), getattr(right, name)
        if isinstance(a, tuple):
            sums[name] = tuple(x + y for x, y in zip_longest(a, b, fillvalue=0))
        else:
            sums[name] = a + b
    return DrafterStats(**sums)


def _stages_of(stats: RequestStats) -> tuple[str, ...]:
    """Return the stages that a request went through; the others would dilute percentiles."""
    absent = set()
    if not stats.drafters:
        absent.add("draft")
    if not stats.n_decode_passes:
        absent |= {"verify", "predict"}
    return tuple(stage for stage in STAGES if stage not in absent)
