"""``speclsp complete``: JSON-RPC 2.0 on standard input and output, no editor needed."""

from __future__ import annotations

import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import click
import msgspec

from speclsp import settings
from speclsp.cli.event_log import EventLog, RecordLog
from speclsp.cli.framing import BrokenFrame, MessageSplitter, frame
from speclsp.cli.headless import NO_DEADLINE_MS, HeadlessOptions, HeadlessSession
from speclsp.cli.options import SettingsCommand, given_options
from speclsp.cli.standard_streams import Wire, read_stdin, take_stdout
from speclsp.completer.local import LocalCompleter
from speclsp.decoding.report import report_lines
from speclsp.lsp.events import logging_by
from speclsp.project.repository import repository_name
from speclsp.request import WorkspaceFolder
from speclsp.seam import Completer
from speclsp.settings import Settings

EXIT_BROKEN_PIPE = 1


@click.command(cls=SettingsCommand)
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Draft from this folder's files too, and take its repository's name for prompts.",
)
def complete(project: Path | None, **options: Any) -> None:
    """Complete headless: JSON-RPC 2.0 requests on standard input, answers on standard output.

    One message per line, or each after a Content-Length header.
    The methods are complete, cancel, statistics and shutdown.
    Requests wait until the model is loaded and have no deadline unless --deadline-ms is given.
    """
    given = given_options(options)
    resolved = settings.resolve([given]).settings
    headless = HeadlessOptions(
        project=None if project is None else project.absolute(),
        repo_name="" if project is None else repository_name(project.absolute()),
        deadline_ms=given.get("deadline_ms", NO_DEADLINE_MS),
    )
    wire_descriptor = take_stdout()
    with logging_by(RecordLog(resolved.log_level)):
        answered = _serve(resolved, headless, wire_descriptor)
    if not answered:
        sys.exit(EXIT_BROKEN_PIPE)


def _serve(resolved: Settings, headless: HeadlessOptions, wire_descriptor: int) -> bool:
    """Answer standard input with a completer of its own; False when nobody read the answers."""
    if sys.stdin.isatty():
        click.echo("Type one JSON-RPC request per line; Ctrl-D ends.", err=True)
    completer = LocalCompleter(resolved)
    log = EventLog(completer, resolved.log_level)
    completer.start()
    log.start()
    if headless.project is not None:
        completer.open_folder(WorkspaceFolder(root=str(headless.project), name=headless.repo_name))
    try:
        answered = serve_stdin(completer, headless, wire_descriptor)
        log.expect_end()
        for line in report_lines(completer.statistics()):
            if resolved.log_level in {"debug", "info"}:
                click.echo(f"info: {line}", err=True)
        return answered
    finally:
        completer.close()
        log.stop()


def serve_stdin(completer: Completer, options: HeadlessOptions, wire_descriptor: int) -> bool:
    """Answer standard input until its end; False when nobody read the answers."""
    splitter = MessageSplitter()

    def write(message: Any) -> None:
        wire.write(frame(msgspec.json.encode(message), splitter.framing))

    def report(error: BaseException) -> None:
        click.echo("".join(traceback.format_exception(error)), err=True)

    def stop() -> None:
        session.cancel_all()
        session.end_of_input()

    session = HeadlessSession(completer, options, write=write, report=report)
    wire = Wire(wire_descriptor, on_broken=stop)
    # The reader may be left behind in a blocked read, hence a daemon.
    threading.Thread(
        target=_read, args=(splitter, session), name="stdin-reader", daemon=True
    ).start()
    session.run()
    return not wire.broken


def _read(splitter: MessageSplitter, session: HeadlessSession) -> None:
    try:
        for data in read_stdin():
            if not _receive_all(splitter.feed(data), session):
                return
        _receive_all(splitter.finish(), session)
    finally:
        session.end_of_input()


def _receive_all(found: list[Any], session: HeadlessSession) -> bool:
    for item in found:
        if isinstance(item, BrokenFrame):
            session.reject(item.reason)
        elif not session.receive(item.body):
            return False
    return True
