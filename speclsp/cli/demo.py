"""``speclsp demo``: types into a sample project with a real server process."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from speclsp.cli.demo_screen import REMARK, DemoResult, Screen, comparison, picture
from speclsp.cli.demo_typist import SCENES, Frame, Tally, Typist
from speclsp.cli.options import OutputFile, SettingsCommand, given_options
from speclsp.embedded import sample_project
from speclsp.errors import EngineUnavailableError
from speclsp.lsp.client import ServerProcess
from speclsp.request import LogLine, Progress, Ranges, SessionStats, StateChanged

_SERVER_COMMAND = (sys.executable, "-m", "speclsp", "serve", "--stdio")
_STATISTICS_COMMAND = "speclsp.showStatistics"
_DRAFTED = re.compile(r"completion (?P<id>\S+): .*characters from drafts: (?P<ranges>.*)")
_LOAD_TIMEOUT_S = 600.0
_POLL_S = 1.0


@click.command(cls=SettingsCommand)
@click.option("--fast", is_flag=True, help="Type as fast as the server answers.")
@click.option(
    "--svg",
    type=OutputFile(),
    help="Write a picture of this run to a file.",
)
def demo(fast: bool, svg: Path | None, **options: Any) -> None:
    """Type into a copy of a small sample project, with a real language server.

    Ghost text is grey, and blue where accepted draft tokens gave it; what was taken keeps a green
    background. Then the same is typed without speculation, and a table compares the two.
    Nothing is kept on disk afterwards.
    """
    console = Console()
    screen = Screen(console, Tally(), pace=0.0 if fast else 1.0)
    given = {"persist": False, "mode": "tree", "log_level": "debug", **given_options(options)}
    stats: dict[bool, SessionStats] = {}
    try:
        ends, stats[True] = asyncio.run(_type_scenes(screen, given))
        without = Screen(Console(quiet=True), Tally(), pace=0.0)
        screen.status("Typing the same without speculation")
        _, stats[False] = asyncio.run(_type_scenes(without, {**given, "speculation": False}))
    finally:
        screen.close()
    result = DemoResult(stats=dict(sorted(stats.items())), ends=tuple(ends), moment=screen.moment)
    console.print(comparison(result.stats))
    console.print(REMARK, markup=False, highlight=False)
    if svg is not None:
        try:
            svg.write_text(picture(result), encoding="utf-8")
        except OSError as error:
            raise click.FileError(str(svg), error.strerror) from error
        console.print(f"The picture is in {svg}.", highlight=False)


async def _type_scenes(
    screen: Screen, options: Mapping[str, Any]
) -> tuple[list[Frame], SessionStats]:
    """Run a server and type all scenes into a fresh copy of the sample project.

    Raises :class:`~speclsp.errors.SpecLspError` if the server fails or has no model.
    """
    engine = _Engine()
    server = ServerProcess(
        on_log=engine.take_log,
        on_message=engine.take_message,
        on_progress=lambda progress: screen.progress(_progress_text(progress)),
        on_state=engine.take_state,
    )
    with tempfile.TemporaryDirectory(prefix="speclsp-demo-") as temporary:
        folder = Path(temporary) / "shop"
        shutil.copytree(sample_project(), folder)
        try:
            screen.status("Starting the server")
            await server.start(_SERVER_COMMAND, folder, options=options)
            screen.status("Loading the model")
            await engine.until_ready(server)
            typist = Typist(server, folder, screen.tally, screen.show, engine.drafted)
            ends: list[Frame] = []
            for scene in SCENES:
                ends.append(await typist.play(scene))
                screen.finish(ends[-1])
            answer = await server.execute_command(_STATISTICS_COMMAND)
        finally:
            await server.shutdown()
    return ends, msgspec.convert(answer, SessionStats)


class _Engine:
    """What the server says of its engine."""

    def __init__(self) -> None:
        self._problems: list[str] = []
        self._drafted: dict[str, Ranges] = {}
        self._state: StateChanged | None = None
        self._settled = asyncio.Event()

    def take_log(self, line: LogLine) -> None:
        """Note which parts of a completion were drafted."""
        if found := _DRAFTED.match(line.message):
            pairs = (part.split("-") for part in found["ranges"].split())
            self._drafted[found["id"]] = tuple((int(a), int(b)) for a, b in pairs)

    def drafted(self, completion_id: str) -> Ranges:
        """Return the parts of a completion's text that accepted draft tokens gave."""
        return self._drafted.get(completion_id, ())

    def take_message(self, line: LogLine) -> None:
        if line.level == "error":
            self._problems.append(line.message)

    def take_state(self, state: StateChanged) -> None:
        self._state = state
        if state.state in {"ready", "failed", "off"}:
            self._settled.set()

    async def until_ready(self, server: ServerProcess) -> None:
        """Wait for the model.  Raises :class:`~speclsp.errors.SpecLspError` if there is none."""
        async with asyncio.timeout(_LOAD_TIMEOUT_S):
            while not self._settled.is_set():
                try:
                    await asyncio.wait_for(self._settled.wait(), _POLL_S)
                except TimeoutError:
                    # Raises if the server has ended.
                    await server.execute_command(_STATISTICS_COMMAND)
        if self._state is None or self._state.state != "ready":
            reason = " ".join(self._problems) or (self._state.message if self._state else "")
            raise EngineUnavailableError(
                f"The server has no model: {reason}", remedy="`speclsp doctor` checks more."
            )


def _progress_text(progress: Progress) -> str:
    share = f"{progress.percentage} %" if progress.percentage is not None else ""
    return " ".join(filter(None, (progress.title, share, progress.message)))
