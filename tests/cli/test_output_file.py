"""Where a command's files cannot be written, that is said before the work and not behind it."""

import click
import pytest
from click.testing import CliRunner

from speclsp.cli.main import cli
from speclsp.cli.options import OutputFile

COMMANDS = [["demo", "--svg"], ["ngram", "build", ".", "-o"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_folder_that_is_not_there(command, tmp_path):
    result = CliRunner().invoke(cli, [*command, str(tmp_path / "none" / "file")])
    assert result.exit_code == 2
    assert "does not exist" in result.output


def test_a_folder_that_is_closed(tmp_path, monkeypatch):
    # Tests may run as root, who may write everywhere.
    monkeypatch.setattr("os.access", lambda *_arguments: False)
    with pytest.raises(click.BadParameter, match="is not writable"):
        OutputFile().convert(str(tmp_path / "file"), None, None)
