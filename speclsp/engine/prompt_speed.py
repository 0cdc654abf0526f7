"""How many prompt tokens the loaded target evaluates in a second, and how soon one: measured once.

The figures decide how long prompts at new places are, and after how many tokens a suggestion ends
with its line: what is suggested depends on them.  So they are measured in the same way whatever
drafts, and must not depend on what else the machine does: the shortest of a few decodes counts, and
on a CPU the time that its threads computed, not the time for which others kept them waiting.  They
are kept as long as the loader, so that a model that is loaded again by it, be it with or without
speculation, suggests what it did.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from speclsp.decoding.protocol import Target
from speclsp.engine.cpus import physical_cpu_count
from speclsp.errors import DecodeError
from speclsp.prompt.jumps import fast_enough, tells_steps_apart
from speclsp.request import LogLevel

_SIZES: Final = (8, 32, 128, 512)
"""Tokens of a decode; the largest that does not take long tells the speed."""
_N_TRIES: Final = 3
_SLOW_S: Final = 1.0
"""Seconds that another decode may take where a single token tells enough."""
_LONGEST_S: Final = 0.25
"""A larger decode is left out where it would take longer, at the speed of the one before."""
_ENOUGH_S: Final = 0.5
"""Seconds of decoding after which none is repeated that need not be."""
_PATIENCE_S: Final = 1.0
"""Seconds after which the same holds: a busy machine takes longer than it decodes."""
_DISTURBED: Final = 1.25
"""Ratio of the times by the two clocks from which on others kept a decode's threads waiting."""
_STRIDE: Final = 7919
"""Distance of the tokens' ids, so that each decode has others: a mixture's experts differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """What a decode's time is taken with, in seconds; the shorter of the two times counts."""

    wall: Callable[[], float]
    computing: Callable[[], float] | None = None
    """Advances while one of the decoding threads computes; None where a device does that."""


def clocks(n_threads: int, *, on_cpu: bool) -> Clocks:
    """Return the clocks for a target that decodes with ``n_threads``, all of it ``on_cpu`` or not.

    A process's time is shared by its decoding threads, the cores where those are fewer: more
    cannot compute at once.  What its other threads take is left out where the system tells it.
    """
    if not on_cpu or sys.platform == "win32":  # whose CPU times advance by 16 ms
        return Clocks(wall=time.perf_counter)
    if n_threads == 1:
        return Clocks(wall=time.perf_counter, computing=time.thread_time)
    n_at_once = max(1, min(n_threads, physical_cpu_count()))
    return Clocks(
        wall=time.perf_counter,
        computing=lambda: (time.process_time() - _seconds_of_other_threads()) / n_at_once,
    )


def _seconds_of_other_threads() -> float:
    """Return the CPU time of Python's threads but for this one: an index may be built meanwhile.

    Where one of them ends, its time counts as decoding, and the wall's clock has the say.
    """
    if sys.platform != "linux":
        return 0.0
    this = threading.get_native_id()
    ids = [thread.native_id for thread in threading.enumerate()]
    return sum(_thread_seconds(other) for other in ids if other is not None and other != this)


def _thread_seconds(native_id: int) -> float:
    """Return a thread's CPU time, 0 where it has ended.

    The clock's number is Linux's for a thread's scheduled time, as pthread_getcpuclockid makes it;
    that call would be undefined for a thread that has ended.
    """
    try:
        return time.clock_gettime((~native_id << 3) | 6)
    except OSError:
        return 0.0


class PromptSpeeds:
    """The speeds of the models that one loader has loaded."""

    def __init__(self, log: Callable[[LogLevel, str], None]) -> None:
        self._log = log
        self._known: dict[Hashable, float] = {}

    def of(self, key: Hashable, target: Target, clocks: Clocks, n_prompt: int) -> float | None:
        """Return the prompt tokens per second of ``target``, measured if ``key`` is a new one.

        ``key`` says which model it is and what it is computed with.  What is more than prompts of
        ``n_prompt`` tokens need is not measured more exactly.  None where a decode failed.
        """
        n_prompt = min(n_prompt, target.n_ctx)
        return self._once(
            (key, n_prompt),
            lambda: measure_prompt_speed(target, clocks, fast_enough(n_prompt)),
            "The prompt speed",
        )

    def single_s(self, key: Hashable, target: Target, clocks: Clocks) -> float | None:
        """Return the seconds that ``target`` takes for a single token, as :meth:`of` does."""
        return self._once(
            (key, "single"), lambda: measure_single(target, clocks), "A decode's time"
        )

    def _once(self, key: Hashable, measure: Callable[[], float], what: str) -> float | None:
        if key not in self._known:
            try:
                self._known[key] = measure()
            except DecodeError as error:
                self._log("warning", f"{what} could not be measured: {error.message}")
        return self._known.get(key)


