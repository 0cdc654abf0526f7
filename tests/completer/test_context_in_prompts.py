"""Chunks get into prompts in idle time, and no keystroke pays for them."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from indexed_project import write
from scripted_models import ScriptedLoader
from typed_requests import document_of, request_between, typed_completer

from speclsp.completer import engine_thread
from speclsp.completer.context_chunks import ContextChunks
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionResult
from speclsp.seam.documents import WorkspaceFolder
from speclsp.settings import Settings

WAIT_S = 60
MODELS = 'class Box:\n    """A box."""\n'
CART = "from models import Box\n\n\ndef total(boxes):\n    box = "


class Typist:
    def __init__(self, root: Path, **settings: Any) -> None:
        self.root = root
        self.loader = ScriptedLoader("f()", n_ctx=8192)
        known = Settings(suggestion_memory=False, **settings)
        self.completer = typed_completer(known, loader=self.loader)
        self.completer.open_folder(WorkspaceFolder(root=str(root), name="p"))
        self.completer.start()
        self.versions: dict[str, int] = {}

    def show(self, name: str, text: str) -> None:
        file = str(self.root / name)
        version = self.versions[name] = self.versions.get(name, 0) + 1
        document = document_of(text, uri=name, path=name, version=version, file=file)
        (self.completer.open_document if version == 1 else self.completer.change_document)(document)

    def ask(self, name: str, prefix: str) -> CompletionResult:
        self.show(name, prefix)
        request = request_between(
            uri=name,
            path=name,
            prefix=prefix,
            file=str(self.root / name),
            trigger="automatic",
            wait_for_model=True,
        )
        return self.completer.complete(request, CancellationToken()).result(WAIT_S)

    @property
    def held(self) -> str:
        return bytes(t for t in self.loader.target.cached if t < 256).decode()


@pytest.fixture
def typist(tmp_path):
    write(tmp_path / "models.py", MODELS)
    typist = Typist(tmp_path)
    yield typist
    typist.completer.close()


def test_idle_time_takes_up_what_was_chosen(typist):
    first = typist.ask("cart.py", CART)
    assert typist.completer.wait_idle(WAIT_S)
    assert MODELS.rstrip() in typist.held
    result = typist.ask("cart.py", CART + "B")
    assert MODELS.rstrip() in typist.held
    assert result.stats.n_prompt_evaluated <= 3  # a token is a byte here
    assert first.stats.n_prompt <= result.stats.n_prompt - len(MODELS)


def test_another_choice_costs_no_keystroke_anything(typist):
    typist.ask("cart.py", CART)
    assert typist.completer.wait_idle(WAIT_S)
    # The lines that are shown change, and another file is edited: both are other chunks.
    typist.show("models.py", MODELS.replace("A box.", "A box with six sides."))
    typist.show("other.py", "value = 1\n" * 5)
    typist.show("other.py", "value = 1\n" * 5 + "Box.edited = total(boxes)\n")
    for n_typed in range(1, len("Box(width") + 1):
        result = typist.ask("cart.py", CART + "Box(width"[:n_typed])
        assert result.stats.n_prompt_evaluated <= 3, n_typed
        assert typist.completer.wait_idle(WAIT_S)


def test_idle_time_waits_for_a_slow_choice(typist, monkeypatch):
    choose = ContextChunks._choose

    def slowly(self, request):
        time.sleep(3 * engine_thread.PAUSE_S)
        return choose(self, request)

    typist.ask("first.py", "")
    while typist.completer.statistics().index.building:
        time.sleep(0.01)
    assert typist.completer.wait_idle(WAIT_S)
    n_before = typist.completer.statistics().n_idle_evaluated
    monkeypatch.setattr(ContextChunks, "_choose", slowly)
    typist.ask("cart.py", "# 12345678\n" * 200 + CART)
    assert typist.completer.wait_idle(WAIT_S)
    assert MODELS.rstrip() in typist.held
    # The prompt is evaluated once, and not without the context first.
    n_evaluated = typist.completer.statistics().n_idle_evaluated - n_before
    assert n_evaluated <= len(typist.loader.target.cached)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("idle_work", "is_plugged", "is_held"),
    [
        ("auto", False, False),
        ("auto", True, True),
        ("prompts", False, False),
        ("prompts", True, True),
        ("always", False, True),
        ("never", True, False),
    ],
)
def test_idle_time_rests_on_battery(idle_work, is_plugged, is_held, tmp_path, monkeypatch):
    monkeypatch.setattr("psutil.sensors_battery", lambda: SimpleNamespace(power_plugged=is_plugged))
    write(tmp_path / "models.py", MODELS)
    typist = Typist(tmp_path, idle_work=idle_work)
    try:
        typist.ask("cart.py", CART)
        assert typist.completer.wait_idle(WAIT_S)
        assert (MODELS.rstrip() in typist.held) is is_held
    finally:
        typist.completer.close()
