"""Finding and starting engines: one by name, whoever races, dies or meddles."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import msgspec
import pytest
from echo_engines import PROGRAM, Engines, is_running, plain_connection, wait_for_end
from waiting import until

import speclsp
from speclsp.backends.params import ENVIRONMENT
from speclsp.engine_process import place as place_module
from speclsp.engine_process.place import EngineInfo, engine_place, read_info, user_folder
from speclsp.engine_process.start import running_engines, status_of, stop
from speclsp.engine_process.transport import Streams
from speclsp.errors import EngineProcessError
from speclsp.settings import Settings

N_WINDOWS, N_ROUNDS = 8, 16
FOREIGN_UID = 12345
WINDOW = (sys.executable, str(Path(__file__).parents[1] / "support" / "racing_window.py"), *PROGRAM)
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may act for another user")


def ask(windows: list[subprocess.Popen[str]], what: str) -> list[str]:
    """Tell all windows at once, then collect their answers."""
    for window in windows:
        window.stdin.write(f"{what}\n")
        window.stdin.flush()
    return [window.stdout.readline().strip() for window in windows if window.stdout is not None]


def test_eight_windows_at_once_make_one_engine(engines):
    """Each round meets what the one before left: an engine that is ending, or a killed one's."""
    with ExitStack() as stack:
        windows = [
            stack.enter_context(
                subprocess.Popen(
                    WINDOW, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
                )
            )
            for _ in range(N_WINDOWS)
        ]
        for window in windows:
            stack.callback(window.kill)
            assert window.stdout.readline() == "ready\n"
        killed: set[int] = set()
        for number in range(N_ROUNDS):
            answers = [answer.split() for answer in ask(windows, "connect")]
            pids = {int(pid) for pid, _, _ in answers}
            assert len(pids) == 1, answers
            assert all(echoed == "True" for _, _, echoed in answers)
            assert sum(started == "True" for _, started, _ in answers) <= 1
            assert pids == {engines.pids()[-1]}
            if number % 2:
                killed |= pids
                os.kill(pids.pop(), signal.SIGKILL)
            ask(windows, "close")
    # Each kill ends another engine.  In the rounds between, a window that comes while the engine
    # still counts the last ones keeps it running: with luck in all of them.
    assert len(killed) == N_ROUNDS // 2 <= len(engines.pids()) <= N_ROUNDS


def test_the_second_window_finds_the_first_ones_engine(engines):
    first, second = engines.connect(), engines.connect()
    with closing(first.socket), closing(second.socket):
        assert first.pid == second.pid == engines.pids()[0]
        assert first.process is not None
        assert second.process is None
        assert running_engines() == [first.place]
        info = read_info(first.place)
        assert info.pid == first.pid


def test_the_engine_is_detached(engines):
    with closing(engines.connect().socket):
        (pid,) = engines.pids()
        assert os.getsid(pid) == pid
        assert Path(f"/proc/{pid}/cwd").resolve() == Path("/")
        place = engines.place()
        assert {p.stat().st_mode & 0o777 for p in place.folder.iterdir()} == {0o600}
        assert place.folder.stat().st_mode & 0o777 == 0o700


# --- what was left behind -------------------------------------------------------------------------


def test_a_stale_socket_and_a_stale_lock_file_do_not_matter(engines):
    place = engines.place()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(place.socket))
    place.lock.touch()
    with closing(engines.connect().socket):
        assert len(engines.pids()) == 1


