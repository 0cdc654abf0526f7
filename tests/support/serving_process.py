"""A server program: started with its log in a file, and always ended."""

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx2
import psutil

from speclsp.backends.params import ENVIRONMENT
from speclsp.errors import EngineUnavailableError

ANSWERS_WITHIN_S: Final = 300.0
"""A program that takes longer for one answer hangs."""
LOADS_WITHIN_S: Final = 300.0

_ENDS_WITHIN_S: Final = 5.0
_POLL_S: Final = 0.05
_N_LAST_LINES: Final = 12
_ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:\d+")


class ServingProcess:
    """A running program; ``log`` is the file of its output."""

    def __init__(self, process: subprocess.Popen[bytes], name: str, log: Path) -> None:
        self._process = process
        self._name = name
        self.log = log

    def check(self) -> None:
        """Raise EngineUnavailableError with the program's last words where it has ended."""
        status = self._process.poll()
        if status is not None:
            raise self.failure(f"ended with status {status}")

    def failure(self, what: str) -> EngineUnavailableError:
        """Return an error with what happened to the program; its note is the end of the log."""
        lines = self.words().splitlines()
        last = lines[-_N_LAST_LINES:] or ["nothing"]
        error = EngineUnavailableError(f"{self._name} {what}: {last[-1].strip()}")
        # The log goes with its folder.
        error.add_note("\n".join(["It said last:", *last]))
        return error

    def words(self) -> str:
        """Return its output so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def resident_mib(self) -> float:
        """Return its resident memory and its children's in MiB, 0 where it has ended."""
        return resident_mib(self._process.pid)

    def end(self) -> None:
        """Ask it to end, and kill it where it does not."""
        self._process.terminate()
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def serving(command: Sequence[str], log: Path) -> Iterator[ServingProcess]:
    """Start a program that answers over a socket, and end it at the end.

    Where ``setpriv`` is there, the system ends it even if this process is killed.
    Raises :class:`~speclsp.errors.EngineUnavailableError` where it cannot be started.
    """
    name, nothing = Path(command[0]).name, subprocess.DEVNULL
    # How this process lets llama.cpp's threads wait is no setting of its peers.
    own = {name: value for name, value in os.environ.items() if ENVIRONMENT.get(name) != value}
    guard = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
    with log.open("wb") as words:
        try:
            process = subprocess.Popen(
                [*guard, *command], stdin=nothing, stdout=words, stderr=words, env=own
            )
        except OSError as error:
            raise EngineUnavailableError(f"cannot start {name}: {error.strerror}.") from error
        found = ServingProcess(process, name, log)
        try:
            yield found
        finally:
            found.end()


@contextmanager
def serving_llama_server(
    command: Sequence[str], log: Path, *, port: int = 0
) -> Iterator[tuple[ServingProcess, httpx2.Client]]:
    """Start a llama-server on this machine, wait for its model, and end it at the end.

    Port 0 is a free one.  The client's base URL is the server's address.
    Raises :class:`~speclsp.errors.EngineUnavailableError` where it does not get ready, with its
    last words.
    """
    with serving([*command, "--host", "127.0.0.1", "--port", str(port)], log) as process:
        wait_until(lambda: bool(_ADDRESS.search(process.words())), process)
        address = _ADDRESS.findall(process.words())[0]
        with httpx2.Client(base_url=address, timeout=ANSWERS_WITHIN_S, trust_env=False) as client:
            wait_until(lambda: responds(client, "/health"), process)
            yield process, client


def responds(client: httpx2.Client, path: str) -> bool:
    """Return whether a server answers a request for ``path`` with success."""
    try:
        return client.get(path).is_success
    except httpx2.HTTPError:
        return False


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process and its children in MiB, 0 where it has ended.

    Pages that several of them share, as those of a model file are, count for each.
    """
    try:
        process = psutil.Process(pid)
        tree = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    n_bytes = 0
    for one in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            n_bytes += one.memory_info().rss
    return n_bytes / (1 << 20)


def wait_until(
    is_ready: Callable[[], bool], process: ServingProcess, *, longest_s: float = LOADS_WITHIN_S
) -> None:
    """Poll ``is_ready`` while the program runs.

    Raises :class:`~speclsp.errors.EngineUnavailableError` where it ends or takes longer.
    """
    end = time.monotonic() + longest_s
    while not is_ready():
        process.check()
        if time.monotonic() > end:
            raise process.failure(f"is not ready after {longest_s:.0f} seconds")
        time.sleep(_POLL_S)
