"""The generation that runs, and who waits for it: the request it began for, or a newer one.

While someone types what is being generated, the generation goes on and answers the newest request
with its rest.  Where typed and generated text part, it stops at its next check.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

from speclsp.completer.jobs import CompletionJob
from speclsp.request import CompletionRequest, FinishReason
from speclsp.suggestions.place import place_of, rules_of
from speclsp.suggestions.typed_text import contradicts

GRACE_S: Final = 0.15
"""Editors cancel a request before they send the newer one; so long a generation waits for that."""


class GrowingText(Protocol):
    """A completion's text while it is decoded, by the engine thread."""

    @property
    def so_far(self) -> str:
        """All of it, not yet fitted to the text around the cursor; a stop rule may cut its end."""


class RunningGeneration:
    """A generation on the engine thread.

    ``waiter`` is None for one that nobody asked for (a prefetch), which stops as soon as
    ``others_wait``.  :meth:`join` is called from any thread, the rest by the engine thread.
    """

    def __init__(
        self,
        request: CompletionRequest,
        waiter: CompletionJob | None,
        *,
        deadline: float,
        others_wait: Callable[[], bool],
    ) -> None:
        self.request = request
        self._waiter = waiter
        self._deadline = deadline
        self._others_wait = others_wait
        self._place = place_of(request)
        self._rules = rules_of(request)
        self._lock = threading.Lock()
        self._text: GrowingText | None = None
        self._typed = ""
        self._is_over = False
        self._stopped = threading.Event()
        self._cancelled_at: float | None = None

    @property
    def waiter(self) -> CompletionJob | None:
        """Who gets the result, as things stand."""
        return self._waiter

    def watch(self, text: GrowingText) -> None:
        """Take the text that is going to grow."""
        self._text = text

    def stop(self) -> None:
        """Stop at the next check."""
        self._stopped.set()

    def agrees_with(self, request: CompletionRequest) -> bool:
        """Whether the generation, as far as it is, could answer a newer request."""
        with self._lock:
            return self._typed_by(request) is not None

    def join(self, job: CompletionJob) -> tuple[bool, CompletionJob | None]:
        """Let the newer ``job`` wait for the result, where that agrees so far.

        Returns whether it does, and who waited before and gets nothing now.
        """
        with self._lock:
            typed = self._typed_by(job.request) if job.may_go_on else None
            if typed is None:
                return False, None
            older, self._waiter = self._waiter, job
            self._typed = typed
            self._cancelled_at = None
            return True, older

    def let_nobody_join(self) -> None:
        """Answer those who wait, and no newer request."""
        with self._lock:
            self._is_over = True

    def end(self) -> CompletionJob | None:
        """Let nobody join any more; returns who gets the result."""
        with self._lock:
            self._is_over = True
            return self._waiter

    def interrupted(self, now: float) -> FinishReason | None:
        """Return why the generation has to stop now, if it has to.

        Asked before each decode step, and by the backend within one.
        """
        if self._stopped.is_set() or self._is_contradicted():
            return "cancelled"
        waiter = self._waiter
        if waiter is None:
            if self._others_wait():
                return "cancelled"
            return "deadline" if now >= self._deadline else None
        if waiter.superseded or (waiter.cancel.cancelled and not self._is_graced(waiter, now)):
            return "cancelled"
        return "deadline" if now >= waiter.deadline else None

    def _typed_by(self, request: CompletionRequest) -> str | None:
        """What was typed between the two requests, None where the newer cannot be answered."""
        if self._is_over or self._stopped.is_set():
            return None
        if self._waiter is not None and not self._waiter.may_go_on:
            return None
        if request.uri != self.request.uri or rules_of(request) != self._rules:
            return None
        moved = self._place.moved_to(request)
        if moved is None:
            return None
        so_far = self._text.so_far if self._text is not None else ""
        return None if contradicts(so_far, moved.typed) else moved.typed

    def _is_contradicted(self) -> bool:
        typed = self._typed
        return bool(typed) and self._text is not None and contradicts(self._text.so_far, typed)

    def _is_graced(self, waiter: CompletionJob, now: float) -> bool:
        """Whether a cancelled request's generation may wait for the newer request."""
        if not waiter.may_go_on or waiter.request.trigger != "automatic" or self._others_wait():
            return False
        if self._cancelled_at is None:
            self._cancelled_at = now
        return now - self._cancelled_at < GRACE_S