def hold_lock(engines: Engines) -> subprocess.Popen[bytes]:
    code = (
        "import time; from speclsp.engine_process.place import engine_place\n"
        "from speclsp.settings import Settings\n"
        "with engine_place(Settings()).locked(60): print(flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    holder.stdout.readline()
    holder.stdout.close()
    return holder


def test_a_lock_whose_holder_is_killed_is_free(engines):
    with hold_lock(engines) as holder:
        with pytest.raises(EngineProcessError, match="holds the lock") as error:
            plain_connection(Settings(), program=PROGRAM, timeout_s=0.2)
        assert str(engines.place().lock) in error.value.remedy
        assert engines.pids() == []
        holder.kill()
    with closing(engines.connect().socket):
        assert len(engines.pids()) == 1


def test_a_lock_file_that_was_removed_meanwhile_does_not_count(engines):
    place = engines.place()
    with place.locked(1):
        place.lock.unlink()
        with place.locked(1), pytest.raises(TimeoutError), place.locked(0):
            pass


def test_files_of_former_engines_are_removed_after_a_week(engines):
    old, young = engines.place(Settings(ctx_size=1024)), engines.place(Settings(ctx_size=2048))
    running = engines.connect(Settings(ctx_size=512))
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(old.socket))
    for file in (old.log, old.info, old.lock, young.log, Path(f"{young.log}.1")):
        file.touch()
    for file in (*old.folder.glob(f"{old.name}.*"), *old.folder.glob(f"{running.place.name}.*")):
        os.utime(file, (0, 0))
    engines.connect().socket.close()
    assert list(old.folder.glob(f"{old.name}.*")) == []
    assert {file.name for file in old.folder.glob(f"{young.name}.*")} == {
        f"{young.name}.{ending}" for ending in ("lock", "log", "log.1")
    }
    assert running_engines() == sorted([running.place, engines.place()], key=lambda p: p.name)
    running.socket.close()


# --- engines that do not work ---------------------------------------------------------------------


def test_an_engine_that_cannot_start_is_an_error_with_its_log(engines, monkeypatch):
    monkeypatch.setenv("ECHO_ENGINE_FAILS", "1")
    log = engines.place().log
    with pytest.raises(EngineProcessError, match=rf"status 1 .*{log}") as error:
        engines.connect()
    assert "llama.cpp is broken" in log.read_text()
    assert "own" in error.value.remedy
    assert len(engines.pids()) == 1  # one attempt
    monkeypatch.delenv("ECHO_ENGINE_FAILS")
    engines.connect().socket.close()


def test_a_program_that_is_missing_is_an_error(engines):
    with pytest.raises(EngineProcessError, match="cannot be started"):
        plain_connection(Settings(), program=["/nowhere/python"], timeout_s=10)
    assert not engines.place().socket.exists()


