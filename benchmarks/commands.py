"""The commands of ``python -m benchmarks``: each is run by hand and prints tables."""

from __future__ import annotations

import click

from benchmarks.cases_command import cases_command, make_cases_command
from benchmarks.drafters_command import drafters
from benchmarks.engine_command import engine_command
from benchmarks.healing_command import healing_command
from benchmarks.host_command import host_command
from benchmarks.index_command import index_command
from benchmarks.make_model_command import make_model_command
from benchmarks.peers.command import peers_command
from benchmarks.quality_command import quality_command
from benchmarks.remote_command import remote_command
from benchmarks.secrets_command import secrets_command
from benchmarks.speculation_command import speculation_command
from benchmarks.typing_command import typing_command


@click.group()
def cli() -> None:
    """Measure speclsp; each command says what it measures."""


for _command in (
    cases_command, make_cases_command, make_model_command, drafters, engine_command,
    healing_command, host_command, index_command, peers_command, quality_command, remote_command,
    secrets_command, speculation_command, typing_command,
):  # fmt: skip
    cli.add_command(_command)
