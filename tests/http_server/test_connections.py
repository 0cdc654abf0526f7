"""Connections that ask for nothing, of a real ``speclsp http`` and of uvicorn alone."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest
import uvicorn
from speclsp_http import Server

from speclsp.http_server import connections
from speclsp.http_server.connections import Connection

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
WAIT_S = 30


@pytest.mark.real
def test_silent_connections_keep_nobody_out(tmp_path):
    """300 connections, half of them with half a head, and each one more finds its answer."""
    server = Server(tmp_path, "--engine", "own")
    try:
        with ExitStack() as opened:
            for number in range(300):
                silent = socket.create_connection(("127.0.0.1", server.port), WAIT_S)
                opened.enter_context(silent)
                if number % 2:
                    silent.sendall(b"POST /infill HTTP/1.1\r\nHost: localhost\r\n")
            for _ in range(20):
                assert server.send("/v1/models")[0] == 200
    finally:
        assert server.close() == ""


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    config = uvicorn.Config(app, host="127.0.0.1", port=0, http=Connection, log_level="error")
    listener = config.bind_socket()
    listener.listen()
    server = uvicorn.Server(config)
    task = asyncio.ensure_future(server.serve([listener]))
    try:
        yield server, listener.getsockname()[1]
    finally:
        server.should_exit = True
        await task
        listener.close()


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Answer where a request is whole."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(ASK)
    return (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)).split(b"\r\n")[0]


@pytest.mark.parametrize("sent", [b"", b"GET / HT", ASK + b"GET / HT"], ids=["none", "half", "2nd"])
async def test_a_head_that_does_not_come_ends_the_connection(sent, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_TIMEOUT_S", 0.05)
    async with serving(answer) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if sent.startswith(ASK):
            assert await ask(reader, writer) == b"HTTP/1.1 204 No Content"
            sent = sent.removeprefix(ASK)
        writer.write(sent)
        assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
        writer.close()


async def test_the_oldest_silent_one_goes_first(monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    async with serving(answer) as (server, port):
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        while len(server.server_state.connections) < 3:
            await asyncio.sleep(0.001)
        assert await ask(*opened[0]) == b"HTTP/1.1 204 No Content"
        half = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
        opened[1][1].write(half)  # a body that does not come is silence
        opened.append(await asyncio.open_connection("127.0.0.1", port))
        assert await asyncio.wait_for(opened[1][0].read(), WAIT_S) == b""
        for idx in (0, 2, 3):
            assert await ask(*opened[idx]) == b"HTTP/1.1 204 No Content"
        for _, writer in opened:
            writer.close()


async def test_a_request_that_is_being_answered_is_not_silent(monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    may_answer = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await may_answer.wait()
        await answer(scope, receive, send)

    async with serving(slow) as (server, port):
        busy = await asyncio.open_connection("127.0.0.1", port)
        answered = asyncio.ensure_future(ask(*busy))
        while not server.server_state.tasks:
            await asyncio.sleep(0.001)
        others = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
        for reader, _ in others[:3]:
            assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
        may_answer.set()
        assert await answered == b"HTTP/1.1 204 No Content"
        assert await ask(*others[3]) == b"HTTP/1.1 204 No Content"
        for _, writer in (busy, *others):
            writer.close()
