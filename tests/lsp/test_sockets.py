from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import websockets
from lsp_wire import INLINE, URI, at
from websockets.asyncio.client import ClientConnection, connect

from speclsp.errors import SettingsError, SpecLspError
from speclsp.lsp.framing import frame
from speclsp.lsp.server import create_server
from speclsp.lsp.sockets import parse_address, serve_tcp, serve_websocket

SERVER = Path(__file__).parent.parent / "support" / "scripted_server.py"
TIMEOUT_S = 60

Start = Callable[[str], Awaitable[tuple[asyncio.subprocess.Process, int]]]


@pytest_asyncio.fixture
async def start() -> AsyncIterator[Start]:
    """Start a server on a free port of loopback."""
    processes: list[asyncio.subprocess.Process] = []

    async def make(option: str) -> tuple[asyncio.subprocess.Process, int]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SERVER),
            option,
            "0",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        processes.append(process)
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), TIMEOUT_S)
        host, _, port = line.decode().strip().rpartition(":")
        assert host == "127.0.0.1"
        return process, int(port)

    yield make
    for process in processes:
        if process.returncode is None:
            process.kill()
        await process.wait()


class TcpClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, text: str) -> None:
        self.writer.write(frame(text.encode()))
        await self.writer.drain()

    async def receive(self) -> str:
        header = await self.reader.readuntil(b"\r\n\r\n")
        return (await self.reader.readexactly(int(header.split(b":")[1]))).decode()

    async def close(self) -> None:
        self.writer.close()


class WsClient:
    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def send(self, text: str) -> None:
        await self.connection.send(text)

    async def receive(self) -> str:
        message = await self.connection.recv()
        assert isinstance(message, str)
        return message

    async def close(self) -> None:
        await self.connection.close()


Client = TcpClient | WsClient


async def client_of(option: str, port: int) -> Client:
    if option == "--tcp":
        return TcpClient(*await asyncio.open_connection("127.0.0.1", port))
    return WsClient(await connect(f"ws://127.0.0.1:{port}"))


async def ask(client: Client, msg_id: int, method: str, params: Any = None) -> Any:
    message = {"jsonrpc": "2.0", "id": msg_id, "method": method, "params": params}
    await client.send(json.dumps(message))
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            answer = json.loads(await client.receive())
            if answer.get("id") == msg_id:
                return answer["result"]


async def notify(client: Client, method: str, params: Any) -> None:
    await client.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))


async def initialize(client: Client) -> None:
    able = {"textDocument": {"inlineCompletion": {}}}
    await ask(client, 1, "initialize", {"capabilities": able})
    await notify(client, "initialized", {})
    document = {"uri": URI, "languageId": "python", "version": 1, "text": "é😋"}
    await notify(client, "textDocument/didOpen", {"textDocument": document})


async def ghost(client: Client, msg_id: int) -> list[Any]:
    async with asyncio.timeout(TIMEOUT_S):
        # Empty while the completer is made.
        while not (items := (await ask(client, msg_id, INLINE, at(0, 3)))["items"]):
            await asyncio.sleep(0.02)
    return list(items)


@pytest.mark.parametrize("option", ["--tcp", "--ws"])
async def test_session_over_a_socket(option: str, start: Start) -> None:
    process, port = await start(option)
    client = await client_of(option, port)
    await initialize(client)
    assert (await ghost(client, 2))[0]["insertText"] == " # 2+0"
    assert await ask(client, 3, "shutdown") is None
    await notify(client, "exit", None)
    assert await asyncio.wait_for(process.wait(), TIMEOUT_S) == 0


@pytest.mark.parametrize("option", ["--tcp", "--ws"])
async def test_second_client_is_refused_and_the_first_goes_on(option: str, start: Start) -> None:
    process, port = await start(option)
    first = await client_of(option, port)
    await initialize(first)
    assert await ghost(first, 2)
    for _ in range(3):
        if option == "--tcp":
            reader, _ = await asyncio.open_connection("127.0.0.1", port)
            assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b""
        else:
            with pytest.raises(websockets.InvalidStatus) as refusal:
                await client_of(option, port)
            assert refusal.value.response.status_code == 503
    assert await ghost(first, 3)
    assert process.returncode is None


