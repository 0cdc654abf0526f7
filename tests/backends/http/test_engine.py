"""What a remote engine does about servers that are slow, broken, hostile or gone."""

import asyncio
import gc
import json
import logging
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import pairwise, repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_http import Request, ScriptedServer, response, scripted_server, stream
from waiting import until

from speclsp.backends.http.dialects import DIALECTS
from speclsp.backends.http.engine import HttpEngine, _events
from speclsp.backends.http.messages import RemoteParams, RemotePrompt, RemoteStats
from speclsp.errors import RemoteError, SettingsError

KEY = "the-key-of-this-test"
PROMPT = RemotePrompt(prefix="", suffix="", text="a prompt that nobody else may read")
MODELS = {"data": [{"id": "coder", "owned_by": "vllm", "max_model_len": 4096}]}
HELLO, WORLD = ({"choices": [{"index": 0, "text": text}]} for text in ("hello", " world"))
DONE = b"data: [DONE]\n\n"

Answers = Iterable[Iterable[bytes | float] | bytes]


def served(answers: Answers) -> Callable[[Request], Iterable[bytes | float]]:
    """Return a script of an OpenAI server that gives one answer to each completion."""
    left = iter(answers)

    def script(request: Request) -> Iterable[bytes | float]:
        if request.path == "/v1/models":
            return [response(200, MODELS)]
        if request.path != "/v1/completions":
            return [response(404)]
        answer = next(left)
        return [answer] if isinstance(answer, bytes) else answer

    return script


def good() -> Iterator[bytes]:
    return stream(HELLO, WORLD, DONE)


class Client:
    """An engine with a clock that stands still, unless a test or ``interrupted`` moves it."""

    def __init__(self, server: ScriptedServer, key: str = KEY, **options: Any) -> None:
        self.now = 0.0
        self.server = server
        self.engine = HttpEngine(server.url, "openai", key, clock=lambda: self.now, **options)

    def ask(self, deadline_s: float = 5.0, interrupted: Callable[[], bool] = lambda: False) -> str:
        params = RemoteParams(n_predict=16)
        pieces = self.engine.stream(PROMPT, params, interrupted, deadline_s)
        return "".join(piece.text for piece in pieces)

    @property
    def n_asked(self) -> int:
        return sum(request.path == "/v1/completions" for request in self.server.requests)


@pytest.fixture
def asking(request: pytest.FixtureRequest) -> Iterator[Callable[..., Client]]:
    """Return a function that starts a server with answers, and a client of it."""
    ends: list[Callable[[], object]] = []

    def start(*answers: Iterable[bytes | float] | bytes) -> Client:
        context = scripted_server(served(answers))
        client = Client(context.__enter__())
        ends.extend([lambda: context.__exit__(None, None, None), client.engine.close])
        return client

    yield start
    for end in reversed(ends):
        end()


def test_a_stream_is_passed_on_as_it_comes(asking):
    client = asking(stream(HELLO, 60.0, WORLD))
    pieces = client.engine.stream(PROMPT, RemoteParams(n_predict=16), lambda: False, 5.0)
    assert next(pieces).text == "hello"
    pieces.close()
    assert client.server.abandoned.wait(60.0)


@pytest.mark.parametrize("before", [[], [HELLO]], ids=["headers alone", "a piece"])
def test_a_server_that_hangs_is_left_when_interrupted(asking, before):
    client = asking(stream(*before, 60.0))
    is_over = threading.Event()
    threading.Timer(0.5, is_over.set).start()
    assert client.ask(interrupted=is_over.is_set) == "hello" * len(before)
    assert client.server.abandoned.wait(60.0)


def test_a_server_without_an_answer_is_left_when_interrupted(asking):
    client = asking([60.0])
    assert client.ask(interrupted=lambda: client.n_asked > 0) == ""
    assert client.server.abandoned.wait(60.0)


