"""Which completion requests are open, so that a newer one ends the older."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from speclsp.lsp.locations import document_key


class InFlightRequests:
    """The newest task by document and method."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, str], asyncio.Task[Any]] = {}

    @contextmanager
    def newest(self, method: str, uri: str) -> Iterator[None]:
        """Make the current task the newest of its document, and cancel the one before."""
        task = asyncio.current_task()
        assert task is not None
        key = (document_key(uri), method)
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
        """Cancel what is open for a document."""
        key = document_key(uri)
        for (task_key, _), task in tuple(self._tasks.items()):
            if task_key == key:
                task.cancel()
