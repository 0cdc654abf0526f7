"""A client's completion requests: which are open, and whether the user or the editor made them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from speclsp.request import Trigger


class InFlightRequests:
    """The newest request's task by document (the URI that opened it) and method."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, str], asyncio.Task[Any]] = {}

    @contextmanager
    def newest(self, method: str, uri: str) -> Iterator[None]:
        """Make the current task the newest of its document, and cancel the previous one."""
        task = asyncio.current_task()
        assert task is not None
        key = (uri, method)
        older = self._tasks.get(key)
        if older is not None:
            older.cancel()
        self._tasks[key] = task
        try:
            yield
        finally:
            if self._tasks.get(key) is task:
                del self._tasks[key]

    def cancel(self, uri: str) -> None:
        """Cancel a document's open requests."""
        for (task_uri, _), task in tuple(self._tasks.items()):
            if task_uri == uri:
                task.cancel()


OLD_INVOKED: Final = 0
_INVOKED, _AUTOMATIC = 1, 2
_N_ONLY_ONES: Final = 3
"""Requests of kind 1 alone that count as Invoked; a user does not ask by hand more often before
typing."""


class TriggerKinds:
    """What one client means by the trigger kinds that it sends.

    1 is Invoked in LSP 3.18 and Automatic in clients written before it was final (such as
    vscode-languageclient up to version 9).  A client that has sent 0 is old, one that has sent 2 is
    not.
    """

    def __init__(self) -> None:
        self._is_old: bool | None = None
        self._n_ones = 0

    def trigger(self, kind: int) -> Trigger:
        """Return who made a request of this kind: the editor or the user."""
        if kind == OLD_INVOKED:
            self._is_old = True
            return "invoked"
        if kind == _AUTOMATIC:
            self._is_old = False
            return "automatic"
        self._n_ones += 1
        is_old = self._n_ones > _N_ONLY_ONES if self._is_old is None else self._is_old
        return "automatic" if is_old else "invoked"
