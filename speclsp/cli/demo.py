"""``speclsp demo``: types into a sample project with a real server process."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from rich.console import Console

from speclsp.cli.demo_screen import (
    DemoResult,
    LiveScreen,
    PlainScreen,
    Screen,
    picture,
    statistics_tables,
)
from speclsp.cli.demo_typist import SCENES, Frame, Scene, Tally, Typist
from speclsp.cli.options import OutputFile, SettingsCommand, given_options, write_text
from speclsp.embedded import sample_project
from speclsp.errors import EngineUnavailableError, SpecLspError
from speclsp.lsp.client import ServerProcess
from speclsp.request import LogLine, Progress, SessionStats, StateChanged

SECONDS_OF_PATIENCE = 1.0
"""After so long without an end, the demo says what it is waiting for."""

LOAD_TIMEOUT_S = 600.0

SERVER_COMMAND = (sys.executable, "-m", "speclsp", "serve", "--stdio")
STATISTICS_COMMAND = "speclsp.showStatistics"

Result = TypeVar("Result")


class DemoRun:
    """One run with a server process of its own."""

    def __init__(
        self, screen: Screen, tally: Tally, folder: Path, options: Mapping[str, Any]
    ) -> None:
        self._screen = screen
        self._tally = tally
        self._folder = folder
        self._options = options
        self._doing: dict[str, str] = {}
        self._problems: list[str] = []
        self._state: StateChanged | None = None
        self._settled = asyncio.Event()
        self._moment: Frame | None = None

    async def run(self, scenes: Sequence[Scene]) -> DemoResult:
        """Type all scenes.

        Raises :class:`~speclsp.errors.SpecLspError` where the server fails or has no model.
        """
        server = ServerProcess(
            on_message=self._heard_message,
            on_progress=self._heard_progress,
            on_state=self._heard_state,
        )
        try:
            await self._patiently(
                "Starting the server",
                server.start(SERVER_COMMAND, self._folder, options=self._options),
            )
            await self._patiently("Loading the model", self._wait_until_ready(server))
            typist = Typist(server, self._folder, self._tally, self._show)
            ends: list[Frame] = []
            for scene in scenes:
                ends.append(await typist.play(scene))
                self._screen.finish(ends[-1])
            answer = await server.execute_command(STATISTICS_COMMAND)
            return DemoResult(
                stats=msgspec.convert(answer, SessionStats), ends=tuple(ends), moment=self._moment
            )
        finally:
            await self._patiently("Stopping the server", server.shutdown())

    async def _wait_until_ready(self, server: ServerProcess) -> None:
        async with asyncio.timeout(LOAD_TIMEOUT_S):
            while not self._settled.is_set():
                try:
                    await asyncio.wait_for(self._settled.wait(), SECONDS_OF_PATIENCE)
                except TimeoutError:
                    # A server that has died answers with an error.
                    await server.execute_command(STATISTICS_COMMAND)
        if self._state is None or self._state.state != "ready":
            reason = " ".join(self._problems) or (self._state.message if self._state else "")
            raise EngineUnavailableError(
                f"The server has no model: {reason}", remedy="`speclsp doctor` checks more."
            )

    async def _patiently(self, what: str, work: Awaitable[Result]) -> Result:
        """Await ``work``; once that takes long, say each second what it is about."""
        task = asyncio.ensure_future(work)
        started = time.monotonic()
        while not task.done():
            await asyncio.wait({task}, timeout=SECONDS_OF_PATIENCE)
            if not task.done():
                doing = ", ".join(self._doing.values()) or what
                self._screen.status(f"{doing} … {time.monotonic() - started:.0f} s")
        return task.result()

    async def _show(self, frame: Frame) -> None:
        if frame.n_taking and len(frame.ghost) > len(self._moment.ghost if self._moment else ""):
            self._moment = frame
        await self._screen.show(frame)

    def _heard_message(self, line: LogLine) -> None:
        if line.level == "error":
            self._problems.append(line.message)

    def _heard_progress(self, progress: Progress) -> None:
        if progress.stage == "end":
            self._doing.pop(progress.token, None)
            return
        title = progress.title or self._doing.get(progress.token, "").split(":")[0]
        share = f": {progress.percentage} %" if progress.percentage is not None else ""
        self._doing[progress.token] = f"{title}{share}"

    def _heard_state(self, state: StateChanged) -> None:
        self._state = state
        if state.state in {"ready", "failed", "off"}:
            self._settled.set()


@click.command(cls=SettingsCommand)
@click.option("--fast", is_flag=True, help="Type as fast as the server answers.")
@click.option(
    "--svg",
    type=OutputFile(),
    help="Write a picture of this run to a file.",
)
def demo(fast: bool, svg: Path | None, **options: Any) -> None:
    """Type into a copy of a small sample project, with a real language server.

    Ghost text is grey; what was accepted keeps a green background.
    Nothing is kept on disk afterwards.
    """
    if svg is not None and not svg.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {svg.parent}.", param_hint="--svg")
    console = Console()
    tally = Tally()
    screen: Screen = PlainScreen(console)
    if console.is_terminal:
        screen = LiveScreen(console, tally, pace=0.0 if fast else 1.0)
    try:
        result = _run(screen, tally, {"persist": False, **given_options(options)})
    except SpecLspError as error:
        screen.close()
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    finally:
        screen.close()
    for table in statistics_tables(result.stats):
        console.print(table)
    if svg is not None:
        write_text(svg, picture(result))
        console.print(f"The picture is in {svg}.", highlight=False)


def _run(screen: Screen, tally: Tally, options: dict[str, Any]) -> DemoResult:
    with tempfile.TemporaryDirectory(prefix="speclsp-demo-") as temporary:
        folder = Path(temporary) / "shop"
        shutil.copytree(sample_project(), folder)
        return asyncio.run(DemoRun(screen, tally, folder, options).run(SCENES))
