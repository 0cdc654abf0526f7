"""The engine's main loop: windows come and go, and the process ends orderly."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from echo_engines import PROGRAM, PlainConnection, is_running, wait_for_end
from waiting import until

from speclsp.backends.llama import fit
from speclsp.embedded import embedded_target
from speclsp.engine_process.lifetime import MAX_LOG_BYTES, needed_bytes
from speclsp.engine_process.place import PROTOCOL
from speclsp.engine_process.start import running_engines, status_of
from speclsp.errors import EngineProcessError
from speclsp.settings import Settings

EXITS_AT_ONCE = Settings(engine_exit_seconds=0)


def n_windows(connection: PlainConnection) -> int:
    status = status_of(connection.place)
    return int(status["n_windows"])


def test_the_status_tells_what_runs(engines):
    connection = engines.connect()
    with closing(connection.socket):
        status = status_of(connection.place)
    assert status["pid"] == connection.pid
    assert status["n_windows"] == 1
    assert status["models"] == ["echo"]  # what the engine adds
    assert status["memory_bytes"] > 1 << 20
    assert status["uptime_seconds"] >= 0
    assert status["log"] == str(connection.place.log)


def test_windows_leave_no_thread_descriptor_or_memory_behind(engines):
    first = engines.connect()
    engine, here = psutil.Process(first.pid), psutil.Process()

    def come_and_go(n: int) -> None:
        for number in range(n):
            with closing(engines.connect().socket) as window:
                if number % 2:
                    window.sendall(b"x")
                    assert window.recv(1) == b"x"

    def left() -> tuple[int, int, int]:
        until(lambda: n_windows(first) == 1)
        until(lambda: engine.num_threads() == 1)
        time.sleep(0.1)  # in which the connection that asked for the windows is closed
        return engine.num_fds(), here.num_fds(), here.num_threads()

    come_and_go(20)
    before, resident = left(), engine.memory_info().rss
    come_and_go(200)
    assert left() == before
    assert engine.memory_info().rss - resident < 2 << 20
    assert engines.pids() == [first.pid]
    first.socket.close()


def test_the_engine_ends_after_its_last_window(engines):
    with ExitStack() as stack:
        windows = [engines.connect(EXITS_AT_ONCE) for _ in range(3)]
        for window in windows[1:]:
            window.socket.close()
        until(lambda: n_windows(windows[0]) == 1)
        stack.callback(windows[0].socket.close)
        assert is_running(windows[0].pid)
    wait_for_end(windows[0].pid)
    assert windows[0].process.wait(10) == 0
    place = windows[0].place
    assert not place.socket.exists()
    assert not place.info.exists()
    assert "has ended" in place.log.read_text()


def test_the_engine_stays_for_windows_that_come_back(engines):
    # 35 days are more milliseconds than epoll takes.
    first = engines.connect(Settings(engine_exit_seconds=3_000_000))
    first.socket.close()
    until(lambda: n_windows(first) == 0)
    second = engines.connect(EXITS_AT_ONCE)
    assert second.pid == first.pid
    second.socket.close()  # the newest window's setting holds
    wait_for_end(first.pid)


def test_an_engine_to_which_no_window_came_ends(engines, monkeypatch):
    monkeypatch.setenv("ECHO_ENGINE_PATIENCE", "0.1")
    place = engines.place()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place.socket))
        listener.listen()
        fd = listener.fileno()
        options = [f"--listen-fd={fd}", f"--name={place.name}", "--engine-exit-seconds=0"]
        engine = subprocess.Popen([*PROGRAM, "engine", "run", *options], pass_fds=[fd])
    assert engine.wait(60) == 0
    assert not place.socket.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_engine_orderly(engines, number):
    windows = [engines.connect() for _ in range(3)]
    os.kill(windows[0].pid, number)
    for window in windows:
        with closing(window.socket):
            assert window.socket.recv(1) == b""
    assert windows[0].process.wait(10) == 0
    assert not windows[0].place.socket.exists()


def test_the_engine_leaves_another_ones_socket_alone(engines):
    connection = engines.connect()
    place = connection.place
    place.socket.unlink()
    with closing(connection.socket), socket.socket(socket.AF_UNIX) as other:
        other.bind(str(place.socket))
        os.kill(connection.pid, signal.SIGTERM)
        wait_for_end(connection.pid)
        assert place.socket.exists()


def test_an_engine_that_lost_its_socket_serves_its_windows_to_the_end(engines):
    first = engines.connect(EXITS_AT_ONCE)
    first.place.socket.unlink()
    second = engines.connect(EXITS_AT_ONCE)
    with closing(second.socket):
        assert second.pid != first.pid
        first.socket.sendall(b"x")
        assert first.socket.recv(1) == b"x"
        first.socket.close()
        wait_for_end(first.pid)
        assert n_windows(second) == 1


WRONG_GREETINGS = {
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "empty": b"\n",
    "binary": b"\xff" * 100 + b"\n",
    "purpose": b'{"purpose": "dance"}\n',
    "protocol": b'{"purpose": "window", "protocol": 0}\n',
    "cut": b'{"purpose": "window"',
    "endless": b"x" * (2 << 20),
}


def test_a_client_that_greets_wrongly_is_dropped(engines):
    connection = engines.connect()
    with closing(connection.socket):
        for greeting in WRONG_GREETINGS.values():
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(60)
                client.connect(str(connection.place.socket))
                with suppress(ConnectionResetError, BrokenPipeError):
                    client.sendall(greeting)
                    client.shutdown(socket.SHUT_WR)
                    assert client.recv(1) == b""
            assert n_windows(connection) == 1
        n_dropped = connection.place.log.read_text().count("it sent no Greeting")
        # Another protocol's is a greeting, and who leaves within a line has left.
        assert n_dropped == len(WRONG_GREETINGS) - 2


def test_a_client_that_never_greets_holds_nobody_up(engines):
    connection = engines.connect()
    with closing(connection.socket), socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(connection.place.socket))
        other = engines.connect()
        assert other.pid == connection.pid
        assert n_windows(connection) == 2
        other.socket.close()


def test_a_window_that_has_not_greeted_keeps_the_engine(engines):
    connection = engines.connect(EXITS_AT_ONCE)
    with socket.socket(socket.AF_UNIX) as late:
        engine = psutil.Process(connection.pid)
        n_files = engine.num_fds()
        late.connect(str(connection.place.socket))
        until(lambda: engine.num_fds() == n_files + 1)
        connection.socket.close()
        time.sleep(0.5)  # in which it would end
        late.sendall(b'{"purpose": "window", "protocol": %d, "exit_seconds": 0}\n' % PROTOCOL)
        late.settimeout(60)
        assert b'"pid"' in late.recv(4096)
    wait_for_end(connection.pid)


def test_a_greeting_that_trickles_in_ends_in_time(engines):
    connection = engines.connect()
    with closing(connection.socket), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(connection.place.socket))
        client.settimeout(0.01)
        end = time.monotonic() + 60
        with suppress(ConnectionError):
            while True:
                client.sendall(b" ")
                with suppress(TimeoutError):
                    assert client.recv(1) == b""
                    break
                assert time.monotonic() < end
        assert n_windows(connection) == 1


def test_an_engine_that_may_start_no_thread_goes_on_and_ends_orderly(engines, monkeypatch):
    monkeypatch.setenv("ECHO_ENGINE_WITHOUT_THREADS", "3")
    connection = engines.connect()
    with closing(connection.socket) as window:
        window.sendall(b"x")
        assert window.recv(1) == b"x"
        os.kill(connection.pid, signal.SIGTERM)
        assert window.recv(1) == b""
    assert connection.process.wait(10) == 0
    assert not connection.place.socket.exists()
    assert len(engines.pids()) == 1


def test_a_thousand_clients_leave_room_for_a_window(engines):
    connection = engines.connect()
    with closing(connection.socket), ExitStack() as stack:
        for number in range(1000):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(str(connection.place.socket))
            if number % 2:
                client.sendall(b'{"purpose": "window"}\n')
        other = engines.connect()
        assert other.pid == connection.pid
        other.socket.close()
    until(lambda: n_windows(connection) <= 1)


def test_the_log_is_bounded(engines):
    connection = engines.connect()
    place = connection.place
    with closing(connection.socket):
        for _ in range(3):
            connection.socket.sendall(b"log 8000")
            assert connection.socket.recv(64) == b"log 8000"
    former = place.log.with_name(f"{place.log.name}.1")
    for file in (place.log, former):
        assert file.stat().st_size < MAX_LOG_BYTES + 1000
        assert file.stat().st_mode & 0o777 == 0o600
    assert "line 7999" in place.log.read_text()
    assert len(list(place.folder.glob("*.log*"))) == 2


def test_the_engine_knows_its_windows_by_their_process(engines):
    """The system names the engine as the peer, not the window that bound its socket."""
    first, second = engines.connect(), engines.connect()
    credentials = second.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    assert int.from_bytes(credentials[:4], sys.byteorder) == first.pid
    first.socket.close()
    second.socket.close()


@pytest.fixture
def two_models(tmp_path: Path) -> tuple[Settings, Settings]:
    paths = [tmp_path / "first.gguf", tmp_path / "second.gguf"]
    for path in paths:
        path.write_bytes(bytes(1000))
    first, second = (Settings(model=str(path)) for path in paths)
    return first, second


def test_a_second_engine_runs_where_memory_allows(engines, monkeypatch, two_models):
    monkeypatch.setenv("ECHO_ENGINE_FREE", "1000")
    first, second = map(engines.connect, two_models)
    assert first.pid != second.pid
    assert len(running_engines()) == 2
    first.socket.close()
    second.socket.close()


def test_without_memory_for_a_second_engine_one_message_names_both(
    engines, monkeypatch, two_models
):
    monkeypatch.setenv("ECHO_ENGINE_FREE", "999")
    first = engines.connect(two_models[0])
    with pytest.raises(EngineProcessError, match=r"second\.gguf.*first\.gguf") as error:
        engines.connect(two_models[1])
    assert "speclsp engine stop" in error.value.remedy
    assert is_running(first.pid)
    until(lambda: not is_running(engines.pids()[-1]))
    assert running_engines() == [first.place]
    engines.connect(two_models[0]).socket.close()  # which runs is shared on
    first.socket.close()


def test_the_memory_for_an_engine_includes_its_kv_cache(monkeypatch):
    """6 layers of one key and one value head, each of 64 values of 2 bytes."""
    n_weights = embedded_target().stat().st_size
    n_bytes = 6 * 2 * 64 * 2
    assert needed_bytes(Settings(ctx_size=1024, fit=False)) == n_weights + 1024 * n_bytes
    monkeypatch.setattr(fit, "FIT_CTX", 256)
    assert needed_bytes(Settings(ctx_size=1024)) == n_weights + 256 * n_bytes
    quantised = Settings(ctx_size=1024, fit=False, cache_type_k="q8_0", cache_type_v="q8_0")
    assert needed_bytes(quantised) == n_weights + 1024 * n_bytes * 17 // 32


def test_the_memory_for_an_engine_includes_all_parts_of_a_split_model(tmp_path):
    parts = [tmp_path / f"model-0000{number}-of-00002.gguf" for number in (1, 2)]
    for part in parts:
        part.write_bytes(embedded_target().read_bytes())
    both = Settings(model=str(parts[0]), ctx_size=1024, fit=False)
    alone = replace(both, model=str(embedded_target()))
    assert needed_bytes(both) == needed_bytes(alone) + embedded_target().stat().st_size


def test_an_engine_without_windows_makes_room(engines, monkeypatch, two_models):
    """Else a change of the model would wait for `engine_exit_seconds`."""
    first = engines.connect(two_models[0])
    first.socket.close()
    until(lambda: n_windows(first) == 0)
    monkeypatch.setenv("ECHO_ENGINE_FREE", "999")
    second = engines.connect(two_models[1])
    wait_for_end(first.pid)
    assert running_engines() == [second.place]
    second.socket.close()
