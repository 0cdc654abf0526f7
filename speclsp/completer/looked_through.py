"""Buffers and requests on their way to everybody else, once their texts are rid of secrets.

Most texts are known but for a line or two, and pass at once.  What was opened or pasted is more
than an event loop has time for; it is looked through on a thread of its own and passes then.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeAlias

from speclsp.cancellation import CancellationToken
from speclsp.completer.late_work import LateWork
from speclsp.completer.private_text import PrivateText, Refusal
from speclsp.request import CompletionRequest, CompletionResult, Document

Ask: TypeAlias = Callable[[CompletionRequest | Refusal], Future[CompletionResult]]
"""Completes a request whose text is masked, or answers one that is private or never came to be
looked at."""


class LookedThrough:
    """Any thread may call it.

    ``deliver`` is given the newest version of a buffer, on whichever thread, and never an older one
    after a newer.
    """

    def __init__(
        self,
        private: PrivateText,
        deliver: Callable[[Document], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """``failed`` is told of a buffer that could not be looked through; it is not delivered."""
        self._private = private
        self._deliver = deliver
        self._late = LateWork(failed)
        self._taking = threading.Lock()
        self._waiting: dict[str, Document] = {}
        """The newest versions that are being looked through, by document."""
        self._open: set[str] = set()
        self._asking = threading.Lock()
        self._newest: dict[str, object] = {}
        """Stands for the latest of the requests that supersede others, by document."""

    def take(self, document: Document) -> None:
        """Deliver a version of a buffer, now or late."""
        with self._taking:
            self._open.add(document.uri)
            self._waiting.pop(document.uri, None)
            private = self._private.document(document)
            if private is not None:
                self._deliver(private)
                return
            self._waiting[document.uri] = document
        self._late.put(("document", document.uri), lambda: self._take_late(document))

    def _take_late(self, document: Document) -> None:
        self._private.look_through(document)
        with self._taking:
            self._forget_closed(document.uri)
            if self._waiting.get(document.uri) is not document:
                return
            del self._waiting[document.uri]
            private = self._private.document(document)
            if private is not None:
                self._deliver(private)

    def forget(self, uri: str) -> None:
        """Forget a buffer that was closed."""
        with self._taking:
            self._open.discard(uri)
            self._waiting.pop(uri, None)
            self._private.forget(uri)
        with self._asking:
            self._newest.pop(uri, None)

    def _forget_closed(self, uri: str) -> None:
        """Forget again what was looked through while its buffer was being closed."""
        if uri not in self._open:
            self._private.forget(uri)

    def ask(
        self, request: CompletionRequest, cancel: CancellationToken, ask: Ask
    ) -> Future[CompletionResult]:
        """Return ``ask``'s answer to a request without secrets, which may be asked late.

        Where a newer request came meanwhile, or ``cancel``, it is asked for "unknown".
        """
        key = ("request", request.uri if request.supersede else uuid.uuid4().hex)
        ticket = object()
        with self._asking:
            if request.supersede:
                self._newest[request.uri] = ticket
            private = self._private.request(request)
            if private != "unknown":
                return ask(private)
        future: Future[CompletionResult] = Future()
        future.set_running_or_notify_cancel()
        was_open = request.uri in self._open

        def run() -> None:
            try:
                # The buffer may have been looked through meanwhile, and it with it.
                if not cancel.cancelled and self._private.request(request) == "unknown":
                    self._private.look_through(request)
                asked = self._ask_late(request, ticket, cancel, ask)
                if was_open:
                    with self._taking:
                        self._forget_closed(request.uri)
                _hand_on(asked, future)
            except Exception as error:  # noqa: BLE001 - who waits is told of any defect
                future.set_exception(error)

        self._late.put(key, run, lambda: _hand_on(ask("unknown"), future))
        return future

    def _ask_late(
        self, request: CompletionRequest, ticket: object, cancel: CancellationToken, ask: Ask
    ) -> Future[CompletionResult]:
        with self._asking:
            is_newest = self._newest.get(request.uri) is ticket or not request.supersede
            if cancel.cancelled or not is_newest:
                return ask("unknown")
            return ask(self._private.request(request))

    def wait_done(self, timeout_s: float) -> bool:
        """Wait until all has passed that was taken; whether that came about."""
        return self._late.wait_done(timeout_s)

    def close(self) -> None:
        """Let nothing pass any more."""
        self._late.close()


def _hand_on(done: Future[CompletionResult], future: Future[CompletionResult]) -> None:
    """Let one future end as another does."""

    def ended(done: Future[CompletionResult]) -> None:
        error = done.exception()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(done.result())

    done.add_done_callback(ended)
