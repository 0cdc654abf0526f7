"""The project's index as the completer opens it: what it keeps, and that it may keep nothing."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from indexed_project import line, write
from scripted_models import ByteVocabulary, ScriptedLoader
from typed_requests import document_of
from waiting import until

from speclsp.completer.project import Project, ProjectIndexes
from speclsp.documents import WorkspaceFolder
from speclsp.events import Event, EventQueue, LogLine, Progress, ProgressReport
from speclsp.open_documents import Documents
from speclsp.project import project_index
from speclsp.project.corpus import Corpus
from speclsp.project.ignore import IgnoredFiles
from speclsp.project.indexed_files import IndexedFiles
from speclsp.settings import Settings
from speclsp.statistics import IndexStats
from speclsp.storage.token_store import TokenStore


def index_once(root: Path, *, persist: bool) -> None:
    settings = Settings(persist=persist)
    project = Project(settings, EventQueue(), Documents(), ProjectIndexes(lambda: False))
    project.open_folder(WorkspaceFolder(root=str(root), name="p"))
    project.take_tokenizer(ScriptedLoader().tokenizer(settings))
    until(lambda: not project.stats().building)
    assert project.stats().n_files == 2
    project.close()


def test_without_persist_nothing_is_written_or_read(tmp_path):
    for name in ("a.py", "b.py"):
        write(tmp_path / "p" / name, f"name = {name!r}\n" * 9)
    index_once(tmp_path / "p", persist=False)
    assert not (tmp_path / "cache").exists()
    index_once(tmp_path / "p", persist=True)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")}
    index_once(tmp_path / "p", persist=False)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")}
    assert after == before


def test_a_program_s_first_request_waits_for_the_index_which_does_not_pause(tmp_path, monkeypatch):
    for n in range(15):
        write(tmp_path / "p" / f"{n}.py", f"name = {n}\n" * 9)
    monkeypatch.setattr(project_index, "_LONGEST_PAUSE_S", 600.0)
    settings = Settings(persist=False)
    # A request that waits is one that the engine computes.
    project = Project(settings, EventQueue(), Documents(), ProjectIndexes(lambda: True))
    project.open_folder(WorkspaceFolder(root=str(tmp_path / "p"), name="p"))
    project.take_tokenizer(ScriptedLoader().tokenizer(settings))
    project.wait_built(20.0)
    assert project.stats() == IndexStats(n_files=15, n_tokens=15 * 9 * 9 + 45)
    project.close()


def test_later_requests_do_not_wait_for_an_index_that_takes_long(tmp_path, monkeypatch):
    write(tmp_path / "p" / "a.py", "name = 1\n" * 9)
    may_end = threading.Event()
    monkeypatch.setattr(IndexedFiles, "tokenise", lambda *_given: may_end.wait(600))
    settings = Settings(persist=False)
    project = Project(settings, EventQueue(), Documents(), ProjectIndexes(lambda: False))
    project.open_folder(WorkspaceFolder(root=str(tmp_path / "p"), name="p"))
    project.take_tokenizer(ScriptedLoader().tokenizer(settings))
    for wait_s in (0.01, 600.0):
        project.wait_built(wait_s)
        assert project.stats().building
    may_end.set()
    project.close()


def test_nobody_waits_for_a_store_that_another_process_holds(tmp_path, monkeypatch):
    write(tmp_path / "p" / "a.py", "name = 1\n" * 9)
    may_open, open_store = threading.Event(), TokenStore.open
    openers: list[str] = []

    def held(*given):
        openers.append(threading.current_thread().name)
        may_open.wait(20)
        return open_store(*given)

    monkeypatch.setattr(TokenStore, "open", held)
    settings = Settings()
    project = Project(settings, EventQueue(), Documents(), ProjectIndexes(lambda: False))
    project.take_tokenizer(ScriptedLoader().tokenizer(settings))
    project.open_folder(WorkspaceFolder(root=str(tmp_path / "p"), name="p"))
    assert not project.is_ignored(str(tmp_path / "p" / "a.py"))
    may_open.set()
    until(lambda: not project.stats().building)
    assert project.stats().n_files == 1
    assert openers == ["speclsp-index"]
    project.close()


class Opened:
    """A project with documents that open and close."""

    def __init__(self, project: Project, documents: Documents) -> None:
        self.project = project
        self.documents = documents

    def open(self, file: str, uri: str = "") -> None:
        uri = uri or file
        document = document_of("", uri=uri, file=file)
        self.documents.open(document)
        self.project.documents_changed()

    def close(self, uri: str) -> None:
        self.documents.close(uri)
        self.project.documents_changed()

    def n_drafted_from(self) -> int:
        (corpus,) = self.project.corpora()
        assert isinstance(corpus, Corpus)
        return corpus.n_visible_tokens


@pytest.fixture
def opened(tmp_path):
    for name in ("a.py", "b.py"):
        write(tmp_path / "p" / name, f"name = {name!r}\n" * 9)
    settings = Settings(persist=False)
    documents = Documents()
    project = Project(settings, EventQueue(), documents, ProjectIndexes(lambda: False))
    project.open_folder(WorkspaceFolder(root=str(tmp_path / "p"), name="p"))
    project.take_tokenizer(ScriptedLoader().tokenizer(settings))
    until(lambda: not project.stats().building)
    yield Opened(project, documents)
    project.close()


def test_a_file_s_own_text_counts_again_when_its_last_buffer_closes(opened, tmp_path):
    file = str(tmp_path / "p" / "a.py")
    n_tokens = opened.n_drafted_from()
    opened.open(file)
    assert opened.n_drafted_from() < n_tokens
    opened.open(file, "another cell of the same notebook")
    opened.close(file)
    assert opened.n_drafted_from() < n_tokens
    opened.open("", "a buffer without a file")
    opened.close("another cell of the same notebook")
    assert opened.n_drafted_from() == n_tokens
    opened.close("a buffer without a file")
    assert opened.n_drafted_from() == n_tokens


def test_a_request_never_drafts_from_the_file_that_was_just_opened(opened, tmp_path):
    file = str(tmp_path / "p" / "a.py")
    n_tokens = opened.n_drafted_from()
    for _ in range(50):
        opened.open(file)
        assert opened.n_drafted_from() < n_tokens
        opened.close(file)
        assert opened.n_drafted_from() == n_tokens


def test_who_opens_a_file_does_not_wait_until_its_links_are_resolved(opened, tmp_path, monkeypatch):
    resolved: list[str] = []
    resolve = os.path.realpath

    def counted(path):
        if threading.current_thread().name == "speclsp-index":
            return resolve(path)  # which looks at changed files when it likes
        resolved.append(path)
        return path

    monkeypatch.setattr("speclsp.project.project_index.os.path.realpath", counted)
    files = [str(tmp_path / "p" / f"{n}.py") for n in range(200)]
    for file in files:
        opened.open(file)
    for file in files[:-1]:
        opened.close(file)
    assert resolved == []
    for _ in range(2):
        opened.n_drafted_from()
    assert resolved == files[-1:]  # what is open now, once


def test_patterns_are_read_anew_once_for_a_notebook(opened, monkeypatch):
    n_renewed: list[object] = []
    monkeypatch.setattr(IgnoredFiles, "renew", lambda *_: n_renewed.append(1))
    for n in range(500):
        opened.open("/p/notebook.ipynb", f"cell {n}")
    for n in range(500):
        opened.close(f"cell {n}")
    assert len(n_renewed) == 2


def test_a_saved_gitignore_holds_for_open_files_at_once(opened, tmp_path):
    file = str(tmp_path / "p" / "a.py")
    opened.open(file)
    assert not opened.project.is_ignored(file)
    opened.project.saved(str(write(tmp_path / "p" / ".gitignore", "a.py\n")))
    assert opened.project.is_ignored(file)


class Indexed:
    """A project of two files whose settings change."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self.events = EventQueue()
        self.project = Project(settings, self.events, Documents(), ProjectIndexes(lambda: False))
        self.project.open_folder(WorkspaceFolder(root=str(root), name="p"))
        self.project.take_tokenizer(ScriptedLoader().tokenizer(settings))

    def follows(self, tail: str) -> str:
        tokens = np.frombuffer(tail.encode(), np.uint8).astype(np.int32)
        for corpus in self.project.corpora():
            found, _ = corpus.continuation(tokens, len(tokens), 32, 8)
            if len(found):
                return bytes(found.tolist()).decode().split("\n")[0]
        return ""

    def taken(self) -> list[Event]:
        return list(iter(lambda: self.events.next(0.0), None))


