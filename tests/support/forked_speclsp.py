"""``speclsp`` in processes of their own, forked from one that has imported its modules.

Python's start and imports take a second, a fork none: for what a run does, not for how it starts.
"""

import atexit
import functools
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PREPARED = """
import gc, json, os, signal, socket, sys

import numpy
from speclsp.cli import complete, models, options
from speclsp.cli.main import main
from speclsp.completer import engine, local
from speclsp.drafting import merger, registry
from speclsp.engine.llama import context, loading, vocabulary
from speclsp.storage import accepted_store

# What a script starts with & ignores it, and so would the tests' processes.
signal.signal(signal.SIGINT, signal.default_int_handler)
gc.freeze()  # or each end looks through all that is loaded, for 0.3 seconds
jobs = socket.socket(fileno=int(sys.argv[1]))
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


class ForkedSpeclsp(subprocess.Popen[Any]):
    """One command, as ``subprocess.Popen`` starts it, but without Python's start."""

    def _execute_child(self, args: Any, *more: Any) -> None:
        folder, environment = more[4:6]
        given, *_, out, _, errors = more[9:15]
        self._status, status = os.pipe()
        job = {
            "arguments": args,
            "environment": dict(os.environ if environment is None else environment),
            "folder": str(folder or Path.cwd()),
        }
        streams = [own if own != -1 else number for number, own in enumerate((given, out, errors))]
        with tempfile.TemporaryFile("w+") as file:
            json.dump(job, file)
            file.seek(0)
            socket.send_fds(_prepared(), [b"1"], [*streams, file.fileno(), status])
        self.pid = int.from_bytes(_prepared().recv(4))
        os.close(status)
        self._close_pipe_fds(*more[9:15])

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        limit_s = 0 if wait_flags else None
        if not select.select([self._status], [], [], limit_s)[0]:
            return 0, 0
        found = os.read(self._status, 4)
        os.close(self._status)
        return self.pid, int.from_bytes(found)

    def _internal_poll(self, **_: Any) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)
        return self.returncode


def run_speclsp(
    *arguments: str,
    data: bytes = b"",
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout_s: float = 600.0,
) -> subprocess.CompletedProcess[bytes]:
    """Run one command to its end, as ``subprocess.run`` does.  Raises ``TimeoutExpired``."""
    pipe = subprocess.PIPE
    with ForkedSpeclsp(
        arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=folder
    ) as process:
        try:
            output, errors = process.communicate(data, timeout_s)
        finally:
            process.kill()
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)
