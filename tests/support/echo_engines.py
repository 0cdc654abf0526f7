"""Starts engines that echo (``echo_engine.py``) and waits for processes."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
from waiting import until

from speclsp.engine_process.place import EnginePlace, engine_place
from speclsp.engine_process.start import START_TIMEOUT_S, connect
from speclsp.settings import Settings

PROGRAM = (sys.executable, str(Path(__file__).with_name("echo_engine.py")))


@dataclass(frozen=True, slots=True)
class PlainConnection:
    """A greeted connection without an event loop."""

    socket: socket.socket
    """Blocking, without a timeout."""
    place: EnginePlace
    pid: int
    process: subprocess.Popen[bytes] | None


def plain_connection(
    settings: Settings, *, program: Sequence[str], timeout_s: float = START_TIMEOUT_S
) -> PlainConnection:
    """Connect as a window does, and take the socket out of the event loop."""

    async def taken() -> PlainConnection:
        connection = await connect(settings, program=program, timeout_s=timeout_s)
        assert connection.place is not None
        transport = connection.streams[1].transport
        ours = transport.get_extra_info("socket").dup()
        transport.abort()
        await asyncio.sleep(0)  # in which the loop closes its own descriptor
        ours.setblocking(True)
        return PlainConnection(ours, connection.place, connection.pid, connection.process)

    return asyncio.run(taken())


@dataclass(frozen=True, slots=True)
class Engines:
    """Starts engines and knows which processes ran."""

    runtime: Path
    starts: Path

    def connect(self, settings: Settings | None = None) -> PlainConnection:
        return plain_connection(settings or Settings(), program=PROGRAM, timeout_s=60)

    def place(self, settings: Settings | None = None) -> EnginePlace:
        return engine_place(settings or Settings())

    def pids(self) -> list[int]:
        """Return the ids of the processes that were started, the first one first."""
        text = self.starts.read_text("ascii") if self.starts.exists() else ""
        return [int(line) for line in text.split()]


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for_end(pid: int) -> None:
    until(partial(lambda: not is_running(pid)))
