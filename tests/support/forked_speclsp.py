"""``speclsp`` in processes of their own, forked from one that has imported its modules.

Python's start and imports take a second, a fork none: for what a run does, not for how it starts.
Unlike with a real command, what reads the environment at import has read that of the tests, and of
the signals only SIGHUP, SIGINT and SIGTERM are forwarded to what is started by its path.
"""

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_PREPARED = """
import contextlib, gc, json, os, select, signal, socket, sys

import numpy
from speclsp.cli import complete, models, options, serve, window_completer
from speclsp.cli.main import main
from speclsp.completer import engine, local
from speclsp.drafting import merger, registry
from speclsp.backends.llama import context, loading, vocabulary
from speclsp.lsp import server
from speclsp.storage import accepted_store

listener = socket.socket(fileno=int(sys.argv[1]))
# What a script starts with & ignores it, and so would the tests' processes.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for commands
gc.freeze()  # or each end looks through all that is loaded, for 0.3 seconds
while listener in select.select([listener, 0], [], [])[0]:
    command, _ = listener.accept()
    if os.fork():
        command.close()
        continue
    listener.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    received, streams, _, _ = socket.recv_fds(command, 1 << 20, 3)
    while not received.endswith(b"\\n"):
        if not (more := command.recv(1 << 20)):
            os._exit(1)  # who asks has been killed
        received += more
    is_alive, held = os.pipe()
    if pid := os.fork():
        [os.close(one) for one in (*streams, held)]  # their other ends end with the command
        with contextlib.suppress(BrokenPipeError):
            command.send(pid.to_bytes(4))
        if command in select.select([command, is_alive], [], [])[0]:
            os.kill(pid, signal.SIGKILL)  # who asked for it has been killed
            os._exit(0)
        command.send(os.waitpid(pid, 0)[1].to_bytes(4))
        os._exit(0)
    command.close()
    os.close(is_alive)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    job = json.loads(received)
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    sys.argv[1:] = job["arguments"]
    sys.stdin, sys.stdout = open(0), open(1, "w")
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")
    main()
"""
_LAUNCHER = """#!{python} -IS
import contextlib, json, os, signal, socket, sys

def received():
    number = command.recv(4)
    return int.from_bytes(number) if len(number) == 4 else os._exit(70)

def forward(number, _):
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(pid, number)

command = socket.socket(socket.AF_UNIX)
command.connect({address!r})
job = {{"arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}}
socket.send_fds(command, [json.dumps(job).encode() + b"\\n"], [0, 1, 2])
pid = received()
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, forward)
os.closerange(0, 3)
code = os.waitstatus_to_exitcode(received())
os._exit(code if code >= 0 else 128 - code)
"""


@functools.cache
def _prepared() -> Path:
    """Return a folder with the socket ``jobs`` of a process that forks what it is sent."""
    folder = tempfile.TemporaryDirectory(prefix="speclsp-")  # a socket's path is short
    atexit.register(folder.cleanup)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder.name}/jobs")
        listener.listen()
        command = [sys.executable, "-P", "-c", _PREPARED, str(listener.fileno())]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
    atexit.register(process.communicate)  # it ends with its input
    return Path(folder.name)


@functools.cache
def forked_command() -> Path:
    """Return a command that does what ``speclsp`` does, for programs that start it by its path.

    A signal that kills what it forks becomes the exit status, as in a shell.
    """
    file = _prepared() / "speclsp"
    file.write_text(_LAUNCHER.format(python=sys.executable, address=f"{_prepared()}/jobs"))
    file.chmod(0o700)
    return file


class _Forked:
    """A command on three open files."""

    def __init__(
        self,
        arguments: Sequence[str],
        streams: Sequence[int],
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        job = {
            "arguments": arguments,
            "environment": dict(os.environ if environment is None else environment),
            "folder": str(folder or Path.cwd()),
        }
        self._command = socket.socket(socket.AF_UNIX)
        self._command.connect(f"{_prepared()}/jobs")
        socket.send_fds(self._command, [json.dumps(job).encode() + b"\n"], streams)
        self.pid = self._received()
        self.returncode: int | None = None

    def wait(self, timeout: float = 600.0) -> int:
        """Return the exit code, which is negative for a signal.  Raises TimeoutError."""
        if self.returncode is None:
            if not select.select([self._command], [], [], timeout)[0]:
                raise TimeoutError(f"process {self.pid} has not ended")
            self.returncode = os.waitstatus_to_exitcode(self._received())
            self._command.close()
        return self.returncode

    def _received(self) -> int:
        number = self._command.recv(4)
        if len(number) < 4:
            raise ChildProcessError("the process that forks or waits for speclsp has ended")
        return int.from_bytes(number)

    def send_signal(self, number: int) -> None:
        if self.returncode is None and not select.select([self._command], [], [], 0)[0]:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkedSpeclsp(_Forked):
    """One command that is spoken to over pipes; its standard error is a file."""

    def __init__(self, *arguments: str) -> None:
        given, to_it = os.pipe()
        from_it, output = os.pipe()
        self.stdin, self.stdout = os.fdopen(to_it, "wb"), os.fdopen(from_it, "rb")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        super().__init__(arguments, (given, output, self._errors.fileno()))
        os.close(given)
        os.close(output)

    def end(self) -> str:
        """End its input, wait for its end, and return its standard error."""
        with suppress(BrokenPipeError):  # of what it has not read
            self.stdin.close()
        if not self.stdout.closed:
            self.stdout.read()
            self.stdout.close()
        self.wait()
        with self._errors as errors:
            errors.seek(0)
            return errors.read().decode()


def run_speclsp(
    *arguments: str,
    data: bytes = b"",
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run one command to its end, as ``subprocess.run`` does.  Raises TimeoutError."""
    file = tempfile.TemporaryFile
    with file() as given, file() as output, file() as errors:
        given.write(data)
        streams = (given, output, errors)
        given.seek(0)
        command = _Forked(arguments, [one.fileno() for one in streams], environment, folder)
        try:
            code = command.wait()
        finally:
            command.kill()
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(arguments, code, output.read(), errors.read())
