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
from speclsp.project import project_index
from speclsp.project.corpus import Corpus
from speclsp.project.ignore import IgnoredFiles
from speclsp.project.indexed_files import IndexedFiles
from speclsp.seam.documents import WorkspaceFolder
from speclsp.seam.events import Event, EventQueue, LogLine, Progress, ProgressReport
from speclsp.seam.open_documents import Documents
from speclsp.seam.statistics import IndexStats
from speclsp.settings import Settings
from speclsp.storage.token_store import TokenStore

UNKEPT = Settings(persist=False)


class Opened:
    """A project of one folder, with documents that open and close and settings that change."""

    def __init__(
        self,
        root: Path,
        settings: Settings = UNKEPT,
        indexes: ProjectIndexes | None = None,
    ) -> None:
        self.events, self.documents = EventQueue(), Documents()
        indexes = indexes or ProjectIndexes(lambda: False)
        self.project = Project(settings, self.events, self.documents, indexes)
        self.project.open_folder(WorkspaceFolder(root=str(root), name="p"))
        self.project.use_tokenizer(ScriptedLoader().tokenizer(settings))

    def close(self) -> None:
        self.project.close()

    def built(self) -> IndexStats:
        until(lambda: not self.project.stats().building)
        return self.project.stats()

    def open_document(self, file: str, uri: str = "") -> None:
        self.documents.open(document_of("", uri=uri or file, file=file))
        self.project.documents_changed()

    def close_document(self, uri: str) -> None:
        self.documents.close(uri)
        self.project.documents_changed()

    def n_drafted_from(self) -> int:
        (corpus,) = self.project.corpora()
        assert isinstance(corpus, Corpus)
        return corpus.n_visible_tokens

    def follows(self, tail: str) -> str:
        tokens = np.frombuffer(tail.encode(), np.uint8).astype(np.int32)
        for corpus in self.project.corpora():
            found, _ = corpus.continuation(tokens, len(tokens), 32, 8)
            if len(found):
                return bytes(found.tolist()).decode().split("\n")[0]
        return ""

    def taken(self) -> list[Event]:
        return list(iter(lambda: self.events.next(0.0), None))

    def stages(self) -> list[str]:
        return [event.stage for event in self.taken() if isinstance(event, Progress)]


@pytest.fixture
def root(tmp_path):
    return tmp_path / "p"


@pytest.fixture
def opening(closed, root):
    return lambda *arguments: closed(Opened(root, *arguments))


def test_without_persist_nothing_is_written_or_read(tmp_path, root, opening):
    for name in ("a.py", "b.py"):
        write(root / name, f"name = {name!r}\n" * 9)

    def kept_by(settings):
        opened = opening(settings)
        assert opened.built().n_files == 2
        opened.close()
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")}

    assert kept_by(UNKEPT) == {}
    assert not (tmp_path / "cache").exists()
    kept = kept_by(Settings())
    assert kept
    assert kept_by(UNKEPT) == kept


def test_a_program_s_first_request_waits_for_the_index_which_does_not_pause(
    root, opening, monkeypatch
):
    for n in range(15):
        write(root / f"{n}.py", f"name = {n}\n" * 9)
    monkeypatch.setattr(project_index, "_LONGEST_PAUSE_S", 600.0)
    # A request that waits is one that the engine computes.
    project = opening(UNKEPT, ProjectIndexes(lambda: True)).project
    project.wait_built(20.0)
    assert project.stats() == IndexStats(n_files=15, n_tokens=15 * 9 * 9 + 45)


def test_later_requests_do_not_wait_for_an_index_that_takes_long(root, opening, monkeypatch):
    write(root / "a.py", "name = 1\n" * 9)
    may_end = threading.Event()
    monkeypatch.setattr(IndexedFiles, "tokenise", lambda *_given: may_end.wait(600))
    project = opening().project
    for wait_s in (0.01, 600.0):
        project.wait_built(wait_s)
        assert project.stats().building
    may_end.set()


