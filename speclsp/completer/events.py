"""The completer's events, from any of its threads to the one reader above the seam."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from speclsp.errors import SpecLspError
from speclsp.request import Event, LogLevel, LogLine, Problem, Progress

MAX_EVENTS = 10_000
"""A reader that stopped reading loses the newest events instead of filling the memory."""


class EventQueue:
    """A bounded queue of events; closing it wakes the reader."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Event | None] = queue.Queue(MAX_EVENTS)
        self._closed = threading.Event()

    def emit(self, event: Event) -> None:
        """Queue an event; dropped when nobody has read the last 10,000."""
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            return

    def log(self, level: LogLevel, message: str) -> None:
        """Queue a line for the log."""
        self.emit(LogLine(level=level, message=message))

    def warn(self, error: SpecLspError) -> None:
        """Queue a log line about a problem that was dealt with."""
        self.log("warning", str(error))

    def problem(self, message: str, remedy: str = "") -> None:
        """Queue something that the user must see once."""
        self.emit(Problem(message=message, remedy=remedy))

    def guard(self, what: str, job: Callable[..., None], *arguments: object) -> None:
        """Run a job of a thread that must outlive any defect; what it raises is a problem."""
        try:
            job(*arguments)
        except SpecLspError as error:
            self.problem(error.message, error.remedy)
        except Exception as error:  # noqa: BLE001
            self.problem(f"{what} had an internal error: {error!r}.")

    def next(self, timeout_s: float) -> Event | None:
        """Take the next event; None after ``timeout_s`` seconds, or once closed and empty."""
        try:
            return self._queue.get(block=not self._closed.is_set(), timeout=timeout_s)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Let the reader drain what is left and then get None at once."""
        self._closed.set()
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            return


class ProgressReport:
    """One piece of work that takes a while, as begin, report and end events."""

    def __init__(self, events: EventQueue, token: str, title: str) -> None:
        self._events = events
        self._token = token
        self._last = -1
        events.emit(Progress(token=token, stage="begin", title=title, percentage=0))

    def report(self, fraction: float, message: str = "") -> None:
        """Say how far it is, 0 to 1; the same percentage is said once."""
        percentage = int(100 * fraction)
        if percentage != self._last:
            self._last = percentage
            self._events.emit(
                Progress(token=self._token, stage="report", message=message, percentage=percentage)
            )

    def end(self, message: str = "") -> None:
        """Say that it is over."""
        self._events.emit(Progress(token=self._token, stage="end", message=message))
