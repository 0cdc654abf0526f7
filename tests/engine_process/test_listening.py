"""`speclsp engine --listen`: real engines, sockets and certificates, and windows elsewhere."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from typed_requests import answer_of

from speclsp.cancellation import CancellationToken
from speclsp.cli.engine import engine
from speclsp.cli.window_completer import make_completer
from speclsp.documents import AcceptedText, Document, WorkspaceFolder
from speclsp.engine_process import listening, start, wire
from speclsp.engine_process.listening import connect_elsewhere, open_endpoint
from speclsp.engine_process.place import PROTOCOL, engine_place
from speclsp.engine_process.start import known_places, running_engines, status_of
from speclsp.engine_process.transport import TokenRefusedError, opened, prove_to_engine
from speclsp.errors import EngineProcessError, SpecLspError
from speclsp.events import Problem
from speclsp.requests import Change, CompletionRequest, EditRequest
from speclsp.seam import Completer
from speclsp.settings import Settings
from speclsp.storage.accepted_store import AcceptedStore
from speclsp.storage.database import WorkspaceUse
from speclsp.storage.locations import workspace_id

WAIT_S = 60
PROGRAM = (sys.executable, str(Path(__file__).parents[1] / "support" / "crashing_engine.py"))
TEXT = "x = 1\n"


def until(condition: Callable[[], object], what: str = "it did not come about") -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


class Elsewhere:
    """Another machine: a folder of its own for engines and stores."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self.processes: list[subprocess.Popen[str]] = []
        self.windows: list[Completer] = []

    def listen(self, where: str, *options: object) -> str:
        """Run an engine until it listens, and return its address."""
        command = [*PROGRAM, "engine", "--listen", where, *map(str, options)]
        process = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, text=True, cwd=self.folder
        )
        self.processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert f"Process {process.pid} listens at" in line
        return line.split(" listens at ")[1].split(";")[0]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, "engine", *arguments],
            check=False,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )

    def window(self, url: str, **settings: object) -> Completer:
        known = {"engine_url": url, "deadline_ms": 60_000, "persist": False}
        window = make_completer(Settings(**{**known, **settings}))  # type: ignore[arg-type]
        self.windows.append(window)
        window.start()
        return window

    def log(self) -> str:
        return "".join(file.read_text() for file in self.folder.glob("run/speclsp/*.log"))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    with tempfile.TemporaryDirectory(prefix="speclsp-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", f"{folder}/here")
        monkeypatch.setenv("SPECLSP_ENGINE_KEY", "")
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


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("certificate")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    try:
        files = ["-keyout", str(key), "-out", str(cert)]
        subprocess.run([*command, *name, *files], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl, which makes the certificate")
    return cert, key


def test_a_window_elsewhere_gets_suggestions_by_a_unix_socket(elsewhere: Elsewhere) -> None:
    path = elsewhere.folder / "engine.sock"
    elsewhere.listen(f"unix:{path}")
    assert path.stat().st_mode & 0o777 == 0o600
    window = elsewhere.window(f"speclsp+unix://{path}")
    open_document(window)
    assert text_of(window) == "return 1"
    window.statistics()
    until(lambda: "open files only" in str(window.statistics().lacks))
    assert str(path) in window.statistics().model
    assert running_engines() == []  # none was started here


def test_two_windows_share_it_and_it_stays_without_any(elsewhere: Elsewhere) -> None:
    path = elsewhere.folder / "engine.sock"
    elsewhere.listen(f"unix:{path}", "--engine-exit-seconds=0")
    windows = [elsewhere.window(f"speclsp+unix://{path}", engine_exit_seconds=0) for _ in "ab"]
    for window in windows:
        open_document(window)
        assert text_of(window) == "return 1"
    for window in windows:
        window.close()
    third = elsewhere.window(f"speclsp+unix://{path}")
    open_document(third)
    assert text_of(third) == "return 1"
    assert elsewhere.processes[0].poll() is None


def test_tls_with_a_token(
    elsewhere: Elsewhere, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate
    token = elsewhere.folder / "token"
    address = elsewhere.listen("localhost:0", "--cert", cert, "--key", key, "--token-file", token)
    assert token.stat().st_mode & 0o777 == 0o600
    url = f"speclsp://{address}"
    trusting = {"engine_key_file": str(token), "engine_ca_file": str(cert)}
    window = elsewhere.window(url, **trusting)
    long = "value = 1\n" * 100_000  # more than the sockets hold
    open_document(window, long)
    assert text_of(window, offset=len(long)) == "return 1"

    def refusal(**settings: str) -> str:
        with pytest.raises(EngineProcessError) as error:
            asyncio.run(connect_elsewhere(Settings(engine_url=url, **settings)))  # type: ignore[arg-type]
        assert error.value.remedy
        return error.value.message

    assert "needs a token" in refusal(engine_ca_file=str(cert))
    monkeypatch.setenv("SPECLSP_ENGINE_KEY", "0" * 64)
    assert "refuses the token" in refusal(engine_ca_file=str(cert))
    until(lambda: "wrong token" in elsewhere.log())
    assert "without TLS" in refusal(engine_key_file=str(token))
    other_name = url.replace("localhost", "127.0.0.1")
    with pytest.raises(EngineProcessError, match="not trusted"):
        asyncio.run(connect_elsewhere(Settings(engine_url=other_name, **trusting)))  # type: ignore[arg-type]
    with socket.create_connection(("localhost", int(address.rpartition(":")[2]))) as plain:
        plain.sendall(b'{"purpose": "window"}\n')
        assert b"pid" not in plain.recv(4096)
    old = ssl.create_default_context(cafile=cert)
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    port = int(address.rpartition(":")[2])
    with (
        socket.create_connection(("localhost", port)) as connection,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        old.wrap_socket(connection, server_hostname="localhost")


def test_tls_clients_without_the_token_hold_no_descriptor(
    elsewhere: Elsewhere, certificate: tuple[Path, Path]
) -> None:
    """TLS's own end would wait for them."""
    cert, key = certificate
    token = elsewhere.folder / "token"
    address = elsewhere.listen("localhost:0", "--cert", cert, "--key", key, "--token-file", token)
    process = psutil.Process(elsewhere.processes[0].pid)
    with closing(dialled(address)) as plain:  # answered once the engine serves
        plain.sendall(b"no TLS\n")
        plain.recv(1)
    n_files = process.num_fds()
    port = int(address.rpartition(":")[2])
    with ExitStack() as stack:
        for _ in range(20):
            plain = stack.enter_context(socket.create_connection(("localhost", port), WAIT_S))
            context = ssl.create_default_context(cafile=cert)
            client = stack.enter_context(context.wrap_socket(plain, server_hostname="localhost"))
            client.sendall(b"garbage\n")
        until_s = time.monotonic() + 20.0
        while process.num_fds() > n_files:
            assert time.monotonic() < until_s
            time.sleep(0.01)


def test_a_loopback_port_needs_the_token_and_no_tls(
    elsewhere: Elsewhere, certificate: tuple[Path, Path]
) -> None:
    token = elsewhere.folder / "token"
    address = elsewhere.listen("127.0.0.1:0", "--token-file", token)
    settings = {"engine_url": f"speclsp://{address}", "engine_key_file": str(token)}
    window = elsewhere.window(settings["engine_url"], engine_key_file=str(token))
    open_document(window)
    assert text_of(window) == "return 1"
    with pytest.raises(EngineProcessError, match="no engine with TLS"):
        asyncio.run(connect_elsewhere(Settings(**settings, engine_ca_file=str(certificate[0]))))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("where", "options", "message", "remedy"),
    [
        ("0.0.0.0:0", {"token_file": Path("token")}, "no loopback address", "--cert"),
        ("127.0.0.1:0", {}, "needs a token", "--token-file"),
        ("127.0.0.1:0", {"cert": Path("cert.pem")}, "needs its key", "--key"),
        ("127.0.0.1", {}, "no address", "HOST:PORT"),
        ("unix:relative", {}, "no absolute path", "whole path"),
        ("unix:~nobody-of-this-name/a.sock", {}, "no absolute path", "whole path"),
        ("unix:/tmp/speclsp-engine", {}, "other users may write", "mkdir -m 700"),
        ("unix:/tmp/speclsp-engine", {"token_file": Path("t")}, "belong to HOST:PORT", "Leave"),
        ("127.0.0.1:0", {"token_file": Path("short")}, "fewer than 32", "Empty the file"),
        ("127.0.0.1:0", {"token_file": Path("umlauts")}, "other than ASCII", "Empty the file"),
        ("127.0.0.1:0", {"token_file": Path("no/token")}, "cannot be used", "folder that exists"),
    ],
)
def test_what_is_unsafe_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    options: dict[str, Path],
    message: str,
    remedy: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("short").write_text("password1\n")
    Path("umlauts").write_text("\N{LATIN SMALL LETTER A WITH DIAERESIS}" * 20, encoding="utf-8")
    with pytest.raises(EngineProcessError, match=message) as error:
        open_endpoint(where, **options)
    assert remedy in error.value.remedy


@pytest.mark.parametrize(
    ("url", "key", "message"),
    [
        ("speclsp://127..0.1:99", "0" * 64, "no address"),
        (f"speclsp://{'a' * 64}.example:99", "0" * 64, "no address"),
        ("speclsp://me:secret@127..0.1:99", "0" * 64, r"'127..0.1:99' is no address"),
        ("speclsp+unix:///a\0b", "0" * 64, "NUL"),
        ("speclsp://127.0.0.1:99", "schlüssel", "not ASCII"),
        ("speclsp://127.0.0.1:99", "\udcff", "not ASCII"),
    ],
)
def test_an_address_or_token_that_nothing_can_have_is_an_error_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, url: str, key: str, message: str
) -> None:
    monkeypatch.setenv("SPECLSP_ENGINE_KEY", key)
    with pytest.raises(SpecLspError, match=message) as error:
        asyncio.run(connect_elsewhere(Settings(engine_url=url)))
    assert error.value.remedy
    assert "secret" not in str(error.value)


def test_windows_is_told_that_it_has_no_unix_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(EngineProcessError, match="no Unix sockets") as error:
        asyncio.run(connect_elsewhere(Settings(engine_url="speclsp+unix:///engine.sock")))
    assert "127.0.0.1" in error.value.remedy


def test_a_socket_in_the_url_has_a_whole_path() -> None:
    with pytest.raises(EngineProcessError, match="does not begin with /") as error:
        asyncio.run(connect_elsewhere(Settings(engine_url="speclsp+unix://~/engine.sock")))
    assert "%20" in error.value.remedy


@pytest.mark.parametrize("n_lines", [0, 1])
def test_only_an_end_before_the_nonce_may_be_tls(
    monkeypatch: pytest.MonkeyPatch, n_lines: int
) -> None:
    monkeypatch.setenv("SPECLSP_ENGINE_KEY", "0" * 64)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                for _ in range(n_lines):
                    connection.recv(4096)
                    connection.sendall(b"f" * 64 + b"\n")
                connection.recv(4096)

        threading.Thread(target=answer, daemon=True).start()
        url = f"speclsp://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(EngineProcessError) as error:
            asyncio.run(connect_elsewhere(Settings(engine_url=url)))
    assert ("no engine without TLS" in error.value.message) == (n_lines == 0)
    assert "engine --listen" in error.value.remedy


def dialled(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), WAIT_S)


