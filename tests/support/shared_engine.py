"""Completers of windows across a socket, whose engine's side runs on threads of the test."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

from speclsp.engine_process.client import EngineLink, SharedCompleter
from speclsp.engine_process.server import EngineServer, MakeCompleter
from speclsp.settings import Settings


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

    def link(self, settings: Settings) -> EngineLink:
        self.asked.append(settings)
        self.on_link()
        ours, theirs = socket.socketpair()
        self.sockets.append(theirs)
        thread = threading.Thread(target=self.server.serve_window, args=(theirs,), daemon=True)
        thread.start()
        self.threads.append(thread)
        return EngineLink(ours, self.log)

    def window(self, settings: Settings) -> SharedCompleter:
        return SharedCompleter(settings, self.link)

    def drop(self) -> None:
        """End the last connection without a word, as a killed engine does."""
        self.sockets[-1].shutdown(socket.SHUT_RDWR)