def test_a_slow_drip_ends_at_the_deadline(asking):
    client = asking(stream(HELLO, *(0.02, b":\n") * 3000))
    pieces = client.engine.stream(PROMPT, RemoteParams(n_predict=16), lambda: False, 5.0)
    assert next(pieces).text == "hello"
    client.now += 5.0
    assert list(pieces) == []
    assert client.server.abandoned.wait(60.0)


def test_late_answers_are_reported_once_they_are_a_habit(asking):
    client = asking(*repeat([60.0], 3))

    def time_passes() -> bool:
        client.now += 1.0 if client.server.requests[-1].path == "/v1/completions" else 0.0
        return False

    client.engine.connect()
    assert [client.ask(interrupted=time_passes) for _ in range(2)] == ["", ""]
    with pytest.raises(RemoteError, match="3 requests within 5 s") as found:
        client.ask(interrupted=time_passes)
    assert "deadline_ms" in found.value.remedy


def test_a_late_answer_is_noted_where_the_caller_tells_the_time(asking):
    """And requests pause then: the server accepts all of them and answers none."""
    client = asking(*repeat([60.0], 3))
    client.engine.connect()
    for number in range(1, 4):
        with suppress(RemoteError) if number == 3 else nullcontext():
            client.ask(interrupted=lambda n=number: client.n_asked >= n and "deadline")
    with pytest.raises(RemoteError, match="3 requests within"):
        client.ask()
    assert client.n_asked == 3


@pytest.mark.parametrize(
    "rest",
    [
        [],
        [b"<html>what?</html>\n"],
        [b"data: {broken\n\n"],
        [b'data: {"choices": 5}\n\n'],
        [{"choices": [{"index": 0, "text": "x" * (1 << 21)}]}],
        [{"error": {"message": "out of memory", "code": 500}}],
        [b"error: {}\n\n"[:7] + b'{"message":"out of memory"}\n\n'],
    ],
    ids=["cut", "HTML", "broken JSON", "wrong type", "huge line", "error", "old error"],
)
def test_a_stream_that_breaks_off_leaves_what_came(asking, rest):
    client = asking(stream(HELLO, *rest, is_cut=True), good())
    assert client.ask() == "hello"
    assert client.engine.stats.is_cut
    assert client.ask() == "hello world"
    assert not client.engine.stats.is_cut


@pytest.mark.parametrize(
    ("answer", "message", "remedy"),
    [
        (stream(b"<html>\n"), "no stream of events", ""),
        (stream({**HELLO, "id": "x" * (1 << 21)}), "no stream of events", ""),
        (stream({"error": "out of memory"}), "fails: out of memory", ""),
        (stream(b'data: {"error" : "out of memory"}\n\n'), "fails: out of memory", ""),
        (response(200, {"error": {"message": "out of memory"}}), "fails: out of memory", ""),
        (response(401, {"error": {"message": f"bad {KEY}"}}), r"refuses the key .*bad …", "KEY"),
        (response(403), "refuses the key", "engine_key_file"),
        (response(404, {"message": "no model coder"}), "no model coder", "engine_model"),
        (response(407), "a proxy that asks for a name", "HTTP_PROXY"),
        (response(429, b"", "Retry-After: 3600"), "limits how often", "debounce_ms"),
        (response(302, b"", "Location: http://evil.example/x"), "redirects to evil", "engine_url"),
        (response(200, b"[]"), "no stream of events", ""),
    ],
)
def test_an_error_says_what_to_do_and_stops_requests_for_a_while(asking, answer, message, remedy):
    client = asking(answer, good())
    for _ in range(3):
        with pytest.raises(RemoteError, match=message) as found:
            client.ask()
        assert remedy in found.value.remedy
        assert KEY not in str(found.value)
    with pytest.raises(RemoteError, match=message):
        client.engine.connect()
    assert client.n_asked == 1
    client.now += 30.0
    assert client.ask() == "hello world"


def test_pauses_grow_and_end_with_a_success(asking):
    client = asking(*repeat(response(403), 9), good(), response(403), good())
    pauses = []
    while client.n_asked < 12:
        n_asked, began = client.n_asked, client.now
        while client.n_asked == n_asked:
            client.now += 0.5
            with suppress(RemoteError):
                client.ask()
        pauses.append(client.now - began)
    assert pauses[1:] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 0.5, 0.5]


