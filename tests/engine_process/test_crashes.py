"""Engine processes that die: windows answer at once, go on, and stop trying when it is no use."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from typed_requests import TypedWindow, request_between

from speclsp.cancellation import CancellationToken
from speclsp.engine_process.client import SharedCompleter
from speclsp.engine_process.server import Watchdog
from speclsp.engine_process.start import EngineConnection, connect
from speclsp.errors import EngineError, EngineUnavailableError, SpecLspError
from speclsp.request import CompletionResult, LogLine, Problem, StateChanged
from speclsp.settings import Settings
from speclsp.suggestions.window import Window

WAIT_S = 60
PRLIMIT = shutil.which("prlimit")
PROGRAM = (sys.executable, str(Path(__file__).parents[1] / "support" / "crashing_engine.py"))
SETTINGS = Settings(
    persist=False, suggestion_memory=False, engine_exit_seconds=0, deadline_ms=60_000
)


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


class Windows:
    def __init__(self) -> None:
        self.program: Sequence[str] = PROGRAM
        self.pids: list[int] = []
        self.opened: list[TypedWindow] = []

    def link(self, settings: Settings) -> EngineConnection:
        connection = connect(settings, program=self.program)
        self.pids.append(connection.pid)
        return connection

    def open(self) -> TypedWindow:
        window = TypedWindow(Window(SharedCompleter(SETTINGS, self.link), SETTINGS))
        self.opened.append(window)
        window.start()
        return window


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Windows]:
    with tempfile.TemporaryDirectory(prefix="speclsp-") as runtime:  # a socket's path is short
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        made = Windows()
        yield made
        for window in made.opened:
            window.close()
        until(lambda: not any(map(is_running, made.pids)))


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def ask(window: TypedWindow, text: str, uri: str = "file:///p/a.py"):
    request = request_between(text, uri=uri, language_id="python")
    return window.complete(request, CancellationToken())


def text_of(window: TypedWindow, text: str, uri: str = "file:///p/a.py") -> str:
    """Ask until there is an engine."""
    return answer_of(window, text, uri).text


def answer_of(window: TypedWindow, text: str, uri: str = "file:///p/a.py") -> CompletionResult:
    """Ask until there is an engine."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        try:
            return ask(window, text, uri).result(WAIT_S)
        except EngineUnavailableError:
            time.sleep(0.01)
    raise TimeoutError


@pytest.mark.parametrize("how", ["abort", "fault", "kill", "exit", "hang"])
def test_a_crash_answers_what_runs_and_the_next_engine_knows_the_documents(windows, how):
    first, second = windows.open(), windows.open()
    kept = "file:///p/kept.py"
    assert text_of(first, "kept = 1\n", kept) == text_of(second, "y = 1\n") == "return 1"
    assert len(set(windows.pids)) == 1
    result = ask(first, f"x = please_{how}\n").result(WAIT_S)
    assert (result.text, result.finish_reason) == ("", "cancelled")
    assert text_of(first, "kept = 1\nre", kept) == "turn 1"
    assert text_of(second, "y = 1\nre") == "turn 1"
    assert len(set(windows.pids)) == 2


@pytest.mark.parametrize("how", ["abort", "fault", "exit"])
def test_a_model_that_crashes_while_it_is_loaded_is_one_problem(windows, monkeypatch, how):
    monkeypatch.setenv("CRASHING_ENGINE_LOAD", f"please_{how}")
    window = windows.open()
    until(lambda: window.window.completer.state() == "failed")
    assert len(windows.pids) == 3
    problem = the_problem(window)
    assert "crashed 3 times" in problem.message
    assert f"ggml.c:1: please_{how}" in problem.remedy
    monkeypatch.delenv("CRASHING_ENGINE_LOAD")
    window.apply_settings(Settings(**{**vars_of(SETTINGS), "n_predict": 99}))
    assert text_of(window, "x = 1\n") == "return 1"


