"""Requests coalesce: a generation that runs answers the newest request whose typing agrees with it.

While the user types what is being generated, the generation continues, and the newest request gets
the rest of its text.  Where typed and generated text differ, it stops at its next check.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from msgspec import structs

from speclsp.completer.jobs import AnyJob, Job, RunningJob
from speclsp.seam.completion import CompletionRequest, CompletionResult, PlacedCompletion
from speclsp.seam.request import FinishReason
from speclsp.text.typed_text import (
    contradicts,
    cursor_context,
    may_share_text,
    rest_of,
    typed_between,
)

GRACE_S: Final = 0.15
"""Seconds that the generation of a cancelled request waits for a newer request: editors cancel
before they send the newer one."""


class RunningCompletion(RunningJob[CompletionRequest, CompletionResult]):
    """A completion that is being decoded.

    Any thread may call :meth:`join`, the engine thread the rest.
    """

    def __init__(
        self, job: Job[CompletionRequest, CompletionResult], others_wait: Callable[[], bool]
    ) -> None:
        super().__init__(job, others_wait)
        self._lock = threading.Lock()
        self._typed = ""
        self._is_closed = False
        self._cancelled_at: float | None = None

    def join(self, job: AnyJob) -> Job[CompletionRequest, CompletionResult] | None:
        """Let a newer job get the result if its typing agrees with the text so far."""
        if not may_coalesce(job):
            return None
        with self._lock:
            typed = self._typed_before(job.request)
            if typed is None:
                return None
            older, self.waiter = self.waiter, job
            self._typed = typed
            self._cancelled_at = None
            return older

    def close(self) -> Job[CompletionRequest, CompletionResult]:
        """Let no other job join; return the one that gets the result."""
        with self._lock:
            self._is_closed = True
            return self.waiter

    def result_for(
        self, job: Job[CompletionRequest, CompletionResult], result: CompletionResult
    ) -> CompletionResult | None:
        """Return a job's part of the result; None where it needs one of its own."""
        if job is self.job:
            return result
        whole = result.generated
        if whole.finish_reason == "cancelled" or not whole.text:
            return None
        found = rest_of(cursor_context(self.job.request), whole, job.request)
        if found is None:
            return None
        return structs.replace(result, generated=found[1], alternatives=())

    def interrupted(self, now: float) -> FinishReason | None:
        """Return why decoding has to stop now, also where other text was typed, or None."""
        if self._typed and contradicts(self.so_far, self._typed):
            return "cancelled"
        return super().interrupted(now)

    def _typed_before(self, request: PlacedCompletion) -> str | None:
        """Return what was typed since the job's request; None where it cannot answer."""
        if self._is_closed or not may_coalesce(self.waiter):
            return None
        return typed_between(self.job.request, request, self.so_far)

    def _is_graced(self, now: float) -> bool:
        waiter = self.waiter
        if not may_coalesce(waiter) or waiter.request.plain.trigger != "automatic":
            return False
        if waiter.cancel.is_for_good or self._others_wait():
            return False
        if self._cancelled_at is None:
            self._cancelled_at = now
        return now - self._cancelled_at < GRACE_S


def may_coalesce(job: AnyJob) -> bool:
    """Whether a job may join a running completion, and newer ones its own."""
    is_completion = isinstance(job.request.plain, CompletionRequest)
    return is_completion and may_share_text(job.settings, job.request)
