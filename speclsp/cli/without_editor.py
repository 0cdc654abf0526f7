"""A window without an editor: its completer's events are written to standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from speclsp.cancellation import CancellationToken
from speclsp.cli.window_completer import make_completer
from speclsp.completer.local import LocalCompleter
from speclsp.decoding.report import draft_acceptance_line, timing_lines
from speclsp.errors import EngineUnavailableError, SpecLspError
from speclsp.lsp.log import LEVELS, EventPump
from speclsp.request import (
    CompletionRequest,
    CompletionResult,
    Event,
    LogLevel,
    LogLine,
    Problem,
    Progress,
    RequestStats,
    StateChanged,
    WorkspaceFolder,
)
from speclsp.settings import Settings
from speclsp.suggestions.window import Window

_POLL_S = 0.01


@contextmanager
def running(
    settings: Settings, least_level: LogLevel, folder: WorkspaceFolder | None = None
) -> Iterator[Window]:
    """Start a completer, index a folder, and close the window at the end.

    An error that ends it and that the log has shown, as a problem of the engine, was told.
    """
    shown: set[str] = set()

    def write(event: Event) -> None:
        write_event(least_level, event)
        if isinstance(event, Problem):
            shown.add(describe(event)[1])

    completer = make_completer(settings) if settings.engine_listens else LocalCompleter(settings)
    window = Window(completer, settings)
    log = EventPump(completer, write)
    if folder is not None:
        completer.open_folder(folder)
    completer.start()
    try:
        yield window
    finally:
        window.close()
        log.finish()
        if isinstance(error := sys.exception(), SpecLspError):
            error.was_told = str(error) in shown


def complete_when_ready(
    window: Window, request: CompletionRequest, cancel: CancellationToken
) -> CompletionResult | None:
    """Complete as soon as the model is loaded; return None if cancelled before that.

    A request's deadline counts from then on, which ``wait_for_model`` would not do.

    Raises :class:`~speclsp.errors.EngineUnavailableError` if the engine is off or failed to load,
    and :class:`~speclsp.errors.EngineError` if decoding fails.
    """
    while not cancel.cancelled:
        state = window.completer.state()
        try:
            return window.ask(request, cancel).result()
        except EngineUnavailableError:
            if state in {"off", "failed"}:
                raise
            time.sleep(_POLL_S)
    return None


def shown_timings(stats: RequestStats) -> str:
    """Return what ``--show-timings`` prints: llama.cpp's lines on times and draft acceptance."""
    drafts = (draft_acceptance_line(stats),) if stats.drafters else ()
    return "\n".join((*timing_lines(stats), *drafts))


def write_event(least_level: LogLevel, event: Event) -> None:
    """Write an event to standard error, unless it is below ``least_level``."""
    write_line(least_level, *describe(event))


def write_line(least_level: LogLevel, level: LogLevel, text: str) -> None:
    """Write a line to standard error, unless it is below ``least_level``."""
    if text and LEVELS.index(level) >= LEVELS.index(least_level):
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
