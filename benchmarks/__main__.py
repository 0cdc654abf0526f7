"""``python -m benchmarks NAME``."""

import sys

import click

from speclsp.errors import SpecLspError

try:
    from benchmarks.commands import cli
except ModuleNotFoundError as error:
    if error.name != "matplotlib":
        raise
    sys.exit(f"Error: {error.name} is not installed. Install it: pip install -e '.[benchmarks]'.")

if __name__ == "__main__":
    try:
        cli(prog_name="python -m benchmarks")
    except SpecLspError as problem:
        click.echo(f"Error: {problem}", err=True)
        sys.exit(1)