class Clock:
    """Time that passes while somebody sleeps only."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("speclsp.engine_process.start.time", made)
    monkeypatch.setattr("asyncio.sleep", made.sleep)
    return made


@pytest.mark.usefixtures("clock")
def test_a_program_that_ends_connections_is_not_asked_without_end(engines, monkeypatch):
    """It was asked 46 times a second."""
    place, accepted = engines.place(), []

    async def end(streams: Streams, *_: object) -> None:
        accepted.append(streams[1].close())

    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.bind(str(place.socket))
        squatter.listen()
        monkeypatch.setattr("speclsp.engine_process.start.greet", end)
        with pytest.raises(EngineProcessError, match="ends each connection") as error:
            plain_connection(Settings(), program=PROGRAM)
    assert len(accepted) < 40
    assert str(place.socket) in error.value.remedy


class EnoughError(Exception):
    """Enough engines died."""


def test_engines_that_are_killed_one_after_another_are_engines(engines, clock, monkeypatch):
    """Each listens on a socket of its own, and dies before it answers."""
    place = engines.place()
    with ExitStack() as sockets:

        def listen() -> None:
            place.socket.unlink(missing_ok=True)
            one = sockets.enter_context(socket.socket(socket.AF_UNIX))
            one.bind(str(place.socket))
            one.listen()

        async def die(streams: Streams, *_: object) -> None:
            streams[1].close()
            if clock.now > 10.0:
                raise EnoughError
            listen()

        listen()
        monkeypatch.setattr("speclsp.engine_process.start.greet", die)
        with pytest.raises(EnoughError):
            plain_connection(Settings(), program=PROGRAM)


def test_an_engine_that_cannot_say_what_it_is_serves_all_the_same(engines):
    place = engines.place()
    place.info.mkdir()
    connection = engines.connect()
    connection.socket.sendall(b"hello")
    assert connection.socket.recv(5) == b"hello"
    assert f"{place.info} cannot be written" in place.log.read_text()
    connection.socket.close()


# --- another engine ------------------------------------------------------------------------------


@pytest.fixture
def fresh_build() -> Iterator[None]:
    place_module._build.cache_clear()
    yield
    place_module._build.cache_clear()


@pytest.mark.usefixtures("fresh_build")
def test_another_version_starts_another_engine(engines, monkeypatch):
    first = engines.connect()
    monkeypatch.setattr(speclsp, "__version__", "9.9")
    place_module._build.cache_clear()
    second = engines.connect()
    with closing(first.socket), closing(second.socket):
        assert first.pid != second.pid
        assert is_running(first.pid)
        assert len(running_engines()) == 2


@pytest.mark.usefixtures("fresh_build")
def test_an_engine_that_cannot_start_after_an_update_is_an_error_with_what_helps(
    engines, monkeypatch
):
    engines.place()
    monkeypatch.setattr(speclsp, "__version__", "9.9")
    monkeypatch.setenv("ECHO_ENGINE_FAILS", "1")
    with pytest.raises(EngineProcessError, match="was updated") as error:
        engines.connect()
    assert "with status " in error.value.message
    assert ".log. " in error.value.message
    assert "Restart the server" in error.value.remedy


def test_what_makes_an_engine_another_one(engines, tmp_path, monkeypatch):
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    link = tmp_path / "link.gguf"
    link.symlink_to(model)
    settings = Settings(model=str(model))
    first = engine_place(settings)
    assert engine_place(settings) == first
    assert engine_place(Settings(model=str(model), n_predict=7)) == first  # with each request
    assert engine_place(Settings(model=str(model), mask_secrets=False)) != first
    assert engine_place(Settings(model=str(model), ctx_size=512)) != first
    assert engine_place(Settings(model=str(model), engine_exit_seconds=0)) == first
    monkeypatch.setenv("UNRELATED", "1")
    assert engine_place(settings) == first
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert engine_place(settings) != first
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert engine_place(settings) != first
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    assert engine_place(settings) != first
    monkeypatch.delenv("OMP_WAIT_POLICY")
    # This process may load llama.cpp, for which it sets variables.
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert engine_place(settings) == first
    model.write_bytes(b"another model")
    assert engine_place(settings) != first


def test_settings_reach_the_engine_without_a_token(engines, tmp_path):
    settings = Settings(model=str(tmp_path / "a b.gguf"), ctx_size=512, fit=False)
    with closing(engines.connect(settings).socket):
        (pid,) = engines.pids()
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        assert {f"--model={settings.model}", "--ctx-size=512", "--no-fit"} <= set(argv)
        assert "token" not in " ".join(argv)


# --- what others may not do -----------------------------------------------------------------------


def test_a_folder_that_is_a_symbolic_link_is_refused(engines, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    engines.runtime.mkdir()
    (engines.runtime / "speclsp").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EngineProcessError, match="symbolic link"):
        engines.connect()


def test_a_socket_that_is_a_symbolic_link_is_refused(engines, tmp_path):
    place = engines.place()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "other"))
        other.listen()
        place.socket.symlink_to(tmp_path / "other")
        with pytest.raises(EngineProcessError, match="is no socket"):
            engines.connect()
    assert place.socket.is_symlink()
    assert engines.pids() == []


def test_a_folder_below_one_that_others_may_write_is_refused(engines):
    engines.runtime.mkdir()
    engines.runtime.chmod(0o777)
    with pytest.raises(EngineProcessError, match="other users may write"):
        engines.connect()


@pytest.mark.parametrize("kind", ["info", "log", "lock"])
def test_a_file_that_is_a_symbolic_link_is_refused_and_its_target_left_alone(
    engines, tmp_path, kind
):
    link, target = getattr(engines.place(), kind), tmp_path / "target"
    target.write_text("kept")
    link.symlink_to(target)
    with pytest.raises(EngineProcessError, match="cannot be started"):
        engines.connect()
    assert target.read_text() == "kept"
    assert link.is_symlink()
    assert engines.pids() == []


def test_a_link_that_is_planted_while_the_engine_starts_is_not_written_through(engines, tmp_path):
    place, target = engines.place(), tmp_path / "target"
    info = EngineInfo(pid=1, version="", model="", settings={})
    target.write_bytes(msgspec.json.encode(info))
    place.info.symlink_to(target)
    with pytest.raises(OSError, match="symbolic link"):
        place.write_info(info)
    assert target.read_bytes() == msgspec.json.encode(info)
    assert read_info(place) is None


@needs_root
@pytest.mark.parametrize("kind", ["info", "log"])
def test_another_users_file_is_refused(engines, kind):
    file = getattr(engines.place(), kind)
    file.write_text("planted")
    os.chown(file, FOREIGN_UID, -1)
    with pytest.raises(EngineProcessError, match="another user"):
        engines.connect()
    assert file.read_text() == "planted"


@needs_root
@pytest.mark.parametrize("which", ["speclsp", "."])
def test_another_users_folder_is_refused(engines, which):
    folder = user_folder()
    os.chown(folder / ".." / which, FOREIGN_UID, -1)
    with pytest.raises(EngineProcessError, match=f"another user, number {FOREIGN_UID}"):
        engines.connect()


@needs_root
def test_another_users_socket_is_refused(engines):
    place = engines.place()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(place.socket))
        os.chown(place.socket, FOREIGN_UID, -1)
        with pytest.raises(EngineProcessError, match="another user"):
            engines.connect()
    assert place.socket.exists()


@needs_root
def test_another_users_process_behind_our_socket_is_refused(engines):
    place = engines.place()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place.socket))
        child = os.fork()
        if child == 0:
            os.setuid(FOREIGN_UID)
            listener.listen()
            signal.pause()
        try:
            until(lambda: is_listening(place.socket))
            with pytest.raises(EngineProcessError, match=f"user number {FOREIGN_UID}"):
                engines.connect()
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def is_listening(path: Path) -> bool:
    """Whether the system's table of Unix sockets has one that listens, which is flag 00010000."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return any("00010000" in line and line.endswith(str(path)) for line in lines)


