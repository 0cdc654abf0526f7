import os
import subprocess
import sys

import pytest
from indexed_project import write

from speclsp.project.source_text import SourceText, read_source
from speclsp.secrets.masked_text import PLACEHOLDER


def test_text_and_content_hash(tmp_path):
    first = read_source(str(write(tmp_path / "a.py", "räksmörgås\r\n")))
    copy = read_source(str(write(tmp_path / "b.py", "räksmörgås\r\n")))
    other = read_source(str(write(tmp_path / "c.py", "räksmörgås\n")))
    assert isinstance(first, SourceText)
    assert isinstance(other, SourceText)
    assert first == copy
    assert first.text == "räksmörgås\n"  # as in buffers and prompts; the hash is of the bytes
    assert first.content != other.content


@pytest.mark.parametrize("name", ["a.py", "a.yml", "a.tf", "Cargo.toml"])
def test_files_of_every_kind_are_read_and_masked(tmp_path, name):
    path = tmp_path / name
    path.write_text('password = "hunter22"\n')
    source = read_source(str(path))
    assert source is not None
    assert source.text == f'password = "{PLACEHOLDER}"\n'


def test_byte_order_mark_is_dropped(tmp_path):
    source = read_source(str(write(tmp_path / "a.py", b"\xef\xbb\xbfx = 1\n")))
    assert isinstance(source, SourceText)
    assert source.text == "x = 1\n"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"x\0y", id="binary"),
        pytest.param(b"a" * 20 + b"\n" + b"b\n" * 5000 + b"\0", id="binary-at-the-end"),
        pytest.param(b"\xff\xfeh\0i\0", id="utf-16"),
        pytest.param(b"caf\xe9", id="latin-1"),
        pytest.param(b"x\n" * 262_145, id="too-large"),
        pytest.param(b"a=1;" * 200, id="minified"),
        pytest.param(b"x\n" * 2000 + b"y" * 20_001, id="one-long-line"),
    ],
)
def test_what_is_no_source(tmp_path, data):
    assert read_source(str(write(tmp_path / "a.py", data))) is None


def test_unreadable(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    write(tmp_path / "real.py", "x")
    (tmp_path / "link.py").symlink_to("real.py")
    for name in ("gone.py", "pipe", "link.py", ""):
        assert read_source(str(tmp_path / name)) is None
    assert read_source("nul\0") is None


def test_a_system_without_posix_flags_reads_files_too(tmp_path):
    """As Windows, where indexing ended at the first file."""
    (tmp_path / "a.py").write_bytes(b"x = 1\r\n")
    code = (
        "import os, sys\n"
        "del os.O_NONBLOCK, os.O_CLOEXEC, os.O_NOFOLLOW\n"
        "from speclsp.project import ignore\n"
        "from speclsp.project.source_text import read_source\n"
        "print(read_source(sys.argv[1]).text)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "a.py")]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "x = 1\n\n"
