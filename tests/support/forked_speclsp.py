"""``speclsp`` in processes of their own, forked from one that has imported its modules.

Python's start and imports take a second, a fork none: for what a run does, not for how it starts.
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
import gc, json, os, signal, socket, sys

import numpy
from speclsp.cli import complete, models, options
from speclsp.cli.main import main
from speclsp.completer import engine, local
from speclsp.drafting import merger, registry
from speclsp.engine.llama import context, loading, vocabulary
from speclsp.storage import accepted_store

jobs = socket.socket(fileno=int(sys.argv[1]))
# What a script starts with & ignores it, and so would the tests' processes.
signal.signal(signal.SIGINT, signal.default_int_handler)
gc.freeze()  # or each end looks through all that is loaded, for 0.3 seconds
while True:
    is_job, streams, _, _ = socket.recv_fds(jobs, 1, 5)
    if not is_job:
        break
    if os.fork():  # who waits for it is forked, too
        [os.close(stream) for stream in streams]
        os.wait()
        continue
    if os.fork():
        os._exit(0)
    if pid := os.fork():
        jobs.send(pid.to_bytes(4))
        os.closerange(0, streams[4])  # their other ends end with the command
        os.write(streams[4], os.waitpid(pid, 0)[1].to_bytes(4))
        os._exit(0)
    jobs.close()
    with open(streams[3]) as file:
        job = json.load(file)
    for number, stream in enumerate(streams[:3]):
        os.dup2(stream, number)
    [os.close(streams[number]) for number in (0, 1, 2, 4)]
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    sys.argv[1:] = job["arguments"]
    sys.stdin, sys.stdout = open(0), open(1, "w")
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")
    main()
"""


@functools.cache
def _prepared() -> socket.socket:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", _PREPARED, str(theirs.fileno())]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


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
        prepared = _prepared()
        ended, status = os.pipe()
        self._ended = os.fdopen(ended, "rb")
        with tempfile.TemporaryFile("w+") as file:
            json.dump(job, file)
            file.seek(0)
            socket.send_fds(prepared, [b"1"], [*streams, file.fileno(), status])
        os.close(status)
        self.pid = int.from_bytes(prepared.recv(4))
        self.returncode: int | None = None

    def wait(self, timeout: float = 600.0) -> int:
        """Return the exit code, which is negative for a signal.  Raises TimeoutError."""
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise TimeoutError(f"process {self.pid} has not ended")
            self.returncode = os.waitstatus_to_exitcode(int.from_bytes(self._ended.read()))
            self._ended.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None and not select.select([self._ended], [], [], 0)[0]:
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