def n_windows(elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("XDG_RUNTIME_DIR", elsewhere.environment["XDG_RUNTIME_DIR"])
    (place,) = running_engines()
    status = status_of(place)
    assert status is not None
    return int(status["n_windows"])


def test_a_window_with_a_wrong_token_is_refused_and_logged(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = elsewhere.listen("127.0.0.1:0", "--token-file", elsewhere.folder / "token")
    stranger = dialled(address)
    before = time.monotonic()

    async def prove() -> None:
        reader, writer = await opened(stranger)
        with pytest.raises(TokenRefusedError):
            await prove_to_engine((reader, writer), b"0" * 64)
        assert time.monotonic() - before >= 1.0  # so much for trying one token after the other
        assert await reader.read(1) == b""
        writer.close()

    asyncio.run(prove())
    until(lambda: "wrong token" in elsewhere.log())
    assert "127.0.0.1" in next(
        line for line in elsewhere.log().splitlines() if "wrong token" in line
    )
    assert n_windows(elsewhere, monkeypatch) == 0


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
def test_what_comes_without_a_proof_is_answered_by_nothing(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    address = elsewhere.listen("127.0.0.1:0", "--token-file", elsewhere.folder / "token")
    with closing(dialled(address)) as stranger, suppress(OSError):
        stranger.sendall(sent)
        stranger.shutdown(socket.SHUT_WR)
        assert stranger.recv(1) == b""
    assert n_windows(elsewhere, monkeypatch) == 0


def test_silent_clients_leave_room_for_a_window(elsewhere: Elsewhere) -> None:
    token = elsewhere.folder / "token"
    address = elsewhere.listen("127.0.0.1:0", "--token-file", token)
    port = int(address.rpartition(":")[2])
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S))
            for _ in range(65)
        ]
        assert silent[64].recv(1) == b""  # at once, and the others are kept for five seconds
        silent[63].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[63].recv(1)
        window = elsewhere.window(f"speclsp://{address}", engine_key_file=str(token))
        open_document(window)
        assert text_of(window) == "return 1"


