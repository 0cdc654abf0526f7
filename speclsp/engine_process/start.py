"""Finds the user's engine or starts it, and asks engines for their status.

Windows that start at once share one engine: the holder of the engine's lock connects once more,
removes a dead socket, binds a new one and passes it to the new process.  The socket listens before
the process runs, so that the other windows connect at once and wait in its queue.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import msgspec

from speclsp.engine_process.place import (
    OWN_ENGINE,
    PROTOCOL,
    EnginePlace,
    engine_place,
    given_settings,
    known_places,
    with_absolute_paths,
)
from speclsp.errors import EngineProcessError
from speclsp.settings import Settings

START_TIMEOUT_S: Final = 30.0
"""Seconds that a window waits for an engine to start or to answer."""
BACKLOG: Final = 128
LOG_TAIL_LINES: Final = 8
"""Lines of the log in the message about an engine that did not start."""

_PROGRAM: Final = (sys.executable, "-P", "-m", "speclsp")
_MAX_LINE: Final = 1 << 20
_RETRY_S: Final = 0.02
_CONTROL_TIMEOUT_S: Final = 5.0
_REAP_S: Final = 2.0
_STALE_S: Final = 7 * 24 * 3600.0

_Line = TypeVar("_Line")

Purpose = Literal["window", "status", "stop", "stop if idle"]
"""What a client connects for; `stop if idle` ends an engine that no window uses."""


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """The first line on a connection, from the client."""

    purpose: Purpose
    protocol: int = PROTOCOL
    exit_seconds: int = 60
    """The window's `engine_exit_seconds`; the newest window's holds."""


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's answer; with ``refusal`` it does not serve the client."""

    pid: int
    refusal: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class EngineConnection:
    """A window's connection to the engine; the greeting is over."""

    socket: socket.socket
    """Blocking, without a timeout."""
    pid: int
    """Of the engine."""
    place: EnginePlace
    process: subprocess.Popen[bytes] | None
    """The engine's process if this window started it."""


def connect(
    settings: Settings,
    *,
    program: Sequence[str] = _PROGRAM,
    timeout_s: float = START_TIMEOUT_S,
) -> EngineConnection:
    """Return a connection to the engine of these settings; start the engine where none runs.

    ``settings`` name files, not presets.  ``program`` is the command before ``engine run``.
    Blocks for at most ``timeout_s`` seconds.  Raises :class:`EngineProcessError`, with a remedy,
    and OSError where another attempt may succeed: the engine does not answer in time, or was killed
    while it started.
    """
    if sys.platform == "win32":
        raise EngineProcessError(
            "Windows cannot share an engine yet.", remedy="Set `engine` to own."
        )
    settings = with_absolute_paths(settings)
    place = engine_place(settings)
    greeting = Greeting(purpose="window", exit_seconds=settings.engine_exit_seconds)
    deadline = time.monotonic() + timeout_s
    process: subprocess.Popen[bytes] | None = None
    while True:
        connection = _dial(place)
        if connection is None:
            if process is not None:
                raise _not_started(place, process)
            connection, process = _start(place, settings, program, deadline)
        welcome = _greet(connection, greeting, place, deadline)
        if welcome is not None:
            connection.settimeout(None)
            return EngineConnection(connection, welcome.pid, place, process)
        if time.monotonic() >= deadline:
            raise _no_answer(place)
        time.sleep(_RETRY_S)  # it is ending, or has died while it started


def _start(
    place: EnginePlace, settings: Settings, program: Sequence[str], deadline: float
) -> tuple[socket.socket, subprocess.Popen[bytes] | None]:
    """Start the engine unless another window has done so, and connect to it."""
    try:
        with place.locked(max(0.0, deadline - time.monotonic())):
            connection = _dial(place)
            if connection is not None:
                return connection, None
            remove_stale([other for other in known_places() if other != place])
            if place.has_socket():
                place.socket.unlink()
            process = _spawn(place, settings, program)
    except TimeoutError as error:
        raise _no_answer(place) from error
    except OSError as error:
        raise EngineProcessError(
            f"The engine cannot be started in {place.folder}: {error}.",
            remedy=f"Check the folder's permissions and space, or {OWN_ENGINE}",
        ) from error
    connection = _dial(place)
    if connection is None:
        raise _not_started(place, process)
    return connection, process


