"""A client's completion requests: which are open, and whether the user or the editor made them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from msgspec import structs

from speclsp.seam.completion import CompletionRequest, CompletionResult, Trigger


@dataclass(slots=True, eq=False)
class InFlightRequest:
    """A request's task."""

    task: asyncio.Task[Any]
    is_dropped: bool = False
    """Whether the server, and not the client, cancelled it."""

    def drop(self) -> None:
        """Cancel the task, since nobody waits for its answer any more."""
        self.is_dropped = True
        self.task.cancel()


class InFlightRequests:
    """The newest request by document (the URI that opened it) and method."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, str], InFlightRequest] = {}

    @contextmanager
    def newest(self, method: str, uri: str) -> Iterator[InFlightRequest]:
        """Make the current task the newest of its document, and cancel the previous one."""
        task = asyncio.current_task()
        assert task is not None
        key = (uri, method)
        older = self._requests.get(key)
        if older is not None:
            older.drop()
        request = self._requests[key] = InFlightRequest(task)
        try:
            yield request
        finally:
            if self._requests.get(key) is request:
                del self._requests[key]

    def cancel(self, uri: str) -> None:
        """Cancel a document's open requests."""
        for (request_uri, _), request in tuple(self._requests.items()):
            if request_uri == uri:
                request.drop()


@dataclass(slots=True, eq=False)
class _SharedAnswer:
    request: CompletionRequest
    task: asyncio.Task[CompletionResult | None]
    n_waiting: int = 0


class SharedAnswers:
    """The answers that are open; a request at the same cursor waits for the one that is there.

    An editor may ask for ghost text and for its popup's items at once; each of the two would
    supersede the other in the engine.
    """

    def __init__(self) -> None:
        self._open: list[_SharedAnswer] = []

    async def answer(
        self,
        request: CompletionRequest,
        ask: Callable[[], Coroutine[Any, Any, CompletionResult | None]],
    ) -> CompletionResult | None:
        """Return what ``ask`` does, or the answer to an open request that serves this one, too.

        ``ask`` is cancelled once nobody waits for its answer any more.
        """
        shared = next((one for one in self._open if _serves(one.request, request)), None)
        if shared is None:
            shared = _SharedAnswer(request, asyncio.create_task(ask()))
            self._open.append(shared)
        shared.n_waiting += 1
        try:
            return await asyncio.shield(shared.task)
        finally:
            shared.n_waiting -= 1
            if not shared.n_waiting:
                self._open.remove(shared)
                shared.task.cancel()


def _serves(open_one: CompletionRequest, newer: CompletionRequest) -> bool:
    """Whether the answer to an open request is one to a newer request.

    Who asks by hand gets several texts, and the first of them serves any other request.
    """
    if newer.trigger == "automatic":
        newer = structs.replace(newer, trigger=open_one.trigger, n_candidates=open_one.n_candidates)
    return open_one == newer


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
