"""``python -m benchmarks NAME``."""

import sys

import click

from benchmarks.commands import cli
from speclsp.errors import SpecLspError

if __name__ == "__main__":
    try:
        cli(prog_name="python -m benchmarks")
    except SpecLspError as problem:
        click.echo(f"Error: {problem}", err=True)
        sys.exit(1)
