"""The queue of the engine thread: jobs of several documents, served in turn.

One thread takes from it (the engine thread, the only one that uses a llama.cpp context); any thread
puts into it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Final, Generic, TypeVar

Job = TypeVar("Job")
Control = TypeVar("Control")

IDLE_AFTER_S: Final = 0.003
"""Idle jobs wait for so long, since a request often follows what queued them."""


class FairQueue(Generic[Job, Control]):
    """Jobs by document, taken round robin over the documents, control jobs before all others.

    Within a document jobs come out in the order in which they went in; ``put`` with
    ``supersede`` removes the document's older jobs and hands them back.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._control: deque[Control] = deque()
        self._by_document: OrderedDict[str, deque[Job]] = OrderedDict()
        self._idle: OrderedDict[str, Control] = OrderedDict()
        self._is_drained = False

    def put(self, document: str, job: Job, *, supersede: bool) -> list[Job]:
        """Queue a job; returns the older jobs of ``document`` that it supersedes."""
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

    def put_idle(self, key: str, job: Control) -> None:
        """Queue a job for when nothing else waits; a newer one of the same key replaces it."""
        with self._condition:
            self._idle[key] = job
            self._idle.move_to_end(key)
            self._condition.notify_all()

    def get(self, timeout_s: float | None) -> Job | Control | None:
        """Take the next job; None when none came within ``timeout_s`` (None waits for ever)."""
        with self._condition:
            self._is_drained = not self._any()
            self._condition.notify_all()
            if not self._condition.wait_for(self._any, timeout_s):
                return None
            self._is_drained = False
            # What queues idle work is often followed by a request, which would wait for it.
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
        """Wait, on the thread that takes, until so long nothing was put in; whether it was so."""
        with self._condition:
            return not self._condition.wait_for(self._any, seconds)

    def wait_drained(self, timeout_s: float) -> bool:
        """Wait until nothing is left and the last job was done; whether that came about."""
        with self._condition:
            return self._condition.wait_for(lambda: self._is_drained and not self._any(), timeout_s)

    def take(self, document: str) -> list[Job]:
        """Remove and return a document's jobs."""
        with self._condition:
            return list(self._by_document.pop(document, ()))

    def take_all(self) -> list[Job]:
        """Remove and return all documents' jobs; control and idle jobs stay."""
        with self._condition:
            taken = [job for jobs in self._by_document.values() for job in jobs]
            self._by_document.clear()
            return taken

    def take_idle(self) -> list[Control]:
        """Remove and return the idle jobs."""
        with self._condition:
            taken = list(self._idle.values())
            self._idle.clear()
            return taken

    def _any(self) -> bool:
        return bool(self._control or self._by_document or self._idle)