@pytest.fixture
def tokenised(monkeypatch):
    texts: list[str] = []
    tokenize = ByteVocabulary.tokenize

    def noted(self, text):
        texts.append(text)
        return tokenize(self, text)

    monkeypatch.setattr(ByteVocabulary, "tokenize", noted)
    return texts


def test_changed_settings_take_effect(tmp_path, tokenised):
    for number, name in enumerate(("a.py", "b.py"), start=1):
        write(tmp_path / "p" / name, line(number))
    indexed = Indexed(tmp_path / "p", Settings())
    until(lambda: indexed.follows("key 1 : ") == "word1")
    until(lambda: not indexed.project.stats().building)
    indexed.project.apply_settings(Settings(top_k=7))
    assert indexed.follows("key 1 : ") == "word1"  # the same index
    indexed.project.apply_settings(Settings(exclude=["a.py", "!"]))
    until(lambda: indexed.follows("key 2 : ") == "word2")
    until(lambda: not indexed.project.stats().building)
    assert indexed.follows("key 1 : ") == ""
    assert any("'!'" in event.message for event in indexed.taken() if isinstance(event, LogLine))
    indexed.project.apply_settings(Settings(index_project=False))
    assert indexed.project.corpora() == ()
    indexed.project.apply_settings(Settings())
    until(lambda: indexed.follows("key 1 : ") == "word1")
    indexed.project.close()
    assert sorted(tokenised) == [line(1), line(2)]  # once each: the store keeps them


