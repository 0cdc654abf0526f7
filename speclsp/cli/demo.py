"""``speclsp demo``: a real server process, a sample project, and ghost text before one's eyes."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from speclsp.cli.demo_picture import picture
from speclsp.cli.demo_run import DemoResult, DemoRun
from speclsp.cli.demo_scenes import SCENES
from speclsp.cli.demo_screen import LiveScreen, PlainScreen, Screen
from speclsp.cli.demo_typist import Tally
from speclsp.cli.options import SettingsCommand, given_options
from speclsp.cli.output_file import OutputFile, write_text
from speclsp.cli.statistics_tables import statistics_tables
from speclsp.embedded import sample_project
from speclsp.errors import SpecLspError


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
