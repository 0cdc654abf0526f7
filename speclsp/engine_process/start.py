"""Finds the user's engine or starts it, and asks engines for their status.

Windows that start at once share one engine: the holder of the engine's lock connects once more,
replaces a dead socket by a new one and passes that to the new process.  The socket listens before
the process runs, so that the other windows connect at once and wait in its queue.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import msgspec

from speclsp.embedded import with_absolute_paths
from speclsp.engine_process.place import (
    OWN_ENGINE,
    PROTOCOL,
    EnginePlace,
    changed_settings,
    engine_place,
    is_updated,
    known_places,
)
from speclsp.engine_process.transport import (
    Streams,
    dial,
    in_daemon_thread,
    opened,
    read_line,
    send_line,
)
from speclsp.errors import EngineProcessError
from speclsp.settings import Settings

START_TIMEOUT_S: Final = 30.0
"""Seconds that a window waits for an engine to start or to answer."""

_PROGRAM: Final = (sys.executable, "-P", "-m", "speclsp")
_RETRY_S: Final = 0.02
_LONGEST_RETRY_S: Final = 1.0
_CONTROL_TIMEOUT_S: Final = 5.0
_REAP_S: Final = 2.0
_STALE_S: Final = 7 * 24 * 3600.0

_Answer = TypeVar("_Answer")

Purpose = Literal["window", "status", "stop", "stop if idle"]
"""What a client connects for; `stop if idle` ends an engine that no window uses."""


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """The first line on a connection, from the client."""

    purpose: Purpose
    protocol: int = PROTOCOL
    version: str = ""
    """Of speclsp; engines on other machines serve their own version only."""
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

    streams: Streams
    place: EnginePlace | None = None
    """None for an engine on another machine."""
    pid: int = 0
    """Of the engine, where that is on this machine."""
    process: subprocess.Popen[bytes] | None = None
    """The engine's process if this window started it."""


async def connect(
    settings: Settings,
    *,
    program: Sequence[str] = _PROGRAM,
    timeout_s: float = START_TIMEOUT_S,
) -> EngineConnection:
    """Return a connection to the engine of these settings; start the engine where none runs.

    ``settings`` name files, not presets.  ``program`` is the command before ``engine run``.
    Takes at most ``timeout_s`` seconds.  Raises :class:`EngineProcessError`, with a remedy, and
    OSError.
    """
    settings = with_absolute_paths(settings)
    place = engine_place(settings)
    greeting = Greeting(purpose="window", exit_seconds=settings.engine_exit_seconds)
    deadline = time.monotonic() + timeout_s
    pause_s = _RETRY_S
    process: subprocess.Popen[bytes] | None = None
    try:
        while True:
            found = await in_daemon_thread(_dial, place)
            if found is None:
                if process is not None:
                    raise await in_daemon_thread(_not_started, place, process)
                found, process = await in_daemon_thread(_start, place, settings, program, deadline)
                if found is None:
                    continue
            streams, welcome = await _greeted(found, place, greeting, deadline)
            if welcome is not None:
                return EngineConnection(streams, place, welcome.pid, process)
            # It is ending, has died while it started, or is something else.
            if time.monotonic() + pause_s >= deadline:
                raise EngineProcessError(
                    f"What listens at {place.socket} ends each connection: it is no engine.",
                    remedy=f"End it (`fuser {place.socket}` names it), or {OWN_ENGINE}",
                )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_RETRY_S)
    except TimeoutError as error:
        raise EngineProcessError(
            str(error), remedy=f"Wait, end that process if it does not go on, or {OWN_ENGINE}"
        ) from error


async def _greeted(
    connection: socket.socket, place: EnginePlace, greeting: Greeting, deadline: float
) -> tuple[Streams, Welcome | None]:
    """Greet an engine at a connection, which is taken over.

    Raises what :func:`greet` does, and TimeoutError where it does not answer.
    """
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            streams = await opened(connection)
            return streams, await greet(streams, greeting)
    except TimeoutError as error:
        raise _no_answer(place) from error


def _start(
    place: EnginePlace, settings: Settings, program: Sequence[str], deadline: float
) -> tuple[socket.socket | None, subprocess.Popen[bytes] | None]:
    """Start the engine, or connect to the one that another window has started."""
    try:
        with place.locked(max(0.0, deadline - time.monotonic())):
            found = _dial(place)
            if found is not None:
                return found, None
            remove_stale([other for other in known_places() if other != place])
            return None, _spawn(place, settings, program)
    except TimeoutError as error:
        raise EngineProcessError(
            f"Another process holds the lock {place.lock}, and no engine listens.",
            remedy=f"End it (`fuser {place.lock}` names it), or {OWN_ENGINE}",
        ) from error
    except (OSError, NotImplementedError) as error:  # also where the folder has no locks
        raise _no_place(place, error) from error


