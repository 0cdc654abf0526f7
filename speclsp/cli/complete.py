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

from speclsp.cancellation import CancellationToken
from speclsp.cli.headless import NO_DEADLINE_MS, HeadlessOptions, HeadlessServer
from speclsp.cli.options import (
    SettingsCommand,
    given_options,
    given_settings,
    show_timings_option,
)
from speclsp.cli.without_editor import complete_when_ready, running, shown_timings, write_line
from speclsp.decoding.report import report_lines
from speclsp.lsp.log import logging_by
from speclsp.lsp.stdio import claimed_descriptors, serve_pipe
from speclsp.project.repository import repository_name
from speclsp.request import CompletionRequest, Document, WorkspaceFolder
from speclsp.settings import Settings
from speclsp.suggestions.window import Window


@click.command(cls=SettingsCommand)
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
def complete(project: Path | None, prompt: str | None, show_timings: bool, **options: Any) -> None:
    """Complete headless: JSON-RPC 2.0 requests on standard input, answers on standard output.

    One message per line, or each after a Content-Length header.
    The methods are complete, accepted, cancel, statistics and shutdown.
    Requests wait until the model is loaded and have no deadline unless --deadline-ms is given.
    """
    if prompt is not None:
        options["multiline"] = options["multiline"] or "always"
    resolved = given_settings(options)
    if project is not None:
        project = Path(os.path.abspath(project))  # noqa: PTH100  .. goes, links stay
    headless = HeadlessOptions(
        project=project,
        repo_name="" if project is None else repository_name(project),
        deadline_ms=given_options(options).get("deadline_ms", NO_DEADLINE_MS),
        masks=resolved.mask_secrets,
        show_timings=show_timings,
    )
    if prompt is not None:
        _complete_once(resolved, headless, prompt)
        return
    write = partial(write_line, resolved.log_level)
    with claimed_descriptors() as wire, logging_by(write):
        if os.isatty(wire[0]):
            click.echo("Type one JSON-RPC request per line; Ctrl-D ends.", err=True)
        code = asyncio.run(_serve(resolved, headless, *wire))
    sys.exit(code)


def _complete_once(resolved: Settings, headless: HeadlessOptions, prompt: str) -> None:
    """Print the completion of a text.  Raises SpecLspError."""
    uri = "prompt:"
    with _reporting(resolved, headless) as window:
        repo_name = headless.repo_name
        document = Document(
            uri=uri, path="", repo_name=repo_name, language_id="", version=1, text=prompt
        )
        window.open_document(document)
        request = CompletionRequest(
            uri=uri,
            version=document.version,
            offset=len(prompt),
            origin="program",
            settings={"deadline_ms": headless.deadline_ms},
        )
        result = complete_when_ready(window, request, CancellationToken())
        assert result is not None
        click.echo(result.text)
        if headless.show_timings:
            click.echo(shown_timings(result.stats), err=True)


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
