"""``speclsp demo``: types into a sample project with a real server process."""

from __future__ import annotations

import asyncio
import contextlib
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

from speclsp.cli.demo_screen import REMARK, Screen, comparison, picture
from speclsp.cli.demo_typist import SCENES, type_scene
from speclsp.cli.options import OutputFile, SettingsCommand, given_options
from speclsp.embedded import sample_project
from speclsp.errors import EngineUnavailableError
from speclsp.lsp.client import ServerProcess
from speclsp.request import LogLine, Progress, Ranges, SessionStats, StateChanged

_SERVER_COMMAND = (sys.executable, "-m", "speclsp", "serve", "--stdio")
_STATISTICS_COMMAND = "speclsp.showStatistics"
_DRAFTED = re.compile(r"completion (?P<id>\S+): .*characters from drafts: (?P<ranges>.*)")
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
    screen = Screen(console, pace=0.0 if fast else 1.0)
    # Prefetches depend on the typist's pauses: the two runs would differ by chance.
    given = {"persist": False, "prefetch": False, "log_level": "debug", **given_options(options)}
    is_embedded = "model" not in given
    if is_embedded:
        given = {"mode": "tree", **given}
    try:
        with_speculation = asyncio.run(_typed(screen, given, keeps_ends=True))
        without = asyncio.run(_typed(screen, {**given, "speculation": False}, keeps_ends=False))
    finally:
        screen.close()
    stats = {False: without, True: with_speculation}
    console.print(comparison(stats))
    if is_embedded:
        console.print(REMARK, markup=False, highlight=False)
    if svg is not None:
        try:
            svg.write_text(picture(screen.moment, screen.ends[0], stats), encoding="utf-8")
        except OSError as error:
            raise click.FileError(str(svg), error.strerror) from error
        console.print(f"The picture is in {svg}.", highlight=False)


async def _typed(screen: Screen, options: Mapping[str, Any], *, keeps_ends: bool) -> SessionStats:
    """Run a server, type all scenes into a fresh copy of the sample project, return the costs.

    Raises :class:`~speclsp.errors.SpecLspError` if the server fails or has no model.
    """
    engine = _Engine()
    server = ServerProcess(
        on_log=engine.take_log,
        on_progress=lambda progress: screen.status(_progress_text(progress)),
        on_state=engine.take_state,
    )
    with tempfile.TemporaryDirectory(prefix="speclsp-demo-") as temporary:
        folder = Path(temporary) / "shop"
        shutil.copytree(sample_project(), folder)
        try:
            screen.status("Starting the server" if keeps_ends else "The same without speculation")
            await server.start(_SERVER_COMMAND, folder, options=options)
            await engine.until_ready(server)
            for scene in SCENES:
                end = await type_scene(scene, folder, server, screen.show, engine.drafted)
                if keeps_ends:
                    screen.keep(end)
            return msgspec.convert(await server.execute_command(_STATISTICS_COMMAND), SessionStats)
        finally:
            await server.shutdown()


class _Engine:
    """What the server says of its engine and its completions."""

    def __init__(self) -> None:
        self._drafted: dict[str, Ranges] = {}
        self._state: StateChanged | None = None
        self._settled = asyncio.Event()

    def take_log(self, line: LogLine) -> None:
        """Note which parts of a completion were drafted."""
        if found := _DRAFTED.match(line.message):
            pairs = (part.split("-") for part in found["ranges"].split())
            self._drafted[found["id"]] = tuple((int(start), int(end)) for start, end in pairs)

    def drafted(self, completion_id: str) -> Ranges:
        """Return the parts of a completion's text that accepted draft tokens gave."""
        return self._drafted.get(completion_id, ())

    def take_state(self, state: StateChanged) -> None:
        """Note the engine's state."""
        self._state = state
        if state.state in {"ready", "failed", "off"}:
            self._settled.set()

    async def until_ready(self, server: ServerProcess) -> None:
        """Wait for the model.  Raises :class:`~speclsp.errors.SpecLspError` if there is none."""
        while not self._settled.is_set():
            await server.execute_command(_STATISTICS_COMMAND)  # raises if the server has ended
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), _POLL_S)
        if self._state is None or self._state.state != "ready":
            reason = self._state.message if self._state else ""
            raise EngineUnavailableError(
                f"The server has no model: {reason}", remedy="`speclsp doctor` checks more."
            )


def _progress_text(progress: Progress) -> str:
    share = f"{progress.percentage} %" if progress.percentage is not None else ""
    return " ".join(filter(None, (progress.title, share, progress.message)))
