"""Files that are there as a whole or not at all."""

import os
import sys
from pathlib import Path

import pytest

from speclsp.atomic_write import PRIVATE, UMASKED, write_atomically

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes or pipes of files")


def write(path: Path, text: str, mode: int = PRIVATE) -> None:
    with write_atomically(path, ".part-", mode) as partial:
        assert partial.parent == path.resolve().parent
        assert partial.name.startswith(".part-")
        partial.write_text(text)


def write_half(path: Path) -> None:
    with write_atomically(path, ".part-", PRIVATE) as partial:
        partial.write_text("half")
        raise KeyboardInterrupt


def test_takes_the_place_of_the_former_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("former")
    with path.open() as former:
        write(path, "new")
        assert former.read() == "former"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_the_former_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("former")
    with pytest.raises(KeyboardInterrupt):
        write_half(path)
    assert path.read_text() == "former"
    assert list(tmp_path.iterdir()) == [path]


@posix
def test_modes(tmp_path):
    mask = os.umask(0o027)
    try:
        write(tmp_path / "private", "", PRIVATE)
        write(tmp_path / "usual", "", UMASKED)
    finally:
        os.umask(mask)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "usual").stat().st_mode & 0o777 == 0o640


@posix
def test_a_link_stays_one(tmp_path):
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to(file)
    write(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"


@posix
def test_a_device_or_pipe_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        write(pipe, "new")
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


@posix
def test_a_link_to_itself_is_not_replaced(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(OSError, match="not a regular file"):
        write(link, "new")
    assert link.is_symlink()


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "none" / "file", "")
