"""Requests coalesce: a generation that runs answers the newest request whose typing agrees with it.

While the user types what is being generated, the generation continues, and the newest request gets
the rest of its text.  Where typed and generated text differ, it stops at its next check.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from speclsp.cancellation import CancellationToken
from speclsp.completer.completion import EngineWindow
from speclsp.errors import SpecLspError
from speclsp.request import (
    CompletionResult,
    FinishReason,
    PlacedCompletion,
    ranges_from,
)
from speclsp.text.stopping import CompletionText
from speclsp.text.typed_text import contradicts, growing_text, rest_of

GRACE_S: Final = 0.15
"""Seconds that the generation of a cancelled request waits for a newer request: editors cancel
before they send the newer one."""


@dataclass(slots=True, kw_only=True, eq=False)
class CompletionJob:
    """A request and its future.  ``submitted`` and ``deadline`` are seconds of the clock."""

    request: PlacedCompletion
    window: EngineWindow
    cancel: CancellationToken
    submitted: float
    deadline: float
    may_coalesce: bool = False
    """Whether it may join a running generation, and newer requests its own."""
    is_superseded: bool = False
    """Whether a newer request of its document arrived; the job then stops at its next check."""
    future: Future[CompletionResult] = field(default_factory=Future)

    def __post_init__(self) -> None:
        """Mark the future as running, so that its reader cannot cancel it."""
        self.future.set_running_or_notify_cancel()

    def interrupted(self, now: float) -> FinishReason | None:
        """Return why the job has to stop now, or None."""
        if self.cancel.cancelled or self.is_superseded:
            return "cancelled"
        return "deadline" if now >= self.deadline else None

    def answer(self, result: CompletionResult) -> None:
        """Fulfil the future, once."""
        if not self.future.done():
            self.future.set_result(result)

    def answer_empty(self, reason: FinishReason, now: float) -> None:
        """Fulfil the future without text."""
        ms = 1000 * (now - self.submitted)
        empty = self.request.plain.empty(reason)
        self.answer(empty.timed(ms_queue=ms, ms_total=ms))

    def fail(self, error: SpecLspError) -> None:
        """Let the future raise ``error``."""
        if not self.future.done():
            self.future.set_exception(error)


class RunningGeneration:
    """A generation and the job that gets its result: its own, or the latest that joined.

    Any thread may call :meth:`join` and :meth:`could_join`, the engine thread the rest.
    """

    def __init__(self, job: CompletionJob, others_wait: Callable[[], bool]) -> None:
        """``others_wait`` returns whether other requests wait for the engine."""
        self.request = job.request
        self.waiter = job
        """The job that gets the result."""
        self.is_stopped = False
        """Whether it has to stop at its next check."""
        self.is_preempted = False
        """Whether it has to stop for a request of another document; it is queued again."""
        self.is_begun = False
        """Whether the first decode has begun."""
        self._others_wait = others_wait
        self._growing = growing_text(job.request)
        self._lock = threading.Lock()
        self._text: CompletionText | None = None
        self._typed = ""
        self._is_closed = False
        self._cancelled_at: float | None = None

    @property
    def urgency(self) -> int:
        """The urgency of its request; 0 for a program's."""
        return self.request.plain.urgency if self.request.is_editors else 0

    @property
    def so_far(self) -> str:
        """The text so far."""
        return self._text.so_far if self._text is not None else ""

    def watch(self, text: CompletionText) -> None:
        """Take the text that is going to grow."""
        self._text = text

    def join(self, job: CompletionJob) -> CompletionJob | None:
        """Let a newer job get the result if its typing agrees with the text so far.

        Returns the job that waited until now; None where the newer one cannot join.
        """
        with self._lock:
            typed = self._typed_before(job.request) if job.may_coalesce else None
            if typed is None:
                return None
            older, self.waiter = self.waiter, job
            self._typed = typed
            self._cancelled_at = None
            return older

    def could_join(self, request: PlacedCompletion) -> bool:
        """Whether a request that may coalesce could join now."""
        with self._lock:
            return self._typed_before(request) is not None

    def close(self) -> CompletionJob:
        """Let no other job join; return the one that gets the result."""
        with self._lock:
            self._is_closed = True
            return self.waiter

    def result_for(self, job: CompletionJob, result: CompletionResult) -> CompletionResult | None:
        """Return a job's part of the generation's result; None where it needs one of its own."""
        if job.request is self.request:
            return result
        if result.finish_reason == "cancelled" or not result.text:
            return None
        rest = rest_of(self._growing.place, result.text, result.n_replaced, job.request)
        if rest is None:
            return None
        return dataclasses.replace(
            result,
            completion_id=job.request.completion_id,
            text=rest.text,
            n_replaced=rest.n_replaced,
            drafted=ranges_from(result.drafted, rest.n_typed),
            alternatives=(),
        )

    def interrupted(self, now: float) -> FinishReason | None:
        """Return why the generation has to stop now, or None.

        Called before each decode step, and by the backend during one.
        """
        waiter = self.waiter
        if self.is_stopped or self.is_preempted:
            return "cancelled"
        if waiter.is_superseded or self._is_contradicted():
            return "cancelled"
        if waiter.cancel.cancelled and not self._is_graced(waiter, now):
            return "cancelled"
        if waiter.request.plain.is_prefetch and self._others_wait():
            return "cancelled"
        return "deadline" if now >= waiter.deadline else None

    def _typed_before(self, request: PlacedCompletion) -> str | None:
        """Return what was typed since the generation's request; None where it cannot answer."""
        if self._is_closed or self.is_stopped or not self.waiter.may_coalesce:
            return None
        return self._growing.typed_before(request, self.so_far)

    def _is_contradicted(self) -> bool:
        typed = self._typed
        return bool(typed) and contradicts(self.so_far, typed)

    def _is_graced(self, waiter: CompletionJob, now: float) -> bool:
        """Whether the generation of a cancelled request waits for a newer one."""
        if not waiter.may_coalesce or waiter.request.plain.trigger != "automatic":
            return False
        if waiter.cancel.is_for_good or self._others_wait():
            return False
        if self._cancelled_at is None:
            self._cancelled_at = now
        return now - self._cancelled_at < GRACE_S