def test_without_memory_it_does_not_listen(elsewhere: Elsewhere) -> None:
    elsewhere.listen(f"unix:{elsewhere.folder / 'first.sock'}")
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
def test_an_engine_that_cannot_begin_says_why(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", elsewhere.environment["XDG_RUNTIME_DIR"])
    monkeypatch.setattr(start, "_CONTROL_TIMEOUT_S", 0.1)
    path = elsewhere.folder / "engine.sock"
    place = engine_place(Settings(), f"unix:{path}")
    with ExitStack() as stack:
        if fault == "lock":
            stack.enter_context(place.locked(1.0))
        else:
            place.log.mkdir()
        outcome = CliRunner().invoke(engine, ["--listen", f"unix:{path}"])
    assert isinstance(outcome.exception, EngineProcessError)
    assert outcome.exception.remedy
    assert not path.exists()
    assert not place.socket.exists()


def test_the_engines_own_settings_win() -> None:
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


def test_no_path_and_no_ignored_file_leaves_the_machine(
    elsewhere: Elsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bytes] = []
    frame = wire.Connection._frame
    monkeypatch.setattr(
        wire.Connection, "_frame", lambda self, m: sent.append(frame(self, m)) or sent[-1]
    )
    path = elsewhere.folder / "engine.sock"
    elsewhere.listen(f"unix:{path}")
    (tmp_path / ".gitignore").write_text("private.py\n")
    window = elsewhere.window(f"speclsp+unix://{path}")
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


def test_accepted_texts_of_projects_are_kept_apart(elsewhere: Elsewhere, tmp_path: Path) -> None:
    path = elsewhere.folder / "engine.sock"
    elsewhere.listen(f"unix:{path}", "--persist")
    store = elsewhere.folder / "state" / "speclsp" / "accepted.sqlite3"
    kept: list[set[bytes | None]] = []
    for n_texts, name in enumerate(["a", "b", "a", ""], start=1):
        window = elsewhere.window(f"speclsp+unix://{path}", persist=True)
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


def test_a_killed_engine_is_one_message_and_its_return_needs_nothing(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speclsp.engine_process.restarts.PAUSES_S", (0.0, 0.2, 0.2, 0.2))
    path = elsewhere.folder / "engine.sock"
    elsewhere.listen(f"unix:{path}")
    window = elsewhere.window(f"speclsp+unix://{path}")
    open_document(window)
    assert text_of(window) == "return 1"
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
    assert str(path) in problem.message
    assert "engine --listen" in problem.remedy
    elsewhere.listen(f"unix:{path}")  # over the dead one's socket
    assert text_of(window) == "return 1"


def test_a_request_with_settings_that_are_left_out_is_logged_once(elsewhere: Elsewhere) -> None:
    path = elsewhere.folder / "engine.sock"
    elsewhere.listen(f"unix:{path}")
    window = elsewhere.window(f"speclsp+unix://{path}")
    open_document(window)
    assert text_of(window) == "return 1"
    assert "left out" not in elsewhere.log()
    request = CompletionRequest(
        uri="u:a",
        version=1,
        offset=len(TEXT),
        overrides={"deadline_ms": "never"},
        settings={"n_predict": "many", "model\nforged": "/m.gguf", "deadline_ms": 60_000},
    )
    for _ in range(2):
        result = window.submit(request, CancellationToken()).result(WAIT_S)
        assert result.generated.text == "return 1"
    (line,) = [line for line in elsewhere.log().splitlines() if "left out" in line]
    assert "n_predict" in line
    assert "'many'" in line
    assert "'never'" in line
    assert "model forged" in line


def test_another_version_is_named_on_both_sides(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = elsewhere.folder / "engine.sock"
    elsewhere.listen(f"unix:{path}")
    own = listening.__version__
    monkeypatch.setattr(listening, "__version__", "9.9")
    told = rf"speclsp {own}, protocol {PROTOCOL}.* speclsp 9\.9"
    with pytest.raises(EngineProcessError, match=told) as e:
        asyncio.run(connect_elsewhere(Settings(engine_url=f"speclsp+unix://{path}")))
    assert "same version" in e.value.remedy


def test_the_commands_know_it(elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    path = elsewhere.folder / "engine.sock"
    elsewhere.listen(f"unix:{path}")
    second = elsewhere.run("--listen", f"unix:{path}")
    assert second.returncode != 0
    assert "listens already" in second.stderr
    monkeypatch.setenv("XDG_RUNTIME_DIR", elsewhere.environment["XDG_RUNTIME_DIR"])
    (place,) = running_engines()
    until(lambda: status_of(place) is not None)
    assert f"listens at {path}" in CliRunner().invoke(engine, ["status"]).output
    pid = elsewhere.processes[0].pid
    assert "serves" in CliRunner().invoke(engine, ["log"]).output
    assert f"Ended process {pid}" in CliRunner().invoke(engine, ["stop", str(pid)]).output
    assert elsewhere.processes[0].wait(WAIT_S) == 0
    assert not path.exists()
    assert known_places()
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    outcome = CliRunner().invoke(engine, ["run"])
    assert "--listen ADDRESS" in outcome.output


def test_a_signal_ends_it(elsewhere: Elsewhere) -> None:
    path = elsewhere.folder / "engine.sock"
    elsewhere.listen(f"unix:{path}")
    until(lambda: "serves" in elsewhere.log())
    elsewhere.processes[0].send_signal(signal.SIGTERM)
    assert elsewhere.processes[0].wait(WAIT_S) == 0
    assert not path.exists()
