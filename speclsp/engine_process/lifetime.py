"""The engine's main loop: accepts windows, and ends the process some time after the last one."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil

from speclsp import __version__
from speclsp.backends.llama.fit import least_kv_bytes
from speclsp.backends.llama.model_file import gguf_parts, read_gguf_header
from speclsp.backends.memory import find_memory
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
from speclsp.engine_process.transport import (
    BACKLOG,
    MAX_GREETING,
    Streams,
    check_peer,
    opened,
    read_line,
    send_line,
)
from speclsp.errors import EngineProcessError, SpecLspError
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
_ACCEPT_PAUSE_S: Final = 0.1
_GIB: Final = 1 << 30

ServeWindow = Callable[[Streams], Awaitable[None]]
"""Serves a window until it has gone; the main loop closes the streams."""


async def _nothing() -> None:
    pass


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
    """Serves windows until the last has been gone for ``engine_exit_seconds``, or until SIGTERM."""

    def __init__(
        self,
        place: EnginePlace,
        listener: socket.socket,
        settings: Settings,
        serve_window: ServeWindow,
        *,
        status: Callable[[], dict[str, Any]] = dict,
        close: Callable[[], Awaitable[None]] = _nothing,
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
        self._listener = listener
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
        self._clients: set[asyncio.Task[None]] = set()
        self._n_windows = 0
        self._exit_s = max(START_TIMEOUT_S, settings.engine_exit_seconds)
        """Seconds without a client after which the process ends; longer until the first window."""
        self._is_ending = asyncio.Event()
        self._has_ended = asyncio.Event()

    async def run(self) -> None:
        """Serve windows; return when the engine is to end and everything is closed.

        It runs on the main thread.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._is_ending.set)
        # Listen again: the system then reports this process as the peer, not the one that bound it.
        self._listener.listen(BACKLOG)
        socket_file = _identity(self._place.socket)
        logger.info("engine process %d serves %s", os.getpid(), self._place.socket)
        try:
            self._place.write_info(self._info)
        except OSError as error:  # no window needs it
            logger.warning("%s cannot be written: %s", self._place.info, error)
        accepting = [loop.create_task(self._accept_from(self._listener, is_elsewhere=False))]
        if self._elsewhere is not None:
            of_others = self._accept_from(self._elsewhere.listener, is_elsewhere=True)
            accepting.append(loop.create_task(of_others))
        self._end_if_idle()
        await self._is_ending.wait()
        for task in accepting:
            task.cancel()
        await self._end(socket_file)

    def _end_if_idle(self) -> None:
        """End the process if nobody has used it for long enough, or look again then.

        When both are due, clients are accepted in the turn before this.
        """
        if self._elsewhere is not None or self._clients or self._is_ending.is_set():
            return
        ends_at = self._idle_since + self._exit_s
        loop = asyncio.get_running_loop()
        if loop.time() < ends_at:
            loop.call_at(ends_at, loop.call_soon, self._end_if_idle)
        else:
            logger.info("no window for %d s", self._exit_s)
            self._is_ending.set()

    async def _accept_from(self, listener: socket.socket, *, is_elsewhere: bool) -> None:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        while True:
            await asyncio.sleep(0)  # a flood of clients leaves windows their turns
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:  # no descriptors are left; others may close some
                logger.warning("a window cannot be accepted: %s", error)
                await asyncio.sleep(_ACCEPT_PAUSE_S)
                continue
            client = loop.create_task(self._serve(connection, is_elsewhere=is_elsewhere))
            self._clients.add(client)
            client.add_done_callback(self._left)

    def _left(self, client: asyncio.Task[None]) -> None:
        self._clients.discard(client)
        self._end_if_idle()

    async def _serve(self, connection: socket.socket, *, is_elsewhere: bool) -> None:
        """Serve one client to its end."""
        try:
            async with asyncio.timeout(_GREETING_TIMEOUT_S):
                streams, greeting = await _admitted(connection)
            try:
                if greeting is not None:
                    await self._answer(streams, greeting, is_elsewhere=is_elsewhere)
            finally:
                streams[1].close()
        except PermissionError as error:
            logger.warning("a client was refused: %s", error)
        except OSError as error:
            logger.debug("a client was dropped: %s", error)
        except Exception:
            logger.exception("a client was dropped")

    async def _answer(self, streams: Streams, greeting: Greeting, *, is_elsewhere: bool) -> None:
        asked = f"speclsp {greeting.version}, protocol {greeting.protocol}"
        own = f"speclsp {__version__}, protocol {PROTOCOL}"
        is_window = greeting.purpose == "window"
        if self._is_ending.is_set() or (is_elsewhere and not is_window):
            return
        if is_elsewhere and asked != own:
            message = f"The engine is {own}; this window is {asked}."
            remedy = "Install the same version of speclsp on both machines."
            await _welcome(streams, EngineProcessError(message, remedy=remedy))
        elif greeting.protocol != PROTOCOL:
            return
        elif is_window and self._refusal is not None:
            await _welcome(streams, self._refusal)
            self._is_ending.set()
        elif is_window:
            self._n_windows += 1
            self._exit_s = greeting.exit_seconds
            try:
                await _welcome(streams)
                await self._serve_window(streams)
            finally:
                self._n_windows -= 1
                self._idle_since = time.monotonic()
        else:
            await _welcome(streams)
            await self._obey(streams, greeting.purpose)

    async def _obey(self, streams: Streams, purpose: Purpose) -> None:
        """Answer a command of ``speclsp engine``."""
        if purpose == "status":
            await send_line(streams[1], self._full_status())
        elif purpose == "stop if idle" and (self._n_windows or self._elsewhere):
            await send_line(streams[1], "windows use it")
        else:
            self._is_ending.set()
            await self._has_ended.wait()

    def _full_status(self) -> dict[str, Any]:
        return {
            **msgspec.to_builtins(self._info),
            "n_windows": self._n_windows,
            "uptime_seconds": round(time.monotonic() - self._started, 1),
            "memory_bytes": psutil.Process().memory_info().rss,
            "log": os.fspath(self._place.log),
            "listens": str(self._elsewhere.path) if self._elsewhere else "",
            **self._status(),
        }

    async def _end(self, socket_file: tuple[int, ...]) -> None:
        """Shut down under the lock, so that the next engine finds the memory free."""
        with suppress(RuntimeError):  # the limit of the user's threads
            threading.Thread(target=_end_anyway, daemon=True).start()
        with ExitStack() as stack:
            with suppress(TimeoutError, OSError):
                stack.enter_context(self._place.locked(_LOCK_TIMEOUT_S))
            with suppress(OSError):
                if _identity(self._place.socket) == socket_file:
                    self._place.socket.unlink()
                    self._place.info.unlink()
            self._listener.close()
            if self._elsewhere is not None:
                self._elsewhere.close()
            await self._close()
            self._has_ended.set()
            if self._clients:
                await asyncio.wait(self._clients, timeout=_CLOSE_TIMEOUT_S)
        logger.info("engine process %d has ended", os.getpid())


