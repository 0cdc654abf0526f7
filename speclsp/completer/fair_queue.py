"""The engine thread's queue: control jobs, the documents' jobs in turn, and idle jobs.

One thread takes jobs from it; any thread puts them in.
"""

from __future__ import annotations

import math
import threading
import time
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
    keep their order.  An editor's job may wait for the next keystroke first, which supersedes it.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._control: deque[Control] = deque()
        self._by_editors: defaultdict[int, _Turns[Job]] = defaultdict(_Turns)
        """By urgency."""
        self._by_others: OrderedDict[Hashable, deque[Job]] = OrderedDict()
        self._later: dict[Hashable, tuple[float, int, Job]] = {}
        """By key: when an editor's job is due, on the clock ``monotonic``; its urgency; the job."""
        self._idle: OrderedDict[str, Job | Control] = OrderedDict()
        self._is_drained = False

    def put(
        self, key: Hashable, job: Job, *, supersede: bool, urgency: int = 0, wait_s: float = 0.0
    ) -> list[Job]:
        """Queue a job; with ``supersede`` remove and return the key's older ones.

        Such a job is taken after ``wait_s`` seconds.
        """
        with self._condition:
            superseded: list[Job] = []
            if not supersede:
                self._by_others.setdefault(key, deque()).append(job)
            elif wait_s > 0.0:
                superseded = self.take(key)
                self._later[key] = time.monotonic() + wait_s, urgency, job
            else:
                superseded = [*self._by_others.pop(key, ()), *self._taken_later(key)]
                superseded += self._by_editors[urgency].put(key, job)
            self._condition.notify_all()
            return superseded

    def take_due(self) -> list[Job]:
        """Remove and return the jobs that have waited for the next keystroke."""
        with self._condition:
            return [job for _, _, job in self._due()]

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
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        with self._condition:
            self._is_drained = not (self._any() or self._later)
            self._condition.notify_all()
            while not self._any():
                left_s = min(until, self._due_at()) - time.monotonic()
                if left_s > 0.0:
                    self._condition.wait(None if left_s == math.inf else left_s)
                elif until <= time.monotonic():
                    return None
            self._is_drained = False
            for key, urgency, job in self._due():
                self._by_editors[urgency].put(key, job)
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
            return self._condition.wait_for(
                lambda: self._is_drained and not (self._any() or self._later), timeout_s
            )

    def take(self, key: Hashable) -> list[Job]:
        """Remove and return a key's jobs."""
        with self._condition:
            jobs = [*self._by_others.pop(key, ()), *self._taken_later(key)]
            every = self._by_editors.values()
            return jobs + [turns.jobs.pop(key) for turns in every if key in turns.jobs]

    def take_all(self) -> list[Job | Control]:
        """Remove and return all jobs but the control jobs."""
        with self._condition:
            taken: list[Job | Control] = [job for jobs in self._by_others.values() for job in jobs]
            for turns in self._by_editors.values():
                taken += turns.jobs.values()
            taken += [job for _, _, job in self._later.values()]
            taken += self._idle.values()
            self._by_others.clear()
            self._by_editors.clear()
            self._later.clear()
            self._idle.clear()
            return taken

    def _is_waited_for(self) -> bool:
        has_editors = any(turns.jobs for turns in self._by_editors.values())
        is_due = self._due_at() <= time.monotonic()
        return bool(self._control or has_editors or self._by_others or is_due)

    def _any(self) -> bool:
        return self._is_waited_for() or bool(self._idle)

    def _due_at(self) -> float:
        """Return when the first job has waited for the next keystroke, on ``monotonic``."""
        return min((due_at for due_at, _, _ in self._later.values()), default=math.inf)

    def _taken_later(self, key: Hashable) -> list[Job]:
        """Remove and return the key's job that waits for the next keystroke."""
        return [self._later.pop(key)[2]] if key in self._later else []

    def _due(self) -> list[tuple[Hashable, int, Job]]:
        """Remove and return the jobs that are due, with their keys and urgencies."""
        now = time.monotonic()
        due = [key for key, (due_at, _, _) in self._later.items() if due_at <= now]
        return [(key, *self._later.pop(key)[1:]) for key in due]
