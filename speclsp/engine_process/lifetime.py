"""The engine's main loop: accepts windows, and ends the process some time after the last one."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil

from speclsp import __version__
from speclsp.atomic_write import PRIVATE, write_atomically
from speclsp.engine.llama.fit import least_kv_bytes
from speclsp.engine.llama.model_file import read_gguf_header
from speclsp.engine_process.listening import Door
from speclsp.engine_process.place import (
    PROTOCOL,
    EngineInfo,
    EnginePlace,
    existing_models,
    given_settings,
    read_info,
)
from speclsp.engine_process.start import (
    START_TIMEOUT_S,
    Greeting,
    Welcome,
    running_engines,
    stop,
)
from speclsp.engine_process.tls import secured
from speclsp.engine_process.transport import (
    BACKLOG,
    MAX_GREETING,
    admit_window,
    check_peer,
    read_line,
    send_answer,
)
from speclsp.errors import EngineProcessError, SpecLspError
from speclsp.hub.memory import find_memory
from speclsp.settings import Settings

logger = logging.getLogger(__name__)

MAX_LOG_BYTES: Final = 1 << 20
"""Size at which the log is renamed to ``….log.1`` and begun anew."""

_GREETING_TIMEOUT_S: Final = 5.0
_LOCK_TIMEOUT_S: Final = 2.0
_CLOSE_TIMEOUT_S: Final = 5.0
_END_TIMEOUT_S: Final = 15.0
"""Seconds after which the process ends even if a thread of llama.cpp does not."""
_MAX_STRANGERS: Final = 64
"""Clients of doors and ports that have not proved who they are; more are dropped."""
_ACCEPT_PAUSE_S: Final = 0.1
_GIB: Final = 1 << 30

_GREETINGS: Final = msgspec.json.Decoder(Greeting)
"""Made once: msgspec looks at the class then, and crashes where two threads do so at once."""

ServeWindow = Callable[[socket.socket], None]
"""Serves a window on a thread of its own and returns when the window has gone.

The socket blocks and has no timeout; the loop closes it.
When the engine is to end, the loop shuts the socket down.
"""


def run_engine(
    place: EnginePlace,
    listener: socket.socket,
    settings: Settings,
    serve_window: ServeWindow,
    *,
    status: Callable[[], dict[str, Any]] = dict,
    close: Callable[[], None] = lambda: None,
    refusal: SpecLspError | None = None,
    door: Door | None = None,
) -> None:
    """Serve windows until the last has been gone for ``engine_exit_seconds``, or until SIGTERM.

    ``listener`` is bound to the place's socket.  ``status`` adds to the answer to
    ``speclsp engine status``; ``close`` disconnects the windows and frees the models.  With
    ``refusal`` every window is refused with that error.  With ``door`` windows of other machines
    come in there, and it does not end when the last has gone.  Runs on the main thread.
    """
    _Loop(place, listener, settings, serve_window, status, close, refusal, door).run()


def no_room(place: EnginePlace, settings: Settings) -> EngineProcessError | None:
    """Return why the models do not fit the memory beside the user's other engines, None if they do.

    Engines that no window uses are ended first.
    """
    others = running_engines(besides=place)
    needed = needed_bytes(settings)
    if not others or needed <= free_bytes(settings):
        return None
    busy = [other for other in others if not _is_ended(other)]
    free = free_bytes(settings)
    if not busy or needed <= free:
        return None
    running = "; ".join(_described(read_info(other)) for other in busy)
    wanted = EngineInfo(pid=0, version="", model=settings.model, settings=given_settings(settings))
    return EngineProcessError(
        f"There is no room for another engine: {_described(wanted)} needs {needed / _GIB:.1f} GiB, "
        f"{free / _GIB:.1f} GiB are free, and for other windows there runs {running}.",
        remedy="Give both windows the same model and engine settings, or close the others and run "
        "`speclsp engine stop`.",
    )


def needed_bytes(settings: Settings) -> int:
    """Return the bytes of the models' weights and of their smallest KV caches."""
    files = existing_models(settings)
    n_bytes = sum(file.stat().st_size for file in files)
    with suppress(SpecLspError, OSError):  # loading reports a damaged file or wrong settings
        headers = map(read_gguf_header, files)
        n_bytes += sum(least_kv_bytes(header, settings) for header in headers)
    return n_bytes


def free_bytes(settings: Settings) -> int:
    """Return the free memory of the device that the settings load the models into."""
    if settings.device != "none" and settings.n_gpu_layers != 0:
        memory = find_memory()
        if memory.kind != "CPU":
            return memory.free_bytes
    return int(psutil.virtual_memory().available)


def _is_ended(place: EnginePlace) -> bool:
    with suppress(EngineProcessError, OSError):
        return stop(place, only_idle=True)
    return False


def _described(engine: EngineInfo | None) -> str:
    if engine is None:
        return "an engine"
    given = ", ".join(f"{name}={value}" for name, value in engine.settings.items())
    return given or "the trial model"


