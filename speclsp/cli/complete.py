"""``speclsp complete``: JSON-RPC 2.0 on standard input and output, no editor needed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from speclsp.cli.headless import HeadlessOptions, HeadlessServer
from speclsp.cli.options import SettingsCommand, given_options, given_settings, show_timings_option
from speclsp.cli.without_editor import (
    NO_DEADLINE_MS,
    NO_TEXT,
    complete_when_ready,
    document_at,
    folder_of,
    refusal_of,
    running,
    shown_timings,
    split_at,
    write_line,
)
from speclsp.completer.local import IGNORED
from speclsp.log import logging_by
from speclsp.project.repository import repository_name
from speclsp.reporting.report import report_lines
from speclsp.rpc.stdio import claimed_descriptors, serve_pipe
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest, CompletionResult
from speclsp.seam.documents import Document, WorkspaceFolder
from speclsp.settings import Settings
from speclsp.window.window import Window


@click.command(cls=SettingsCommand)
@click.argument("place", metavar="[FILE:LINE:COL]", default="")
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Draft from this folder's files too, and take its repository's name for prompts.",
)
@click.option(
    "-p",
    "--prompt",
    metavar="TEXT",
    help="Complete this text once, by several lines unless --multiline is given, print the "
    "completion, and read no requests.",
)
@show_timings_option
def complete(
    place: str, project: Path | None, prompt: str | None, show_timings: bool, **options: Any
) -> None:
    """Complete headless: JSON-RPC 2.0 requests on standard input, answers on standard output.

    One message per line, or each after a Content-Length header.
    The methods are complete, nextEdit, accepted, cancel, statistics and shutdown.
    Requests wait until the model is loaded and have no deadline unless --deadline-ms is given.

    With FILE:LINE:COL, which count from 1, complete there once, print the completion, and read no
    requests; the project is the file's repository, or its folder, unless --project names another.
    """
    at = split_at(place) if place else None
    if at is not None and prompt is not None:
        raise click.UsageError("Give one of FILE:LINE:COL and --prompt.")
    if at is not None:  # a person reads what is printed
        options["log_level"] = options["log_level"] or "warning"
    if prompt is not None:
        options["multiline"] = options["multiline"] or "always"
    resolved = given_settings(options)
    if at is not None and project is None:
        project = folder_of(at[0])
    if project is not None:
        project = Path(os.path.abspath(project))  # noqa: PTH100  .. goes, links stay
    headless = HeadlessOptions(
        project=project,
        repo_name="" if project is None else repository_name(project),
        deadline_ms=given_options(options).get("deadline_ms", NO_DEADLINE_MS),
        masks=resolved.mask_secrets,
        show_timings=show_timings,
    )
    if at is not None and project is not None:
        _complete_once(resolved, headless, document_at(project, at[0], at[1]), at[2])
        return
    if prompt is not None:
        document = Document(uri="prompt:", repo_name=headless.repo_name, text=prompt)
        _complete_once(resolved, headless, document, len(prompt))
        return
    write = partial(write_line, resolved.log_level)
    with claimed_descriptors() as wire, logging_by(write):
        if os.isatty(wire[0]):
            click.echo("Type one JSON-RPC request per line; Ctrl-D ends.", err=True)
        code = asyncio.run(_serve(resolved, headless, *wire))
    sys.exit(code)


def _complete_once(
    resolved: Settings, headless: HeadlessOptions, document: Document, offset: int
) -> None:
    """Print the completion at a place of a document.  Raises SpecLspError."""
    with _reporting(resolved, headless) as window:
        window.open_document(document)
        request = CompletionRequest(
            uri=document.uri,
            version=document.version,
            offset=offset,
            origin="program",
            trigger="invoked",
            settings={"deadline_ms": headless.deadline_ms},
        )
        result = complete_when_ready(window, request, CancellationToken())
        assert result is not None
        click.echo(result.generated.text)
        if document.file and result.is_empty:
            click.echo(f"No completion: {_why_none(window, request, result)}.", err=True)
        if headless.show_timings:
            click.echo(shown_timings(result.stats), err=True)


def _why_none(window: Window, request: CompletionRequest, result: CompletionResult) -> str:
    document = window.document(request.uri)
    if document is not None and not isinstance(window.masked_request(request), CompletionRequest):
        return refusal_of(document)
    return IGNORED if result.source == "filter" else NO_TEXT


async def _serve(resolved: Settings, headless: HeadlessOptions, stdin: int, stdout: int) -> int:
    """Serve the pipe with a new completer; return the exit code."""
    with _reporting(resolved, headless) as window:
        return await serve_pipe(HeadlessServer(window, headless).protocol, stdin, stdout)


@contextmanager
def _reporting(resolved: Settings, headless: HeadlessOptions) -> Iterator[Window]:
    """Run a window, and log its statistics at the end."""
    folder = None
    if headless.project is not None:
        folder = WorkspaceFolder(root=str(headless.project), name=headless.repo_name)
    with running(resolved, resolved.log_level, folder) as window:
        yield window
        for line in report_lines(window.statistics(), resolved):
            write_line(resolved.log_level, "info", line)
