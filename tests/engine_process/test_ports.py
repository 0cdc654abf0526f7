"""Engines at ports, where there are no Unix sockets: proofs, foreign processes, and Windows."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

import pytest
from echo_engines import PROGRAM, Engines, is_running, wait_for_end, wait_until

from speclsp.engine_process.place import TRANSPORT_VARIABLE
from speclsp.engine_process.start import connect, running_engines, status_of
from speclsp.engine_process.transport import (
    Address,
    NotAnEngineError,
    TokenRefusedError,
    admit_window,
    dial,
    prove_to_engine,
)
from speclsp.settings import Settings

WAIT_S = 60
pytestmark = pytest.mark.parametrize("engines", ["tcp"], indirect=True)


def address_of(engines: Engines) -> Address:
    address = engines.place().address()
    assert address is not None
    return address


def soon() -> float:
    return time.monotonic() + WAIT_S


def dialled(address: Address) -> socket.socket:
    connection = dial(address, WAIT_S)
    assert connection is not None
    return connection


def test_the_port_file_is_private_and_goes_with_its_engine(engines: Engines) -> None:
    connection = engines.connect(Settings(engine_exit_seconds=0))
    file = connection.place.socket
    assert file.stat().st_mode & 0o777 == 0o600
    address = address_of(engines)
    assert address.place[0] == "127.0.0.1"
    assert len(address.token) == 64
    assert address.token.decode() not in repr(address)
    connection.socket.close()
    wait_for_end(connection.pid)
    assert not file.exists()


def test_a_port_file_that_cannot_be_read_is_replaced(engines: Engines) -> None:
    engines.place().socket.write_text('{"port": ')
    engines.connect().socket.close()
    assert len(engines.pids()) == 1


def test_a_window_with_a_wrong_token_is_refused_and_logged(engines: Engines) -> None:
    first = engines.connect()
    with closing(first.socket), dialled(address_of(engines)) as stranger:
        before = time.monotonic()
        with pytest.raises(TokenRefusedError):
            prove_to_engine(stranger, b"0" * 64, soon())
        assert time.monotonic() - before >= 1.0  # so much for trying one token after the other
        assert stranger.recv(1) == b""
        wait_until(lambda: "wrong token" in first.place.log.read_text())
        assert "127.0.0.1" in next(
            line for line in first.place.log.read_text().splitlines() if "wrong token" in line
        )
        status = status_of(first.place)
        assert status is not None
        assert status["n_windows"] == 1


@pytest.mark.parametrize(
    "sent",
    [
        b'{"purpose": "window"}\n',
        b"GET / HTTP/1.1\r\n\r\n",
        b"\n",
        b"f" * 4096,
        b"\xff" * 64 + b"\n",
    ],
    ids=["greeting", "http", "empty", "endless", "binary"],
)
def test_what_comes_without_a_proof_is_answered_by_nothing(engines: Engines, sent: bytes) -> None:
    first = engines.connect()
    with closing(first.socket), dialled(address_of(engines)) as stranger:
        with suppress(OSError):
            stranger.sendall(sent)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(1) == b""
        status = status_of(first.place)
        assert status is not None
        assert status["n_windows"] == 1


def test_silent_clients_are_bounded_and_do_not_keep_the_engine(engines: Engines) -> None:
    first = engines.connect(Settings(engine_exit_seconds=0))
    address = address_of(engines)
    with ExitStack() as stack:
        silent = [stack.enter_context(closing(dialled(address))) for _ in range(65)]
        assert silent[64].recv(1) == b""
        first.socket.close()
        wait_until(lambda: not first.place.socket.exists())
        silent[63].setblocking(False)
        with pytest.raises(BlockingIOError):  # still connected, for five seconds
            silent[63].recv(1)


def test_the_token_never_crosses(engines: Engines) -> None:
    token = b"5" * 64
    ours, theirs = socket.socketpair()
    seen: list[bytes] = []
    with ours, theirs:
        engine = threading.Thread(
            target=admit_window, args=(Recording(theirs, seen), token, soon())
        )
        engine.start()
        prove_to_engine(Recording(ours, seen), token, soon())
        engine.join()
    crossed = b"".join(seen)
    assert crossed.count(b"\n") == 4
    assert token not in crossed


class Recording:
    """A socket that notes what it sends."""

    def __init__(self, connection: socket.socket, seen: list[bytes]) -> None:
        self._connection = connection
        self._seen = seen

    def sendall(self, data: bytes) -> None:
        self._seen.append(data)
        self._connection.sendall(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


# --- a foreign process at the port of a dead engine -----------------------------------------------


@contextmanager
def foreign_process(
    engines: Engines, answer: Callable[[socket.socket], object]
) -> Iterator[list[bytes]]:
    """Kill the engine and take its port; yields what clients send there."""
    connection = engines.connect()
    os.kill(connection.pid, signal.SIGKILL)
    wait_for_end(connection.pid)
    connection.socket.close()
    host, port = address_of(engines).place
    received: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client, suppress(OSError):
                received.append(client.recv(4096))
                answer(client)

    with taken_port(host, port) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield received
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(WAIT_S)


def taken_port(host: str, port: int) -> socket.socket:
    """Bind as soon as the last thread of the killed engine has closed it."""
    until = soon()
    while True:
        try:
            return socket.create_server((host, port))
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.01)


def echo_nonce(client: socket.socket) -> None:
    """Play the engine as far as one can without the token: send the window's words back."""
    client.sendall(b"a" * 64 + b"\n")
    client.sendall(client.recv(4096))
    client.recv(4096)