def the_problem(window: TypedWindow) -> Problem:
    """Return the one problem that was reported."""
    problems = []
    while (event := window.next_event(0.1)) is not None:
        if isinstance(event, Problem):
            problems.append(event)
    (problem,) = problems
    return problem


@pytest.mark.skipif(PRLIMIT is None, reason="prlimit is missing (util-linux)")
@pytest.mark.parametrize("n_mib", [60, 160, 190, 430])
def test_without_memory_there_is_one_problem_and_the_window_goes_on(windows, n_mib):
    """Imports fail, threads do not start, or the model does not fit; now and then all goes well."""
    windows.program = (PRLIMIT, f"--as={n_mib << 20}", *PROGRAM)
    window = windows.open()
    until(lambda: window.window.completer.state() in ("failed", "ready"))
    if window.window.completer.state() == "ready":
        # What is left may be too little for the threads of a completion, or for it: an engine that
        # dies cancels it.
        with contextlib.suppress(EngineError):
            result = answer_of(window, "x = 1\n")
            assert result.text == ("" if result.finish_reason == "cancelled" else "return 1")
        return
    assert the_problem(window).remedy
    with pytest.raises(SpecLspError):
        ask(window, "x = 1\n").result(WAIT_S)
    windows.program = PROGRAM
    window.apply_settings(Settings(**{**vars_of(SETTINGS), "n_predict": 99}))
    assert text_of(window, "x = 1\n") == "return 1"


def vars_of(settings: Settings) -> dict[str, object]:
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}


def test_a_suspended_engine_is_waited_for_and_not_killed(windows):
    window = windows.open()
    assert text_of(window, "x = 1\n") == "return 1"
    (pid,) = set(windows.pids)
    os.kill(pid, signal.SIGSTOP)
    try:
        request = request_between("y = 1\n", language_id="python", deadline_ms=100)
        result = window.complete(request, CancellationToken()).result(WAIT_S)
        assert (result.text, result.finish_reason) == ("", "deadline")
        time.sleep(3.5)  # longer than this engine's watchdog is patient
    finally:
        os.kill(pid, signal.SIGCONT)
    assert text_of(window, "z = 1\n") == "return 1"
    assert set(windows.pids) == {pid}


def test_windows_that_are_killed_leave_nothing_in_the_engine(windows):
    window = windows.open()
    assert text_of(window, "x = 1\n") == "return 1"
    engine = psutil.Process(windows.pids[0])
    n_threads, n_files = engine.num_threads(), engine.num_fds()
    for _ in range(20):
        link = windows.link(SETTINGS)
        link.socket.close()
    until(lambda: (engine.num_threads(), engine.num_fds()) == (n_threads, n_files))
    assert text_of(window, "y = 1\n") == "return 1"


def test_the_watchdog_waits_as_long_as_the_model_has_taken_before():
    ended = threading.Event()
    steps = iter([1, 1, 1, 1, 2, 2, 2, None, *[3] * 1000])
    seen = []

    def progress() -> int | None:
        seen.append(next(steps))
        return seen[-1]

    Watchdog(progress, still_s=0.01, tick_s=0.001, end=ended.set)
    assert ended.wait(WAIT_S)
    # Ten seconds of patience and four times the three that passed before.
    assert seen.count(3) == 1 + 10 + 4 * 3


def test_after_a_kill_the_first_request_behind_ready_is_answered(windows):
    """The next engine is started at once and by one attempt, so nothing but loading takes time."""
    window = windows.open()
    assert text_of(window, "x = 1\n") == "return 1"
    while window.next_event(0.1) is not None:
        pass
    os.kill(windows.pids[-1], signal.SIGKILL)
    states, lines = [], []
    while "ready" not in states:
        event = window.next_event(WAIT_S)
        assert event is not None
        if isinstance(event, StateChanged):
            states.append(event.state)
        if isinstance(event, LogLine) and "started again" in event.message:
            lines.append(event.message)
    assert ask(window, "x = 1\ny = 2\n").result(WAIT_S).text == "return 1"
    assert lines == ["the engine process was ended; it is started again in 0 s."]
    assert len(windows.pids) == 2
