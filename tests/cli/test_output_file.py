"""Where a command's files cannot be written, that is said before the work and not behind it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from speclsp.cli.main import cli
from speclsp.cli.options import OutputFile, write_text
from speclsp.errors import SpecLspError

COMMANDS = [
    ["demo", "--svg"],
    ["ngram", "build", ".", "-o"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_folder_that_is_not_there(command: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, [*command, str(tmp_path / "none" / "file")])
    assert result.exit_code == 2
    assert "does not exist" in result.output


def test_a_folder_that_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tests may run as root, who may write everywhere.
    monkeypatch.setattr("os.access", lambda *_arguments: False)
    with pytest.raises(click.BadParameter, match="is not writable"):
        OutputFile().convert(str(tmp_path / "file"), None, None)


def full(path: Path, text: str, **_options: object) -> None:
    """Write half of a text, as far as there is room."""
    path.write_bytes(text.encode()[: len(text) // 2])
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupted(path: Path, text: str, **_options: object) -> None:
    """Be interrupted in the middle."""
    path.write_bytes(text.encode()[: len(text) // 2])
    raise KeyboardInterrupt


def test_a_disk_that_is_full_keeps_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"former")
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(SpecLspError, match="cannot be written: No space left on device"):
        write_text(tmp_path / "file", "text")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("file", b"former")]


def test_an_interrupt_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"former")
    monkeypatch.setattr(Path, "write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_text(tmp_path / "file", "text")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("file", b"former")]


def test_a_link_stays_one_and_a_device_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"
    write_text(Path(os.devnull), "text")
    assert not Path(os.devnull).is_file()