def _spawn(
    place: EnginePlace, settings: Settings, program: Sequence[str]
) -> subprocess.Popen[bytes]:
    """Bind the socket and run the engine on it, detached from this process.  Raises OSError."""
    options = [
        f"--{'' if value is not False else 'no-'}{name.replace('_', '-')}"
        + ("" if isinstance(value, bool) else f"={value}")
        for name, value in given_settings(settings).items()
    ]
    log = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(os.fspath(place.socket))
            place.socket.chmod(0o600)
            listener.listen(BACKLOG)
            process = subprocess.Popen(  # noqa: S603  this program
                [
                    *program,
                    "engine",
                    "run",
                    f"--listen-fd={listener.fileno()}",
                    f"--name={place.name}",
                    f"--engine-exit-seconds={settings.engine_exit_seconds}",
                    *options,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                umask=0o077,
                pass_fds=(listener.fileno(),),
                start_new_session=True,
            )
    except OSError:
        place.socket.unlink(missing_ok=True)
        raise
    finally:
        os.close(log)
    # Takes the exit status when the engine ends before this window does: no zombie stays.
    threading.Thread(target=process.wait, name="speclsp-engine-exit", daemon=True).start()
    return process


def running_engines() -> list[EnginePlace]:
    """Return the user's engines that listen.  Raises :class:`EngineProcessError`."""
    found = []
    for place in known_places():
        with suppress(EngineProcessError, OSError):
            connection = _dial(place)
            if connection is not None:
                connection.close()
                found.append(place)
    return found


def status_of(place: EnginePlace) -> dict[str, Any] | None:
    """Return the status of an engine, None where it has ended.

    Raises TimeoutError where it does not answer.
    """
    deadline = time.monotonic() + _CONTROL_TIMEOUT_S
    connection = _dial(place)
    if connection is None:
        return None
    with connection:
        if _greet(connection, Greeting(purpose="status"), place, deadline) is None:
            return None
        return _read_line(connection, dict[str, Any], deadline)


def stop(place: EnginePlace, *, only_idle: bool = False, timeout_s: float = 10.0) -> bool:
    """Ask an engine to end and wait until it has; ``only_idle`` spares one that windows use.

    Return whether it has ended.  Raises TimeoutError where it does not answer.
    """
    deadline = time.monotonic() + timeout_s
    connection = _dial(place)
    if connection is None:
        return True
    with connection:
        greeting = Greeting(purpose="stop if idle" if only_idle else "stop")
        if _greet(connection, greeting, place, deadline) is None:
            return True
        connection.settimeout(max(0.1, deadline - time.monotonic()))
        try:
            refused = connection.recv(1) != b""  # the engine closes the connection as it ends
        except TimeoutError as error:
            raise _no_answer(place) from error
        except OSError:
            refused = False
    return not refused


def remove_stale(places: Sequence[EnginePlace]) -> None:
    """Remove the files of engines that do not run and that nobody wrote to for a week."""
    for place in places:
        with suppress(OSError, EngineProcessError), place.locked(0.0):
            files = [*place.folder.glob(f"{place.name}.*")]
            is_old = time.time() - max(file.lstat().st_mtime for file in files) > _STALE_S
            connection = _dial(place) if is_old else None
            if connection is not None:
                connection.close()
            elif is_old:
                for file in files:
                    file.unlink(missing_ok=True)


def check_peer(connection: socket.socket) -> None:
    """Raise PermissionError where the process at the other end runs for another user.

    Linux and macOS tell; elsewhere the folder's permissions must do.
    """
    uid = os.getuid()
    if sys.platform == "linux":
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _, uid, _ = struct.unpack("iII", credentials)
    elif sys.platform == "darwin":
        # LOCAL_PEERCRED at level 0 returns struct xucred: version, uid, groups.
        _, uid = struct.unpack_from("II", connection.getsockopt(0, 1, 76))
    if uid != os.getuid():
        raise PermissionError(f"the process at the other end runs for user number {uid}")


def _dial(place: EnginePlace) -> socket.socket | None:
    """Connect to an engine's socket; None where there is none, or where nobody listens."""
    if not place.has_socket():
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_CONTROL_TIMEOUT_S)
    try:
        _connect(connection, place)
        check_peer(connection)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except PermissionError as error:
        connection.close()
        raise EngineProcessError(
            f"The engine at {place.socket} cannot be used: {error}.",
            remedy=f"Remove the socket, or {OWN_ENGINE}",
        ) from error
    except OSError as error:
        connection.close()
        raise _no_answer(place) from error
    return connection


