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
from speclsp.engine.llama.model_file import gguf_parts, read_gguf_header
from speclsp.engine_process.listening import Endpoint
from speclsp.engine_process.place import (
    PROTOCOL,
    EngineInfo,
    EnginePlace,
    changed_settings,
    existing_models,
    read_info,
)
from speclsp.engine_process.start import (
    START_TIMEOUT_S,
    Greeting,
    Purpose,
    Welcome,
    running_engines,
    stop,
)
from speclsp.engine_process.tls import secured
from speclsp.engine_process.transport import (
    BACKLOG,
    MAX_GREETING,
    MAX_SELECT_S,
    Address,
    admit_window,
    check_peer,
    read_line,
    send_answer,
)
from speclsp.errors import EngineProcessError, SpecLspError
from speclsp.hub.memory import find_memory
from speclsp.printable import printable
from speclsp.settings import Settings

logger = logging.getLogger(__name__)

MAX_LOG_BYTES: Final = 1 << 20
"""Size at which the log is renamed to ``….log.1`` and a new one is started."""

_GREETING_TIMEOUT_S: Final = 5.0
_LOCK_TIMEOUT_S: Final = 2.0
_CLOSE_TIMEOUT_S: Final = 5.0
_END_TIMEOUT_S: Final = 15.0
"""Seconds after which the process ends even if a thread of llama.cpp does not."""
_MAX_UNAUTHENTICATED: Final = 64
"""Clients of the other machines' endpoint that have not greeted; more are disconnected."""
_ACCEPT_PAUSE_S: Final = 0.1
_GIB: Final = 1 << 30

_GREETINGS: Final = msgspec.json.Decoder(Greeting)
"""Made once: msgspec looks at the class then, and crashes where two threads do so at once."""

ServeWindow = Callable[[socket.socket], None]
"""Serves a window on a thread of its own and returns when the window has gone.

The socket blocks and has no timeout; the loop closes it.
When the engine is to end, the loop shuts the socket down.
"""


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
    infos = filter(None, map(read_info, busy))
    running = "; ".join(_described(info.settings) for info in infos) or "an engine"
    wanted = _described(changed_settings(settings))
    return EngineProcessError(
        f"There is no room for another engine: {wanted} needs {needed / _GIB:.1f} GiB, "
        f"{free / _GIB:.1f} GiB are free, and other windows use {running}.",
        remedy="Give both windows the same model and engine settings, or close the others and run "
        "`speclsp engine stop`.",
    )


def needed_bytes(settings: Settings) -> int:
    """Return the bytes of the models' weights and of their smallest KV caches."""
    n_bytes = 0
    with suppress(SpecLspError, OSError):  # loading reports a damaged file or wrong settings
        for file in existing_models(settings):
            n_bytes += sum(part.stat().st_size for part in gguf_parts(file))
            n_bytes += least_kv_bytes(read_gguf_header(file), settings)
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


def _described(settings: dict[str, Any]) -> str:
    given = ", ".join(f"{name}={value}" for name, value in settings.items())
    return given or "the trial model"


