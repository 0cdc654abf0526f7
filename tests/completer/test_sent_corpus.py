"""The project's files as drafts of a remote engine (SGLang's external corpora)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from scripted_http import Request, ScriptedServer, response, scripted_server
from typed_requests import TypedWindow, typed_completer

from speclsp.completer import sent_corpus
from speclsp.documents import WorkspaceFolder
from speclsp.events import Problem
from speclsp.secrets.masked_text import PLACEHOLDER
from speclsp.settings import Settings

LISTED = {"data": [{"id": "qwen2.5-coder-7b", "owned_by": "sglang", "max_model_len": 4096}]}
ADDED = {"success": True, "corpus_id": "any", "message": "Loaded.", "loaded_token_count": 123}
OFF = {"success": False, "corpus_id": "", "message": "Ngram speculative decoding is not enabled."}
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


def wait_until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextmanager
def sglang(*answers: bytes | Iterable[bytes]) -> Iterator[ScriptedServer]:
    """Serve as SGLang; ``answers`` are those to uploads, the last one for the rest."""
    left = list(answers)

    def script(request: Request) -> Iterable[bytes]:
        if request.path == "/v1/models":
            return [response(200, LISTED)]
        if request.path == "/remove_external_corpus":
            return [response(400, {"success": False, "message": "no such corpus"})]
        if request.path != "/add_external_corpus":
            return [response(404)]
        answer = left.pop(0) if len(left) > 1 else left[0]
        return [answer] if isinstance(answer, bytes) else answer

    with scripted_server(script) as server:
        yield server


@contextmanager
def window(server: ScriptedServer, folder: Path, **settings: Any) -> Iterator[TypedWindow]:
    found = typed_completer(Settings(engine_url=server.url, persist=False, **settings))
    found.open_folder(WorkspaceFolder(root=str(folder), name="p"))
    found.start()
    try:
        yield found
    finally:
        found.close()


def sent(server: ScriptedServer) -> list[Any]:
    return [r.json for r in server.requests if r.path == "/add_external_corpus"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "box.py").write_text(f"def area(box):\n    return 1\n\nTOKEN = '{SECRET}'\n")
    (tmp_path / "made.py").write_text("made = 1\n")
    (tmp_path / ".env").write_text("PASSWORD=hunter2hunter2\n")
    (tmp_path / ".gitignore").write_text("made.py\n")
    return tmp_path


def test_the_projects_files_are_sent_once_without_secrets(project: Path) -> None:
    with sglang(response(200, ADDED)) as server:
        for _ in range(2):
            with window(server, project, engine_drafts="corpus") as one:
                wait_until(lambda found=one: "123" in found.statistics().sent_drafts)
                one.open_folder(WorkspaceFolder(root=str(project), name="p"))
                assert one.statistics().sent_drafts == "corpus of 123 tokens"
                assert "no drafts of this machine" not in one.statistics().lacks
        first, second = sent(server)
        removed = [r.json for r in server.requests if r.path == "/remove_external_corpus"]
    assert first == second
    assert removed == [{"corpus_id": first["corpus_id"]}] * 2
    assert str(project) not in first["corpus_id"]
    text = "\n".join(first["documents"])
    assert "def area(box)" in text
    assert PLACEHOLDER in text
    assert "made = 1" not in text
    received = b"".join(request.body for request in server.requests)
    assert SECRET.encode() not in received
    assert b"hunter2" not in received


@pytest.mark.parametrize("answer", [response(400, OFF), response(404), response(200, OFF)])
def test_a_server_that_takes_no_corpus_is_one_message(project: Path, answer: bytes) -> None:
    with sglang(answer) as server, window(server, project, engine_drafts="corpus") as one:
        problem = next_problem(one)
        assert "takes no corpus" in problem.message
        assert "--speculative-algorithm NGRAM" in problem.remedy
        assert one.state() == "ready"


def next_problem(one: TypedWindow) -> Problem:
    """Wait for what is reported: across a socket, a moment after its cause."""
    while True:
        event = one.next_event(60.0)
        assert event is not None
        if isinstance(event, Problem):
            return event


def problems_until(one: TypedWindow, holds: Callable[[], object]) -> list[Problem]:
    """Return the problems that are reported until something holds."""
    found: list[Problem] = []

    def holds_now() -> object:
        event = one.next_event(0.05)
        found.extend([event] if isinstance(event, Problem) else [])
        return event is None and holds()

    wait_until(holds_now)
    return found


def is_sending() -> bool:
    return any(thread.name == "speclsp-corpus" for thread in threading.enumerate())


def test_a_failed_upload_quotes_nothing_and_is_repeated(project: Path) -> None:
    answers = [response(500, {"message": "def area(box):\n    return 1"}), response(200, ADDED)]
    with sglang(*answers) as server, window(server, project, engine_drafts="corpus") as one:
        problem = next_problem(one)
        assert "500" in problem.message
        assert "area" not in problem.message
        one.open_folder(WorkspaceFolder(root=str(project), name="p"))
        assert problems_until(one, lambda: "123" in one.statistics().sent_drafts) == []
        assert len(sent(server)) == 2


def test_a_change_of_settings_while_files_are_sent_is_no_problem(project: Path) -> None:
    is_over = threading.Event()

    def stalled() -> Iterator[bytes]:
        is_over.wait(60)
        yield response(200, ADDED)

    with sglang(stalled()) as server, window(server, project, engine_drafts="corpus") as one:
        wait_until(lambda: sent(server))
        one.apply_settings(Settings(engine_url=server.url, persist=False, engine_model="other"))
        found = problems_until(one, lambda: not is_sending())
        is_over.set()
    assert [problem.message for problem in found if "closed" in problem.message] == []


def test_nothing_is_sent_unless_it_is_asked_for(project: Path) -> None:
    with sglang(response(200, ADDED)) as server:
        for drafts in ("none", "prediction"):
            with window(server, project, engine_drafts=drafts) as one:
                wait_until(lambda found=one: found.state() == "ready")
        assert sent(server) == []


def test_the_latest_changed_files_are_sent_where_not_all_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        path = tmp_path / f"m{number}.py"
        path.write_text(f"value_{number} = 1\n")
        os.utime(path, (number, number))
    monkeypatch.setattr(sent_corpus, "_MAX_CHARS", 25)
    found = sent_corpus.source_texts(tmp_path, Settings(), lambda: False)
    assert found == ["value_4 = 1\n", "value_3 = 1\n"]
