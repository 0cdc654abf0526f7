"""The one place that a server on a socket has, and how its process ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import Final

from speclsp.lsp.conversation import Conversation

_EXIT_STOPPED = 1
"""What a client that leaves without asking to shut down gives, too."""
_LEAVING_S: Final = 1.0
"""Seconds in which a client that has said nothing yet may turn out to have left."""


class OneClient:
    """Who has the place.

    ``over`` becomes the exit code when its client is done, or when the process is told to stop.
    Make it on the running loop.
    """

    def __init__(self) -> None:
        self.over: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._taken = False
        self._left = asyncio.Event()
        self._current: Conversation | None = None
        self._stopping = False
        on_stop_signal(self._stop)

    @property
    def taken(self) -> bool:
        """Whether another client must be refused."""
        return self._taken or self.over.done()

    def take(self) -> None:
        """Take the place for a client that has connected."""
        self._taken = True
        self._left.clear()

    async def may_be_taken(self) -> bool:
        """Whether a client that has connected may have the place, which it then takes at once.

        One that only tries whether the port is open comes shortly before the real client, and its
        leaving may be noticed later than that.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_S):
                while self._taken and not self._is_in_use():
                    await self._left.wait()
        return not self.taken

    async def outcome(self, conversation: Conversation) -> int | None:
        """Wait until a conversation is over, close it, and return the exit code.

        None where the client left before it had begun: the next one may be the real one.
        """
        self._current = conversation
        try:
            if await conversation.until_over() or self._stopping:
                return await conversation.close()
            return None
        finally:
            self._current = None

    def leave(self, code: int | None) -> None:
        """Give the place back once all is sent; with an exit code, the server is over."""
        self._taken = False
        self._left.set()
        if code is not None:
            self._end(code)

    def _is_in_use(self) -> bool:
        return self.over.done() or (self._current is not None and self._current.has_begun)

    def _stop(self) -> None:
        """End the conversation as if its client had gone; without one, end at once."""
        self._stopping = True
        if self._current is not None:
            self._current.hang_up()
        elif not self._taken:
            self._end(_EXIT_STOPPED)

    def _end(self, code: int) -> None:
        self._left.set()
        if not self.over.done():
            self.over.set_result(code)


def on_stop_signal(stop: Callable[[], None]) -> None:
    """Call ``stop`` on the running loop when the process is told to terminate."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not on Windows, and not off the main thread, where the signals keep their meaning.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop)
