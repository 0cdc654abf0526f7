"""Where the answer of a call goes: out alone, out with its batch, or nowhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeAlias

Answer: TypeAlias = Callable[[dict[str, Any] | None], None]
"""Called exactly once per call; None where a notification gets no answer."""

Write: TypeAlias = Callable[[Any], None]
"""Sends one message."""


def single(write: Write) -> Answer:
    """Return the answer of a call that came alone."""

    def answer(message: dict[str, Any] | None) -> None:
        if message is not None:
            write(message)

    return answer


def silent(answer: Answer) -> Answer:
    """Return the answer of a notification."""
    return lambda _message: answer(None)


class Batch:
    """Collects the answers of a JSON-RPC batch; writes them as one array when all are there."""

    def __init__(self, n_calls: int, write: Write) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._n_missing = n_calls
        self._messages: list[dict[str, Any]] = []

    def answer(self, message: dict[str, Any] | None) -> None:
        """Take one call's answer."""
        with self._lock:
            self._n_missing -= 1
            if message is not None:
                self._messages.append(message)
            complete = self._n_missing == 0 and bool(self._messages)
        if complete:
            self._write(self._messages)