def _connect(connection: socket.socket, place: EnginePlace) -> None:
    """Connect to an engine that other clients keep busy.  Raises OSError."""
    until = time.monotonic() + _CONTROL_TIMEOUT_S
    while True:
        try:
            return connection.connect(os.fspath(place.socket))
        except BlockingIOError:  # its queue is full, for which a socket with a timeout never waits
            if time.monotonic() >= until:
                raise
            time.sleep(_RETRY_S)


def _greet(
    connection: socket.socket, greeting: Greeting, place: EnginePlace, deadline: float
) -> Welcome | None:
    """Exchange the first lines; None where the engine ended meanwhile.

    Raises :class:`EngineProcessError` where the engine refuses, and TimeoutError where it does not
    answer.  Closes the connection unless it returns a welcome.
    """
    welcome: Welcome | None = None
    try:
        connection.settimeout(max(_RETRY_S, deadline - time.monotonic()))
        connection.sendall(msgspec.json.encode(greeting) + b"\n")
        welcome = _read_line(connection, Welcome, deadline)
    except TimeoutError as error:
        raise _no_answer(place) from error
    except OSError:
        return None
    finally:
        if welcome is None or welcome.refusal:
            connection.close()
    if welcome is not None and welcome.refusal:
        raise EngineProcessError(welcome.refusal, remedy=welcome.remedy)
    return welcome


def read_line(connection: socket.socket, deadline: float) -> bytes | None:
    """Receive one line and nothing behind it; None at the end.

    Raises OSError, and TimeoutError where the line is not whole at ``deadline``, by the monotonic
    clock, however its bytes trickle in.
    """
    line = b""
    while not line.endswith(b"\n"):
        seconds_left = deadline - time.monotonic()
        if seconds_left <= 0.0:
            raise TimeoutError("the line does not end in time")
        connection.settimeout(seconds_left)
        waiting = connection.recv(4096, socket.MSG_PEEK)
        part = connection.recv(waiting.find(b"\n") + 1 or len(waiting)) if waiting else b""
        line += part
        if not part or len(line) > _MAX_LINE:
            return None
    return line


def _read_line(connection: socket.socket, kind: type[_Line], deadline: float) -> _Line | None:
    line = read_line(connection, deadline)
    try:
        return msgspec.json.decode(line, type=kind) if line is not None else None
    except msgspec.MsgspecError:
        return None


def log_tail(place: EnginePlace, n_lines: int = LOG_TAIL_LINES) -> str:
    """Return the last lines of an engine's log, empty where there is none."""
    with suppress(OSError):
        lines = place.log.read_bytes().decode("utf-8", "replace").splitlines()
        return "\n".join(lines[-n_lines:])
    return ""


def _not_started(place: EnginePlace, process: subprocess.Popen[bytes]) -> Exception:
    with suppress(subprocess.TimeoutExpired):
        process.wait(_REAP_S)
    status = process.returncode
    if status in {-signal.SIGKILL, -signal.SIGTERM}:
        return ConnectionResetError("the engine was killed while it started")
    how = f"by signal {-status}" if status is not None and status < 0 else f"with status {status}"
    tail = log_tail(place)
    return EngineProcessError(
        f"The engine ended {how} while it started." + (f" Its log ends:\n{tail}\n" if tail else ""),
        remedy=f"Read the log {place.log}, or {OWN_ENGINE}",
    )


def _no_answer(place: EnginePlace) -> TimeoutError:
    return TimeoutError(
        f"The engine at {place.socket} does not answer; `speclsp engine status` names its process."
    )
