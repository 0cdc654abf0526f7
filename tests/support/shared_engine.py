"""Completers of windows across a socket, whose engine's side runs on threads of the test."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from speclsp.completer.engine import Engine
from speclsp.completer.explaining import PromptExplanation
from speclsp.completer.local import LocalCompleter
from speclsp.engine_process.client import SharedCompleter
from speclsp.engine_process.place import EnginePlace
from speclsp.engine_process.server import EngineServer, MakeCompleter
from speclsp.engine_process.start import EngineConnection
from speclsp.request import CompletionRequest
from speclsp.settings import FIELDS, Settings, info


class ThreadedEngine:
    """An engine's side in this process; windows connect by socket pairs."""

    def __init__(self, make_completer: MakeCompleter, log: Path | None = None) -> None:
        self.server = EngineServer(make_completer)
        self.log = log
        self.sockets: list[socket.socket] = []
        """The engine's ends."""
        self.threads: list[threading.Thread] = []
        self.asked: list[Settings] = []
        self.on_link: Callable[[], None] = lambda: None

    def link(self, settings: Settings) -> EngineConnection:
        self.asked.append(settings)
        self.on_link()
        ours, theirs = socket.socketpair()
        self.sockets.append(theirs)
        thread = threading.Thread(target=self.server.serve_window, args=(theirs,), daemon=True)
        thread.start()
        self.threads.append(thread)
        place = EnginePlace(self.log.parent, self.log.stem) if self.log is not None else None
        return EngineConnection(ours, place)

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

    def explain(self, request: CompletionRequest) -> Future[PromptExplanation]:
        assert self.wait_idle(60)
        scope = f"{len(self.completers)}:"
        return self.completers[-1].explain(replace(request, uri=scope + request.uri))

    def close(self) -> None:
        super().close()
        for thread in self.threaded.threads:
            thread.join(60)
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