@pytest.mark.parametrize("option", ["--tcp", "--ws"])
async def test_disconnect_ends_the_server(option: str, start: Start) -> None:
    process, port = await start(option)
    client = await client_of(option, port)
    await initialize(client)
    assert await ghost(client, 2)
    await client.close()
    assert await asyncio.wait_for(process.wait(), TIMEOUT_S) == 1


@pytest.mark.parametrize("option", ["--tcp", "--ws"])
async def test_who_only_tries_the_port_does_not_end_the_server(option: str, start: Start) -> None:
    _, port = await start(option)
    for _ in range(2):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
    client = await client_of(option, port)
    await initialize(client)
    assert await ghost(client, 2)


@pytest.mark.parametrize("option", ["--tcp", "--ws"])
async def test_who_tried_the_port_and_a_client_may_be_met_at_once(
    option: str, start: Start
) -> None:
    process, port = await start(option)
    process.send_signal(signal.SIGSTOP)
    for _ in range(2):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await writer.wait_closed()
    connecting = asyncio.create_task(client_of(option, port))
    await asyncio.sleep(0.05)
    process.send_signal(signal.SIGCONT)
    client = await connecting
    await initialize(client)
    assert await ghost(client, 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("option", ["--tcp", "--ws"])
async def test_signal_ends_the_session(option: str, number: signal.Signals, start: Start) -> None:
    process, port = await start(option)
    client = await client_of(option, port)
    await initialize(client)
    assert await ghost(client, 2)
    process.send_signal(number)
    logged = ""
    async with asyncio.timeout(TIMEOUT_S):
        while "requests = " not in logged:
            message = json.loads(await client.receive())
            if message.get("method") == "window/logMessage":
                logged += message["params"]["message"]
    assert await ended(process) == (1, b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("option", ["--tcp", "--ws"])
@pytest.mark.parametrize("connected_for_s", [None, 0.0, 0.1])
async def test_signal_without_a_session_ends_the_server(
    connected_for_s: float | None, option: str, number: signal.Signals, start: Start
) -> None:
    process, port = await start(option)
    client = None if connected_for_s is None else await client_of(option, port)
    await asyncio.sleep(connected_for_s or 0)
    process.send_signal(number)
    assert await ended(process) == (1, b"")
    if client is not None:
        await client.close()


async def ended(process: asyncio.subprocess.Process) -> tuple[int, bytes]:
    """Return the exit code, and what was written to standard error."""
    assert process.stderr is not None
    code = await asyncio.wait_for(process.wait(), TIMEOUT_S)
    return code, await process.stderr.read()


@pytest.mark.parametrize(
    ("origin", "status"),
    [("https://evil.example", 403), ("http://localhost.evil.example", 403), ("null", 403)],
)
async def test_web_page_from_elsewhere_is_refused(origin: str, status: int, start: Start) -> None:
    _, port = await start("--ws")
    with pytest.raises(websockets.InvalidStatus) as refusal:
        await connect(f"ws://127.0.0.1:{port}", additional_headers={"Origin": origin})
    assert refusal.value.response.status_code == status
    # It has not taken the one place.
    own = await connect(
        f"ws://127.0.0.1:{port}", additional_headers={"Origin": "http://localhost:8080"}
    )
    await own.close()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:2087", ("127.0.0.1", 2087)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("2087", ("127.0.0.1", 2087)),
        (":2087", ("127.0.0.1", 2087)),
        ("[::1]:2087", ("::1", 2087)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", ":x", "h:-1", "h:65536", "h:²"])
def test_wrong_addresses(text: str) -> None:
    with pytest.raises(SettingsError, match="HOST:PORT"):
        parse_address(text)


async def test_address_in_use_is_one_clear_error() -> None:
    listener = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]

    def unused(settings: object) -> Any:
        raise AssertionError

    for serve in (serve_tcp, serve_websocket):
        with pytest.raises(SpecLspError, match=r"cannot listen on 127\.0\.0\.1"):
            await asyncio.to_thread(
                serve, create_server(unused, {}), "127.0.0.1", port, on_listening=print
            )
    listener.close()