def bytes_answered(path: str) -> int:
    with socket.socket(socket.AF_UNIX) as window, suppress(ConnectionError):
        window.settimeout(30)
        window.connect(path)
        window.sendall(b'{"purpose": "window"}\n')
        return len(window.recv(1))
    return 0


@needs_root
def test_another_users_window_is_dropped(engines):
    connection = engines.connect()
    place = connection.place
    place.socket.chmod(0o666)
    place.folder.chmod(0o755)
    child = os.fork()
    if child == 0:
        try:
            os.chdir(place.folder)
            os.setuid(FOREIGN_UID)
            os._exit(bytes_answered(place.socket.name))
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    status = status_of(place)
    assert status["n_windows"] == 1
    connection.socket.close()


def test_a_path_too_long_for_a_socket_is_refused(engines, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 100)))
    with pytest.raises(EngineProcessError, match="too long") as error:
        engines.connect()
    assert "XDG_RUNTIME_DIR" in error.value.remedy


def test_without_a_runtime_folder_the_systems_is_taken(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    monkeypatch.setattr("platformdirs.user_runtime_path", lambda *_, **__: tmp_path / "rt")
    assert user_folder() == tmp_path / "rt"


def test_a_temporary_folder_is_not_taken(tmp_path, monkeypatch):
    """Neovim sets TMPDIR to another folder in each of its processes."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nvim"))
    monkeypatch.setattr("platformdirs.user_runtime_path", lambda *_, **__: tmp_path / "nvim/rt")
    assert user_folder() == tmp_path / "cache/speclsp/run"


def test_a_relative_model_is_found_by_the_engine(engines, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.gguf").touch()
    connection = engines.connect(Settings(model="model.gguf"))
    info = read_info(connection.place)
    assert info.model == str(tmp_path / "model.gguf")
    connection.socket.close()


def test_stop_ends_engines_without_windows_only_where_asked_so(engines):
    connection = engines.connect()
    assert not stop(connection.place, only_idle=True)
    assert is_running(connection.pid)
    waiting = threading.Thread(target=lambda: connection.socket.recv(1))
    waiting.start()
    assert stop(connection.place)
    waiting.join()
    wait_for_end(connection.pid)
    connection.socket.close()
    assert stop(connection.place)  # nothing to end
