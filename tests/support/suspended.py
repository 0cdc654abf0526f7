"""A process that is stopped when the test goes on, not soon."""

import os
import signal
import time
from pathlib import Path

import psutil

_TIMEOUT_S = 30.0


def suspend(pid: int) -> None:
    """Stop the process until SIGCONT, and return when each of its threads has stopped.

    ``kill`` returns before: a thread that runs on another core may still answer a request.

    Raises:
        TimeoutError: it has not stopped in time.
    """
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + _TIMEOUT_S
    while not _is_stopped(pid):
        if time.monotonic() > end:
            raise TimeoutError(f"process {pid} was not stopped in {_TIMEOUT_S:g} s")
        time.sleep(0.001)


def _is_stopped(pid: int) -> bool:
    if psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        return False
    # Each thread has a state of its own, which only Linux tells.
    states = [stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(state.rpartition(")")[2].split()[0] == "T" for state in states)
