"""The server as a process on standard input and output."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lsp_wire import INLINE, URI, at

from speclsp.rpc.framing import FrameDecoder, FramingProblem, frame

SERVER = Path(__file__).parent.parent / "support" / "scripted_server.py"
TIMEOUT_S = 60


class Process:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SERVER), "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self.messages: list[dict[str, Any]] = []
        self._decoder = FrameDecoder()

    def write(self, data: bytes) -> None:
        self.process.stdin.write(data)

    def send(self, **message: Any) -> None:
        self.write(frame(json.dumps({"jsonrpc": "2.0", **message}).encode()))

    def read(self) -> bool:
        data = self.process.stdout.read(65536)
        for piece in self._decoder.feed(data or b""):
            # Nothing but frames may come.
            assert not isinstance(piece, FramingProblem), piece
            self.messages.append(json.loads(piece))
        return bool(data)

    def answer(self, msg_id: Any) -> dict[str, Any]:
        while True:
            for message in self.messages:
                if "method" not in message and message.get("id") == msg_id:
                    self.messages.remove(message)
                    return message
            assert self.read(), "the server ended"

    def initialize(self) -> dict[str, Any]:
        able = {"textDocument": {"inlineCompletion": {}}}
        self.send(id="init", method="initialize", params={"capabilities": able})
        answer = self.answer("init")
        self.send(method="initialized", params={})
        while "scripted completer made" not in str(self.messages):
            assert self.read()
        return answer

    def open(self, text: str) -> None:
        document = {"uri": URI, "languageId": "python", "version": 1, "text": text}
        self.send(method="textDocument/didOpen", params={"textDocument": document})

    def complete(self) -> None:
        """Make the request without which a session has no statistics."""
        self.open("a = 1\n")
        self.send(id="complete", method=INLINE, params=at(0, 5))
        self.answer("complete")

    def end(self) -> tuple[int, bytes]:
        """Return exit code and standard error once the process has ended."""
        while self.read():
            pass
        _, errors = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, errors


@pytest.fixture
def server() -> Iterator[Process]:
    started = Process()
    yield started
    started.process.kill()
    started.process.communicate()


def test_everything_in_one_write(server):
    server.initialize()
    server.open("wait")
    for msg_id in range(20):
        server.send(id=msg_id, method=INLINE, params=at(0, 4))
    server.send(id="off", method="shutdown")
    server.send(method="exit")
    code, errors = server.end()
    assert (code, errors) == (0, b"")
    answers = [m for m in server.messages if "method" not in m]
    assert sorted(str(m["id"]) for m in answers) == sorted(str(i) for i in [*range(20), "off"])
    assert {m["error"]["code"] for m in answers if m["id"] != "off"} == {-32800}


def test_messages_behind_initialize_are_answered_once_and_in_order(server):
    able = {"textDocument": {"inlineCompletion": {}}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": able}}
    whole = frame(json.dumps(first).encode())
    server.write(whole[:50])
    server.write(whole[50:] + frame(json.dumps({**first, "id": 2}).encode()))
    server.send(method="initialized", params={})
    server.send(id=1, method="speclsp/statistics")
    server.send(id=3, method="shutdown")
    server.send(method="exit")
    assert server.end()[0] == 0
    answers = [m for m in server.messages if "method" not in m]
    assert [answer["id"] for answer in answers] == [1, 2, 1, 3]
    assert "capabilities" in answers[0]["result"]
    assert answers[1]["error"]["code"] == -32600
    assert "n_requests" in answers[2]["result"]


def test_a_malformed_initialize_is_refused_and_can_be_sent_again(server):
    server.send(id=1, method="initialize", params={"capabilities": {"window": 5}})
    error = server.answer(1)["error"]
    assert error["code"] == -32602
    assert "window" in error["message"]
    server.initialize()
    server.complete()


def test_stray_output_does_not_break_the_wire(server):
    server.initialize()
    server.open("print")
    server.send(id=1, method=INLINE, params=at(0, 5))
    # Standard input is empty to the plugin: the client's bytes stay ours.
    assert server.answer(1)["result"]["items"][0]["insertText"] == "read ''"
    server.send(id=2, method="shutdown")
    server.answer(2)
    server.send(method="exit")
    code, errors = server.end()
    assert code == 0
    assert errors.splitlines() == [b"a stray line of C", b"a stray line of a child"]
    logged = [m["params"]["message"] for m in server.messages if "params" in m]
    assert "printed: a stray line" in logged
    assert "plugin: a plugin's warning" in logged
    assert any("RuntimeWarning: a library's warning" in line for line in logged)


def test_end_of_input_ends_the_server(server):
    server.initialize()
    server.complete()
    server.process.stdin.close()
    server.process.stdin = None
    assert server.end() == (1, b"")
    assert "draft acceptance" in str(server.messages)


def test_end_of_input_before_initialize(server):
    server.process.stdin.close()
    server.process.stdin = None
    assert server.end() == (1, b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_the_session_cleanly(number, server):
    server.initialize()
    server.complete()
    server.process.send_signal(number)
    assert server.end() == (1, b"")
    assert "draft acceptance" in str(server.messages)


def test_client_that_stops_reading(server):
    server.initialize()
    server.process.stdout.close()
    # Where the server is quick it has ended before all is sent.
    with contextlib.suppress(BrokenPipeError):
        server.open("a")
        for msg_id in range(50):
            server.send(id=msg_id, method=INLINE, params=at(0, 1))
    assert server.process.wait(TIMEOUT_S) == 1


def test_garbage_between_frames(server):
    server.initialize()
    for garbage in (
        b"Content-Length: nine\r\n\r\n",
        b"hello\r\n\r\n",
        frame(b"{not json"),
        frame(b"\xff\xff"),
        frame(b"[]"),
        b"Content-Length: 3\r\nCookie: x\r\n\r\nabc",
    ):
        server.write(garbage)
        assert server.answer(None)["error"]["code"] in {-32700, -32600}
    server.open("a")
    server.send(id=1, method=INLINE, params=at(0, 1))
    assert len(server.answer(1)["result"]["items"]) == 1


@pytest.mark.parametrize("command", ["serve", "complete"])
@pytest.mark.parametrize(("redirection", "closed"), [("<&-", "input"), (">&-", "output")])
def test_a_closed_stream_is_one_clear_error(command, redirection, closed):
    outcome = subprocess.run(
        ["sh", "-c", f'"$0" -m speclsp {command} {redirection}', sys.executable],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert outcome.returncode == 1
    assert outcome.stderr.startswith(f"Error: standard {closed} is closed.")
    assert len(outcome.stderr.splitlines()) == 1


def started_by(script: str) -> subprocess.Popen[bytes]:
    """A server that a shell script starts as ``$@``, and that has answered."""
    process = subprocess.Popen(
        ["sh", "-c", script, "sh", sys.executable, str(SERVER), "--stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process.stdin.write(frame(b"{"))
    process.stdin.flush()
    process.stdout.read(1)  # the server is there
    return process


def test_nohup_is_respected():
    process = started_by('trap "" HUP; exec "$@"')
    process.send_signal(signal.SIGHUP)
    process.stdin.write(frame(b'{"jsonrpc":"2.0","id":77,"method":"x"}'))
    process.stdin.close()
    with process.stdout as stdout:
        assert b'"id":77' in stdout.read()
    assert process.wait(TIMEOUT_S) == 1


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads Linux's table of files")
def test_no_file_takes_the_place_of_a_closed_standard_error():
    process = started_by('exec "$@" 2>&-')
    assert Path(f"/proc/{process.pid}/fd/2").readlink() == Path("/dev/null")
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
