"""The ``speclsp`` command, which imports only the subcommand that is run."""

from __future__ import annotations

import errno
import importlib
import io
import sys
from collections.abc import Mapping
from typing import NoReturn

import click

from speclsp import __version__
from speclsp.errors import EngineLibraryError, SpecLspError
from speclsp.printable import printable

SUBCOMMANDS: Mapping[str, str] = {
    "serve": "Run the language server.",
    "complete": "Complete at a place, or headless: JSON-RPC on stdin and stdout.",
    "explain": "Show the suggestion at a place in a file, or why there is none.",
    "demo": "Type into a sample project and watch the ghost text.",
    "doctor": "Check the installation.",
    "models": "Choose, download and remove models by name.",
    "http": "Answer other editors as llama-server and OpenAI do.",
    "engine": "Show or end the engines that windows share.",
    "drafters": "List the drafters.",
    "data": "Show or remove what is kept on disk.",
    "ngram": "Make and check statistics files.",
    "bench": "Measure models and speculation on a project of yours.",
}
"""The line in the help text of each subcommand ``name``, which is ``speclsp.cli.name.name``."""


class LazyGroup(click.Group):
    """A group that imports a subcommand when it is run, so that ``--help`` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return the subcommands' names in the order of the table."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a subcommand, or None for an unknown name."""
        if cmd_name not in SUBCOMMANDS:
            return None
        try:
            module = importlib.import_module(f"speclsp.cli.{cmd_name}")
        except (ImportError, OSError, RuntimeError) as error:
            if "llama" not in str(error):
                raise
            ctx.fail(str(EngineLibraryError.of(error)))
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        """Write the table without importing the subcommands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUBCOMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="speclsp")
def cli() -> None:
    """Code completion with speculative fill-in-the-middle on your own machine."""


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for paths that are not UTF-8
    try:
        cli()
    except SpecLspError as error:
        if not error.was_told:
            click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        if error.errno != errno.ENOSPC:  # which standard output may have, too
            raise
        click.echo(f"Error: {printable(str(error))}", err=True)
        sys.exit(1)
    sys.exit(0)  # not reached: click's standalone mode ends the process itself