def test_an_answer_that_a_stop_rule_ends_is_a_success(asking):
    client = asking(response(403), stream(HELLO, 60.0), response(503), good())
    with pytest.raises(RemoteError):
        client.ask()
    client.now += 0.5
    pieces = client.engine.stream(PROMPT, RemoteParams(n_predict=16), lambda: False, 5.0)
    next(pieces)
    pieces.close()
    assert client.ask() == "hello world", "it is tried again, as after any success"


def test_a_key_that_was_replaced_is_read_again(asking):
    server = asking(response(401), good()).server
    keys = iter(["a-newer-key"])
    client = Client(server, read_key=lambda: next(keys))
    for _ in range(2):
        with pytest.raises(RemoteError, match="refuses the key"):
            client.ask()
    client.now += 0.5
    assert client.ask() == "hello world"
    assert server.requests[-1].headers["authorization"] == "Bearer a-newer-key"
    client.engine.close()


def test_a_refused_request_does_not_stop_the_next_one(asking):
    client = asking(response(400, {"error": {"message": "too long"}}), good())
    with pytest.raises(RemoteError, match="too long") as refused:
        client.ask()
    assert "fim_template" in refused.value.remedy
    assert client.ask() == "hello world"


@pytest.mark.parametrize(
    "failure",
    [
        response(429, b"", "Retry-After: 0"),
        response(503, {"error": {"message": "Loading model"}}),
        [b"HTTP/1.1 200 OK\r\nContent-Le"],
    ],
    ids=["429", "503", "connection lost"],
)
def test_a_passing_failure_is_tried_again(asking, failure):
    client = asking(failure, failure, good())
    assert client.ask() == "hello world"
    assert client.n_asked == 3


def test_retries_stay_within_the_time_of_the_request(asking):
    client = asking(response(429, b"", "Retry-After: 6"), good())
    with pytest.raises(RemoteError, match="limits"):
        client.ask(deadline_s=5.0)
    assert client.n_asked == 1


def test_a_request_without_a_deadline_waits_no_hour(asking):
    client = asking(response(429, b"", "Retry-After: 3600"))
    with pytest.raises(RemoteError, match="limits how often"):
        client.ask(deadline_s=math.inf)
    assert client.n_asked == 1


def test_a_connection_is_kept(asking):
    client = asking(good(), good())
    assert [client.ask(), client.ask()] == ["hello world"] * 2
    assert client.server.n_connections == 1


def test_a_connection_that_the_server_closed_is_replaced(asking):
    client = asking(good(), good())
    client.server.keeps_connections = False
    assert [client.ask(), client.ask()] == ["hello world"] * 2


def test_the_request_after_a_cut_finds_a_connection(asking):
    client = asking(stream(HELLO, 60.0), good())
    pieces = client.engine.stream(PROMPT, RemoteParams(n_predict=16), lambda: False, 5.0)
    next(pieces)
    pieces.close()
    until(lambda: client.server.requests[-1].method == "HEAD")
    until(lambda: not asyncio.all_tasks(client.engine._loop))  # it has the answer
    head = client.server.requests[-1]
    assert client.ask() == "hello world"
    assert client.server.requests[-1].connection_idx == head.connection_idx


@pytest.mark.filterwarnings("error")
def test_closing_the_engine_after_a_cut_is_silent(asking):
    for number in range(20):
        client = asking(stream(HELLO, 60.0, WORLD))
        client.engine.connect()
        pieces = client.engine.stream(PROMPT, RemoteParams(n_predict=16), lambda: False, 5.0)
        next(pieces)
        pieces.close()
        time.sleep(number * 0.0002)
        client.engine.close()
        gc.collect()


def test_closing_the_engine_ends_its_stream(asking):
    client = asking(stream(HELLO, 60.0))
    pieces = client.engine.stream(PROMPT, RemoteParams(n_predict=16), lambda: False, 5.0)
    next(pieces)
    client.engine.close()
    assert list(pieces) == []
    assert client.server.abandoned.wait(60.0)
    with pytest.raises(RemoteError, match="closed"):
        client.ask()


