"""The log: a line for each request at debug, refusals and ignored fields once at info."""

from __future__ import annotations

import logging
import time
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from speclsp.printable import printable

MAX_TOLD: Final = 256
"""Most lines that are logged once each, whatever programs send."""
_MAX_NAME: Final = 60
"""Most characters of a client's name, and of a path."""
_GONE: Final = 499

logger = logging.getLogger(__name__)


class ToldOnce:
    """Lines that tell nothing new when they come again."""

    def __init__(self) -> None:
        self._told: set[object] = set()

    def say(self, key: object, words: str, *values: object) -> None:
        """Log a line at level info unless one of ``key`` was logged, or too many others were."""
        if key not in self._told and len(self._told) < MAX_TOLD:
            self._told.add(key)
            logger.info(words, *values)


class RequestLog:
    """An application whose requests are logged, without what they ask for.

    An endpoint leaves ``n_tokens`` in the request's state, and a refusal its words in ``refused``.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._told = ToldOnce()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and log the request when it has ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        started, status = time.perf_counter(), _GONE

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            ms = 1000 * (time.perf_counter() - started)
            n_tokens = state.get("n_tokens", 0)
            what = f"{_client(scope)} {scope['method']} {_shown(scope['path'])}"
            logger.debug("%s: %d, %d tokens, %.0f ms", what, status, n_tokens, ms)
            if words := state.get("refused"):
                self._told.say((status, words), "%s is refused: %d %s", what, status, words)


def _client(scope: Scope) -> str:
    address = scope["client"][0] if scope.get("client") else "-"
    agent = dict(scope["headers"]).get(b"user-agent", b"-")
    return f"{address} ({_shown(agent.decode('latin-1'))})"


def _shown(text: str) -> str:
    return printable(text[:_MAX_NAME])