def _spawn(
    place: EnginePlace, settings: Settings, program: Sequence[str]
) -> subprocess.Popen[bytes]:
    """Listen, and run the engine on the socket, detached from this process.  Raises OSError."""
    options = [
        f"--{'' if value is not False else 'no-'}{name.replace('_', '-')}"
        + ("" if isinstance(value, bool) else f"={value}")
        for name, value in changed_settings(settings).items()
    ]
    log = place.open_log()
    try:
        with place.listen() as listener:
            descriptor = listener.fileno()
            process = subprocess.Popen(  # noqa: S603  this program
                [
                    *program,
                    "engine",
                    "run",
                    f"--listen-fd={descriptor}",
                    f"--name={place.name}",
                    f"--engine-exit-seconds={settings.engine_exit_seconds}",
                    *options,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                umask=0o077,
                start_new_session=True,
                pass_fds=(descriptor,),
            )
    except OSError:
        place.socket.unlink(missing_ok=True)
        raise
    finally:
        os.close(log)
    # Takes the exit status when the engine ends before this window does: no zombie stays.
    threading.Thread(target=process.wait, name="speclsp-engine-exit", daemon=True).start()
    return process


def listen_alone(place: EnginePlace) -> socket.socket:
    """Return a listening socket for an engine in this process.

    Raises :class:`EngineProcessError`, also where one runs already.
    """
    try:
        with place.locked(_CONTROL_TIMEOUT_S):
            if _listens(place):
                raise EngineProcessError(
                    "An engine with these settings listens already.",
                    remedy="`speclsp engine status` names its process, and `engine stop` ends it.",
                )
            os.close(place.open_log())
            return place.listen()
    except TimeoutError as error:
        raise EngineProcessError(
            f"The engine at {place.socket} does not answer, or is being started.",
            remedy="Try again; `speclsp engine status` names its process.",
        ) from error
    except OSError as error:
        raise _no_place(place, error) from error


def running_engines(besides: EnginePlace | None = None) -> list[EnginePlace]:
    """Return the user's engines that listen, but for one.  Raises :class:`EngineProcessError`."""
    return [place for place in known_places() if place != besides and _listens(place)]


def _listens(place: EnginePlace) -> bool:
    with suppress(EngineProcessError, OSError):
        found = _dial(place)
        if found is not None:
            found.close()
            return True
    return False


def status_of(place: EnginePlace) -> dict[str, Any] | None:
    """Return the status of an engine, None where it has ended; for callers without an event loop.

    Raises TimeoutError where it does not answer.
    """
    return asyncio.run(_ask(place, "status", dict[str, Any], _CONTROL_TIMEOUT_S))


def stop(place: EnginePlace, *, only_idle: bool = False, timeout_s: float = 10.0) -> bool:
    """Ask an engine to end and wait until it has; ``only_idle`` spares one that windows use.

    Return whether it has ended.  Raises TimeoutError where it does not answer.
    """
    # The engine closes the connection as it ends.
    purpose: Purpose = "stop if idle" if only_idle else "stop"
    return asyncio.run(_ask(place, purpose, str, timeout_s)) is None


async def _ask(
    place: EnginePlace, purpose: Purpose, kind: type[_Answer], timeout_s: float
) -> _Answer | None:
    """Send an engine a command and return its answer; None where none runs, or it ends.

    Raises TimeoutError where it does not answer.
    """
    deadline = time.monotonic() + timeout_s
    found = _dial(place)
    if found is None:
        return None
    streams, welcome = await _greeted(found, place, Greeting(purpose=purpose), deadline)
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            return await read_line(streams[0], kind) if welcome is not None else None
    except TimeoutError as error:
        raise _no_answer(place) from error
    except OSError:
        return None
    finally:
        streams[1].close()


def remove_stale(places: Sequence[EnginePlace]) -> None:
    """Remove the files of engines that do not run and that nobody wrote to for a week."""
    for place in places:
        with suppress(OSError, EngineProcessError), place.locked(0.0):
            files = [*place.folder.glob(f"{place.name}.*")]
            is_old = time.time() - max(file.lstat().st_mtime for file in files) > _STALE_S
            if is_old and not _listens(place):
                for file in files:
                    file.unlink(missing_ok=True)


def _dial(place: EnginePlace) -> socket.socket | None:
    """Connect to an engine; None where nobody listens."""
    address = place.address()
    if address is None:
        return None
    try:
        return dial(address, _CONTROL_TIMEOUT_S)
    except PermissionError as error:
        raise EngineProcessError(
            f"The engine at {place.socket} cannot be used: {error}.",
            remedy=f"Remove the socket, or {OWN_ENGINE}",
        ) from error
    except OSError as error:
        raise _no_answer(place) from error


async def greet(streams: Streams, greeting: Greeting) -> Welcome | None:
    """Exchange greetings; None where the engine ended meanwhile.

    Raises :class:`EngineProcessError` where the engine refuses.  Closes the streams unless it
    returns a welcome.
    """
    welcome: Welcome | None = None
    try:
        await send_line(streams[1], greeting)
        welcome = await read_line(streams[0], Welcome)
    except OSError:
        return None
    finally:
        if welcome is None or welcome.refusal:
            streams[1].close()
    if welcome is not None and welcome.refusal:
        raise EngineProcessError(welcome.refusal, remedy=welcome.remedy)
    return welcome


def _not_started(place: EnginePlace, process: subprocess.Popen[bytes]) -> EngineProcessError:
    with suppress(subprocess.TimeoutExpired):
        process.wait(_REAP_S)
    status = process.returncode
    how = f"by signal {-status}" if status is not None and status < 0 else f"with status {status}"
    message = f"The engine ended {how} while it started. Its log is {place.log}."
    if is_updated():
        return EngineProcessError(
            f"{message} speclsp was updated while this window was open.",
            remedy="Restart the server (`speclsp: Restart the Server`, `:Speclsp restart`), or the "
            "editor; if that does not help, read the log (`speclsp engine log` prints it).",
        )
    return EngineProcessError(
        message,
        remedy=f"Read the log (`speclsp engine log` prints it), or {OWN_ENGINE}",
    )


def _no_place(place: EnginePlace, error: Exception) -> EngineProcessError:
    return EngineProcessError(
        f"The engine cannot be started in {place.folder}: {error}.",
        remedy="Make room in the folder, check its permissions, remove what is in the way, or "
        f"{OWN_ENGINE}",
    )


def _no_answer(place: EnginePlace) -> TimeoutError:
    return TimeoutError(
        f"The engine at {place.socket} does not answer; `speclsp engine status` names its process."
    )