def test_closing_the_engine_ends_connecting():
    with scripted_server(lambda _: [60.0]) as server:
        engine = HttpEngine(server.url)
        closing = threading.Timer(0.5, engine.close)
        closing.start()
        with pytest.raises(RemoteError, match="closed"):
            engine.connect()
        closing.join()


@given(st.data())
def test_pieces_do_not_depend_on_how_the_bytes_arrive(data):
    """Network packets end anywhere: within a line, a character or a line end."""
    texts = data.draw(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), max_size=5))
    noise = st.sampled_from(
        [b": ping\n\n", b"event: message\n", b"\r\n", b"id: 1\n", b"retry: 5\n"]
    )
    whole = b""
    for text in texts:
        event = json.dumps({"choices": [{"text": text}]}, ensure_ascii=data.draw(st.booleans()))
        prefix = data.draw(st.sampled_from([b"data: ", b"data:", b""]))
        line_end = data.draw(st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
        whole += data.draw(noise) + prefix + event.encode() + line_end
    if data.draw(st.booleans()):
        whole = whole.removesuffix(b"\n")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=9)))
    ends = pairwise([0, *cuts, len(whole)])

    class Response:
        async def aiter_bytes(self) -> AsyncIterator[bytes]:
            for start, end in ends:
                yield whole[start:end]

    async def read() -> list[str]:
        openai, stats = DIALECTS["openai"], RemoteStats()
        return [openai.read(event, stats).text async for event in _events(Response())]

    assert asyncio.run(read()) == texts


@pytest.mark.parametrize("rest", [b"[" * 500_000, b'{"choices":' + b"[" * 500_000, b"\xff", b"{"])
def test_hostile_bytes_are_no_crash(asking, rest):
    client = asking(stream(b"data: " + rest + b"\n\n"), response(500, rest), good())
    for _ in range(2):
        with pytest.raises(RemoteError):
            client.ask()
        client.now += 30.0
    assert client.ask() == "hello world"


def test_an_error_quotes_no_prompt(asking):
    first, second = "alpha  =  one\nbeta = two", "the last piece of a file"
    prompt = replace(PROMPT, chunks=(("a.py", first), ("a.py", second)))
    for quoted in (PROMPT.text, first):
        words = f"1 validation error: {{'input': '{quoted}'}}"
        client = asking(response(422, {"detail": [{"loc": ["body"], "msg": words}]}))
        with pytest.raises(RemoteError, match="1 validation error") as found:
            list(client.engine.stream(prompt, RemoteParams(n_predict=16), lambda: False, 5.0))
        assert " ".join(quoted.split())[:16] not in str(found.value)


@pytest.mark.parametrize(
    ("path", "shown"),
    [("/gw/sk-live-abcdefghijklmnop/x", "…"), ("/gw/schlüssel ab/x", "…"), ("", ""), ("/", "")],
)
def test_an_error_shows_no_path_of_the_address(path, shown):
    """A gateway's path may be a key."""

    def script(request: Request) -> Iterable[bytes]:
        return [response(401, {"error": {"message": f"no {request.path} here"}})]

    with scripted_server(script) as server:
        engine = HttpEngine(f"{server.url}{path}/v1", "openai")
        with pytest.raises(RemoteError) as found:
            engine.connect()
        engine.close()
    words = f"refuses the key with status 401 (no {shown}/v1/models here)"
    assert f"at {server.url} {words}" in str(found.value)


def test_neither_key_nor_prompt_is_logged(asking, caplog):
    with caplog.at_level(logging.DEBUG):
        client = asking(good(), stream(HELLO, is_cut=True), response(500, b"broken"))
        assert client.ask() == "hello world"
        assert client.ask() == "hello"
        with pytest.raises(RemoteError):
            client.ask()
    assert client.server.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    assert "broke off" in caplog.text
    assert KEY not in f"{caplog.text}{client.engine!r}{vars(client.engine)['_client']!r}"
    assert PROMPT.text[:16] not in caplog.text


