"""What the engine thread is asked to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from speclsp.cancellation import CancellationToken
from speclsp.errors import SpecLspError
from speclsp.request import CompletionRequest, CompletionResult, FinishReason, RequestStats
from speclsp.suggestions.answers import Rest

Finish = Callable[[CompletionResult, Rest | None], CompletionResult]
"""Takes a result, and what it is the rest of where it was made for an earlier request; returns
the result that is given."""


@dataclass(slots=True, kw_only=True, eq=False)
class CompletionJob:
    """A request on its way.  ``submitted`` and ``deadline`` are seconds of the clock."""

    request: CompletionRequest
    completion_id: str
    cancel: CancellationToken
    submitted: float
    deadline: float
    finish: Finish
    """Gets the result before the future does: who has the answer finds it in the statistics."""
    may_go_on: bool = False
    """Whether its generation may answer a newer request, and a generation that runs may answer
    it, where what was typed between the two agrees."""
    future: Future[CompletionResult] = field(default_factory=Future)
    _superseded: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Mark the future as running: whoever waits for it cannot end it under our hands."""
        self.future.set_running_or_notify_cancel()

    def supersede(self) -> None:
        """Stop the job at its next check: a newer request of its document is here."""
        self._superseded.set()

    @property
    def superseded(self) -> bool:
        """Whether a newer request of its document is here."""
        return self._superseded.is_set()

    def interrupted(self, now: float) -> FinishReason | None:
        """Return why the job has to stop now, if it has to."""
        if self.cancel.cancelled or self.superseded:
            return "cancelled"
        if now >= self.deadline:
            return "deadline"
        return None

    def answer(self, result: CompletionResult, rest: Rest | None = None) -> None:
        """Fulfil the future, once."""
        if not self.future.done():
            self.future.set_result(self.finish(result, rest))

    def answer_empty(self, reason: FinishReason, ms_queue: float) -> None:
        """Fulfil the future without text."""
        self.answer(
            CompletionResult(
                completion_id=self.completion_id,
                text="",
                finish_reason=reason,
                stats=RequestStats(ms_queue=ms_queue, ms_total=ms_queue),
            )
        )

    def fail(self, error: SpecLspError) -> None:
        """Let the future raise ``error``."""
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(frozen=True, slots=True)
class ControlJob:
    """Something else to do on the engine thread: load, free, make tokens ahead."""

    run: Callable[[], None]
