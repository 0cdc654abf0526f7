import os
from pathlib import Path
from typing import Any

import pytest
from indexed_project import write

from speclsp.project import scan as scan_module
from speclsp.project.ignore import IgnoreRules
from speclsp.project.scan import ScanTally, examine, scan
from speclsp.project.source_text import MAX_BYTES


def found(root: Path, tally: ScanTally | None = None, **arguments: Any) -> list[str]:
    tally = ScanTally() if tally is None else tally
    files = list(scan(root, IgnoreRules(root, ()), tally, **arguments))
    for file in files:
        assert file.path == str(root / file.relative)
        assert file.signature.n_bytes == Path(file.path).stat().st_size
    return [file.relative for file in files]


def test_nearer_files_come_first(project):
    for name in ("b/c/deep.py", "a/x.py", "top.py", "b/y.py"):
        write(project / name, "x")
    assert found(project) == ["top.py", "a/x.py", "b/y.py", "b/c/deep.py"]


def test_links_are_not_followed(project, tmp_path):
    write(tmp_path / "outside" / "o.py", "x")
    write(project / "real" / "r.py", "x")
    (project / "loop").symlink_to(project)
    (project / "real" / "up").symlink_to("..")
    (project / "self").symlink_to("self")
    (project / "out").symlink_to(tmp_path / "outside")
    (project / "o.py").symlink_to(tmp_path / "outside" / "o.py")
    (project / "dangling.py").symlink_to("nowhere")
    assert found(project) == ["real/r.py"]


def test_a_folder_that_is_reached_twice_is_scanned_once(project, monkeypatch):
    write(project / "real" / "r.py", "x")
    # As a mount or a junction of Windows: a folder and no link.
    (project / "real" / "up").symlink_to(project)
    monkeypatch.setattr(scan_module, "_is_folder", lambda entry: entry.is_dir())
    assert found(project) == ["real/r.py"]


def test_pipes_and_sockets_are_passed_over(project):
    os.mkfifo(project / "pipe.py")
    write(project / "a.py", "x")
    assert found(project) == ["a.py"]


def test_what_is_huge_secret_or_empty_is_left_out(project):
    write(project / "huge.py", "x" * (MAX_BYTES + 1))
    write(project / ".env", "TOKEN=1")
    write(project / "empty.py", "")
    write(project / "fits.py", "x" * MAX_BYTES)
    tally = ScanTally()
    assert found(project, tally) == ["fits.py"]
    assert (tally.n_files, tally.n_skipped) == (1, 2)


def test_max_files(project):
    for number in range(5):
        write(project / f"{number}.py", "x")
    tally = ScanTally()
    assert found(project, tally, max_files=3) == ["0.py", "1.py", "2.py"]
    assert tally.truncated
    tally = ScanTally()
    assert len(found(project, tally, max_files=5)) == 5
    assert not tally.truncated


@pytest.mark.parametrize("marker", ["pyvenv.cfg", "CACHEDIR.TAG"])
def test_folders_that_programs_made_are_passed_over(project, marker):
    write(project / "made" / marker, "x")
    write(project / "made" / "a.py", "x")
    write(project / "a.py", "x")
    tally = ScanTally()
    assert found(project, tally) == ["a.py"]
    assert tally.folders == {"": True}


def test_opened_folder_counts_whatever_it_is(project):
    write(project / "pyvenv.cfg", "x")
    write(project / "a.py", "x")
    assert found(project) == ["a.py", "pyvenv.cfg"]


def test_unreadable_folder(project, monkeypatch):
    write(project / "locked" / "a.py", "x")
    write(project / "b.py", "x")
    real_scandir = os.scandir

    def scandir(path):
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return real_scandir(path)

    monkeypatch.setattr(os, "scandir", scandir)
    tally = ScanTally()
    assert found(project, tally) == ["b.py"]
    assert tally.n_unreadable == 1


def test_what_vanishes_meanwhile_is_passed_over(project):
    write(project / "a.py", "x")
    write(project / "sub" / "b.py", "x")
    write(project / "sub2" / "c.py", "x")
    files = scan(project, IgnoreRules(project, ()), ScanTally())
    assert next(files).relative == "a.py"
    (project / "sub" / "b.py").unlink()
    (project / "sub").rmdir()
    assert [file.relative for file in files] == ["sub2/c.py"]


def test_missing_root_yields_nothing(tmp_path):
    tally = ScanTally()
    assert found(tmp_path / "nowhere", tally) == []
    assert tally.n_unreadable == 1


def test_interrupted_between_folders(project):
    for name in ("a/1.py", "b/2.py", "c/3.py"):
        write(project / name, "x")
    n_folders = 0

    def pause():
        nonlocal n_folders
        n_folders += 1
        if n_folders == 3:
            raise KeyError

    files = scan(project, IgnoreRules(project, ()), ScanTally(), pause=pause)
    assert next(files).relative == "a/1.py"
    with pytest.raises(KeyError):
        next(files)


def test_folders_are_told_with_what_they_hold(project):
    write(project / "src" / "deep" / "a.py", "x")
    write(project / "src" / "node_modules" / "b.js", "x")
    write(project / "docs" / "c.md", "x")
    tally = ScanTally()
    found(project, tally)
    assert tally.folders == {"": False, "docs": False, "src": True, "src/deep": False}


def test_odd_names(project):
    write(project / "ä ö\n.py", "x")
    write(Path(os.fsdecode(os.fsencode(project) + b"/\xff.py")), "x")
    assert len(found(project)) == 2


def test_examine(project):
    write(project / "a.py", "x")
    write(project / "huge.py", "x" * (MAX_BYTES + 1))
    write(project / ".env", "x")
    write(project / "empty.py", "")
    (project / "link.py").symlink_to("a.py")
    file = examine(project, "a.py")
    assert file is not None
    assert file.path == str(project / "a.py")
    for name in ("huge.py", ".env", "empty.py", "link.py", "gone.py", "", "nul\0.py"):
        assert examine(project, name) is None
