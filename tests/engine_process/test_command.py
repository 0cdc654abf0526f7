"""``speclsp engine status``, ``stop`` and ``log``."""

import os
import resource
import signal
import subprocess
import sys
from contextlib import ExitStack

import msgspec
import psutil
import pytest
from click.testing import CliRunner
from echo_engines import plain_connection, wait_for_end
from suspended import suspend

from speclsp.cli.engine import engine
from speclsp.engine_process import start
from speclsp.errors import EngineProcessError
from speclsp.settings import Settings


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def run(*arguments: str, expected_exit: int = 0) -> str:
    result = CliRunner().invoke(engine, arguments)
    assert result.exit_code == expected_exit, result.output
    return result.output


@pytest.mark.parametrize("command", ["status", "stop"])
def test_without_engines_it_says_so(engines, command):
    assert run(command) == "No engine is running.\n"
    assert run(command, "--json").strip() == "[]"


def test_the_status_lists_every_engine(engines):
    with ExitStack() as stack:
        first = stack.enter_context(engines.connect().socket)
        stack.enter_context(engines.connect(Settings(ctx_size=512)).socket)
        rows = msgspec.json.decode(run("status", "--json"))
        assert {row["pid"] for row in rows} == set(engines.pids())
        assert [row["settings"] for row in rows if row["settings"]] == [{"ctx_size": 512}]
        table = run("status")
        assert "ctx_size=512" in table
        assert all(str(pid) in table for pid in engines.pids())
        first.close()


def test_names_do_not_drive_the_terminal(engines, monkeypatch):
    """A folder of somebody else's archive may have any name."""
    name = "\x1b]0;title\x07\x9b2J"
    row = {"windows": [{"folders": [name], "requests": 0}], "memory_bytes": 0, "n_windows": 1}
    status = {**row, "pid": 1, "model": "", "uptime_seconds": 0, "settings": {}}
    with engines.connect(Settings(engine_exit_seconds=0)).socket:
        engines.place().log.write_text(f"scanned {name}\n")
        monkeypatch.setattr("speclsp.cli.engine.status_of", lambda _: status)
        for command in ("status", "log"):
            shown = run(command)
            assert "]0;title" in shown
            assert not set("\x1b\x07\x9b") & set(shown)


def test_leftovers_are_not_listed(engines):
    connection = engines.connect()
    os.kill(connection.pid, signal.SIGKILL)
    wait_for_end(connection.pid)
    connection.socket.close()
    assert run("status") == "No engine is running.\n"


def test_stop_ends_one_or_all(engines):
    with ExitStack() as stack:
        for settings in (Settings(), Settings(ctx_size=512), Settings(ctx_size=1024)):
            stack.enter_context(engines.connect(settings).socket)
        one, *others = engines.pids()
        assert str(one) in run("stop", str(one))
        wait_for_end(one)
        assert len(msgspec.json.decode(run("status", "--json"))) == 2
        assert "No engine has the process number 1" in run("stop", "1", expected_exit=2)
        assert {row["pid"] for row in msgspec.json.decode(run("stop", "--json"))} == set(others)
        for pid in others:
            wait_for_end(pid)


def test_stop_ends_an_engine_whose_info_file_could_not_be_written(engines):
    engines.place().info.mkdir()
    with engines.connect().socket:
        (pid,) = engines.pids()
        assert str(pid) in run("stop", str(pid))
        wait_for_end(pid)


def test_an_engine_that_does_not_answer_is_named(engines, monkeypatch):
    monkeypatch.setattr(start, "_CONTROL_TIMEOUT_S", 0.2)
    monkeypatch.setattr(start.stop, "__kwdefaults__", {"only_idle": False, "timeout_s": 0.2})
    with engines.connect().socket:
        (pid,) = engines.pids()
        suspend(pid)
        (row,) = msgspec.json.decode(run("status", "--json"))
        assert (row["pid"], row["error"]) == (pid, "does not answer")
        result = CliRunner().invoke(engine, ["stop"])
        assert f"kill -9 {pid}" in str(result.exception)


def test_an_engine_of_another_build_does_not_start(engines):
    """An update while a window is open: its new engine would not understand it."""
    result = CliRunner().invoke(engine, ["run", "--listen-fd=0", "--name=1-other"])
    assert isinstance(result.exception, EngineProcessError)
    assert "Restart the language server" in str(result.exception)


@pytest.mark.real
@pytest.mark.skipif(sys.platform != "linux", reason="limits of other processes are Linux's")
def test_a_crash_leaves_no_core_file(engines):
    """It would hold the texts of all windows."""
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    if not limits[1]:
        pytest.skip("core files are forbidden here anyway")
    resource.setrlimit(resource.RLIMIT_CORE, (limits[1], limits[1]))
    try:
        connection = plain_connection(Settings(engine_exit_seconds=0), program=start._PROGRAM)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, limits)
    with connection.socket:
        assert psutil.Process(connection.pid).rlimit(resource.RLIMIT_CORE)[0] == 0
    wait_for_end(connection.pid)


def test_the_log_is_that_of_the_running_engine_or_of_the_last(engines):
    assert run("log") == "No engine has run.\n"
    with engines.connect(Settings(engine_exit_seconds=0)).socket:
        assert "serves" in run("log")
        assert "has ended" not in run("log")
    wait_for_end(engines.pids()[0])
    assert run("log", "--lines", "1").count("\n") == 1
    assert run("log", "--lines", "0") == ""
    assert "0" in run("log", "--lines", "-1", expected_exit=2)
    assert "has ended" in run("log")


def test_the_log_is_followed_through_its_renaming(engines):
    command = [sys.executable, "-m", "speclsp", "engine", "log", "-f", "--lines", "1"]
    connection = engines.connect()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        try:
            assert "serves" in follower.stdout.readline()
            connection.socket.sendall(b"log 3")
            assert "line 0" in follower.stdout.readline()
            assert "line 2" in [follower.stdout.readline() for _ in range(2)][-1]
            place = connection.place
            place.log.rename(f"{place.log}.1")
            place.log.write_text("begun anew\n")
            assert follower.stdout.readline() == "begun anew\n"
        finally:
            follower.kill()
    connection.socket.close()
