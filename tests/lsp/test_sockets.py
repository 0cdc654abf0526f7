from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from lsp_wire import INLINE, URI, at
from scripted_completer import ScriptedCompleter
from suspended import suspend

from speclsp.errors import SettingsError, SpecLspError
from speclsp.lsp import sockets
from speclsp.lsp.framing import frame
from speclsp.lsp.server import SpecLanguageServer
from speclsp.lsp.sockets import parse_address, serve_tcp

SERVER = Path(__file__).parent.parent / "support" / "scripted_server.py"
TIMEOUT_S = 60
TOKEN = "a-token-for-the-tests"

Start = Callable[..., Awaitable[tuple[asyncio.subprocess.Process, int]]]


@pytest_asyncio.fixture
async def start() -> AsyncIterator[Start]:
    """Start a server on a free port of loopback."""
    processes: list[asyncio.subprocess.Process] = []

    async def make(*token: str) -> tuple[asyncio.subprocess.Process, int]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SERVER),
            "--tcp",
            "0",
            *token,
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


async def client_of(port: int) -> TcpClient:
    return TcpClient(*await asyncio.open_connection("127.0.0.1", port))


async def ask(client: TcpClient, msg_id: int, method: str, params: Any = None) -> Any:
    message = {"jsonrpc": "2.0", "id": msg_id, "method": method, "params": params}
    await client.send(json.dumps(message))
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            answer = json.loads(await client.receive())
            if answer.get("id") == msg_id:
                return answer["result"]


async def notify(client: TcpClient, method: str, params: Any) -> None:
    await client.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))


async def initialize(client: TcpClient, **options: Any) -> None:
    able = {"textDocument": {"inlineCompletion": {}}}
    params = {"capabilities": able, "initializationOptions": options}
    await ask(client, 1, "initialize", params)
    await notify(client, "initialized", {})
    document = {"uri": URI, "languageId": "python", "version": 1, "text": "é😋"}
    await notify(client, "textDocument/didOpen", {"textDocument": document})


async def ghost(client: TcpClient, msg_id: int) -> list[Any]:
    async with asyncio.timeout(TIMEOUT_S):
        # Empty while the completer is made.
        while not (items := (await ask(client, msg_id, INLINE, at(0, 3)))["items"]):
            await asyncio.sleep(0.02)
    return list(items)


async def test_session_over_a_socket(start: Start) -> None:
    process, port = await start()
    client = await client_of(port)
    await initialize(client)
    assert (await ghost(client, 2))[0]["insertText"] == " # 2+0"
    assert await ask(client, 3, "shutdown") is None
    await notify(client, "exit", None)
    assert await asyncio.wait_for(process.wait(), TIMEOUT_S) == 0


async def test_second_client_is_refused_and_the_first_goes_on(start: Start) -> None:
    process, port = await start()
    first = await client_of(port)
    await initialize(first)
    assert await ghost(first, 2)
    for _ in range(3):
        reader, _ = await asyncio.open_connection("127.0.0.1", port)
        assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b""
    assert await ghost(first, 3)
    assert process.returncode is None


async def test_disconnect_ends_the_server(start: Start) -> None:
    process, port = await start()
    client = await client_of(port)
    await initialize(client)
    assert await ghost(client, 2)
    await client.close()
    assert await asyncio.wait_for(process.wait(), TIMEOUT_S) == 1


async def test_who_only_tries_the_port_does_not_end_the_server(start: Start) -> None:
    _, port = await start()
    for _ in range(2):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
    client = await client_of(port)
    await initialize(client)
    assert await ghost(client, 2)