@pytest.mark.parametrize(
    "answer",
    [
        lambda client: client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        lambda client: None,
        echo_nonce,
        lambda client: client.sendall(b"a" * 64 + b"\nrefused\n"),
    ],
    ids=["http", "hangs up", "repeats", "refuses"],
)
def test_a_foreign_process_at_a_dead_engines_port_is_left_alone(
    engines: Engines, answer: Callable[[socket.socket], object]
) -> None:
    with foreign_process(engines, answer) as received:
        taken = address_of(engines)
        with closing(engines.connect().socket) as window:
            window.sendall(b"x")
            assert window.recv(1) == b"x"
        assert len(engines.pids()) == 2
        assert address_of(engines).place != taken.place
        assert received
        assert not [words for words in received if b"purpose" in words or taken.token in words]


def test_a_foreign_process_that_says_nothing_is_an_error_in_time(engines: Engines) -> None:
    is_over = threading.Event()
    with foreign_process(engines, lambda _: is_over.wait(WAIT_S)):
        with pytest.raises(TimeoutError, match="does not answer"):
            connect(Settings(), program=PROGRAM, timeout_s=0.3)
        is_over.set()
    assert len(engines.pids()) == 1  # as a suspended engine is not replaced either


def test_an_engine_that_does_not_know_the_token_is_none(engines: Engines) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        thread = threading.Thread(target=echo_nonce, args=(theirs,))
        thread.start()
        with pytest.raises(NotAnEngineError):
            prove_to_engine(ours, b"5" * 64, soon())
        ours.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_foreign_process_is_not_listed_as_an_engine(engines: Engines) -> None:
    with foreign_process(engines, lambda client: client.sendall(b"HTTP/1.1 400\r\n\r\n")):
        assert running_engines() == []
        assert status_of(engines.place()) is None


def test_the_port_is_exclusive_where_the_system_lets_two_processes_share_one(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows does; another option stands for its SO_EXCLUSIVEADDRUSE here."""
    option = socket.SO_KEEPALIVE
    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", option, raising=False)
    with engines.place().listen() as listener:
        assert listener.getsockopt(socket.SOL_SOCKET, option) == 1
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) == 0


# --- Windows --------------------------------------------------------------------------------------

AS_ON_WINDOWS = """
import importlib, os, select, signal, socket, sys
NAMES = (
    "speclsp.cli.main", "speclsp.cli.serve", "speclsp.cli.engine", "speclsp.cli.window_completer",
    "speclsp.cli.complete", "speclsp.lsp.server", "speclsp.lsp.models",
    "speclsp.engine_process.lifetime",
    "speclsp.engine_process.client", "speclsp.completer.local", "speclsp.hub.download",
)
for name in NAMES:
    importlib.import_module(name)
for name in [name for name in sys.modules if name.partition(".")[0] == "speclsp"]:
    del sys.modules[name]
for name in ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "readline"):
    sys.modules[name] = None
NONBLOCK = os.O_NONBLOCK
ABSENT = {
    os: "getuid geteuid getgid O_NOFOLLOW O_NONBLOCK O_CLOEXEC sched_getaffinity fork setsid",
    socket: "AF_UNIX SO_PEERCRED MSG_DONTWAIT TCP_USER_TIMEOUT",
    signal: "SIGKILL SIGHUP SIGUSR1 SIGPIPE",
    select: "poll epoll",
}
for module, names in ABSENT.items():
    for name in names.split():
        delattr(module, name)
sys.platform = "win32"
for name in NAMES:
    importlib.import_module(name)

from pathlib import Path
from speclsp.cli.options import leave_no_core_file
from speclsp.engine_process.start import connect, status_of
from speclsp.project.ignore import IgnoredFiles
from speclsp.project.source_text import read_source
from speclsp.settings import Settings

leave_no_core_file()
Path(".gitignore").write_text("ignored.py\\n")
root = os.getcwd()
assert IgnoredFiles([]).is_ignored(root, os.path.join(root, "ignored.py"))
assert read_source(".gitignore", 1000).text == "ignored.py\\n"
os.O_NONBLOCK = NONBLOCK  # filelock is Linux's here
os.environ.pop("SPECLSP_ENGINE_TRANSPORT")
first = connect(Settings(), program=sys.argv[1:])
second = connect(Settings(), program=sys.argv[1:])
second.socket.sendall(b"x")
assert second.socket.recv(1) == b"x"
print(first.pid, second.pid, first.place.socket.name, status_of(first.place)["n_windows"])
"""


def test_without_what_windows_lacks_windows_share_an_engine(
    engines: Engines, tmp_path: object
) -> None:
    """As far as Linux can tell: the engine inherits its socket, and finds its port's file."""
    argv = [sys.executable, "-c", AS_ON_WINDOWS, sys.executable, "-c", STARTED_BY_WINDOWS]
    outcome = subprocess.run(
        [*argv, *PROGRAM[1:]],
        check=False,
        cwd=str(tmp_path),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert outcome.returncode == 0, outcome.stderr
    first, second, file, n_windows = outcome.stdout.split()
    assert (first, n_windows) == (second, "2")
    assert file.endswith(".port")
    assert engines.pids() == [int(first)]
    wait_until(lambda: is_running(int(first)))


STARTED_BY_WINDOWS = f"""
import os, runpy, sys
os.environ["{TRANSPORT_VARIABLE}"] = "tcp"
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