class EngineLoop:
    """Serves windows until the last has been gone for ``engine_exit_seconds``, or until SIGTERM.

    :meth:`run` is called on the main thread.
    """

    def __init__(
        self,
        place: EnginePlace,
        listener: socket.socket,
        settings: Settings,
        serve_window: ServeWindow,
        *,
        status: Callable[[], dict[str, Any]] = dict,
        close: Callable[[], None] = lambda: None,
        refusal: EngineProcessError | None = None,
        elsewhere: Endpoint | None = None,
    ) -> None:
        """``listener`` is bound to the place's socket.

        ``status`` adds to the answer to ``speclsp engine status``; ``close`` disconnects the
        windows and frees the models.  With ``refusal`` every window is refused with that error.
        With ``elsewhere`` windows of other machines connect there, and the process does not end
        when the last has gone.
        """
        self._place = place
        self._own = Endpoint(Address(place.socket), listener, None)
        self._elsewhere = elsewhere
        self._serve_window = serve_window
        self._status = status
        self._close = close
        self._refusal = refusal
        self._info = EngineInfo(
            pid=os.getpid(),
            version=__version__,
            model=settings.model,
            settings=changed_settings(settings),
            listens=elsewhere is not None,
        )
        self._started = self._idle_since = time.monotonic()
        self._lock = threading.RLock()
        self._clients: dict[threading.Thread, socket.socket] = {}
        self._n_unauthenticated = 0
        """Clients of ``elsewhere`` that have not greeted."""
        self._windows: set[socket.socket] = set()
        self._exit_s = max(START_TIMEOUT_S, settings.engine_exit_seconds)
        """Seconds without a client after which the process ends; longer until the first window."""
        self._is_ending = False
        self._has_ended = threading.Event()
        self._wakes, self._waker = socket.socketpair()

    def run(self) -> None:
        """Serve windows; return when the engine is to end and everything is closed."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._begin_end())
        self._waker.setblocking(False)
        # Listen again: the system then reports this process as the peer, not the one that bound it.
        self._own.listener.listen(BACKLOG)
        socket_file = _identity(self._place.socket)
        logger.info("engine process %d serves %s", os.getpid(), self._place.socket)
        try:
            with write_atomically(self._place.info, f".{self._place.name}.", PRIVATE) as partial:
                partial.write_bytes(msgspec.json.encode(self._info))
        except OSError as error:  # no window needs it
            logger.warning("%s cannot be written: %s", self._place.info, error)
        with selectors.DefaultSelector() as selector:
            for endpoint in filter(None, (self._own, self._elsewhere)):
                endpoint.listener.setblocking(False)
                selector.register(endpoint.listener, selectors.EVENT_READ, endpoint)
            selector.register(self._wakes, selectors.EVENT_READ)
            while not self._is_over(selector):
                pass
        self._end(socket_file)

    def _is_over(self, selector: selectors.BaseSelector) -> bool:
        """Wait for an event; return whether the engine is to end."""
        left_s = self._seconds_left()
        timeout_s = None if left_s is None else min(left_s, MAX_SELECT_S)
        endpoints = [key.data for key, _ in selector.select(timeout_s)]
        if None in endpoints:
            self._wakes.recv(4096)
        for endpoint in filter(None, endpoints):
            if not self._is_ending:
                self._accept(endpoint)
        with self._lock:
            if self._own not in endpoints and self._seconds_left() == 0.0:
                logger.info("no window for %d s", self._exit_s)
                self._is_ending = True
            return self._is_ending

    def _seconds_left(self) -> float | None:
        """Return the seconds until the engine ends; None while it is used."""
        with self._lock:
            if self._elsewhere is not None or self._clients:
                return None
            return max(0.0, self._idle_since + self._exit_s - time.monotonic())

    def _accept(self, endpoint: Endpoint) -> None:
        try:
            connection, peer = endpoint.listener.accept()
        except BlockingIOError:
            return
        except OSError as error:  # no descriptors are left; others may close some
            logger.warning("a window cannot be accepted: %s", error)
            time.sleep(_ACCEPT_PAUSE_S)
            return
        is_open_to_others = endpoint is self._elsewhere
        if is_open_to_others and self._n_unauthenticated >= _MAX_UNAUTHENTICATED:
            connection.close()
            return
        thread = threading.Thread(
            target=self._serve, args=(connection, peer, endpoint), daemon=True
        )
        with self._lock:
            self._clients[thread] = connection
            self._n_unauthenticated += is_open_to_others
        try:
            thread.start()
        except RuntimeError as error:  # the limit of the user's threads
            logger.warning("a window cannot be served: %s", error)
            connection.close()
            with self._lock:
                del self._clients[thread]
                self._n_unauthenticated -= is_open_to_others

    def _serve(self, connection: socket.socket, peer: object, endpoint: Endpoint) -> None:
        """Serve one client to its end; runs on the client's thread."""
        try:
            try:
                connection, line = _admitted(connection, endpoint)
            finally:
                with self._lock:
                    self._n_unauthenticated -= endpoint is self._elsewhere
            if line is not None:
                self._answer(connection, _GREETINGS.decode(line), endpoint)
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

    def _answer(self, connection: socket.socket, greeting: Greeting, endpoint: Endpoint) -> None:
        asked = f"speclsp {greeting.version}, protocol {greeting.protocol}"
        own = f"speclsp {__version__}, protocol {PROTOCOL}"
        is_window = greeting.purpose == "window"
        if self._is_ending or (endpoint is self._elsewhere and not is_window):
            return
        if endpoint is self._elsewhere and asked != own:
            message = f"The engine is {own}; this window is {asked}."
            remedy = "Install the same version of speclsp on both machines."
            self._welcome(connection, EngineProcessError(message, remedy=remedy))
        elif greeting.protocol != PROTOCOL:
            return
        elif is_window and self._refusal is not None:
            self._welcome(connection, self._refusal)
            self._begin_end()
        elif is_window:
            with self._lock:
                self._windows.add(connection)
                self._exit_s = greeting.exit_seconds
            self._welcome(connection)
            connection.settimeout(None)
            self._serve_window(connection)
        else:
            self._welcome(connection)
            self._obey(connection, greeting.purpose)

    def _obey(self, connection: socket.socket, purpose: Purpose) -> None:
        """Answer a command of ``speclsp engine``."""
        if purpose == "status":
            self._send(connection, self._full_status())
        elif purpose == "stop if idle" and (self._windows or self._elsewhere):
            self._send(connection, "windows use it")
        else:
            self._begin_end()
            self._has_ended.wait(_END_TIMEOUT_S)

    def _welcome(
        self, connection: socket.socket, refusal: EngineProcessError | None = None
    ) -> None:
        message, remedy = (refusal.message, refusal.remedy) if refusal is not None else ("", "")
        self._send(connection, Welcome(pid=os.getpid(), refusal=message, remedy=remedy))

    def _send(self, connection: socket.socket, answer: object) -> None:
        send_answer(connection, answer, time.monotonic() + _GREETING_TIMEOUT_S)

    def _full_status(self) -> dict[str, Any]:
        return {
            **msgspec.to_builtins(self._info),
            "n_windows": len(self._windows),
            "uptime_seconds": round(time.monotonic() - self._started, 1),
            "memory_bytes": psutil.Process().memory_info().rss,
            "log": os.fspath(self._place.log),
            "listens": str(self._elsewhere.address) if self._elsewhere else "",
            **self._status(),
        }

    def _begin_end(self) -> None:
        self._is_ending = True
        self._wake()

    def _wake(self) -> None:
        with suppress(OSError):  # its buffer is full, so the loop wakes anyway
            self._waker.send(b"\0")

    def _end(self, socket_file: tuple[int, ...]) -> None:
        """Shut down under the lock, so that the next engine finds the memory free."""
        threading.Thread(target=_end_anyway, daemon=True).start()
        with ExitStack() as stack:
            with suppress(TimeoutError, OSError):
                stack.enter_context(self._place.locked(_LOCK_TIMEOUT_S))
            with suppress(OSError):
                if _identity(self._place.socket) == socket_file:
                    self._place.socket.unlink()
                    self._place.info.unlink()
            self._own.listener.close()
            if self._elsewhere is not None:
                self._elsewhere.close()
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