def measure_prompt_speed(target: Target, clocks: Clocks, enough: float) -> float:
    """Return the prompt tokens that ``target`` evaluates per second; its cache is empty then.

    Ends at once where ``enough`` is reached, and else after about a second, at most a second and
    two decodes of a single token.  Of a model that would be the slowest that
    :mod:`~speclsp.prompt.jumps` tells apart even where eight tokens took no longer than one, no
    more is measured, unless eight tokens do not take long: such a one may decode slowly alone.
    Raises :class:`~speclsp.errors.DecodeError`.
    """
    watch = _Watch(target, clocks)
    n_most = min(target.n_ubatch, target.n_batch, target.n_ctx)
    single = watch.speed(1)
    if not tells_steps_apart(_SIZES[0] * single) and not watch.has_enough(1):
        single = max(single, watch.speed(1))
    if not tells_steps_apart(_SIZES[0] * single):
        size = min(_SIZES[0], n_most, int(_SLOW_S * single))
        speed = max(single, watch.speed(size)) if size > 1 else single
        if size < _SIZES[0] or size / speed > _LONGEST_S:
            return speed
    speed = 0.0
    for size in [size for size in _SIZES if size <= n_most] or [n_most]:
        if speed > 0.0 and size / speed > _LONGEST_S:
            break
        speed = 0.0
        for n_tried in range(1, _N_TRIES + 1):
            speed = max(speed, watch.speed(size))
            if speed >= enough:
                return speed
            if watch.has_enough(n_tried):
                break
    return speed


def measure_single(target: Target, clocks: Clocks) -> float:
    """Return the seconds that ``target`` takes for a token; its cache is empty then.

    Ends after half a second, and after two tokens at the earliest, unless the first took so long
    by itself.
    Raises :class:`~speclsp.errors.DecodeError`.
    """
    watch = _Watch(target, clocks)
    speed = 0.0
    for n_tried in range(1, _N_TRIES + 1):
        speed = max(speed, watch.speed(1, n_logits=1))
        if watch.has_enough(n_tried):
            break
    return 1.0 / speed


class _Watch:
    """Decodes texts and takes the time."""

    def __init__(self, target: Target, clocks: Clocks) -> None:
        self._target = target
        self._clocks = clocks
        self._begun = clocks.wall()
        self._spent = 0.0
        self._token = 0
        self._was_disturbed = True

    def speed(self, n_tokens: int, *, n_logits: int = 0) -> float:
        """Decode so many tokens; returns how many a second that is."""
        tokens = [(self._token + idx * _STRIDE) % self._target.n_vocab for idx in range(n_tokens)]
        self._token += n_tokens * _STRIDE
        self._target.truncate(0)
        took, computed = self._times(tokens, n_logits)
        self._target.truncate(0)
        self._was_disturbed = computed is None or took > _DISTURBED * computed
        shortest = took if computed is None else min(took, computed)
        self._spent += shortest
        return n_tokens / shortest if shortest > 0.0 else float("inf")

    def has_enough(self, n_tried: int) -> bool:
        """Whether no decode need be repeated that was made so often.

        A single one may have met with a stall, or with a GPU's kernels being compiled, unless its
        threads computed all the time.
        """
        if self._spent > _ENOUGH_S and not self._was_disturbed:
            return True
        late = self._spent > _ENOUGH_S or self._clocks.wall() - self._begun > _PATIENCE_S
        return late and n_tried >= 2

    def _times(self, tokens: list[int], n_logits: int) -> tuple[float, float | None]:
        """Decode; returns the seconds by either clock."""
        wall, computing = self._clocks.wall, self._clocks.computing
        begun, computed = wall(), computing() if computing is not None else 0.0
        self._target.decode(tokens, n_logits)
        took = wall() - begun
        return took, computing() - computed if computing is not None else None
