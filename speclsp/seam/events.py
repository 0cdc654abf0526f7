"""The completer's events, and their queue from any of its threads to the reader above the seam.

Events have tags, by which a reader tells them apart.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from speclsp.errors import SpecLspError
from speclsp.printable import printable
from speclsp.seam.statistics import EngineState

LogLevel = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """The target model as its user knows it, for status displays."""

    title: str
    """For example ``Qwen2.5-Coder 7B Q4_K_M``."""
    layers: dict[str, int] = field(default_factory=dict)
    """Layers per device name."""
    is_trial: bool = False
    """Whether it is the small embedded model, which no one should judge completions by."""
    shortfall: str = ""
    """What did not fit the memory, with the remedy; empty where everything did."""


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """An event is written as an array: its class's name, then the fields in order."""


class StateChanged(_Event, frozen=True, kw_only=True):
    """The engine changed its state; ``message`` may say why."""

    state: EngineState
    message: str = ""
    model: LoadedModel | None = None
    """What is loaded, or was until it was unloaded."""


class Progress(_Event, frozen=True, kw_only=True):
    """Progress of long work; its begin, reports and end have one ``token``."""

    token: str
    stage: Literal["begin", "report", "end"]
    title: str = ""
    message: str = ""
    percentage: int | None = None
    cancellable: bool = False
    """Whether the user may cancel it; set in the event that begins it."""


class LogLine(_Event, frozen=True, kw_only=True):
    """A line for the log."""

    level: LogLevel
    message: str


class Problem(_Event, frozen=True, kw_only=True):
    """A problem that the user must see once, and its remedy."""

    message: str
    remedy: str = ""


class TextGrew(_Event, frozen=True, kw_only=True):
    """The text of a request that is streamed has grown: ``text`` stands at character ``start``.

    The result has the whole text: an event may be lost.
    """

    completion_id: str
    start: int
    text: str


Event = StateChanged | Progress | LogLine | Problem | TextGrew


MAX_EVENTS = 10_000
"""Events that wait for the reader; newer ones are dropped."""

_TEXTS: Final = ("message", "remedy", "title")


class EventQueue:
    """A bounded queue of events; None after the last one marks it as closed."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()

    def emit(self, event: Event) -> None:
        """Queue an event; drop it where the queue is full.

        Its texts may quote other programs: what is not printable in them is replaced.
        """
        if self._queue.qsize() < MAX_EVENTS:
            self._queue.put(_printable(event))

    def log(self, level: LogLevel, message: str) -> None:
        """Queue a line for the log."""
        self.emit(LogLine(level=level, message=message))

    def warn(self, error: SpecLspError) -> None:
        """Queue a log line about a problem that was dealt with."""
        self.log("warning", str(error))

    def problem(self, message: str, remedy: str = "") -> None:
        """Queue a problem that the user must see once."""
        self.emit(Problem(message=message, remedy=remedy))

    def guard(self, what: str, job: Callable[..., object], *arguments: object) -> None:
        """Run a job of a thread that must outlive any defect; what it raises is a problem."""
        try:
            job(*arguments)
        except SpecLspError as error:
            self.problem(error.message, error.remedy)
        except Exception as error:  # noqa: BLE001
            self.problem(f"{what} had an internal error: {error!r}.")

    def next(self, timeout_s: float | None = None) -> Event | None:
        """Wait for the next event; None after ``timeout_s`` seconds, or once closed and empty."""
        try:
            event = self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if event is None:
            self._queue.put(None)
        return event

    def close(self) -> None:
        """Let the reader get the remaining events, and then None."""
        self._queue.put(None)


def _printable(event: Event) -> Event:
    texts = {name: getattr(event, name) for name in _TEXTS if hasattr(event, name)}
    shown = {name: printable(text, keep="\t\n") for name, text in texts.items()}
    return event if shown == texts else msgspec.structs.replace(event, **shown)


class ProgressReport:
    """The begin, report and end events of one piece of work."""

    def __init__(self, emit: Callable[[Event], None], token: str, title: str) -> None:
        self._emit = emit
        self._token = token
        self._last = -1
        emit(Progress(token=token, stage="begin", title=title, percentage=0))

    def report(self, fraction: float, message: str = "") -> None:
        """Report the fraction done, 0 to 1; each percentage is reported once."""
        percentage = int(100 * fraction)
        if percentage != self._last:
            self._last = percentage
            self._emit(
                Progress(token=self._token, stage="report", message=message, percentage=percentage)
            )

    def end(self, message: str = "") -> None:
        """Report the end."""
        self._emit(Progress(token=self._token, stage="end", message=message))
