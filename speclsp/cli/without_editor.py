"""A window without an editor: its completer's events are written to standard error."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from msgspec import structs

from speclsp.cli.window_completer import make_completer
from speclsp.completer.local import LocalCompleter
from speclsp.edits.edit import smallest_edit
from speclsp.errors import EngineUnavailableError, OtherModelError, RemoteError, SpecLspError
from speclsp.log import LEVELS
from speclsp.project.repository import find_repository, repository_name
from speclsp.reporting.report import draft_acceptance_line, timing_lines
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest, CompletionResult, Trigger
from speclsp.seam.documents import Document, TextEdit, WorkspaceFolder
from speclsp.seam.edit import EditResult
from speclsp.seam.event_pump import EventPump
from speclsp.seam.events import Event, LogLevel, LogLine, Problem, Progress, StateChanged, TextGrew
from speclsp.seam.statistics import RequestStats
from speclsp.secrets.paths import is_secret_path
from speclsp.settings import Settings, SettingValue
from speclsp.window.window import Window, is_inside_word

_POLL_S = 0.01

NO_DEADLINE_MS = 7 * 24 * 3600 * 1000
"""The deadline of a request that names none."""
NO_TEXT = "the model's text is empty, or repeats what follows the cursor"
"""Why there is no completion."""


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
    or a remote one does not answer, and :class:`~speclsp.errors.EngineError` if decoding fails.
    """
    while not cancel.cancelled:
        state = window.completer.state()
        try:
            return window.ask(request, cancel).result()
        except EngineUnavailableError as error:
            if isinstance(error, OtherModelError):
                continue  # which is being loaded
            if state in {"off", "failed"} or isinstance(error, RemoteError):
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
        case Progress(stage="begin" | "end"):
            return "info", f"{event.title} …" if event.title else event.message
        case Progress():
            return "debug", f"{event.percentage or 0} % {event.message}".strip()
        case TextGrew():
            return "debug", ""


def read_text(file: Path) -> str:
    """Return a file's text, with LF as its line end.  Raises click.BadParameter."""
    try:
        return file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        reason = error.strerror or str(error)
        raise click.BadParameter(f"{file} cannot be read: {reason}.") from error
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{file} is not UTF-8 text.") from error


def split_at(place: str) -> tuple[Path, str, int]:
    """Return the file of ``FILE:LINE:COL``, absolute, its text, and the offset of the cursor.

    Raises click.BadParameter.
    """
    name, line_text, column_text = ([*place.rsplit(":", 2), "", ""])[:3]
    if not (name and line_text.isdecimal() and column_text.isdecimal()):
        raise click.BadParameter(f"{place!r} is not FILE:LINE:COL, for example shop/cart.py:12:5.")
    file = Path(os.path.abspath(name))  # noqa: PTH100  .. goes, links stay
    text = read_text(file)
    lines = text.split("\n")
    line_idx, column = int(line_text) - 1, int(column_text) - 1
    if not 0 <= line_idx < len(lines):
        raise click.BadParameter(f"{name} has the lines 1 to {len(lines)}, not {line_text}.")
    if not 0 <= column <= len(lines[line_idx]):
        n_columns = len(lines[line_idx]) + 1
        raise click.BadParameter(
            f"line {line_text} of {name} has the columns 1 to {n_columns}, not {column_text}."
        )
    offset = sum(len(line) + 1 for line in lines[:line_idx]) + column
    return file, text, offset


def folder_of(file: Path) -> Path:
    """Return the folder of a file's repository, or the file's folder."""
    repository = find_repository(file.parent)
    return file.parent if repository is None else repository.work_tree


def document_at(folder: Path, file: Path, text: str) -> Document:
    """Return a file of a project's folder, or another one, as an open document."""
    inside = file.is_relative_to(folder)
    return Document(
        uri=file.as_uri(),
        path=file.relative_to(folder).as_posix() if inside else file.name,
        repo_name=repository_name(folder),
        text=text,
        file=str(file),
    )


def edit_of(result: EditResult, text: str) -> TextEdit | None:
    """Return a next edit of a text as one replacement; None where there is none."""
    return smallest_edit(result.hunks, text) if result.hunks else None


def refusal_of(document: Document) -> str:
    """Return why nothing is asked at a place of a document that holds secrets."""
    if is_secret_path(document.path, document.file):
        return "the file looks as if it held secrets"
    return "the line holds a secret"


def suggested(window: Window, settings: Settings, cursor: CompletionRequest) -> tuple[str, str]:
    """Return the suggestion at a place, and why it is not shown while you type, "" if it is.

    Without a suggestion the reason says why there is none.  Raises SpecLspError.
    """
    document = window.document(cursor.uri)
    assert document is not None
    automatic = _answer(window, cursor, "automatic")
    why = ""
    if settings.automatic_filters and is_inside_word(document.text, cursor.offset):
        why = "inside a word nothing is asked while you type, unless automatic_filters is off"
    elif automatic.is_withheld:
        why = (
            f"the model is not sure of its beginning: the probability, {automatic.unsure:.2f}, is "
            f"below min_probability, {settings.min_probability:g}"
        )
    text = automatic.generated.text or _answer(window, cursor, "invoked").generated.text
    if not text:
        why = f"{why}; asked by hand, {NO_TEXT}" if why else NO_TEXT
    return text, why


def _answer(window: Window, cursor: CompletionRequest, trigger: Trigger) -> CompletionResult:
    settings: dict[str, SettingValue] = {"deadline_ms": NO_DEADLINE_MS}
    request = structs.replace(cursor, trigger=trigger, settings=settings)
    return window.ask(request, CancellationToken()).result()