async def test_who_tried_the_port_and_a_client_may_be_met_at_once(start: Start) -> None:
    process, port = await start()
    suspend(process.pid)
    for _ in range(2):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await writer.wait_closed()
    connecting = asyncio.create_task(client_of(port))
    await asyncio.sleep(0.05)
    process.send_signal(signal.SIGCONT)
    client = await connecting
    await initialize(client)
    assert await ghost(client, 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signal_ends_the_session(number: signal.Signals, start: Start) -> None:
    process, port = await start()
    client = await client_of(port)
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
@pytest.mark.parametrize("connected_for_s", [None, 0.0, 0.1])
async def test_signal_without_a_session_ends_the_server(
    connected_for_s: float | None, number: signal.Signals, start: Start
) -> None:
    process, port = await start()
    client = None if connected_for_s is None else await client_of(port)
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


@pytest.mark.parametrize("options", [None, {}, {"token": "x"}, {"token": [TOKEN]}, [TOKEN]])
async def test_tcp_needs_the_token(options: Any, start: Start) -> None:
    _, port = await start(TOKEN)
    refused = await client_of(port)
    params = {"capabilities": {}, "initializationOptions": options}
    message = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": params}
    await refused.send(json.dumps(message))
    error = json.loads(await refused.receive())
    assert error["id"] == 7
    assert "token" in error["error"]["message"]
    await assert_closed(refused)
    admitted = await client_of(port)
    await initialize(admitted, token=TOKEN, n_predict=8)
    assert await ghost(admitted, 2)


async def assert_closed(client: TcpClient) -> None:
    with suppress(ConnectionError):
        assert await asyncio.wait_for(client.reader.read(), TIMEOUT_S) == b""


@pytest.mark.parametrize("token", [(), (TOKEN,)])
@pytest.mark.parametrize("message", [{"method": "exit"}, {"id": 1, "method": INLINE}, [], 7])
async def test_the_first_message_must_be_initialize(
    message: Any, token: tuple[str, ...], start: Start
) -> None:
    _, port = await start(*token)
    refused = await client_of(port)
    await refused.send(json.dumps(message))
    assert "initialize" in json.loads(await refused.receive())["error"]["message"]
    await assert_closed(refused)
    admitted = await client_of(port)
    await initialize(admitted, token=TOKEN)
    assert await ghost(admitted, 2)


INITIALIZE = frame(
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{},'
    b'"initializationOptions":{"model":"/tmp/evil.gguf"}}}'
)


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(INITIALIZE),
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /%b HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: " % (b"a" * 9_000),
        b"Content-Length: 9\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1 Content-Length: 0\r\n\r\n",
    ],
)
async def test_web_pages_post_is_refused_on_tcp(head: bytes, start: Start) -> None:
    _, port = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    await writer.drain()
    await asyncio.sleep(0.3)  # the rest comes in another read
    with suppress(ConnectionError):
        writer.write(b"\r\n\r\n" + INITIALIZE)
        await writer.drain()
        assert b'"result"' not in await asyncio.wait_for(reader.read(), TIMEOUT_S)
    client = await client_of(port)
    await initialize(client)
    assert await ghost(client, 2)


async def test_malformed_header_ends_a_session_on_tcp(start: Start) -> None:
    process, port = await start()
    client = await client_of(port)
    await initialize(client)
    client.writer.write(b"Content-Length: x\r\n\r\n")
    await client.send('{"jsonrpc":"2.0","id":9,"method":"workspace/executeCommand"}')
    async with asyncio.timeout(TIMEOUT_S):
        sent = await client.reader.read()
    assert b"-32700" in sent
    assert b'"id":9' not in sent
    assert await asyncio.wait_for(process.wait(), TIMEOUT_S) == 1


async def test_silent_client_does_not_hold_the_place(start: Start) -> None:
    _, port = await start()
    silent = [await client_of(port) for _ in range(3)]
    client = await client_of(port)
    await initialize(client)
    assert await ghost(client, 2)
    for other in silent:
        await other.close()


async def test_silent_client_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "HANDSHAKE_S", 0.1)
    loop = asyncio.get_running_loop()
    listening: asyncio.Future[int] = loop.create_future()

    def announce(_: str, port: int) -> None:
        loop.call_soon_threadsafe(listening.set_result, port)

    server = SpecLanguageServer(ScriptedCompleter, {})
    serving = asyncio.create_task(
        asyncio.to_thread(serve_tcp, server, "127.0.0.1", 0, token=None, on_listening=announce)
    )
    port = await listening
    half_a_message = await client_of(port)
    half_a_message.writer.write(INITIALIZE[:40])
    await assert_closed(half_a_message)
    monkeypatch.undo()
    client = await client_of(port)
    await ask(client, 1, "initialize", {"capabilities": {}})
    await ask(client, 2, "shutdown")
    await notify(client, "exit", None)
    assert await asyncio.wait_for(serving, TIMEOUT_S) == 0


async def test_client_that_never_reads_is_dropped(start: Start) -> None:
    process, port = await start()
    client = await client_of(port)
    await initialize(client)
    large_id = "x" * 2**20
    with suppress(ConnectionError):
        for number in range(2 * sockets.MAX_UNSENT_BYTES // len(large_id)):
            message = {"jsonrpc": "2.0", "id": f"{number}{large_id}", "method": "no/such"}
            await client.send(json.dumps(message))
    assert await asyncio.wait_for(process.wait(), TIMEOUT_S) == 1


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's table of sockets")
async def test_vanished_tcp_client_is_noticed_by_keepalive(start: Start) -> None:
    _, port = await start()
    client = await client_of(port)  # closed as soon as nothing refers to it
    established, keepalive = "01", "02"
    async with asyncio.timeout(TIMEOUT_S):
        while True:  # the server may not have accepted the connection yet
            rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
            ours = [row for row in rows if row[1].endswith(f":{port:04X}")]
            timers = [row[5].split(":") for row in ours if row[3] == established]
            if [kind for kind, _ in timers] == [keepalive]:
                break
            await asyncio.sleep(0.02)
    hundredths = int(timers[0][1], 16)
    assert hundredths <= 60 * 100
    await client.close()


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

    with pytest.raises(SpecLspError, match=r"cannot listen on 127\.0\.0\.1"):
        await asyncio.to_thread(
            serve_tcp,
            SpecLanguageServer(unused, {}),
            "127.0.0.1",
            port,
            token=None,
            on_listening=print,
        )
    listener.close()
