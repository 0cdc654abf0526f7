"""`speclsp engine --listen`: real engines and sockets, and windows elsewhere."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from typed_requests import answer_of
from waiting import until

from speclsp.cli.engine import engine
from speclsp.cli.window_completer import make_completer
from speclsp.engine_process import listening, start, wire
from speclsp.engine_process.listening import connect_elsewhere, open_endpoint
from speclsp.engine_process.place import PROTOCOL, engine_place
from speclsp.engine_process.start import known_places, running_engines, status_of
from speclsp.errors import EngineProcessError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completer import Completer
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.documents import AcceptedText, Document, WorkspaceFolder
from speclsp.seam.edit import Change, EditRequest
from speclsp.seam.events import Problem
from speclsp.settings import Settings
from speclsp.storage.accepted_store import AcceptedStore
from speclsp.storage.database import WorkspaceUse
from speclsp.storage.locations import workspace_id

WAIT_S = 60
PROGRAM = (sys.executable, str(Path(__file__).parents[1] / "support" / "crashing_engine.py"))
TEXT = "x = 1\n"


class Elsewhere:
    """Another machine: a folder of its own for engines and stores."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "engine.sock"
        self.environment = os.environ | {
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self.processes: list[subprocess.Popen[str]] = []
        self.windows: list[Completer] = []

    def listen(self, *options: str) -> None:
        """Run an engine until it listens."""
        command = [*PROGRAM, "engine", "--listen", f"unix:{self.socket}", *options]
        process = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, text=True, cwd=self.folder
        )
        self.processes.append(process)
        line = process.stdout.readline()
        assert f"Process {process.pid} listens at {self.socket}" in line

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, "engine", *arguments],
            check=False,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )

    def window(self, **settings: object) -> Completer:
        known = {"engine_url": self.url, "deadline_ms": 60_000, "persist": False}
        window = make_completer(Settings(**{**known, **settings}))  # type: ignore[arg-type]
        self.windows.append(window)
        window.start()
        return window

    def answered_window(self, **settings: object) -> Completer:
        """Open a window with a document, which the engine completes."""
        window = self.window(**settings)
        open_document(window)
        assert text_of(window) == "return 1"
        return window

    @property
    def url(self) -> str:
        return f"speclsp+unix://{self.socket}"

    def log(self) -> str:
        return "".join(file.read_text() for file in self.folder.glob("run/speclsp/*.log"))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    with tempfile.TemporaryDirectory(prefix="speclsp-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", f"{folder}/here")
        made = Elsewhere(Path(folder))
        yield made
        for window in made.windows:
            window.close()
        for process in made.processes:
            process.kill()
            process.communicate()


def open_document(window: Completer, text: str = TEXT, file: str = "", uri: str = "u:a") -> None:
    window.open_document(
        Document(uri=uri, path="a.py", file=file, language_id="python", version=1, text=text)
    )


def text_of(window: Completer, uri: str = "u:a", offset: int = len(TEXT)) -> str:
    request = CompletionRequest(uri=uri, version=1, offset=offset)
    return answer_of(lambda: window.submit(request, CancellationToken())).generated.text


def problems(window: Completer) -> list[Problem]:
    """Return what is reported within a second and a half; attempts to connect are logged on."""
    found, end = [], time.monotonic() + 1.5
    while time.monotonic() < end:
        event = window.next_event(0.1)
        found += [event] if isinstance(event, Problem) else []
    return found


def test_a_window_elsewhere_gets_suggestions_by_a_unix_socket(elsewhere):
    """Two share it, and it stays without any."""
    elsewhere.listen("--engine-exit-seconds=0")
    assert elsewhere.socket.stat().st_mode & 0o777 == 0o600
    windows = [elsewhere.answered_window(engine_exit_seconds=0) for _ in "ab"]
    windows[0].statistics()
    until(lambda: "open files only" in str(windows[0].statistics().lacks))
    assert str(elsewhere.socket) in windows[0].statistics().model
    for window in windows:
        window.close()
    elsewhere.answered_window()
    assert elsewhere.processes[0].poll() is None
    assert running_engines() == []  # none was started here


@pytest.mark.parametrize(
    ("where", "message", "remedy"),
    [
        ("127.0.0.1:0", "no Unix socket", "SSH"),
        ("/tmp/engine.sock", "no Unix socket", "unix:/PATH"),
        ("unix:relative", "no absolute path", "whole path"),
        ("unix:~nobody-of-this-name/a.sock", "no absolute path", "whole path"),
        ("unix:/tmp/speclsp-engine", "other users may write", "mkdir -m 700"),
    ],
)
def test_what_is_unsafe_is_refused(where, message, remedy):
    with pytest.raises(EngineProcessError, match=message) as error:
        open_endpoint(where)
    assert remedy in error.value.remedy


def test_a_socket_with_a_nul_is_an_error_with_a_remedy():
    with pytest.raises(EngineProcessError, match="NUL") as error:
        asyncio.run(connect_elsewhere(Settings(engine_url="speclsp+unix:///a\0b")))
    assert error.value.remedy


