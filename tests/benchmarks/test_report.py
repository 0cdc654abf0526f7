import errno
import os
from pathlib import Path

import pytest

from benchmarks.report import reason, without_folders, write_text
from speclsp.errors import EngineError, SpecLspError


def full(path: Path, text: str, **_options: object) -> None:
    """Write half of a text, as far as there is room."""
    path.write_bytes(text.encode()[: len(text) // 2])
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(SpecLspError, match="cannot be written: No space left on device"):
        write_text(tmp_path / "file", "text")
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_written_to():
    write_text(Path(os.devnull), "text")
    assert not Path(os.devnull).is_file()


def test_an_error_is_told_with_its_remedy():
    error = EngineError("it ended: out of memory", remedy="Take less.")
    assert reason(error) == "it ended: out of memory Take less."
    assert reason(EngineError("it fell over.")) == "it fell over."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("there is no /home/me/models/some-draft.gguf.", "there is no some-draft.gguf."),
        ("cannot open '/home/me/a.gguf' or /tmp/b", "cannot open 'a.gguf' or b"),
        ("asked http://127.0.0.1:80/infill, and/or tools/peers/build.sh", None),
        ("3 / 4", None),
    ],
)
def test_files_are_named_without_their_folders(text, told):
    assert without_folders(text) == (told or text)
