from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from benchmarks.report import write_text
from speclsp.errors import SpecLspError


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
