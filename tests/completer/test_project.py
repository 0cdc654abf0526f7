"""The project's index as the completer opens it: what it keeps, and that it may keep nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from indexed_project import wait_until, write
from scripted_models import ScriptedLoader

from speclsp.completer.events import EventQueue
from speclsp.completer.project import Project
from speclsp.project.corpus import Corpus
from speclsp.project.ignore import IgnoredFiles
from speclsp.request import WorkspaceFolder
from speclsp.settings import Settings
from speclsp.storage.locations import token_store_path
from speclsp.storage.token_store import TokenStore


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def index_once(root: Path, *, persist: bool) -> None:
    settings = Settings(persist=persist)
    project = Project(settings, EventQueue(), busy=lambda: False)
    project.open_folder(WorkspaceFolder(root=str(root), name="p"))
    project.take_tokenizer(ScriptedLoader().tokenizer(settings))
    wait_until(lambda: not project.stats().building)
    assert project.stats().n_files == 2
    project.close()


def test_index_is_kept(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        write(tmp_path / "p" / name, f"name = {name!r}\n" * 9)
    index_once(tmp_path / "p", persist=True)
    store = TokenStore.open()
    (use,) = store.uses()
    store.close()
    assert use.n_tokens > 200
    for path in token_store_path().parent.rglob("*"):
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


@pytest.fixture
def indexed(tmp_path: Path) -> Iterator[Project]:
    for name in ("a.py", "b.py"):
        write(tmp_path / "p" / name, f"name = {name!r}\n" * 9)
    settings = Settings(persist=False)
    project = Project(settings, EventQueue(), busy=lambda: False)
    project.open_folder(WorkspaceFolder(root=str(tmp_path / "p"), name="p"))
    project.take_tokenizer(ScriptedLoader().tokenizer(settings))
    wait_until(lambda: not project.stats().building)
    yield project
    project.close()


def n_visible(project: Project) -> int:
    assert project.wait_done(60.0)
    return n_drafted_from(project)


def n_drafted_from(project: Project) -> int:
    (corpus,) = project.corpora()
    assert isinstance(corpus, Corpus)
    return corpus.n_visible_tokens


def test_a_file_s_own_text_counts_again_when_its_last_buffer_closes(
    indexed: Project, tmp_path: Path
) -> None:
    file = str(tmp_path / "p" / "a.py")
    n_tokens = n_visible(indexed)
    indexed.opened(file)
    assert n_visible(indexed) < n_tokens
    indexed.opened(file)  # another cell of the same notebook
    indexed.closed(file)
    assert n_visible(indexed) < n_tokens
    indexed.opened("")  # a buffer without a file
    indexed.closed(file)
    assert n_visible(indexed) == n_tokens
    indexed.closed("")
    assert n_visible(indexed) == n_tokens


def test_a_request_never_drafts_from_the_file_that_was_just_opened(
    indexed: Project, tmp_path: Path
) -> None:
    file = str(tmp_path / "p" / "a.py")
    n_tokens = n_visible(indexed)
    for _ in range(50):
        indexed.opened(file)
        assert n_drafted_from(indexed) < n_tokens
        indexed.closed(file)
        assert n_drafted_from(indexed) == n_tokens


def test_links_of_open_files_are_resolved_beside_the_caller_and_not_for_each_anew(
    indexed: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved: list[str] = []
    resolve = os.path.realpath
    may_go_on = threading.Event()

    def counted(path: str) -> str:
        thread = threading.current_thread().name
        if thread == "speclsp-index":  # which looks at changed files when it likes
            return resolve(path)
        resolved.append(thread)
        assert may_go_on.wait(60)
        return path

    monkeypatch.setattr("speclsp.project.project_index.os.path.realpath", counted)
    files = [str(tmp_path / "p" / f"{n}.py") for n in range(200)]
    indexed.opened(files[0])
    wait_until(lambda: bool(resolved))
    for file in files[1:]:
        indexed.opened(file)
    for file in files[:-1]:
        indexed.closed(file)
    may_go_on.set()
    assert indexed.wait_done(60.0)
    assert set(resolved) == {"speclsp-open-files_0"}
    assert len(resolved) == 2  # the first file, and what was open in the end


def test_patterns_are_read_anew_once_for_a_notebook(
    indexed: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_renewed: list[object] = []
    monkeypatch.setattr(IgnoredFiles, "renew", lambda *_: n_renewed.append(1))
    for _ in range(500):
        indexed.opened("/p/notebook.ipynb")
    for _ in range(500):
        indexed.closed("/p/notebook.ipynb")
    assert len(n_renewed) == 2
