"""Clients' windows, and what becomes of their requests, on scripted completers."""

import asyncio
import json
import logging
import re
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from scripted_completer import ScriptedCompleter
from starlette.datastructures import URL
from starlette.requests import HTTPConnection

from speclsp.http_server import clients as clients_module
from speclsp.http_server.app import Access, create_app, is_known_host
from speclsp.http_server.clients import Clients
from speclsp.http_server.prompt_tokens import PromptTokens
from speclsp.seam.events import Problem
from speclsp.seam.statistics import RequestStats
from speclsp.seam.text import TextResult
from speclsp.settings import Settings


class Bytes:
    """A vocabulary whose tokens are bytes."""

    n_tokens = 256

    def tokenize_prompt(self, text: str, *, adds_special: bool, parses_special: bool) -> Any:
        return np.frombuffer(text.encode(), np.uint8).astype(np.int32)

    def piece(self, token: int) -> bytes:
        return bytes([token])

    def text(self, token: int) -> str:
        return chr(token)


def scope(method: str, path: str, agent: str) -> dict[str, Any]:
    """Return what an ASGI application gets of a request's head."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"user-agent", agent.encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8012),
        "scheme": "http",
    }


class Programs:
    """Programs that ask an application, and the completers behind it."""

    def __init__(self, vocabulary: Bytes | None = None) -> None:
        self.completers: list[ScriptedCompleter] = []
        prompts = PromptTokens("bytes", vocabulary or Bytes())
        app = create_app(lambda: Clients(self._completer, lambda: None, ()), prompts, Access())
        self.app: Any = app

    def _completer(self) -> Any:
        self.completers.append(ScriptedCompleter(Settings(), lambda _: None))
        return self.completers[-1]

    async def ask(
        self, path: str, body: Any = None, agent: str = "", *, hangs_up: bool = False
    ) -> tuple[int, bytes]:
        """Ask, and return the status and the body of the answer.

        Who hangs up leaves once the engine has the request; without a status it is 0.
        """
        n_asked = self.n_asked
        sent: list[dict[str, Any]] = []
        data = b"" if body is None else json.dumps(body).encode()
        parts = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if parts:
                return parts.pop()
            await self.until_asked(n_asked + 1 if hangs_up else sys.maxsize)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope("GET" if body is None else "POST", path, agent), receive, send)
        status = sent[0]["status"] if sent else 0
        return status, b"".join(part.get("body", b"") for part in sent[1:])

    async def hang_up(self, body: dict[str, Any], agent: str = "") -> None:
        await self.ask("/infill", body, agent, hangs_up=True)

    def begin(self, *arguments: Any) -> asyncio.Future[tuple[int, bytes]]:
        return asyncio.ensure_future(self.ask(*arguments))

    @property
    def n_asked(self) -> int:
        return sum(len(one.asked) for one in self.completers)

    async def until_asked(self, n_asked: int) -> None:
        while self.n_asked < n_asked:
            await asyncio.sleep(0.001)


@pytest_asyncio.fixture
async def programs() -> AsyncIterator[Programs]:
    made = Programs()
    async with made.app.router.lifespan_context(made.app):
        yield made


LOG = "speclsp.http_server"
BODY = {"input_prefix": "a", "input_suffix": "b"}
TEXT = TextResult(
    completion_id="1",
    finish_reason="stop",
    text="total",
    tokens=(97,),
    prompt=(97, 98),
    stats=RequestStats(n_prompt=2, n_prompt_evaluated=1, n_predicted=1),
    stopped_by="end",
)


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_request_whose_client_hangs_up_is_cancelled_for_good(programs, is_streamed):
    await programs.hang_up({**BODY, "stream": is_streamed})
    (completer,) = programs.completers
    (asked,) = completer.asked
    assert asked.cancel.is_for_good
    assert (asked.request.prefix, asked.request.suffix) == ("a", "b")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {"content": "a"}),
        ("/detokenize", {"tokens": [97]}),
        ("/completion", {"prompt": "a", "n_predict": 1}),
    ],
)
async def test_nobody_waits_while_a_text_becomes_tokens(path, body):
    begun, may_end = threading.Event(), threading.Event()

    class Slow(Bytes):
        def tokenize_prompt(self, text: str, *, adds_special: bool, parses_special: bool) -> Any:
            self.wait()
            return super().tokenize_prompt(text, adds_special=True, parses_special=True)

        def piece(self, token: int) -> bytes:
            self.wait()
            return super().piece(token)

        def wait(self) -> None:
            begun.set()
            assert may_end.wait(10), "the loop waits for the tokens"

    programs = Programs(Slow())
    async with programs.app.router.lifespan_context(programs.app):
        asked = programs.begin(path, body)
        await asyncio.to_thread(begun.wait, 10)
        assert (await programs.ask("/health"))[0] == 200
        may_end.set()
        if path == "/completion":
            await programs.until_asked(1)
            asked.cancel()
        else:
            assert (await asked)[0] == 200


async def test_each_client_has_a_window_and_the_oldest_loses_it(monkeypatch):
    monkeypatch.setattr(clients_module, "MAX_CLIENTS", 2)
    programs = Programs()
    async with programs.app.router.lifespan_context(programs.app):
        for agent in ("one", "two", "one", "three"):
            await programs.hang_up(BODY, agent)
        assert [len(one.asked) for one in programs.completers] == [2, 1, 1]
        assert [one.closed for one in programs.completers] == [False, True, False]
    assert all(one.closed for one in programs.completers)


@pytest.mark.parametrize(
    ("path", "body"), [("/infill", BODY), ("/completion", {"prompt": "a"}),
                       ("/v1/completions", {"prompt": "a"})]
)  # fmt: skip
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_text_whose_engine_ended_is_an_error(programs, path, body, is_streamed):
    """A completer answers what was asked with an empty text then."""
    asked = programs.begin(path, {**body, "stream": is_streamed})
    await programs.until_asked(1)
    (one,) = programs.completers[0].asked
    one.future.set_result(one.request.plain.empty("cancelled"))
    status, text = await asked
    assert status == (200 if is_streamed else 503)
    error = json.loads(text.decode().removeprefix("data: "))["error"]
    assert (error["code"], error["type"]) == (503, "unavailable_error")


async def test_no_host_leads_around_the_key(monkeypatch):
    monkeypatch.setattr(HTTPConnection, "url", URL("http://x/health?/props"))
    app = create_app(lambda: Clients(list, list, ()), PromptTokens("", Bytes()), Access(key="k"))
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope("GET", "/props", ""), send, send)
    assert sent[0]["status"] == 401


async def test_a_window_stays_while_a_text_is_streamed(programs, monkeypatch):
    """40 programs at once in place of 32."""
    monkeypatch.setattr(clients_module, "MAX_CLIENTS", 2)
    agents = [f"agent {number}" for number in range(5)]
    body = {**BODY, "stream": True}
    asked = [programs.begin("/infill", body, agent) for agent in agents]
    await programs.until_asked(5)
    assert [one.closed for one in programs.completers] == [False] * 5
    for completer in programs.completers:
        completer.asked[0].future.set_result(TEXT)  # type: ignore[arg-type]
    for status, events in await asyncio.gather(*asked):
        assert status == 200
        assert b'"content":"total"' in events
    assert sum(not one.closed for one in programs.completers) == 2


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_more_texts_than_are_written_at_once_are_refused(programs, is_streamed, monkeypatch):
    monkeypatch.setattr(clients_module, "MAX_AT_ONCE", 2)
    body = {**BODY, "stream": is_streamed}
    asked = [programs.begin("/infill", BODY, one) for one in "ab"]
    await programs.until_asked(2)
    status, text = await programs.ask("/infill", body, "c")
    assert (status, json.loads(text)["error"]["type"]) == (503, "unavailable_error")
    assert (await programs.ask("/health"))[0] == 200
    for completer in programs.completers:
        completer.asked[0].future.set_result(TEXT)  # type: ignore[arg-type]
    assert [status for status, _ in await asyncio.gather(*asked)] == [200, 200]


async def test_a_field_that_is_ignored_is_said_once(programs, caplog):
    caplog.set_level(logging.INFO, LOG)
    body = {**BODY, "mirostat": 2, "repeat_penalty": 1.1, "echo": False, "id_slot": 3, "a\nb": 1}
    for _ in range(2):
        await programs.hang_up(body)
    assert [line for line in caplog.messages if "field" in line] == [
        "the field mirostat of /infill is ignored.",
        "the field repeat_penalty of /infill is ignored.",
        "the field a b of /infill is ignored.",
    ]


async def test_requests_are_logged_and_refusals_once_a_kind(programs, caplog):
    caplog.set_level(logging.DEBUG, LOG)
    secret = "what_the_program_asks_for"
    for is_streamed in (False, True):
        body = {"input_prefix": secret, "input_suffix": "", "stream": is_streamed}
        asked = programs.begin("/infill", body, "vim\x1b[2J")
        await programs.until_asked(1 + is_streamed)
        programs.completers[0].asked[-1].future.set_result(TEXT)  # type: ignore[arg-type]
        assert (await asked)[0] == 200
    for _ in range(3):
        assert (await programs.ask("/infill", {"prompt": secret}, "curl"))[0] == 500
        assert (await programs.ask("/v1/nothing", {"input": secret}, "curl"))[0] == 404
    level = {level: [one for one in caplog.records if one.levelno == level] for level in (10, 20)}
    lines = [re.sub(r"[0-9]+ ms", "N ms", record.getMessage()) for record in level[logging.DEBUG]]
    assert lines[:2] == ["127.0.0.1 (vim\ufffd[2J) POST /infill: 200, 1 tokens, N ms"] * 2
    assert len(lines) == 8
    refused = [record.getMessage() for record in level[logging.INFO]]
    assert refused[0] == (
        "127.0.0.1 (curl) POST /infill is refused: 500 key 'input_suffix' not found"
    )
    assert len(refused) == 2
    assert secret not in caplog.text


async def test_the_model_is_loaded_at_once_and_health_says_when(caplog):
    caplog.set_level(logging.INFO, LOG)
    programs = Programs()
    async with programs.app.router.lifespan_context(programs.app):
        (completer,) = programs.completers
        assert ("start",) in completer.calls
        completer.engine_state = "loading"
        status, text = await programs.ask("/health")
        assert (status, json.loads(text)) == (
            503,
            {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
        )
        completer.engine_state = "ready"
        assert (await programs.ask("/health"))[0] == 200
        completer.engine_state = "loading"  # freed in idle time, and loaded for a request
        assert (await programs.ask("/health"))[0] == 200
        assert caplog.messages == []
        await programs.hang_up(BODY)
        assert programs.completers == [completer]


async def test_a_problem_of_the_engine_is_logged_once(programs, caplog):
    for agent in ("one", "two"):
        await programs.hang_up(BODY, agent)
    for completer in programs.completers:
        completer.emit(Problem(message="The model is damaged.", remedy="Load it again."))
    while not caplog.messages:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)
    assert caplog.messages == ["The model is damaged. Load it again."]


async def test_the_document_becomes_what_a_request_holds(programs):
    await programs.hang_up(BODY)
    await programs.hang_up({"input_prefix": "ab", "input_suffix": "b", "prompt": "c"})
    (completer,) = programs.completers
    assert completer.asked[1].request.prefix == "abc"
    changes = [call[0] for call in completer.calls if "document" in call[0]]
    assert changes == ["open_document", "change_document"]


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("localhost", True),
        ("LOCALHOST:8012", True),
        ("127.0.0.1:8012", True),
        ("127.9.9.9", True),
        ("[::1]:8012", True),
        ("desk:8012", True),
        ("", False),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("10.0.0.1", False),
        ("[::1]", True),
        ("[::1].evil.example", False),
        ("[::1].evil.example:8012", False),
        ("::1%evil", False),
        ("[::1%evil]", False),
        ("[::1", False),
        ("[desk]", False),
        ("localhost:8012.evil.example", False),
        ("localhost:1:2", False),
        ("[2001:db8::1]:8012", True),
    ],
)
def test_hosts_that_are_this_machine(host, is_known):
    assert is_known_host(host, ("desk", "2001:db8::1")) is is_known
