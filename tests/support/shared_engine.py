"""Completers of windows across a socket, whose engine's side runs in an event loop of the test."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from msgspec import structs

from speclsp.completer.engine import Engine
from speclsp.completer.explaining import PromptExplanation
from speclsp.completer.local import LocalCompleter
from speclsp.engine_process.client import SharedCompleter
from speclsp.engine_process.place import EnginePlace
from speclsp.engine_process.server import EngineServer, MakeCompleter
from speclsp.engine_process.start import EngineConnection
from speclsp.engine_process.transport import in_daemon_thread, opened
from speclsp.seam.completion import CompletionRequest
from speclsp.settings import FIELDS, Settings, info

WAIT_S = 60
_MARK = "/mark"
"""A folder that no window has: that it is closed tells that the messages before have arrived."""
_MARK_S = 0.1


class ThreadedEngine:
    """An engine's side in this process; windows connect by socket pairs."""

    def __init__(self, make_completer: MakeCompleter, log: Path | None = None) -> None:
        self.server = EngineServer(make_completer)
        self.log = log
        self.sockets: list[socket.socket] = []
        """The engine's ends."""
        self.served: list[Future[None]] = []
        """Done when their windows have gone."""
        self.asked: list[Settings] = []
        self.on_link: Callable[[], object] = lambda: None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    async def link(self, settings: Settings) -> EngineConnection:
        self.asked.append(settings)
        await in_daemon_thread(self.on_link)
        ours, theirs = socket.socketpair()
        self.serve(theirs)
        place = EnginePlace(self.log.parent, self.log.stem) if self.log is not None else None
        return EngineConnection(await opened(ours), place)

    def serve(self, theirs: socket.socket) -> Future[None]:
        """Serve the window at the other end of a socket."""

        async def serve() -> None:
            await self.server.serve_window(await opened(theirs))

        self.sockets.append(theirs)
        self.served.append(asyncio.run_coroutine_threadsafe(serve(), self._loop))
        return self.served[-1]

    def dismiss(self) -> None:
        """Disconnect the windows as an engine does that is stopped."""
        asyncio.run_coroutine_threadsafe(self.server.close(), self._loop).result(WAIT_S)

    def close(self) -> None:
        """Wait until all windows have gone; further calls do nothing."""
        if self._loop.is_closed():
            return
        for window in self.served:
            window.result(WAIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def window(self, settings: Settings) -> SharedCompleter:
        return SharedCompleter(settings, self.link)

    def drop(self) -> None:
        """End the last connection without a word, as a killed engine does."""
        self.sockets[-1].shutdown(socket.SHUT_RDWR)


class AcrossSocket(SharedCompleter):
    """A completer with an engine of its own behind a socket; another one for other models."""

    def __init__(self, settings: Settings, *, loader: Any, clock: Callable[[], float]) -> None:
        self._loader = loader
        self._engine_clock = clock
        self._engine = self._new_engine(settings)
        self.threaded = ThreadedEngine(self._completer)
        self.completers: list[LocalCompleter] = []
        super().__init__(settings, self.threaded.link)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until the engine has taken what was sent, and has nothing left to do."""
        end, arrived = time.monotonic() + timeout_s, threading.Event()
        while time.monotonic() < end:
            for completer in self.completers[-1:]:
                close_folder = type(completer).close_folder.__get__(completer)
                completer.close_folder = lambda root, close=close_folder: (  # type: ignore[misc]
                    arrived.set() if root == _MARK else close(root)
                )
            self.close_folder(_MARK)
            if arrived.wait(_MARK_S):
                engine = self.completers[-1]
                is_idle = engine.wait_idle(max(0.0, end - time.monotonic()))
                while self.statistics().n_idle_evaluated != engine.statistics().n_idle_evaluated:
                    assert time.monotonic() < end, "the engine's statistics do not arrive"
                    time.sleep(0.002)
                return is_idle
        return False

    def explain(self, request: CompletionRequest) -> Future[PromptExplanation]:
        assert self.wait_idle(WAIT_S)
        scope = f"{len(self.completers)}:"
        return self.completers[-1].explain(structs.replace(request, uri=scope + request.uri))

    def close(self) -> None:
        super().close()
        self.threaded.close()
        self._engine.close()

    def _new_engine(self, settings: Settings) -> Engine:
        self._models = _models_of(settings)
        return Engine(settings, loader=self._loader, clock=self._engine_clock)

    def _completer(self, settings: Settings) -> LocalCompleter:
        if _models_of(settings) != self._models:
            self._engine.close()
            self._engine = self._new_engine(settings)
        self.completers.append(LocalCompleter(settings, engine=self._engine))
        return self.completers[-1]


def _models_of(settings: Settings) -> list[object]:
    """Return the settings that an engine's windows have in common."""
    names = (name for name in FIELDS if info(name).scope == "engine")
    return [getattr(settings, name) for name in names]
