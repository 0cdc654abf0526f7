"""Engine processes that die or cannot start: windows go on, and say what is wrong."""

import contextlib
import dataclasses
import errno
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from echo_engines import is_running, plain_connection
from suspended import suspend
from typed_requests import TypedWindow, answer_of, request_between
from waiting import until

from speclsp.engine_process.client import SharedCompleter
from speclsp.engine_process.place import EnginePlace, engine_place
from speclsp.engine_process.restarts import MAX_ENDS
from speclsp.engine_process.server import Watchdog
from speclsp.engine_process.start import START_TIMEOUT_S, EngineConnection, connect
from speclsp.engine_process.transport import in_daemon_thread
from speclsp.errors import EngineError, EngineUnavailableError, ModelLoadError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.documents import AcceptedText
from speclsp.seam.events import LogLine, Problem, StateChanged
from speclsp.settings import Settings
from speclsp.storage.accepted_store import AcceptedStore
from speclsp.window.window import Window

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("private_folders")]

WAIT_S = 60
PRLIMIT = shutil.which("prlimit")
PROGRAM = (sys.executable, str(Path(__file__).parents[1] / "support" / "crashing_engine.py"))
SETTINGS = Settings(
    persist=False, suggestion_memory=False, engine_exit_seconds=0, deadline_ms=60_000
)


class Windows:
    def __init__(self) -> None:
        self.program: Sequence[str] = PROGRAM
        self.timeout_s = START_TIMEOUT_S
        self.gate = threading.Event()
        """Cleared: windows wait before they connect."""
        self.gate.set()
        self.n_links = 0
        self.pids: list[int] = []
        self.opened: list[TypedWindow] = []

    async def link(self, settings: Settings) -> EngineConnection:
        assert await in_daemon_thread(self.gate.wait, WAIT_S)
        self.n_links += 1
        connection = await connect(settings, program=self.program, timeout_s=self.timeout_s)
        self.pids.append(connection.pid)
        return connection

    def open(self, settings: Settings = SETTINGS) -> TypedWindow:
        window = TypedWindow(Window(SharedCompleter(settings, self.link), settings))
        self.opened.append(window)
        window.start()
        return window


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Windows]:
    with tempfile.TemporaryDirectory(prefix="speclsp-") as runtime:  # a socket's path is short
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        made = Windows()
        yield made
        for window in made.opened:
            window.close()
        until(lambda: not any(map(is_running, made.pids)))


def ask(window: TypedWindow, text: str, uri: str = "file:///p/a.py"):
    request = request_between(text, uri=uri, language_id="python")
    return window.complete(request, CancellationToken())


def text_of(window: TypedWindow, text: str, uri: str = "file:///p/a.py") -> str:
    return answer_of(lambda: ask(window, text, uri)).generated.text


def test_a_crash_answers_what_runs_and_the_next_engine_knows_the_documents(windows):
    first, second = windows.open(), windows.open()
    kept = "file:///p/kept.py"
    assert text_of(first, "kept = 1\n", kept) == text_of(second, "y = 1\n") == "return 1"
    assert len(set(windows.pids)) == 1
    for n_ended, how in enumerate(("abort", "fault", "kill", "exit", "hang"), 1):
        result = ask(first, f"x = please_{how}\n").result(WAIT_S)
        assert (result.generated.text, result.generated.finish_reason) == ("", "cancelled"), how
        assert text_of(first, "kept = 1\nre", kept) == "turn 1"
        assert text_of(second, "y = 1\nre") == "turn 1"
        assert len(set(windows.pids)) == n_ended + 1


@pytest.mark.parametrize("how", ["abort", "fault", "exit"])
def test_a_model_that_crashes_while_it_is_loaded_is_one_problem(windows, monkeypatch, how):
    monkeypatch.setenv("CRASHING_ENGINE_LOAD", f"please_{how}")
    window = windows.open()
    problem = the_problem(window, WAIT_S)
    assert window.window.completer.state() == "failed"
    assert len(windows.pids) == 3
    assert "ended 3 times" in problem.message
    log = Path(problem.message.rpartition("Its log is ")[2].removesuffix("."))
    assert f"ggml.c:1: please_{how}" in log.read_text()
    monkeypatch.delenv("CRASHING_ENGINE_LOAD")
    # As the remedy says; another setting of the model starts another engine beside one that hangs.
    window.apply_settings(dataclasses.replace(SETTINGS, ctx_size=2048))
    assert text_of(window, "x = 1\n") == "return 1"