def test_windows_is_told_that_it_has_no_unix_sockets(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(EngineProcessError, match="no Unix sockets") as error:
        asyncio.run(connect_elsewhere(Settings(engine_url="speclsp+unix:///engine.sock")))
    assert "WSL" in error.value.remedy


def test_a_socket_in_the_url_has_a_whole_path():
    with pytest.raises(EngineProcessError, match="does not begin with /") as error:
        asyncio.run(connect_elsewhere(Settings(engine_url="speclsp+unix://~/engine.sock")))
    assert "%20" in error.value.remedy


def test_without_memory_it_does_not_listen(elsewhere):
    elsewhere.listen()
    model = elsewhere.folder / "large.gguf"
    with model.open("wb") as file:
        file.truncate(1 << 42)
    path = elsewhere.folder / "second.sock"
    outcome = elsewhere.run("--listen", f"unix:{path}", f"--model={model}")
    assert outcome.returncode == 1
    assert "no room for another engine" in outcome.stderr
    assert "listens at" not in outcome.stdout
    assert not path.exists()
    assert len([*elsewhere.folder.glob("run/speclsp/*.sock")]) == 1


@pytest.mark.parametrize("fault", ["lock", "log"])
def test_an_engine_that_cannot_begin_says_why(elsewhere, monkeypatch, fault):
    monkeypatch.setenv("XDG_RUNTIME_DIR", elsewhere.environment["XDG_RUNTIME_DIR"])
    monkeypatch.setattr(start, "_CONTROL_TIMEOUT_S", 0.1)
    place = engine_place(Settings(), f"unix:{elsewhere.socket}")
    with ExitStack() as stack:
        if fault == "lock":
            stack.enter_context(place.locked(1.0))
        else:
            place.log.mkdir()
        outcome = CliRunner().invoke(engine, ["--listen", f"unix:{elsewhere.socket}"])
    assert isinstance(outcome.exception, EngineProcessError)
    assert outcome.exception.remedy
    assert not elsewhere.socket.exists()
    assert not place.socket.exists()


def test_the_engines_own_settings_win():
    own = Settings(model="/own.gguf", ctx_size=512, sleep_idle_seconds=5, persist=True)
    window = Settings(
        model="/windows.gguf", ctx_size=9, sleep_idle_seconds=-1, n_predict=7, persist=False,
        lookup_cache_dynamic=["/etc/passwd"], engine_exit_seconds=0, engine_key_file="/secret",
    )  # fmt: skip
    settled = wire.settings_elsewhere(own, window)
    assert (settled.model, settled.ctx_size, settled.sleep_idle_seconds) == ("/own.gguf", 512, 5)
    assert (settled.n_predict, settled.persist, settled.lookup_cache_dynamic) == (7, False, [])
    sent = wire.settings_elsewhere(Settings(), window)
    assert "windows.gguf" not in repr(sent)
    assert "/secret" not in repr(sent)


def test_no_path_and_no_ignored_file_leaves_the_machine(elsewhere, tmp_path, monkeypatch):
    sent: list[bytes] = []
    frame = wire.Connection._frame
    monkeypatch.setattr(
        wire.Connection, "_frame", lambda self, m: sent.append(frame(self, m)) or sent[-1]
    )
    elsewhere.listen()
    (tmp_path / ".gitignore").write_text("private.py\n")
    window = elsewhere.window()
    window.open_folder(WorkspaceFolder(root=str(tmp_path), name="p"))
    open_document(window, file=str(tmp_path / "a.py"))
    assert text_of(window) == "return 1"
    for name in ("a.py", "private.py"):
        text = f"of {name}"
        window.learn(AcceptedText(path=name, file=str(tmp_path / name), before="", text=text))
    open_document(window, "private = 1\n", str(tmp_path / "private.py"), "u:private")
    assert text_of(window, "u:private", 12) == ""
    changed = {str(tmp_path / name): f"{name}\n" for name in ("a.py", "private.py")}
    changed["/other/c.py"] = "c.py\n"
    changes = tuple(
        Change(path="x", line=0, old="", new=f"change of {new}", file=file)
        for file, new in changed.items()
    )
    asked = EditRequest(uri="u:a", version=1, offset=0, changes=changes)
    assert window.submit(asked, CancellationToken()).result(WAIT_S).is_empty
    window.reindex()
    window.close_folder(str(tmp_path))
    assert text_of(window) == "return 1"
    assert b"x = 1" in b"".join(sent)
    assert b"of a.py" in b"".join(sent)
    assert b"change of a.py" in b"".join(sent)
    kept = b"Folder", b"private = 1", b"of private.py", b"c.py", str(tmp_path).encode(), b"/other"
    assert not [data for data in sent if any(word in data for word in kept)]
    window.open_folder(WorkspaceFolder(root=str(tmp_path), name="p"))
    (tmp_path / ".gitignore").write_text("")
    window.save_document("u:a")
    assert text_of(window, "u:private", 12) == "return 1"


def test_accepted_texts_of_projects_are_kept_apart(elsewhere, tmp_path):
    elsewhere.listen("--persist")
    store = elsewhere.folder / "state" / "speclsp" / "accepted.sqlite3"
    kept: list[set[bytes | None]] = []
    for n_texts, name in enumerate(["a", "b", "a", ""], start=1):
        window = elsewhere.window(persist=True)
        file = f"{tmp_path}/{name}/x.py" if name else "/x.py"
        if name:
            window.open_folder(WorkspaceFolder(root=f"{tmp_path}/{name}", name="p"))
        open_document(window, file=file)
        assert text_of(window) == "return 1"
        window.learn(AcceptedText(path="x.py", file=file, before="", text=f"x = {n_texts}\n"))

        def uses(n: int = n_texts) -> list[WorkspaceUse]:
            with closing(AcceptedStore(store)) as opened:
                found = opened.uses()
            return found if sum(use.n_items for use in found) == n else []

        until(uses)
        kept.append({use.workspace for use in uses()})
    assert [len(workspaces) for workspaces in kept] == [1, 2, 2, 3]
    local = {workspace_id(str(folder)) for folder in (elsewhere.folder, tmp_path / "a", "", "/")}
    assert not local & kept[-1]


def test_a_killed_engine_is_one_message_and_its_return_needs_nothing(elsewhere, monkeypatch):
    monkeypatch.setattr("speclsp.engine_process.restarts.PAUSES_S", (0.0, 0.2, 0.2, 0.2))
    elsewhere.listen()
    window = elsewhere.answered_window()
    problems(window)
    elsewhere.processes[0].kill()
    until(lambda: window.state() == "failed")
    request = CompletionRequest(uri="u:a", version=1, offset=len(TEXT))
    began = time.monotonic()
    with pytest.raises(EngineProcessError):
        window.submit(request, CancellationToken()).result(WAIT_S)
    assert time.monotonic() - began < 5
    until(lambda: window._restarts.n_losses >= 3)
    (problem,) = problems(window)
    assert str(elsewhere.socket) in problem.message
    assert "engine --listen" in problem.remedy
    elsewhere.listen()  # over the dead one's socket
    assert text_of(window) == "return 1"


def test_wrong_settings_of_a_request_are_left_out(elsewhere):
    elsewhere.listen()
    window = elsewhere.answered_window()
    request = CompletionRequest(
        uri="u:a",
        version=1,
        offset=len(TEXT),
        overrides={"deadline_ms": "never", "n_predict": 3},
        settings={"n_predict": "many", "model\nforged": "/m.gguf"},
    )
    result = window.submit(request, CancellationToken()).result(WAIT_S)
    assert result.generated.text == "ret"
    left_out = [line for line in elsewhere.log().splitlines() if "left out of a request" in line]
    for named in (["deadline_ms", "'never'"], ["n_predict", "'many'", "model\\nforged"]):
        assert any(all(word in line for word in named) for line in left_out)


def test_another_version_is_named_on_both_sides(elsewhere, monkeypatch):
    elsewhere.listen()
    own = listening.__version__
    monkeypatch.setattr(listening, "__version__", "9.9")
    told = rf"speclsp {own}, protocol {PROTOCOL}.* speclsp 9\.9"
    with pytest.raises(EngineProcessError, match=told) as e:
        asyncio.run(connect_elsewhere(Settings(engine_url=elsewhere.url)))
    assert "same version" in e.value.remedy


def test_the_commands_know_it(elsewhere, monkeypatch):
    elsewhere.listen()
    second = elsewhere.run("--listen", f"unix:{elsewhere.socket}")
    assert second.returncode != 0
    assert "listens already" in second.stderr
    monkeypatch.setenv("XDG_RUNTIME_DIR", elsewhere.environment["XDG_RUNTIME_DIR"])
    (place,) = running_engines()
    until(lambda: status_of(place) is not None)
    assert f"listens at {elsewhere.socket}" in CliRunner().invoke(engine, ["status"]).output
    pid = elsewhere.processes[0].pid
    assert "serves" in CliRunner().invoke(engine, ["log"]).output
    assert f"Ended process {pid}" in CliRunner().invoke(engine, ["stop", str(pid)]).output
    assert elsewhere.processes[0].wait(WAIT_S) == 0
    assert not elsewhere.socket.exists()
    assert known_places()
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    outcome = CliRunner().invoke(engine, ["run"])
    assert "--listen ADDRESS" in outcome.output


def test_a_signal_ends_it(elsewhere):
    elsewhere.listen()
    until(lambda: "serves" in elsewhere.log())
    elsewhere.processes[0].send_signal(signal.SIGTERM)
    assert elsewhere.processes[0].wait(WAIT_S) == 0
    assert not elsewhere.socket.exists()