class _Loop:
    def __init__(
        self,
        place: EnginePlace,
        listener: socket.socket,
        settings: Settings,
        serve_window: ServeWindow,
        status: Callable[[], dict[str, Any]],
        close: Callable[[], None],
        refusal: SpecLspError | None,
        door: Door | None,
    ) -> None:
        self._place = place
        self._listener = listener
        self._serve_window = serve_window
        self._status = status
        self._close = close
        self._refusal = refusal
        self._door = door
        self._n_strangers = 0
        """Clients of the door or a port that have not greeted; these do not keep the process."""
        self._info = EngineInfo(
            pid=os.getpid(),
            version=__version__,
            model=settings.model,
            settings=given_settings(settings),
            listens=door is not None,
        )
        self._started = self._idle_since = time.monotonic()
        self._lock = threading.Lock()
        self._clients: dict[threading.Thread, socket.socket] = {}
        self._windows: set[socket.socket] = set()
        self._exit_s = max(START_TIMEOUT_S, settings.engine_exit_seconds)
        """Until the first window: whoever started this process has not connected yet."""
        address = place.address()
        self._token = address.token if address is not None else b""
        """Empty for a Unix socket."""
        self._is_ending = False
        self._has_ended = threading.Event()
        self._wakes, self._waker = socket.socketpair()

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._begin_end())
        self._waker.setblocking(False)
        # Again, though it listens: so the system knows this process as the peer, not its starter.
        self._listener.listen(BACKLOG)
        listeners = [self._listener, *([self._door.listener] if self._door else [])]
        own = _identity(self._place.socket)
        with write_atomically(self._place.info, f".{self._place.name}.", PRIVATE) as partial:
            partial.write_bytes(msgspec.json.encode(self._info))
        logger.info("engine process %d serves %s", os.getpid(), self._place.socket)
        with selectors.DefaultSelector() as selector:
            for listener in listeners:
                listener.setblocking(False)
                selector.register(listener, selectors.EVENT_READ)
            selector.register(self._wakes, selectors.EVENT_READ)
            while not self._is_over(selector):
                pass
        self._end(own)

    def _is_over(self, selector: selectors.BaseSelector) -> bool:
        """Wait for an event; return whether the engine is to end."""
        ready = {key.fileobj for key, _ in selector.select(self._seconds_left())}
        if self._wakes in ready:
            self._wakes.recv(4096)
        for listener in (found for found in ready if found is not self._wakes):
            if isinstance(listener, socket.socket) and not self._is_ending:
                self._accept(listener)
        with self._lock:
            is_idle = not (self._is_used() or self._listener in ready)
            if is_idle and time.monotonic() - self._idle_since >= self._exit_s:
                logger.info("no window for %d s", self._exit_s)
                self._is_ending = True
            return self._is_ending

    def _seconds_left(self) -> float | None:
        with self._lock:
            if self._is_used():
                return None
            return max(0.0, self._idle_since + self._exit_s - time.monotonic())

    def _is_used(self) -> bool:
        return self._door is not None or len(self._clients) > self._n_strangers

    def _accept(self, listener: socket.socket) -> None:
        is_at_door = listener is not self._listener
        is_stranger = is_at_door or bool(self._token)
        try:
            connection, peer = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:  # no descriptors left: those of others may become free
            logger.warning("a window cannot be accepted: %s", error)
            time.sleep(_ACCEPT_PAUSE_S)
            return
        if is_stranger and self._n_strangers >= _MAX_STRANGERS:
            connection.close()
            return
        thread = threading.Thread(
            target=self._serve, args=(connection, peer, is_at_door, is_stranger), daemon=True
        )
        with self._lock:
            self._clients[thread] = connection
            self._n_strangers += is_stranger
        try:
            thread.start()
        except RuntimeError as error:  # the user may start no more
            logger.warning("a window cannot be served: %s", error)
            connection.close()
            with self._lock:
                del self._clients[thread]
                self._n_strangers -= is_stranger

    def _serve(
        self, connection: socket.socket, peer: object, is_at_door: bool, is_stranger: bool
    ) -> None:
        """Serve one client to its end; runs on the client's thread."""
        try:
            try:
                connection, line = self._admit(connection, is_at_door=is_at_door)
            finally:
                with self._lock:
                    self._n_strangers -= is_stranger
            if line is not None:
                self._answer(connection, _GREETINGS.decode(line), is_at_door=is_at_door)
        except PermissionError as error:
            logger.warning("a client at %s was refused: %s", peer, error)
        except (OSError, msgspec.MsgspecError) as error:
            logger.debug("a client was dropped: %s", error)
        except Exception:
            logger.exception("a client was dropped")
        finally:
            connection.close()
            with self._lock:
                self._clients.pop(threading.current_thread(), None)
                if connection in self._windows:
                    self._windows.discard(connection)
                    self._idle_since = time.monotonic()
            self._wake()

    def _admit(
        self, connection: socket.socket, *, is_at_door: bool
    ) -> tuple[socket.socket, bytes | None]:
        """Check who a client is; return its plain socket and its greeting, None if it has left."""
        deadline = time.monotonic() + _GREETING_TIMEOUT_S
        check_peer(connection)
        token = self._token
        if is_at_door and self._door is not None:
            token = self._door.address.token
            if self._door.context is not None:
                connection = secured(connection, self._door.context, deadline)
        try:
            if token:
                admit_window(connection, token, deadline)
            line = read_line(connection, deadline, MAX_GREETING)
        except BaseException:
            connection.close()
            raise
        connection.settimeout(_GREETING_TIMEOUT_S)
        return connection, line

    def _answer(self, connection: socket.socket, greeting: Greeting, *, is_at_door: bool) -> None:
        if self._is_ending or (is_at_door and greeting.purpose != "window"):
            return
        asked = f"speclsp {greeting.version}, protocol {greeting.protocol}"
        own = f"speclsp {__version__}, protocol {PROTOCOL}"
        if is_at_door and asked != own:
            refusal = f"The engine is {own}; this window is {asked}."
            remedy = "Install the same version of speclsp on both machines."
            self._send(connection, Welcome(pid=os.getpid(), refusal=refusal, remedy=remedy))
            return
        if greeting.protocol != PROTOCOL:
            return
        if greeting.purpose == "window":
            self._take_window(connection, greeting)
            return
        self._send(connection, Welcome(pid=os.getpid()))
        if greeting.purpose == "status":
            self._send(connection, self._full_status())
        elif greeting.purpose == "stop if idle" and (self._windows or self._door):
            self._send(connection, "windows use it")
        else:
            self._begin_end()
            self._has_ended.wait(_END_TIMEOUT_S)

    def _take_window(self, connection: socket.socket, greeting: Greeting) -> None:
        if self._refusal is not None:
            refusal = self._refusal
            self._send(
                connection,
                Welcome(pid=os.getpid(), refusal=refusal.message, remedy=refusal.remedy),
            )
            self._begin_end()
            return
        with self._lock:
            self._windows.add(connection)
            self._exit_s = greeting.exit_seconds
        self._send(connection, Welcome(pid=os.getpid()))
        connection.settimeout(None)
        self._serve_window(connection)

    def _send(self, connection: socket.socket, answer: object) -> None:
        send_answer(connection, answer, time.monotonic() + _GREETING_TIMEOUT_S)

    def _full_status(self) -> dict[str, Any]:
        return {
            **msgspec.to_builtins(self._info),
            "n_windows": len(self._windows),
            "uptime_seconds": round(time.monotonic() - self._started, 1),
            "memory_bytes": psutil.Process().memory_info().rss,
            "log": os.fspath(self._place.log),
            "listens": str(self._door.address) if self._door else "",
            **self._status(),
        }

    def _begin_end(self) -> None:
        self._is_ending = True
        self._wake()

    def _wake(self) -> None:
        with suppress(OSError):  # full: it wakes anyway
            self._waker.send(b"\0")

    def _end(self, own: tuple[int, ...]) -> None:
        """Shut down; a window that starts an engine meanwhile waits until the memory is free."""
        threading.Thread(target=_end_anyway, daemon=True).start()
        with ExitStack() as stack:
            with suppress(TimeoutError, OSError):
                stack.enter_context(self._place.locked(_LOCK_TIMEOUT_S))
            with suppress(OSError):
                if _identity(self._place.socket) == own:
                    self._place.socket.unlink()
                    self._place.info.unlink()
            self._listener.close()
            if self._door is not None:
                self._door.close()
            self._close()
            with self._lock:
                windows, threads = [*self._windows], [*self._clients]
            for connection in windows:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            until = time.monotonic() + _CLOSE_TIMEOUT_S
            self._has_ended.set()
            for thread in threads:
                thread.join(max(0.0, until - time.monotonic()))
        logger.info("engine process %d has ended", os.getpid())


def _identity(path: Path) -> tuple[int, ...]:
    """Return what tells a file from another one of its name, whose inode may be the same."""
    status = path.lstat()
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _end_anyway() -> None:
    time.sleep(_END_TIMEOUT_S)
    os._exit(1)


class LogFile(logging.StreamHandler[Any]):
    """Writes log records to standard error, which is the engine's log file, and bounds that file.

    llama.cpp and the interpreter write their fatal errors to standard error, too.
    """

    def __init__(self, place: EnginePlace) -> None:
        super().__init__(sys.stderr)
        self._path = place.log
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; begin the file anew where it has become too large."""
        super().emit(record)
        with suppress(OSError):
            size = os.fstat(2)
            if size.st_size > MAX_LOG_BYTES and os.path.samestat(size, self._path.lstat()):
                self._begin_anew()

    def _begin_anew(self) -> None:
        self._path.replace(f"{self._path}.1")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL
        descriptor = os.open(self._path, flags, PRIVATE)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)
