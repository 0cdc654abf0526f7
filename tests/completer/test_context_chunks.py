"""Context from other files: what is chosen, when, and that nobody waits for it."""

import ntpath
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from indexed_project import write
from scripted_models import ScriptedLoader
from typed_requests import document_of, remade, request_between

from speclsp.completer import context_chunks
from speclsp.completer.context_chunks import ContextChunks
from speclsp.completer.local import LocalCompleter
from speclsp.completer.project import Project, ProjectIndexes
from speclsp.prompt.chunks import ContextChunk
from speclsp.seam.completion import PlacedCompletion
from speclsp.seam.documents import Document, WorkspaceFolder, edit_between
from speclsp.seam.events import EventQueue
from speclsp.seam.open_documents import Documents
from speclsp.settings import Settings

WAIT_S = 60
MODELS = 'class Box:\n    """A box."""\n\n    def area_of_it(self):\n        return self.width\n'
CART = "from models import Box\n\n\ndef total(boxes):\n    box = Box("


class OpenProject:
    """A folder, its index, and the chunks that are chosen from both."""

    def __init__(self, root: Path, settings: Settings | None = None) -> None:
        self.root = root
        self.told: list[bool] = []
        settings = settings or Settings(persist=False)
        self.documents = Documents()
        self.index = Project(settings, EventQueue(), self.documents, ProjectIndexes(lambda: False))
        self.index.open_folder(WorkspaceFolder(root=str(root), name="p"))
        self.index.use_tokenizer(ScriptedLoader().tokenizer(settings))
        self.chunks = ContextChunks(
            settings,
            EventQueue(),
            documents=self.documents,
            project=self.index,
            is_ignored=self.index.is_ignored,
            chosen=lambda: self.told.append(True),
        )

    def apply_settings(self, settings: Settings) -> None:
        self.index.apply_settings(settings)
        self.chunks.apply_settings(settings)

    def close(self) -> None:
        self.chunks.close()
        self.index.close()

    def open(self, name: str, text: str) -> None:
        file = str(self.root / name)
        document = document_of(text, uri=name, path=name, file=file)
        self.take(document)

    def take(self, document: Document) -> None:
        former = self.documents.get(document.uri)
        self.documents.open(document)
        if former is not None:
            self.chunks.edited(former, edit_between(former.text, document.text))
        self.chunks.changed(document)

    def request(self, name: str, prefix: str, *, origin: str = "program") -> PlacedCompletion:
        request = request_between(
            uri=name, path=name, prefix=prefix, file=str(self.root / name), origin=origin
        )
        self.chunks.asked(request)
        return request

    def chosen(self, name: str, prefix: str) -> tuple[ContextChunk, ...]:
        return tuple(self.chunks.ranked(self.request(name, prefix)))


@pytest.fixture
def project(tmp_path):
    write(tmp_path / "models.py", MODELS)
    project = OpenProject(tmp_path)
    yield project
    project.close()


def test_definitions_of_the_names_at_the_cursor_are_chosen(project):
    project.open("cart.py", CART)
    (found,) = project.chosen("cart.py", CART)
    assert (found.path, found.reason, found.detail) == ("models.py", "definition", "defines Box")
    assert found.text == 'class Box:\n    """A box."""\n    def area_of_it(self):'


def test_a_program_waits_for_the_outlines_of_a_folder_for_half_of_its_deadline(
    project, closed, monkeypatch
):
    now_s, request = [time.monotonic()], project.request("cart.py", CART)

    def sleep(seconds: float) -> None:
        now_s[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now_s[0], sleep=sleep)
    monkeypatch.setattr(context_chunks, "time", clock)
    monkeypatch.setattr(Project, "outlines", lambda *_given, **_options: None)
    settings = Settings(mode="chain", persist=False, deadline_ms=200)
    completer = closed(LocalCompleter(settings, loader=ScriptedLoader()))
    until_s = now_s[0] + 60.0
    assert completer.sources(request).chunks.ranked() == ()
    assert now_s[0] < until_s


def test_an_open_file_is_shown_as_it_is_in_its_buffer(project):
    project.open("models.py", MODELS.replace("area_of_it", "surface"))
    project.open("cart.py", CART)
    (found,) = project.chosen("cart.py", CART)
    assert "def surface(self)" in found.text
    assert "area_of_it" not in found.text


def test_an_open_file_is_shown_as_it_is_in_its_buffer_where_paths_have_backslashes(
    project, monkeypatch
):
    monkeypatch.setattr(context_chunks, "os", SimpleNamespace(path=ntpath))
    (project.root / "pkg").mkdir()
    (project.root / "models.py").rename(project.root / "pkg" / "models.py")
    project.index.reindex()
    text = MODELS.replace("area_of_it", "surface")
    file = ntpath.normpath(project.root / "pkg" / "models.py")
    project.take(document_of(text, uri="m", path="pkg/models.py", file=file))
    shown = {c.path: c.text for c in project.chosen("cart.py", CART)}
    assert "def surface(self)" in shown["pkg/models.py"]