def the_problem(window: TypedWindow, timeout_s: float = 0.1) -> Problem:
    """Return the one problem that was reported."""
    problems: list[Problem] = []
    while (event := window.next_event(0.1 if problems else timeout_s)) is not None:
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
    event = window.next_event(WAIT_S)
    while not isinstance(event, Problem) and getattr(event, "state", "") != "ready":
        assert event is not None, "waited in vain"
        event = window.next_event(WAIT_S)
    # What is left may be too little for the threads of a completion, or for it: an engine that dies
    # cancels it.
    with contextlib.suppress(EngineError, ModelLoadError):
        result = ask(window, "x = 1\n").result(WAIT_S)
        assert result.generated.text == (
            "" if result.generated.finish_reason == "cancelled" else "return 1"
        ), result
    if not isinstance(event, Problem):
        return
    assert event.remedy
    windows.program = PROGRAM
    # As the remedy says; another setting of the model starts another engine beside one that hangs.
    window.apply_settings(dataclasses.replace(SETTINGS, ctx_size=2048))
    assert text_of(window, "x = 1\n") == "return 1"


@contextlib.contextmanager
def squatting(place: EnginePlace, *, answers: bool) -> Iterator[None]:
    """Listen in the engine's place, and end each connection or say nothing."""
    place.socket.unlink(missing_ok=True)
    held = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place.socket))
        listener.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connection.close() if answers else held.append(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    place.socket.unlink()
    for connection in held:
        connection.close()


@contextlib.contextmanager
def in_the_way(path: Path, make: Callable[[Path], object]) -> Iterator[None]:
    path.unlink(missing_ok=True)
    make(path)
    yield
    path.rmdir() if path.is_dir() else path.unlink()


@contextlib.contextmanager
def full(_: EnginePlace) -> Iterator[None]:
    def fail(_: EnginePlace) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EnginePlace, "listen", fail)
        yield


OBSTACLES = {
    "a full folder": (full, "No space left on device", "Make room in the folder"),
    "a folder as log": (lambda p: in_the_way(p.log, Path.mkdir), "Is a directory", "in the way"),
    "a pipe as log": (lambda p: in_the_way(p.log, os.mkfifo), "log", "remove what is in the way"),
    "a folder as lock": (lambda p: in_the_way(p.lock, Path.mkdir), "Is a directory", "in the way"),
    "a folder as socket": (lambda p: in_the_way(p.socket, Path.mkdir), "is no socket", "Remove it"),
    "a file as socket": (lambda p: in_the_way(p.socket, Path.touch), "is no socket", "Remove it"),
    "a lock that is held": (lambda p: p.locked(1), "holds the lock", "End it (`fuser"),
    "a program that ends connections": (
        lambda p: squatting(p, answers=True), "ends each connection", "End it (`fuser",
    ),
    "a program that says nothing": (
        lambda p: squatting(p, answers=False), "does not answer", "end that process",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OBSTACLES)
def test_what_is_in_an_engines_way_is_said_and_once_it_is_gone_suggestions_come_back(
    windows, monkeypatch, name
):
    """The obstacle appears when the engine has died, which the window survives."""
    monkeypatch.setattr("speclsp.engine_process.restarts.PAUSES_S", (0.0, 0.05, 0.05, 0.05))
    obstacle, what, remedy = OBSTACLES[name]
    window = windows.open()
    assert text_of(window, "x = 1\n") == "return 1"
    windows.gate.clear()
    os.kill(windows.pids[-1], signal.SIGKILL)
    until(lambda: not is_running(windows.pids[-1]))
    windows.timeout_s, windows.n_links = 0.3, 0
    with obstacle(engine_place(SETTINGS)):
        windows.gate.set()
        until(lambda: windows.n_links > 4)
        with pytest.raises(EngineUnavailableError, match=what):
            ask(window, "y = 1\n").result(WAIT_S)
        windows.timeout_s = START_TIMEOUT_S
        windows.gate.clear()
    windows.gate.set()
    assert text_of(window, "z = 1\n") == "return 1"
    assert len(windows.pids) == 2
    events = [*iter(lambda: window.next_event(0.1), None)]
    problems = [event for event in events if isinstance(event, Problem)]
    assert [what in problem.message and remedy in problem.remedy for problem in problems] == [True]
    failed = [e.message for e in events if isinstance(e, StateChanged) and e.state == "failed"]
    told = [message for message in failed if what in message and remedy in message]
    assert told[0].endswith("speclsp tries again in 0 s.")


@pytest.mark.parametrize(
    ("code", "how"),
    [("import sys; sys.exit('no space left')", "status 1"), ("import os; os.abort()", "signal 6")],
)
def test_an_engine_that_ends_while_it_starts_is_tried_until_it_does_not(
    windows, monkeypatch, code, how
):
    monkeypatch.setattr("speclsp.engine_process.restarts.PAUSES_S", (0.0, 0.01, 0.01, 0.01))
    windows.program = (sys.executable, "-c", code)
    window = windows.open()
    until(lambda: windows.n_links > MAX_ENDS + 1)
    with pytest.raises(EngineUnavailableError, match=rf"{how} .*\.log"):
        ask(window, "y = 1\n").result(WAIT_S)
    windows.program = PROGRAM
    assert text_of(window, "z = 1\n") == "return 1"
    assert (
        len([e for e in iter(lambda: window.next_event(0.1), None) if isinstance(e, Problem)]) == 1
    )


def test_a_suspended_engine_keeps_no_window_from_closing_and_learns_what_it_was_sent(
    windows, monkeypatch
):
    """Closing once took five seconds, so that thirteen windows took more than the test waits."""
    opened = [windows.open(dataclasses.replace(SETTINGS, persist=True)) for _ in range(13)]
    for window in opened:
        assert text_of(window, "x = 1\n") == "return 1"
    (pid,) = set(windows.pids)
    texts = [f"accepted_{number} = 1\n" for number in range(len(opened))]
    suspend(pid)
    end = time.monotonic() + WAIT_S
    try:
        for window, text in zip(opened, texts, strict=True):
            accepted = AcceptedText(path="a.py", file="", before="", text=text)
            window.window.completer.learn(accepted)
            window.close()
        assert time.monotonic() < end
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: not is_running(pid))
    store = AcceptedStore.open()
    assert sorted(kept.text for kept in store.recent("", 99)) == sorted(texts)
    store.close()


