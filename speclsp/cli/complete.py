"""``speclsp complete``: JSON-RPC 2.0 on standard input and output, no editor needed."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from speclsp.cli.headless import NO_DEADLINE_MS, HeadlessOptions, HeadlessServer
from speclsp.cli.options import (
    SettingsCommand,
    given_options,
    given_settings,
    show_timings_option,
)
from speclsp.cli.without_editor import running, write_line
from speclsp.decoding.report import report_lines
from speclsp.lsp.log import logging_by
from speclsp.lsp.stdio import claimed_descriptors, serve_pipe
from speclsp.project.repository import repository_name
from speclsp.request import WorkspaceFolder
from speclsp.settings import Settings


@click.command(cls=SettingsCommand)
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Draft from this folder's files too, and take its repository's name for prompts.",
)
@show_timings_option
def complete(project: Path | None, show_timings: bool, **options: Any) -> None:
    """Complete headless: JSON-RPC 2.0 requests on standard input, answers on standard output.

    One message per line, or each after a Content-Length header.
    The methods are complete, accepted, cancel, statistics and shutdown.
    Requests wait until the model is loaded and have no deadline unless --deadline-ms is given.
    """
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
    write = partial(write_line, resolved.log_level)
    with claimed_descriptors() as wire, logging_by(write):
        if os.isatty(wire[0]):
            click.echo("Type one JSON-RPC request per line; Ctrl-D ends.", err=True)
        code = asyncio.run(_serve(resolved, headless, *wire))
    sys.exit(code)


async def _serve(resolved: Settings, headless: HeadlessOptions, stdin: int, stdout: int) -> int:
    """Serve the pipe with a new completer; return the exit code."""
    folder = None
    if headless.project is not None:
        folder = WorkspaceFolder(root=str(headless.project), name=headless.repo_name)
    with running(resolved, resolved.log_level, folder) as window:
        code = await serve_pipe(HeadlessServer(window, headless).protocol, stdin, stdout)
        for line in report_lines(window.statistics()):
            if resolved.log_level in {"debug", "info"}:
                click.echo(f"info: {line}", err=True)
        return code
