"""Runs a completer without an editor: logs its events to standard error, waits for its model."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import get_args

import click

from speclsp.cancellation import CancellationToken
from speclsp.errors import EngineUnavailableError
from speclsp.lsp.log import EventPump, SourceFormatter, level_of
from speclsp.request import (
    CompletionRequest,
    CompletionResult,
    Event,
    LogLevel,
    LogLine,
    Problem,
    Progress,
    StateChanged,
)
from speclsp.seam import Completer
from speclsp.suggestions.window import Window

_LEVELS: tuple[str, ...] = get_args(LogLevel)
_POLL_S = 0.01
_MAX_REFUSALS = 500
"""Times that a completer may refuse although it is neither loading nor switched off nor failed."""


@contextmanager
def events_logged(window: Window, least_level: LogLevel) -> Iterator[None]:
    """Write a completer's events to standard error; close it at the end."""
    log = EventLog(window.completer, least_level)
    try:
        yield
        log.expect_end()
    finally:
        window.close()
        log.stop()


def complete_when_ready(
    window: Window, request: CompletionRequest, cancel: CancellationToken
) -> CompletionResult | None:
    """Complete as soon as the model is loaded; return None if cancelled before that.

    Raises :class:`~speclsp.errors.EngineUnavailableError` if the engine is off or failed to load,
    and :class:`~speclsp.errors.EngineError` if decoding fails.
    """
    n_refusals = 0
    while True:
        while window.completer.state() == "loading":
            if cancel.cancelled:
                return None
            time.sleep(_POLL_S)
        try:
            return window.ask(request, cancel).result()
        except CancelledError:
            return None
        except EngineUnavailableError:
            # The weights may have been freed, or begun to load, since the state was read.
            n_refusals += 1
            if window.completer.state() in {"off", "failed"} or n_refusals > _MAX_REFUSALS:
                raise
            time.sleep(_POLL_S)


class EventLog:
    """Writes a completer's events on a thread until it is told to stop."""

    def __init__(self, completer: Completer, least_level: LogLevel) -> None:
        self._least_level = least_level
        self._ending = False
        self._pump = EventPump(completer, self._write)

    def expect_end(self) -> None:
        """Report what the end interrupts, such as loading the model, as no error."""
        self._ending = True

    def stop(self) -> None:
        """Write the remaining events and end; the completer must be closed."""
        self._pump.finish()

    def _write(self, event: Event) -> None:
        level, text = describe(event)
        if self._ending and isinstance(event, Problem):
            level = "info"
        _echo(level, text, self._least_level)


class RecordLog(logging.Handler):
    """Writes log records in the same form as events."""

    def __init__(self, least_level: LogLevel) -> None:
        super().__init__()
        self._least_level = least_level
        self.setFormatter(SourceFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        _echo(level_of(record), self.format(record), self._least_level)


def _echo(level: LogLevel, text: str, least_level: LogLevel) -> None:
    if text and _LEVELS.index(level) >= _LEVELS.index(least_level):
        click.echo(f"{level}: {text}", err=True)


def describe(event: Event) -> tuple[LogLevel, str]:
    """Return an event's level and line; the line is empty for events that need none."""
    match event:
        case LogLine(level=level, message=message):
            return level, message
        case Problem(message=message, remedy=remedy):
            return "error", f"{message} {remedy}".strip()
        case StateChanged(state=state, message=message):
            return "debug", f"engine {state}. {message}".strip()
        case Progress(stage="begin", title=title):
            return "info", f"{title} …"
        case Progress(stage="end", message=message):
            return "info", message
        case Progress():
            return "debug", f"{event.percentage or 0} % {event.message}".strip()
