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
    """Control jobs come before all others, then editors' jobs, then others', then idle jobs.

    Editors' jobs supersede older ones of their document.  The documents take turns, and the newest
    job waits for at most one other.  A document's other jobs keep their order.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._control: deque[Control] = deque()
        self._by_editors: OrderedDict[str, Job] = OrderedDict()
        self._newest = ""
        """The document whose editor's job came last."""
        self._is_newest_next = False
        self._by_document: OrderedDict[str, deque[Job]] = OrderedDict()
        self._idle: OrderedDict[str, Job | Control] = OrderedDict()
        self._is_drained = False

    def put(self, document: str, job: Job, *, supersede: bool) -> list[Job]:
        """Queue a job; with ``supersede`` remove and return the document's older ones."""
        with self._condition:
            if not supersede:
                self._by_document.setdefault(document, deque()).append(job)
                self._condition.notify_all()
                return []
            superseded = [*self._by_document.pop(document, ())]
            if document in self._by_editors:
                superseded.append(self._by_editors[document])
            self._by_editors[document] = job
            self._newest = document
            self._condition.notify_all()
            return superseded

    def put_back(self, document: str, job: Job, *, supersede: bool) -> None:
        """Queue a job again that was taken and is not done."""
        with self._condition:
            if supersede and document not in self._by_editors:
                self._by_editors[document] = job
            else:
                self._by_document.setdefault(document, deque()).appendleft(job)
            self._condition.notify_all()

    def editors_jobs(self) -> list[Job]:
        """Return the editors' jobs that wait."""
        with self._condition:
            return [*self._by_editors.values()]

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
            self._condition.wait_for(self._is_waited_for, IDLE_AFTER_S)
            if self._control:
                return self._control.popleft()
            if self._by_editors:
                return self._editors_next()
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
            return self._is_waited_for()

    def wait_quiet(self, seconds: float) -> bool:
        """Wait ``seconds`` on the taking thread; return False as soon as a job is queued."""
        with self._condition:
            return not self._condition.wait_for(self._any, seconds)

    def wait_drained(self, timeout_s: float) -> bool:
        """Wait until no job is running or queued; return False after ``timeout_s``."""
        with self._condition:
            return self._condition.wait_for(lambda: self._is_drained and not self._any(), timeout_s)

    def take(self, document: str) -> list[Job]:
        """Remove and return a document's jobs."""
        with self._condition:
            jobs = [*self._by_document.pop(document, ())]
            if document in self._by_editors:
                jobs.append(self._by_editors.pop(document))
            return jobs

    def take_all(self) -> list[Job | Control]:
        """Remove and return all documents' jobs and the idle jobs; control jobs stay."""
        with self._condition:
            taken: list[Job | Control] = [
                job for jobs in self._by_document.values() for job in jobs
            ]
            taken += [*self._by_editors.values(), *self._idle.values()]
            self._by_document.clear()
            self._by_editors.clear()
            self._idle.clear()
            return taken

    def _editors_next(self) -> Job:
        oldest = next(iter(self._by_editors))
        newest = self._newest if self._newest in self._by_editors else oldest
        document = newest if self._is_newest_next else oldest
        self._is_newest_next = document != newest
        return self._by_editors.pop(document)

    def _is_waited_for(self) -> bool:
        return bool(self._control or self._by_editors or self._by_document)

    def _any(self) -> bool:
        return self._is_waited_for() or bool(self._idle)
