"""The engine thread's queue: control jobs, the documents' jobs in turn, and idle jobs.

One thread takes jobs from it; any thread puts them in.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Final, Generic, TypeVar

Job = TypeVar("Job")
Control = TypeVar("Control")

IDLE_AFTER_S: Final = 0.003
"""Seconds that an idle job waits, since a request often follows what queued it."""


class FairQueue(Generic[Job, Control]):
    """Control jobs come before all others; then documents take turns; then come idle jobs.

    A document's jobs come out in the order in which they went in.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._control: deque[Control] = deque()
        self._by_document: OrderedDict[str, deque[Job]] = OrderedDict()
        self._idle: OrderedDict[str, Job | Control] = OrderedDict()
        self._is_drained = False

    def put(self, document: str, job: Job, *, supersede: bool) -> list[Job]:
        """Queue a job; with ``supersede`` remove and return the document's older ones."""
        with self._condition:
            jobs = self._by_document.setdefault(document, deque())
            superseded = list(jobs) if supersede else []
            if supersede:
                jobs.clear()
            jobs.append(job)
            self._condition.notify_all()
            return superseded

    def put_control(self, job: Control) -> None:
        """Queue a job that comes before every document's."""
        with self._condition:
            self._control.append(job)
            self._condition.notify_all()

    def put_idle(self, key: str, job: Job | Control) -> Job | Control | None:
        """Queue a job for when nothing else waits; return the one of this key it replaces."""
        with self._condition:
            older = self._idle.pop(key, None)
            self._idle[key] = job
            self._condition.notify_all()
            return older

    def get(self, timeout_s: float | None) -> Job | Control | None:
        """Take the next job; None when none came within ``timeout_s`` (None waits for ever)."""
        with self._condition:
            self._is_drained = not self._any()
            self._condition.notify_all()
            if not self._condition.wait_for(self._any, timeout_s):
                return None
            self._is_drained = False
            self._condition.wait_for(lambda: self._control or self._by_document, IDLE_AFTER_S)
            if self._control:
                return self._control.popleft()
            if self._by_document:
                document, jobs = self._by_document.popitem(last=False)
                job = jobs.popleft()
                if jobs:
                    self._by_document[document] = jobs  # to the back: the others come first
                return job
            return self._idle.popitem(last=False)[1]

    def waiting(self) -> bool:
        """Whether a control job or a document's job waits (idle jobs do not count)."""
        with self._condition:
            return bool(self._control or self._by_document)

    def wait_quiet(self, seconds: float) -> bool:
        """Wait, on the taking thread, for ``seconds`` without a job; return whether none came."""
        with self._condition:
            return not self._condition.wait_for(self._any, seconds)

    def wait_drained(self, timeout_s: float) -> bool:
        """Wait until the last job is done and none is left; return whether that came about."""
        with self._condition:
            return self._condition.wait_for(lambda: self._is_drained and not self._any(), timeout_s)

    def take(self, document: str) -> list[Job]:
        """Remove and return a document's jobs."""
        with self._condition:
            return list(self._by_document.pop(document, ()))

    def take_all(self) -> list[Job | Control]:
        """Remove and return all documents' jobs and the idle jobs; control jobs stay."""
        with self._condition:
            taken: list[Job | Control] = [
                job for jobs in self._by_document.values() for job in jobs
            ]
            taken += self._idle.values()
            self._by_document.clear()
            self._idle.clear()
            return taken

    def _any(self) -> bool:
        return bool(self._control or self._by_document or self._idle)