def _admitted(connection: socket.socket, endpoint: Endpoint) -> tuple[socket.socket, bytes | None]:
    """Check who a client is; return its plain socket and its greeting, None if it has left.

    Raises OSError, PermissionError among it, and closes the connection.
    """
    deadline = time.monotonic() + _GREETING_TIMEOUT_S
    try:
        check_peer(connection)
        if endpoint.context is not None:
            connection = secured(connection, endpoint.context, deadline)
        if endpoint.address.token:
            admit_window(connection, endpoint.address.token, deadline)
        line = read_line(connection, deadline, MAX_GREETING)
    except BaseException:
        connection.close()
        raise
    connection.settimeout(_GREETING_TIMEOUT_S)
    return connection, line


def _identity(path: Path) -> tuple[int, ...]:
    """Return device, inode and modification time: a newer file may get the same inode."""
    status = path.lstat()
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _end_anyway() -> None:
    time.sleep(_END_TIMEOUT_S)
    os._exit(1)


class LogFile(logging.StreamHandler[Any]):
    """Writes log records to standard error, which is the engine's log file, and bounds that file.

    llama.cpp and the interpreter write their fatal errors to standard error, too.
    What is not printable in a record, which may quote other programs, is replaced.
    """

    def __init__(self, place: EnginePlace) -> None:
        super().__init__(sys.stderr)
        self._path = place.log
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's line."""
        return printable(super().format(record), keep="\t\n")

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; start a new file once this one is too large."""
        super().emit(record)
        with suppress(OSError):
            size = os.fstat(2)
            if size.st_size > MAX_LOG_BYTES and os.path.samestat(size, self._path.lstat()):
                self._rotate()

    def _rotate(self) -> None:
        self._path.replace(f"{self._path}.1")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL
        descriptor = os.open(self._path, flags, PRIVATE)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)
