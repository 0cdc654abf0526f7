"""Sessions with the published weights: typed into over LSP, over HTTP, and their KV states.

A failure means that an editor or a program gets no text, gets one that does not go on from what
stands there, or waits for a prompt that the KV cache should hold.
"""

import asyncio
import contextlib
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psutil
import pytest
import pytest_asyncio
from published import Place, model_path, places
from speclsp_http import Server

from speclsp.seam.statistics import SessionStats
from tests.support.margins import EPSILON
from tests.support.server_process import CaseServer, InlineItem, ServerProcessError

pytestmark = pytest.mark.real

WAIT_S = 600
"""A busy machine is no defect."""
OPTIONS = {
    "debounce_ms": 0, "deadline_ms": 600_000, "t_max_predict_ms": 0, "threads": 2, "n_predict": 24,
    "idle_work": "never", "automatic_filters": False, "min_probability": 0.0, "persist": False,
}  # fmt: skip
KEYS = "return sum("
PLACES = {place.name: place for place in places()}


class Typist:
    """A server with the documents of places, and what it shows at their cursors."""

    def __init__(self, server: CaseServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.typed: dict[str, str] = {}
        self.place = PLACES["python-body"]

    def open(self, place: Place, language_id: str) -> None:
        self.place = place
        self.typed[place.name] = ""
        self.server.open_beside(self.uri, place.prefix + place.suffix, language_id)

    @property
    def uri(self) -> str:
        return (self.folder / self.place.path).resolve().as_uri()

    def go_to(self, place: Place) -> None:
        self.place = place
        self.server.go_to(self.uri)

    @property
    def before(self) -> str:
        return self.place.prefix + self.typed[self.place.name]

    def key(self, character: str) -> None:
        self.typed[self.place.name] += character
        self.server.change(self.before + self.place.suffix)

    async def ask(self) -> list[InlineItem]:
        line = self.before.rpartition("\n")[2]
        return await self.server.inline_completion(self.before.count("\n"), len(line))

    async def asked(self) -> list[InlineItem]:
        """Ask, and check that what comes goes on from what stands before the cursor."""
        items = await self.ask()
        line = self.before.rpartition("\n")[2]
        for item in items:
            assert item.line == self.before.count("\n")
            assert item.insert_text.startswith(line[item.start_character :])
            assert item.end_character >= len(line)
        return items

    async def statistics(self) -> SessionStats:
        answer = await self.server.execute_command("speclsp.showStatistics")
        return msgspec.convert(answer, SessionStats)


@pytest_asyncio.fixture
async def typist(size, tmp_path):
    server = CaseServer()
    await server.start(
        [sys.executable, "-m", "speclsp", "serve", "--engine", "own"],
        tmp_path,
        options={**OPTIONS, "model": str(model_path(size)), "edit_model": "embedded"},
    )
    yield Typist(server, tmp_path)
    await server.shutdown()


async def test_a_line_is_typed_key_by_key(size, typist, capsys):
    started = time.monotonic()
    typist.open(PLACES["python-body"], "python")
    async with asyncio.timeout(WAIT_S):
        while not (items := await typist.asked()):  # while the model loads there are none
            await asyncio.sleep(0.02)
    first_s = time.monotonic() - started
    first = await typist.statistics()
    n_shown = 0
    for character in KEYS:
        typist.key(character)
        n_shown += bool(await typist.asked())
    typed = await typist.statistics()
    # Half words, too, have something to go on with, and a key evaluates what was typed.
    assert n_shown >= len(KEYS) // 2
    assert typed.totals.n_prompt_evaluated - first.totals.n_prompt_evaluated < 8 * len(KEYS)
    # The newer of two requests is answered with the text; the older one, too, or it is cancelled.
    older = asyncio.create_task(typist.ask())
    await asyncio.sleep(0)
    typist.key(" ")
    newer = await typist.asked()
    with contextlib.suppress(ServerProcessError):
        await older
    assert newer or await typist.asked() is not None
    # What was cut off leaves the KV cache as the next key needs it.
    before = await typist.statistics()
    typist.key("i")
    await typist.asked()
    n_evaluated = (await typist.statistics()).totals.n_prompt_evaluated
    assert n_evaluated - before.totals.n_prompt_evaluated < 24
    memory = psutil.Process(typist.server.pid).memory_info().rss
    with capsys.disabled():
        print(  # noqa: T201 - figures for a person
            f"\n{size}: first answer after {first_s:.1f} s, {memory / 2**20:.0f} MiB resident, "
            f"{n_shown} of {len(KEYS)} keys showed something; {items[0].insert_text!r}"
        )
    # Without AMX the 1.5B takes 960 MiB more than its file: llama.cpp packs weights anew.
    assert memory < model_path(size).stat().st_size + 1000 * 2**20


async def test_documents_keep_their_prompts_and_edits_do_not_disturb_them(typist):
    """KV states of two documents are saved and restored, and the edit model has its own."""
    python, go, half = (PLACES[name] for name in ("python-body", "go-body", "python-half-word"))
    for place, language_id in ((python, "python"), (go, "go"), (half, "python")):
        typist.open(place, language_id)
        async with asyncio.timeout(WAIT_S):
            while not (items := await typist.asked()):
                await asyncio.sleep(0.02)
    # A word that the cursor breaks is completed: `self.middle` becomes what the file has.
    line = typist.before.rpartition("\n")[2]
    assert "self.middlewares" in line[: items[0].start_character] + items[0].insert_text
    before = await typist.statistics()
    for place in (python, go):
        typist.go_to(place)
        typist.key("r")
        await typist.asked()
    # By a model of its own; a model for suggestions that gives next edits belongs here, too.
    typist.go_to(go)
    line, character = typist.before.count("\n"), len(typist.before.rpartition("\n")[2])
    assert isinstance(await typist.server.next_edit(line, character), list)
    typist.key("e")
    await typist.asked()
    after = await typist.statistics()
    n_evaluated = after.totals.n_prompt_evaluated - before.totals.n_prompt_evaluated
    n_prompt = after.totals.n_prompt - before.totals.n_prompt
    assert n_evaluated < n_prompt // 2


def test_a_kv_state_that_was_saved_predicts_the_same(target, prompts):
    tokens = prompts["rust-body"].tokens
    target.truncate(0)
    expected = target.decode(tokens, 1)[0].copy()
    state = target.save_state()
    assert state is not None
    target.truncate(0)
    target.decode(prompts["go-call"].tokens, 0)
    assert target.restore_state(state)
    assert list(target.cached) == list(tokens)
    target.truncate(len(tokens) - 1)
    again = target.decode(tokens[-1:], 1)[0]
    assert np.abs(again - expected).max() < EPSILON["q4_k_m"]


def test_http_endpoints_complete(size, tmp_path):
    place = PLACES["typescript-body"]
    server = Server(tmp_path, "--model", str(model_path(size)), "--no-persist")
    try:
        assert server.ask("/health") == {"status": "ok"}
        body: dict[str, Any] = {"n_predict": 16, "temperature": 0}
        infill = {"input_prefix": place.prefix, "input_suffix": place.suffix, **body}
        first, second = (server.ask("/infill", infill) for _ in range(2))
        assert first["content"].strip()
        assert second["content"] == first["content"]
        assert second["timings"]["prompt_n"] < first["timings"]["prompt_n"]
        raw = server.ask("/v1/completions", {"prompt": place.prefix, "max_tokens": 8, **body})
        assert raw["choices"][0]["text"]
    finally:
        server.close()
