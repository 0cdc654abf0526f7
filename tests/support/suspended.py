"""A process that is stopped when the test goes on, not soon."""

import os
import signal
from pathlib import Path

import psutil
from waiting import until


def suspend(pid: int) -> None:
    """Stop the process until SIGCONT, and return when each of its threads has stopped.

    ``kill`` returns before: a thread that runs on another core may still answer a request.
    """
    os.kill(pid, signal.SIGSTOP)
    until(lambda: _is_stopped(pid), within_s=30.0)


def _is_stopped(pid: int) -> bool:
    if psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        return False
    # Each thread has a state of its own, which only Linux tells.
    states = [stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(state.rpartition(")")[2].split()[0] == "T" for state in states)
