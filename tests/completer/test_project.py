"""The project's index as the completer opens it: what it keeps, and that it may keep nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from indexed_project import wait_until, write
from scripted_models import ScriptedLoader

from speclsp.completer.events import EventQueue
from speclsp.completer.project import Project
from speclsp.index_store.locations import segment_store_path, token_store_path
from speclsp.index_store.segment_store import SegmentStore
from speclsp.request import WorkspaceFolder
from speclsp.settings import Settings


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def index_once(root: Path, *, persist: bool) -> None:
    settings = Settings(persist=persist)
    project = Project(settings, EventQueue(), busy=lambda: False)
    project.open_folder(WorkspaceFolder(root=str(root), name="p"))
    project.take_words(ScriptedLoader().words(settings))
    wait_until(lambda: not project.stats().building)
    assert project.stats().n_files == 2
    project.close()


def test_index_is_kept(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        write(tmp_path / "p" / name, f"name = {name!r}\n" * 9)
    index_once(tmp_path / "p", persist=True)
    (use,) = SegmentStore.open().uses()
    assert use.n_tokens > 200
    assert token_store_path().exists()
    for path in segment_store_path().rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


def test_without_persist_nothing_is_written_or_read(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        write(tmp_path / "p" / name, f"name = {name!r}\n" * 9)
    index_once(tmp_path / "p", persist=False)
    assert not (tmp_path / "cache").exists()
    index_once(tmp_path / "p", persist=True)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")}
    index_once(tmp_path / "p", persist=False)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")}
    assert after == before