@pytest.mark.parametrize("how", ["away", "suspended"])
@pytest.mark.parametrize("is_closed", [False, True])
def test_what_becomes_a_secret_while_no_engine_takes_it_is_removed_by_the_next(
    windows, how, is_closed
):
    """An earlier session learned it.  A suspended engine that is killed has read nothing."""
    secret, uri = "Zk39xQpL77vBn2mRtY48", "file:///p/b.py"
    with contextlib.closing(AcceptedStore.open()) as store:
        store.append("", f'value = join("{secret}", other)\n')
        window = windows.open(dataclasses.replace(SETTINGS, persist=True))
        assert text_of(window, f'x = "{secret}"\n', uri) == "return 1"
        (pid,) = windows.pids
        if how == "suspended":
            suspend(pid)
        else:
            windows.gate.clear()
            os.kill(pid, signal.SIGKILL)
            until(lambda: window.window.completer._connection is None)
        named = f'password = "{secret}"\n'
        window.brought_to(request_between(named, uri=uri, language_id="python"))
        if is_closed:
            window.window.close_document(uri)
        if how == "suspended":
            os.kill(pid, signal.SIGKILL)
        windows.gate.set()
        assert text_of(window, "y = 1\n") == "return 1"
        assert len(set(windows.pids)) == 2
        until(lambda: not store.texts(), within_s=WAIT_S)
        assert not window.window.completer._forgotten


def test_a_suspended_engine_is_waited_for_and_not_killed(windows):
    window = windows.open()
    assert text_of(window, "x = 1\n") == "return 1"
    (pid,) = set(windows.pids)
    suspend(pid)
    try:
        request = request_between("y = 1\n", language_id="python", deadline_ms=100)
        result = window.complete(request, CancellationToken()).result(WAIT_S)
        assert (result.generated.text, result.generated.finish_reason) == ("", "deadline")
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
        plain_connection(SETTINGS, program=windows.program).socket.close()
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
    assert ask(window, "x = 1\ny = 2\n").result(WAIT_S).generated.text == "return 1"
    (line,) = lines
    assert "the engine process ended; it is started again in 0 s. Its log is " in line
    assert len(windows.pids) == 2
