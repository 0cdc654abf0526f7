"""``speclsp demo``: types into a sample project, with speculation and without."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from speclsp import settings
from speclsp.cancellation import CancellationToken
from speclsp.cli.demo_screen import REMARK, Screen, comparison, picture
from speclsp.cli.demo_typist import SCENES, type_scene
from speclsp.cli.options import OutputFile, SettingsCommand, given_options
from speclsp.completer.local import LocalCompleter
from speclsp.embedded import sample_project
from speclsp.errors import EngineUnavailableError
from speclsp.hub.choice import resolve_models
from speclsp.lsp.log import EventPump
from speclsp.request import (
    CompletionRequest,
    CompletionResult,
    Document,
    Event,
    Problem,
    Progress,
    SessionStats,
    StateChanged,
    WorkspaceFolder,
)
from speclsp.suggestions.window import Window


@click.command(cls=SettingsCommand)
@click.option("--fast", is_flag=True, help="Type as fast as suggestions arrive.")
@click.option(
    "--svg",
    type=OutputFile(),
    help="Write a picture of this run to a file.",
)
def demo(fast: bool, svg: Path | None, **options: Any) -> None:
    """Type into a copy of a small sample project.

    Ghost text is grey, and blue where accepted draft tokens gave it; what was taken keeps a green
    background. Then the same is typed without speculation, and a table compares the two.
    Nothing is kept on disk afterwards.
    """
    console = Console()
    screen = Screen(console, pace=0.0 if fast else 1.0)
    # Prefetches depend on the typist's pauses: the two runs would differ by chance.
    given = {"persist": False, "prefetch": False, **given_options(options)}
    is_embedded = not given.keys() & {"model", "preset", "hf_repo"}
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
    """Type all scenes into a fresh copy of the sample project, and return the costs.

    Raises :class:`~speclsp.errors.SpecLspError` if there is no model.
    """
    resolved = resolve_models(settings.resolve([options]).settings)
    loop = asyncio.get_running_loop()
    completer = LocalCompleter(resolved)
    window = Window(completer, resolved)
    engine = _Engine(screen)
    events = EventPump(completer, lambda event: loop.call_soon_threadsafe(engine.take, event))
    with tempfile.TemporaryDirectory(prefix="speclsp-demo-") as temporary:
        folder = Path(temporary) / "shop"
        shutil.copytree(sample_project(), folder)
        try:
            screen.status("Loading the model" if keeps_ends else "The same without speculation")
            completer.open_folder(WorkspaceFolder(root=str(folder), name=folder.name))
            completer.start()
            await engine.until_ready()
            for scene in SCENES:
                end = await type_scene(scene, folder, _WindowEditor(window, folder), screen.show)
                if keeps_ends:
                    screen.keep(end)
            return window.statistics()
        finally:
            await asyncio.to_thread(window.close)
            events.finish()


class _Engine:
    """The engine's state and problems, from its events."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._problems: list[str] = []
        self._settled: asyncio.Future[StateChanged] = asyncio.get_running_loop().create_future()

    def take(self, event: Event) -> None:
        """Take one event."""
        match event:
            case Progress():
                share = f"{event.percentage} %" if event.percentage is not None else ""
                self._screen.status(" ".join(filter(None, (event.title, share, event.message))))
            case Problem():
                self._problems.append(f"{event.message} {event.remedy}".strip())
            case StateChanged(state="ready" | "failed" | "off") if not self._settled.done():
                self._settled.set_result(event)

    async def until_ready(self) -> None:
        """Wait for the model.  Raises :class:`~speclsp.errors.SpecLspError` if there is none."""
        settled = await self._settled
        if settled.state != "ready":
            reason = " ".join(self._problems) or settled.message
            raise EngineUnavailableError(
                f"There is no model: {reason}", remedy="`speclsp doctor` checks more."
            )


class _WindowEditor:
    """An editor with one open file, without a language server in between."""

    def __init__(self, window: Window, folder: Path) -> None:
        self._window = window
        self._folder = folder
        self._uri = ""
        self._version = 1

    def open(self, path: Path, text: str) -> None:
        self._uri = path.as_uri()
        self._window.open_document(
            Document(
                uri=self._uri,
                path=path.relative_to(self._folder).as_posix(),
                file=str(path),
                repo_name=self._folder.name,
                language_id="python",
                version=self._version,
                text=text,
            )
        )

    def change(self, text: str) -> None:
        self._version += 1
        self._window.change_document(self._uri, self._version, text)

    def save(self) -> None:
        self._window.save_document(self._uri)
        self._window.close_document(self._uri)

    async def complete(self, offset: int) -> CompletionResult:
        request = CompletionRequest(uri=self._uri, version=self._version, offset=offset)
        result = await self._window.complete(request, CancellationToken())
        if result.text:
            self._window.shown(result.completion_id)
        return result

    def accept(self, result: CompletionResult, n_chars: int) -> None:
        self._window.accepted(result.completion_id, n_chars)