async def _admitted(connection: socket.socket) -> tuple[Streams, Greeting | None]:
    """Check who a client is; return its streams and its greeting, None if it left.

    Raises OSError, PermissionError among it, and closes the connection.
    """
    try:
        check_peer(connection)
    except BaseException:
        connection.close()
        raise
    streams = await opened(connection, MAX_GREETING)
    try:
        return streams, await read_line(streams[0], Greeting)
    except BaseException:
        streams[1].close()
        raise


async def _welcome(streams: Streams, refusal: EngineProcessError | None = None) -> None:
    message, remedy = (refusal.message, refusal.remedy) if refusal is not None else ("", "")
    await send_line(streams[1], Welcome(pid=os.getpid(), refusal=message, remedy=remedy))


def _identity(path: Path) -> tuple[int, ...]:
    """Return device, inode and modification time: a newer file may get the same inode."""
    status = path.lstat()
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _end_anyway() -> None:
    time.sleep(_END_TIMEOUT_S)
    os._exit(1)


class LogFile(RotatingFileHandler):
    """Writes log records, standard output and standard error to the engine's log file.

    llama.cpp and the interpreter write their fatal errors to standard error.
    What is not printable in a record, which may quote other programs, is replaced.
    """

    def __init__(self, place: EnginePlace) -> None:
        self._place = place
        super().__init__(place.log, maxBytes=MAX_LOG_BYTES, backupCount=1, encoding="utf-8")
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's line."""
        return printable(super().format(record), keep="\t\n")

    def _open(self) -> TextIOWrapper:
        stream = os.fdopen(self._place.open_log(), "a", encoding=self.encoding)
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
        return stream