def test_edits_of_other_documents(project):
    text = "".join(f"value_{n} = {n}\n" for n in range(30))
    project.open("notes.py", text)
    project.open("notes.py", text.replace("value_9 = 9", "renamed = 9"))
    found = {c.reason: c for c in project.chosen("cart.py", "renamed_too = ")}
    assert "renamed = 9\n" in found["edit"].text


def test_a_buffer_of_no_folder_stays_in_the_prompt(project):
    text = "".join(f"seen_{n} = {n}\n" for n in range(60))
    document = document_of(text, uri="untitled:1", path="notes")
    for opened in (document, replace(document, text=text.replace("seen_9 = 9", "renamed = 9"))):
        project.take(opened)
    for _ in range(2):
        (edited,) = [c for c in project.chosen("cart.py", "x = ") if c.reason == "edit"]
        request = project.request("cart.py", "x = ")
        assert project.chunks.may_show(request, edited.path)


def test_the_same_input_gives_the_same_chunks(tmp_path):
    for n in range(12):
        write(tmp_path / f"m{n}.py", f"def helper_{n}(cart, voucher):\n    return cart.total\n")
    prefix = "".join(f"helper_{n}(cart, voucher)\n" for n in range(12))
    runs = []
    for _ in range(3):
        project = OpenProject(tmp_path)
        project.open("x.py", "a = 1\n")
        project.open("x.py", "a = 22\n")
        runs.append(project.chosen("main.py", prefix))
        project.close()
    assert len(runs[0]) > 5
    assert runs[0] == runs[1] == runs[2]


def test_while_typing_nobody_waits_and_what_is_there_is_taken(project):
    project.open("cart.py", CART)
    request = project.request("cart.py", CART, origin="editor")
    assert project.chunks.wait_settled(WAIT_S)
    assert project.told
    assert project.chunks.ranked(request)[0].path == "models.py"
    project.documents.close("cart.py")
    project.chunks.forget("cart.py")
    assert project.chunks.ranked(request) == ()


def test_what_is_gone_is_not_shown_any_more(project):
    project.open("cart.py", CART)
    request = project.request("cart.py", CART)
    assert "models.py" in {c.path for c in project.chosen("cart.py", CART)}
    assert project.chunks.may_show(request, "models.py")
    write(project.root / ".gitignore", "models.py\n")
    project.index.reindex()
    assert "models.py" not in {c.path for c in project.chosen("cart.py", CART)}
    assert not project.chunks.may_show(request, "models.py")


def test_what_is_gone_stays_hidden_after_a_choice_in_another_folder(project, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    write(other / "notes.py", "value = 1\n" * 5)
    project.index.open_folder(WorkspaceFolder(root=str(other), name="q"))
    project.open("cart.py", CART)
    request = project.request("cart.py", CART)
    project.chosen("cart.py", CART)
    write(project.root / ".gitignore", "models.py\n")
    project.index.reindex()
    project.chosen("cart.py", CART)
    elsewhere = request_between("x = ", uri="new.py", path="new.py", file=str(other / "new.py"))
    project.chunks.ranked(remade(elsewhere, origin="program"))
    assert not project.chunks.may_show(request, "models.py")


def test_the_names_of_a_closed_folder_are_forgotten(project, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    write(other / "models.py", MODELS)
    elsewhere = request_between(CART, uri="new.py", path="new.py", file=str(other / "new.py"))
    for _ in range(2):
        project.index.open_folder(WorkspaceFolder(root=str(other), name="q"))
        assert project.chunks.ranked(remade(elsewhere, origin="program"))
        assert str(other) in project.chunks._names
        project.index.close_folder(str(other))
        project.open("cart.py", CART)
        assert project.chosen("cart.py", CART)
        assert [*project.chunks._names] == [str(project.root)]


def test_what_is_excluded_by_new_settings_is_not_shown_any_more(tmp_path):
    for name in ("a", "b", "c"):
        write(
            tmp_path / name / "models.py",
            f"class Box:\n    def {name}_of(self):\n        return {name!r}\n",
        )
    settings = Settings(exclude=["a/"], persist=False)
    project = OpenProject(tmp_path, settings)
    project.open("cart.py", CART)
    assert {c.path for c in project.chosen("cart.py", CART)} == {"b/models.py"}
    typed = remade(project.request("cart.py", CART), origin="editor")
    assert project.chunks.may_show(typed, "b/models.py")
    assert project.chunks.ranked(typed)
    project.apply_settings(replace(settings, exclude=["b/"]))
    assert not project.chunks.may_show(typed, "b/models.py")
    assert project.chunks.ranked(typed) == ()
    # The new index has the same number of files, whose outlines changed as often.
    assert {c.path for c in project.chosen("cart.py", CART)} == {"a/models.py"}
    project.close()


def test_switched_off_there_is_none(tmp_path):
    write(tmp_path / "models.py", MODELS)
    project = OpenProject(tmp_path, Settings(n_context=0, persist=False))
    project.open("cart.py", CART)
    assert project.chosen("cart.py", CART) == ()
    project.close()
