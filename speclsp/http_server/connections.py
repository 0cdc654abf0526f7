"""Connections of programs: one that sends nothing, or half a request, keeps nobody else out.

uvicorn bounds neither the time of a request's head nor silent connections apart from working ones
(0.54: ``limit_concurrency`` counts both, and refuses everybody).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS: Final = 256
"""Most connections; each one more closes a silent one."""
HEAD_TIMEOUT_S: Final = 10.0
"""Seconds in which a request's head must have come."""


class Connection(H11Protocol):
    """A connection that is closed where its client keeps it waiting."""

    _head_timer: asyncio.TimerHandle | None = None
    silent_since = 0.0
    """The loop's time at which it began to wait for a request."""

    @property
    def is_silent(self) -> bool:
        """Whether there is no whole request to answer."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection, and close another one if there are too many."""
        super().connection_made(transport)
        self.silent_since = self.loop.time()
        self._await_head()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        is_left = self.cycle is not None and self.cycle.response_complete
        if self.conn.their_state is h11.IDLE or is_left:
            self._await_head()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection has ended."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Note that the next request is waited for."""
        self.silent_since = self.loop.time()
        super().on_response_complete()

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _make_room(self) -> None:
        """Close the oldest silent connection of the address that has most of them."""
        known: list[Any] = [one for one in self.connections if not one.transport.is_closing()]
        if len(known) <= MAX_CONNECTIONS:
            return
        silent: list[Connection] = [one for one in known if one.is_silent]
        n_of_address = Counter(one.address for one in silent)
        most = max(n_of_address.values())
        oldest = min(
            (one for one in silent if n_of_address[one.address] == most),
            key=lambda one: one.silent_since,
        )
        oldest.transport.close()

    @property
    def address(self) -> str:
        """The client's address."""
        return self.client[0] if self.client is not None else ""