def test_nobody_waits_for_a_store_that_another_process_holds(root, closed, monkeypatch):
    write(root / "a.py", "name = 1\n" * 9)
    may_open, open_store = threading.Event(), TokenStore.open
    openers: list[str] = []

    def held(*given):
        openers.append(threading.current_thread().name)
        may_open.wait(20)
        return open_store(*given)

    monkeypatch.setattr(TokenStore, "open", held)
    settings = Settings()
    project = closed(Project(settings, EventQueue(), Documents(), ProjectIndexes(lambda: False)))
    project.use_tokenizer(ScriptedLoader().tokenizer(settings))
    project.open_folder(WorkspaceFolder(root=str(root), name="p"))
    assert not project.is_ignored(str(root / "a.py"))
    may_open.set()
    until(lambda: not project.stats().building)
    assert project.stats().n_files == 1
    assert openers == ["speclsp-index"]


@pytest.fixture
def opened(root, opening):
    for name in ("a.py", "b.py"):
        write(root / name, f"name = {name!r}\n" * 9)
    opened = opening()
    opened.built()
    return opened


def test_a_file_s_own_text_counts_again_when_its_last_buffer_closes(opened, root):
    file = str(root / "a.py")
    n_tokens = opened.n_drafted_from()
    opened.open_document(file)
    assert opened.n_drafted_from() < n_tokens
    opened.open_document(file, "another cell of the same notebook")
    opened.close_document(file)
    assert opened.n_drafted_from() < n_tokens
    opened.open_document("", "a buffer without a file")
    opened.close_document("another cell of the same notebook")
    assert opened.n_drafted_from() == n_tokens
    opened.close_document("a buffer without a file")
    assert opened.n_drafted_from() == n_tokens


def test_a_request_never_drafts_from_the_file_that_was_just_opened(opened, root):
    file = str(root / "a.py")
    n_tokens = opened.n_drafted_from()
    for _ in range(50):
        opened.open_document(file)
        assert opened.n_drafted_from() < n_tokens
        opened.close_document(file)
        assert opened.n_drafted_from() == n_tokens


def test_who_opens_a_file_does_not_wait_until_its_links_are_resolved(opened, root, monkeypatch):
    resolved: list[str] = []
    resolve = os.path.realpath

    def counted(path):
        if threading.current_thread().name == "speclsp-index":
            return resolve(path)  # which looks at changed files when it likes
        resolved.append(path)
        return path

    monkeypatch.setattr("speclsp.project.project_index.os.path.realpath", counted)
    files = [str(root / f"{n}.py") for n in range(200)]
    for file in files:
        opened.open_document(file)
    for file in files[:-1]:
        opened.close_document(file)
    assert resolved == []
    for _ in range(2):
        opened.n_drafted_from()
    assert resolved == files[-1:]  # what is open now, once


def test_patterns_are_read_anew_once_for_a_notebook(opened, monkeypatch):
    n_renewed: list[object] = []
    monkeypatch.setattr(IgnoredFiles, "renew", lambda *_: n_renewed.append(1))
    for n in range(500):
        opened.open_document("/p/notebook.ipynb", f"cell {n}")
    for n in range(500):
        opened.close_document(f"cell {n}")
    assert len(n_renewed) == 2


def test_a_saved_gitignore_holds_for_open_files_at_once(opened, root):
    file = str(root / "a.py")
    opened.open_document(file)
    assert not opened.project.is_ignored(file)
    opened.project.saved(str(write(root / ".gitignore", "a.py\n")))
    assert opened.project.is_ignored(file)


@pytest.fixture
def tokenised(monkeypatch):
    texts: list[str] = []
    tokenize = ByteVocabulary.tokenize

    def noted(self, text):
        texts.append(text)
        return tokenize(self, text)

    monkeypatch.setattr(ByteVocabulary, "tokenize", noted)
    return texts


