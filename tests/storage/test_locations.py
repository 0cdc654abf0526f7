import os
import stat
from pathlib import Path

import pytest

from speclsp.errors import StoreError
from speclsp.storage.database import Database
from speclsp.storage.locations import (
    accepted_store_path,
    cache_dir,
    make_private,
    make_private_file,
    make_private_folder,
    state_dir,
    token_store_path,
    workspace_id,
)


def test_xdg_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    assert cache_dir() == tmp_path / "c" / "speclsp"
    assert state_dir() == tmp_path / "s" / "speclsp"
    assert token_store_path().parent == cache_dir()
    assert accepted_store_path().parent == state_dir()
    assert list(tmp_path.iterdir()) == []


def test_default_folders(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "speclsp"
    assert state_dir() == tmp_path / ".local" / "state" / "speclsp"


def test_private_from_the_start(tmp_path):
    file = tmp_path / "xdg" / "speclsp" / "a.sqlite3"
    make_private(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_made_private_again(tmp_path):
    file = tmp_path / "speclsp" / "a.sqlite3"
    file.parent.mkdir(mode=0o755)
    file.write_bytes(b"kept")
    file.chmod(0o644)
    make_private(file)
    assert file.read_bytes() == b"kept"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_a_folder_that_others_may_write_in_is_refused_as_it_is(mode, tmp_path):
    """What they put into it before would be taken for the user's."""
    file = tmp_path / "speclsp" / "a.sqlite3"
    file.parent.mkdir()
    file.parent.chmod(mode)
    with pytest.raises(StoreError, match="other users may write"):
        make_private(file)
    assert stat.S_IMODE(file.parent.stat().st_mode) == mode
    assert list(file.parent.iterdir()) == []


def test_folders_above_are_private_whatever_the_umask(tmp_path):
    umask = os.umask(0o002)
    try:
        make_private_folder(tmp_path / "xdg" / "speclsp" / "run")
    finally:
        os.umask(umask)
    folders = [tmp_path / "xdg", tmp_path / "xdg" / "speclsp", tmp_path / "xdg" / "speclsp" / "run"]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 3


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_pipes_and_devices_are_refused_as_they_are(kind, tmp_path):
    """A device must not be made private: other programs need it."""
    file = tmp_path / "a.sqlite3"
    if kind == "a pipe":
        os.mkfifo(file, 0o644)
    elif os.getuid():
        pytest.skip("only root may make a device")
    else:
        os.mknod(file, 0o644 | stat.S_IFCHR, os.makedev(1, 5))
    with pytest.raises(OSError, match="no regular file"):
        make_private_file(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_impossible_place(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file" / "a.sqlite3", Path("/proc/nowhere/a.sqlite3")):
        with pytest.raises(StoreError, match="cannot be written") as caught:
            make_private(path)
        assert "persist" in caught.value.remedy


@pytest.mark.parametrize("name", ["speclsp", "speclsp/a.sqlite3", "speclsp/a.sqlite3-journal"])
@pytest.mark.parametrize("target", ["folder", "empty", "missing"])
def test_links_are_refused_and_their_targets_left_alone(name, target, tmp_path):
    (tmp_path / "folder").mkdir(mode=0o755)
    (tmp_path / "empty").touch(mode=0o644)
    link = tmp_path / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / target)
    with pytest.raises(StoreError, match=r"symbolic link.*forget"):
        Database(tmp_path / "speclsp" / "a.sqlite3", "CREATE TABLE t (x)", 1, pytest.fail)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "folder", "speclsp"]
    assert list((tmp_path / "folder").iterdir()) == []
    assert (tmp_path / "empty").read_bytes() == b""
    modes = [stat.S_IMODE((tmp_path / kind).stat().st_mode) for kind in ("folder", "empty")]
    assert modes == [0o755, 0o644]


@pytest.mark.parametrize("name", ["speclsp", "speclsp/a.sqlite3"])
def test_another_users_files_are_refused(name, tmp_path, monkeypatch):
    (tmp_path / "speclsp").mkdir()
    (tmp_path / "speclsp" / "a.sqlite3").touch()
    foreign, real_lstat = tmp_path / name, Path.lstat

    def lstat(path):
        status = real_lstat(path)
        return os.stat_result([*status[:4], status.st_uid + (path == foreign), *status[5:10]])

    monkeypatch.setattr(Path, "lstat", lstat)
    with pytest.raises(StoreError, match="another user"):
        make_private(tmp_path / "speclsp" / "a.sqlite3")


def test_files_outside_all_folders_have_an_id_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert workspace_id("") != workspace_id(str(tmp_path))
    monkeypatch.chdir("/")
    assert workspace_id("") != workspace_id("/")


def test_workspace_id_sees_through_links(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert workspace_id(str(tmp_path / "link")) == workspace_id(str(tmp_path / "real"))
    assert workspace_id(str(tmp_path / "real")) != workspace_id(str(tmp_path))
    assert b"real" not in workspace_id(str(tmp_path / "real"))