@pytest.mark.parametrize("failures", [[[b""]] * 4, [response(404)]], ids=["connection lost", "404"])
def test_another_model_is_not_asked_with_the_former_ones_prompts(asking, failures):
    client = asking(good(), *failures, good())
    assert client.ask() == "hello world"
    with pytest.raises(RemoteError, match=r"closes the connection|no such path or model"):
        client.ask()
    MODELS["data"][0]["id"] = "writer"
    try:
        client.now += 1.0
        with pytest.raises(RemoteError, match="runs writer now, and ran coder"):
            client.ask()
    finally:
        MODELS["data"][0]["id"] = "coder"
    client.now += 30.0
    assert client.ask() == "hello world"


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(asking, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert asking(good()).ask() == "hello world"


@pytest.mark.parametrize("proxy", ["socks4://user:secret@proxy:1080", "http://proxy:port"])
def test_a_proxy_that_cannot_be_used_is_told(monkeypatch, proxy):
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(RemoteError, match="proxy that") as found:
        HttpEngine("http://gpu.example")
    assert "gpu.example to NO_PROXY" in found.value.remedy
    assert "secret" not in str(found.value)


def test_a_certificate_has_to_be_trusted(certificate):
    path, tls = certificate
    with scripted_server(served([good()]), tls=tls) as server:
        stranger, friend = Client(server), Client(server, ca_file=str(path))
        with pytest.raises(RemoteError, match="not trusted: self-signed") as found:
            stranger.ask()
        assert "engine_ca_file" in found.value.remedy
        assert friend.ask() == "hello world"
        assert [request.path for request in server.requests] == ["/v1/models", "/v1/completions"]
        stranger.engine.close()
        friend.engine.close()


@pytest.mark.parametrize("name", ["missing.pem", "a\0b.pem", "~nobody-of-this-name/a.pem"])
def test_certificates_that_cannot_be_read_are_told(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match="cannot be read") as found:
        HttpEngine("https://gpu.example", ca_file=name)
    assert "PEM" in found.value.remedy


def test_a_port_without_tls_is_told(asking):
    server = asking().server
    server.url = server.url.replace("http:", "https:")
    client = Client(server)
    with pytest.raises(RemoteError, match="offers no TLS") as found:
        client.ask()
    assert "http://" in found.value.remedy
    client.engine.close()


@pytest.mark.parametrize(
    ("url", "key", "message"),
    [
        ("", "", "no address"),
        ("localhost:8080", "", "no address"),
        ("http://", "", "no address"),
        ("http://host:port", "", "no address"),
        ("ftp://host", "", "no address"),
        ("speclsp://me:secret-word@host:99", "", "Unix sockets only"),
        ("speclsp+unix:///engine.sock", "", "cannot change to"),
        ("http://host/?model=x", "", "no address"),
        ("http://user:secret-word@host", "", "user name or a password"),
        ("http://host/?api_key=secret-word", "", "no address"),
        ("user:secret-word@host:8080", "", "no address"),
        ("http://user:secret-word", "", "no address"),
        ("http://host", "secret-word\nmore", "characters that no key has"),
        ("http://host", "secret-wörd", "characters that no key has"),
    ],
)
def test_an_address_or_key_that_cannot_be_used_is_refused(url, key, message):
    with pytest.raises(RemoteError, match=message) as found:
        HttpEngine(url, key=key)
    assert found.value.remedy
    assert "secret" not in str(found.value)


@pytest.mark.parametrize(
    ("url", "key", "warns"),
    [
        ("http://gpu.example", KEY, True),
        ("http://gpu.example", "", False),
        ("https://gpu.example", KEY, False),
        ("http://127.0.0.2:8080", KEY, False),
        ("http://[::1]:8080", KEY, False),
    ],
)
def test_a_key_in_the_clear_is_warned_of(url, key, warns):
    engine = HttpEngine(url, key=key)
    assert bool(engine.warning) is warns
    assert KEY not in engine.warning
    engine.close()
