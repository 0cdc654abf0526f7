"""A real llama-server behind the completer and behind ``speclsp serve``."""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from built_llama_server import WHY_NOT, built_llama_server
from llama_server_process import KEY, running_llama_server
from typed_requests import TypedWindow, request_between, typed_completer

from speclsp.embedded import embedded_target, sample_project
from speclsp.errors import EngineUnavailableError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionResult
from speclsp.settings import Settings
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.real, pytest.mark.skipif(built_llama_server() is None, reason=WHY_NOT)]

WAIT_S = 120
WITHOUT_LLAMA_CPP = """
import runpy, sys
sys.modules["llama_cpp"] = None
runpy.run_module("speclsp", run_name="__main__", alter_sys=True)
"""
"""Serves as ever, on a machine without llama.cpp."""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with running_llama_server(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("SPECLSP_ENGINE_KEY", KEY)


def opened(**settings: Any) -> TypedWindow:
    window = typed_completer(Settings(persist=False, idle_work="prompts", **settings))
    window.start()
    return window


def ask(window: TypedWindow, before: str, after: str, **fields: Any) -> CompletionResult:
    request = request_between(before, after, language_id="python", wait_for_model=True, **fields)
    return window.complete(request, CancellationToken()).result(WAIT_S)


def places() -> list[tuple[str, str]]:
    """Return texts before and after cursors: in words, behind spaces, on blank lines."""
    found = []
    for path in sorted((sample_project() / "shop").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        found += [(text[:cut], text[cut:]) for cut in range(200, len(text), 397)]
    return found[:24]


def test_with_the_vocabulary_answers_are_those_of_the_model_here(address):
    """Token ids, anchors, healing and stop rules are the same, so the texts are."""
    same = {"n_prompt": 1024, "min_probability": 0.0}
    here = opened(speculation=False, **same)
    there = opened(engine_url=address, model=str(embedded_target()), **same)
    n_shown = 0
    try:
        for idx, (before, after) in enumerate(places()):
            fields = {"uri": f"untitled:{idx}", "origin": "program", "n_predict": 24}
            expected, found = (ask(window, before, after, **fields) for window in (here, there))
            texts = [(one.generated.text, one.generated.n_replaced) for one in (expected, found)]
            assert texts[0] == texts[1]
            assert found.stats.n_prompt == expected.stats.n_prompt
            n_shown += bool(found.generated.text)
        assert n_shown >= 6
    finally:
        here.close()
        there.close()


@pytest.mark.parametrize("knows_vocabulary", [True, False])
def test_a_key_evaluates_what_was_typed_and_no_more(address, knows_vocabulary):
    model = str(embedded_target()) if knows_vocabulary else ""
    there = opened(engine_url=address, model=model, debounce_ms=0, suggestion_memory=False)
    before, after = max(places(), key=lambda place: min(map(len, place)))
    try:
        ask(there, before, after)
        assert there.wait_idle(WAIT_S)
        counts = []
        for n_typed in range(1, 13):
            typed = before + "\n    width = box"[:n_typed]
            counts.append(ask(there, typed, after).stats.n_prompt_evaluated)
            assert there.wait_idle(WAIT_S)
    finally:
        there.close()
    assert sorted(counts)[len(counts) // 2] <= 12


async def test_an_editor_gets_suggestions_where_there_is_no_llama_cpp(
    address, tmp_path, monkeypatch
):
    """And no engine process is started: there is nothing to share."""
    runtime = Path(tempfile.mkdtemp(prefix="speclsp-"))  # a socket's path must be short
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    server = ServerProcess()
    command = [sys.executable, "-c", WITHOUT_LLAMA_CPP, "serve", "--stdio"]
    options = {
        "engine_url": address,
        "persist": False,
        "deadline_ms": 60_000,
        "min_probability": 0.0,
    }
    await server.start(command, tmp_path, options=options)
    text = "def area_of_box(width, height):\n    area = "
    server.open(tmp_path / "boxes.py", text)
    try:
        async with asyncio.timeout(WAIT_S):
            while not (items := await server.inline_completion(1, 11)):
                await asyncio.sleep(0.01)
        stats = await server.execute_command("speclsp.showStatistics")
    finally:
        assert await server.shutdown() == 0
    assert items[0].insert_text.strip()
    assert stats["engine"] == f"llama-server at {address.removeprefix('http://')}"
    assert stats["totals"]["n_prompt_evaluated"] > 0
    assert not [*runtime.iterdir()]
    runtime.rmdir()


def test_a_server_that_dies_and_starts_again_is_used_again(tmp_path):
    fields = {"origin": "program", "n_predict": 8}
    with running_llama_server(tmp_path) as first:
        there = opened(engine_url=first, min_probability=0.0)
        assert ask(there, "def area_of(box):\n    ret", "\n", **fields).generated.text
    try:
        for n_keys in range(1, 6):
            with pytest.raises(EngineUnavailableError, match=r"remote engine at .* "):
                ask(there, "def area_of(box):\n    return box"[: 24 + n_keys], "\n", **fields)
        assert there.state() == "ready"
        with running_llama_server(tmp_path, port=int(first.rpartition(":")[2])):
            end = time.monotonic() + WAIT_S
            while True:
                try:
                    found = ask(there, "def area_of(box):\n    retu", "\n", **fields)
                except EngineUnavailableError:
                    assert time.monotonic() < end
                    time.sleep(0.1)
                    continue
                break
            assert found.generated.text
    finally:
        there.close()
