"""Adds up what pieces of work take: by the clock on the wall, and of the processor."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter, thread_time


@dataclass(slots=True)
class Stopwatch:
    """Runs within ``with``, again and again; belongs to one thread."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    """Of this thread: less than on the wall where other processes want the processor too."""
    _start: tuple[float, float] = field(default=(0.0, 0.0), repr=False)

    def __enter__(self) -> None:
        self._start = perf_counter(), thread_time()

    def __exit__(self, *_: object) -> None:
        self.wall_s += perf_counter() - self._start[0]
        self.cpu_s += thread_time() - self._start[1]
