"""What all commands of ``python -m benchmarks`` have in common."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.commands import cli

MAKEFILE = Path(__file__).parents[2] / "Makefile"
WRITING = [
    ["drafters", ".", "--json"],
    ["typing", "--json"],
    ["points", "--from"],
    ["quality", "--json"],
    ["peers", "--json"],
    ["make-model"],
]
NOT_FOR_HELP = ("gguf", "llama_cpp", "matplotlib", "numpy")
HELP_OF_ALL = f"""
import sys
from importlib.abc import MetaPathFinder
from click.testing import CliRunner

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {NOT_FOR_HELP}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
from benchmarks.commands import cli

for arguments in (["--help"], *([name, "--help"] for name in cli.commands)):
    CliRunner().invoke(cli, arguments, catch_exceptions=False)
    print(*arguments)
"""


@pytest.mark.parametrize("command", WRITING, ids=" ".join)
def test_a_folder_that_is_not_there(command, tmp_path):
    result = CliRunner().invoke(cli, [*command, str(tmp_path / "none" / "file")])
    assert result.exit_code == 2
    assert "does not exist" in result.output


@pytest.mark.parametrize("name", cli.commands)
def test_every_command_has_a_help_text(name):
    result = CliRunner().invoke(cli, [name, "--help"], catch_exceptions=False)
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_help_needs_none_of_what_is_measured_with():
    command = [sys.executable, "-c", HELP_OF_ALL]
    run = subprocess.run(command, cwd=MAKEFILE.parent, capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert run.stdout.split("\n")[:-1] == ["--help", *(f"{name} --help" for name in cli.commands)]


def test_make_bench_runs_commands_that_there_are():
    named = re.findall(r"python -m benchmarks (\S+) .*\$\(ARGS\)", MAKEFILE.read_text())
    assert len(named) > 5
    assert set(named) <= set(cli.commands)