def test_changed_settings_take_effect(root, opening, tokenised):
    for number, name in enumerate(("a.py", "b.py"), start=1):
        write(root / name, line(number))
    opened = opening(Settings())
    until(lambda: opened.follows("key 1 : ") == "word1")
    opened.built()
    opened.project.apply_settings(Settings(top_k=7))
    assert opened.follows("key 1 : ") == "word1"  # the same index
    opened.project.apply_settings(Settings(exclude=["a.py", "!"]))
    until(lambda: opened.follows("key 2 : ") == "word2")
    opened.built()
    assert opened.follows("key 1 : ") == ""
    assert any("'!'" in event.message for event in opened.taken() if isinstance(event, LogLine))
    opened.project.apply_settings(Settings(index_project=False))
    assert opened.project.corpora() == ()
    opened.project.apply_settings(Settings())
    until(lambda: opened.follows("key 1 : ") == "word1")
    opened.close()
    assert sorted(tokenised) == [line(1), line(2)]  # once each: the store keeps them


@pytest.fixture
def gate(monkeypatch):
    """Texts become tokens once it is set."""
    gate, tokenize = threading.Event(), ByteVocabulary.tokenize
    monkeypatch.setattr(
        ByteVocabulary, "tokenize", lambda self, text: gate.wait(60) and tokenize(self, text)
    )
    return gate


def test_settings_may_change_while_building(root, opening, gate):
    for number in range(50):
        write(root / f"{number}.py", line(number))
    opened = opening()
    opened.project.apply_settings(Settings(persist=False, exclude=["1*.py"]))
    gate.set()
    opened.built()
    assert opened.follows("key 17 : ") == ""
    assert opened.follows("key 27 : ") == "word27"
    stages = opened.stages()
    assert "begin" in stages
    until(lambda: stages.extend(opened.stages()) or stages.count("begin") == stages.count("end"))


def test_a_window_that_leaves_a_shared_index_sees_the_end_of_its_progress(root, opening, gate):
    write(root / "a.py", line(1))
    indexes = ProjectIndexes(lambda: False)
    leaving, staying = (opening(UNKEPT, indexes) for _ in range(2))
    begun = leaving.events.next(60)
    assert isinstance(begun, Progress)
    leaving.project.apply_settings(Settings(persist=False, index_project=False, n_context=0))
    event = begun
    while event.stage != "end":
        event = leaving.events.next(60)
        assert isinstance(event, Progress)
        assert event.token == begun.token
    assert staying.project.stats().building
    gate.set()
    staying.built()


@pytest.mark.parametrize("moment", ["before the beginning", "after the end"])
def test_the_progress_of_a_shared_index_is_whole_for_each_window(
    root, opening, monkeypatch, moment
):
    write(root / "a.py", line(1))
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
    indexes = ProjectIndexes(lambda: False)
    staying, leaving = (opening(UNKEPT, indexes) for _ in range(2))
    if moment == "before the beginning":
        leaving.close()
        left.set()
    until(lambda: staying.stages() == ["begin"])
    late = opening(UNKEPT, indexes)
    joined.set()
    seen: list[str] = []
    until(lambda: seen.extend(staying.stages()) or "end" in seen)
    if moment == "after the end":
        leaving.close()
        left.set()
    staying.built()
    whole = ["begin", "report", "end"]
    of_leaving = [] if moment == "before the beginning" else whole
    assert ["begin", *seen] == late.stages() == whole
    assert leaving.stages() == of_leaving


def test_a_file_belongs_to_the_innermost_folder(opened, root):
    project, root = opened.project, str(root)
    project.open_folder(WorkspaceFolder(root=f"{root}/inner", name="inner"))
    assert project.root_of(f"{root}/inner/a.py") == f"{root}/inner"
    assert project.root_of(f"{root}/inner.py") == root
    assert project.root_of(f"{root}elsewhere/a.py") == project.root_of("") == ""