def test_settings_may_change_while_building(tmp_path, monkeypatch):
    for number in range(50):
        write(tmp_path / "p" / f"{number}.py", line(number))
    gate, tokenize = threading.Event(), ByteVocabulary.tokenize
    monkeypatch.setattr(
        ByteVocabulary, "tokenize", lambda self, text: gate.wait(60) and tokenize(self, text)
    )
    indexed = Indexed(tmp_path / "p", Settings(persist=False))
    indexed.project.apply_settings(Settings(persist=False, exclude=["1*.py"]))
    gate.set()
    until(lambda: not indexed.project.stats().building)
    assert indexed.follows("key 17 : ") == ""
    assert indexed.follows("key 27 : ") == "word27"
    stages = [event.stage for event in indexed.taken() if isinstance(event, Progress)]
    assert "begin" in stages
    until(
        lambda: (
            stages.extend(e.stage for e in indexed.taken() if isinstance(e, Progress))
            or stages.count("begin") == stages.count("end")
        )
    )
    indexed.project.close()


def test_a_window_that_leaves_a_shared_index_sees_the_end_of_its_progress(tmp_path, monkeypatch):
    write(tmp_path / "p" / "a.py", line(1))
    gate, tokenize = threading.Event(), ByteVocabulary.tokenize
    monkeypatch.setattr(
        ByteVocabulary, "tokenize", lambda self, text: gate.wait(60) and tokenize(self, text)
    )
    indexes, settings = ProjectIndexes(lambda: False), Settings(persist=False)
    queues = [EventQueue(), EventQueue()]
    staying, leaving = (Project(settings, events, Documents(), indexes) for events in queues)
    for project in (leaving, staying):
        project.open_folder(WorkspaceFolder(root=str(tmp_path / "p"), name="p"))
        project.take_tokenizer(ScriptedLoader().tokenizer(settings))
    begun = queues[1].next(60)
    assert isinstance(begun, Progress)
    leaving.apply_settings(Settings(persist=False, index_project=False, n_context=0))
    stages = [begun.stage]
    while stages[-1] != "end":
        event = queues[1].next(60)
        assert isinstance(event, Progress)
        stages.append(event.stage)
        assert event.token == begun.token
    assert staying.stats().building
    gate.set()
    until(lambda: not staying.stats().building)
    staying.close()
    leaving.close()


@pytest.mark.parametrize("moment", ["before the beginning", "after the end"])
def test_the_progress_of_a_shared_index_is_whole_for_each_window(tmp_path, monkeypatch, moment):
    write(tmp_path / "p" / "a.py", line(1))
    joined, left = threading.Event(), threading.Event()

    class SlowReport(ProgressReport):
        def __init__(self, *arguments):
            if moment == "before the beginning":
                assert left.wait(60)
            super().__init__(*arguments)
            assert joined.wait(60)

        def end(self, message=""):
            super().end(message)
            assert left.wait(60)

    monkeypatch.setattr(project_index, "ProgressReport", SlowReport)
    indexes, settings = ProjectIndexes(lambda: False), Settings(persist=False)
    queues = [EventQueue(), EventQueue(), EventQueue()]
    windows = [Project(settings, events, Documents(), indexes) for events in queues]
    staying, leaving, late = windows
    seen: list[list[str]] = [[], [], []]

    def open_folder(project):
        project.open_folder(WorkspaceFolder(root=str(tmp_path / "p"), name="p"))
        project.take_tokenizer(ScriptedLoader().tokenizer(settings))

    def stages(idx):
        while (event := queues[idx].next(0.0)) is not None:
            seen[idx].extend([event.stage] if isinstance(event, Progress) else [])
        return seen[idx]

    open_folder(staying)
    open_folder(leaving)
    if moment == "before the beginning":
        leaving.close()
        left.set()
    until(lambda: stages(0) == ["begin"])
    open_folder(late)
    joined.set()
    until(lambda: "end" in stages(0))
    if moment == "after the end":
        leaving.close()
        left.set()
    until(lambda: not staying.stats().building)
    whole = ["begin", "report", "end"]
    of_leaving = [] if moment == "before the beginning" else whole
    assert [stages(0), stages(1), stages(2)] == [whole, of_leaving, whole]
    for project in windows:
        project.close()


def test_a_file_belongs_to_the_innermost_folder(opened, tmp_path):
    project, root = opened.project, str(tmp_path / "p")
    project.open_folder(WorkspaceFolder(root=f"{root}/inner", name="inner"))
    assert project.root_of(f"{root}/inner/a.py") == f"{root}/inner"
    assert project.root_of(f"{root}/inner.py") == root
    assert project.root_of(f"{root}elsewhere/a.py") == project.root_of("") == ""
