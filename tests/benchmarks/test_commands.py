"""What all commands of ``python -m benchmarks`` have in common."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.commands import cli

MAKEFILE = Path(__file__).parents[2] / "Makefile"
WRITING = [
    ["drafters", ".", "--json"],
    ["drafters", ".", "--svg"],
    ["typing", "--json"],
    ["quality", "--json"],
    ["quality", "--svg"],
    ["make-model"],
]


@pytest.mark.parametrize("command", WRITING, ids=" ".join)
def test_a_folder_that_is_not_there(command: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, [*command, str(tmp_path / "none" / "file")])
    assert result.exit_code == 2
    assert "does not exist" in result.output


@pytest.mark.parametrize("name", cli.commands)
def test_every_command_has_a_help_text(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"], catch_exceptions=False)
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_make_bench_runs_commands_that_there_are() -> None:
    named = re.findall(r"python -m benchmarks (\S+) .*\$\(ARGS\)", MAKEFILE.read_text())
    assert len(named) > 5
    assert set(named) <= set(cli.commands)
