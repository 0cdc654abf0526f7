"""The engine thread's queue: control jobs, the documents' jobs in turn, and idle jobs.

One thread takes jobs from it; any thread puts them in.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

Job = TypeVar("Job")
Control = TypeVar("Control")

IDLE_AFTER_S: Final = 0.003
"""Seconds that an idle job waits, since a request often follows what queued it."""


class _Turns(Generic[Job]):
    """Editors' jobs of one urgency; the newest waits for at most one other."""

    def __init__(self) -> None:
        self.jobs: OrderedDict[Hashable, Job] = OrderedDict()
        self._newest: Hashable = None
        """The key of the job that came last."""
        self._is_newest_next = False

    def put(self, key: Hashable, job: Job) -> list[Job]:
        """Queue a job in the place of the one that it supersedes, which is returned."""
        superseded = [self.jobs[key]] if key in self.jobs else []
        self.jobs[key] = job
        self._newest = key
        return superseded

    def take_next(self) -> Job:
        oldest = next(iter(self.jobs))
        newest = self._newest if self._newest in self.jobs else oldest
        key = newest if self._is_newest_next else oldest
        self._is_newest_next = key != newest
        return self.jobs.pop(key)


class FairQueue(Generic[Job, Control]):
    """Control jobs come before all others, then editors' jobs, then others', then idle jobs.

    A job's key tells its document and kind.  Editors' jobs supersede older ones of their key.
    Those of greater urgency come first; those of one urgency take turns.  The other jobs of a key
    keep their order.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._control: deque[Control] = deque()
        self._by_editors: defaultdict[int, _Turns[Job]] = defaultdict(_Turns)
        """By urgency."""
        self._by_others: OrderedDict[Hashable, deque[Job]] = OrderedDict()
        self._idle: OrderedDict[str, Job | Control] = OrderedDict()
        self._is_drained = False

    def put(self, key: Hashable, job: Job, *, supersede: bool, urgency: int = 0) -> list[Job]:
        """Queue a job; with ``supersede`` remove and return the key's older ones."""
        with self._condition:
            if not supersede:
                self._by_others.setdefault(key, deque()).append(job)
                self._condition.notify_all()
                return []
            turns = self._by_editors[urgency]
            superseded = [*self._by_others.pop(key, ()), *turns.put(key, job)]
            self._condition.notify_all()
            return superseded

    def put_back(self, key: Hashable, job: Job, *, supersede: bool, urgency: int = 0) -> None:
        """Queue a job again that was taken and is not done."""
        with self._condition:
            waiting = self._by_editors[urgency].jobs
            if supersede and key not in waiting:
                waiting[key] = job
            else:
                self._by_others.setdefault(key, deque()).appendleft(job)
            self._condition.notify_all()

    def editors_jobs(self, urgency: int = 0) -> list[Job]:
        """Return the editors' jobs that wait, of this urgency or a greater one."""
        with self._condition:
            return [
                job
                for known, turns in self._by_editors.items()
                if known >= urgency
                for job in turns.jobs.values()
            ]

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
            for _, turns in sorted(self._by_editors.items(), reverse=True):
                if turns.jobs:
                    return turns.take_next()
            if self._by_others:
                key, jobs = self._by_others.popitem(last=False)
                job = jobs.popleft()
                if jobs:
                    self._by_others[key] = jobs  # to the back: the others come first
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

    def take(self, key: Hashable) -> list[Job]:
        """Remove and return a key's jobs."""
        with self._condition:
            jobs = [*self._by_others.pop(key, ())]
            every = self._by_editors.values()
            return jobs + [turns.jobs.pop(key) for turns in every if key in turns.jobs]

    def take_all(self) -> list[Job | Control]:
        """Remove and return all jobs but the control jobs."""
        with self._condition:
            taken: list[Job | Control] = [job for jobs in self._by_others.values() for job in jobs]
            for turns in self._by_editors.values():
                taken += turns.jobs.values()
            taken += self._idle.values()
            self._by_others.clear()
            self._by_editors.clear()
            self._idle.clear()
            return taken

    def _is_waited_for(self) -> bool:
        has_editors = any(turns.jobs for turns in self._by_editors.values())
        return bool(self._control or has_editors or self._by_others)

    def _any(self) -> bool:
        return self._is_waited_for() or bool(self._idle)
