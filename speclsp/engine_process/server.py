"""The engine process's side: each window gets a completer of its own, all on one engine."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from msgspec import structs

from speclsp.engine_process import wire
from speclsp.engine_process.transport import Streams, in_daemon_thread
from speclsp.errors import EngineProcessError, SpecLspError
from speclsp.event_loop import post
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completer import Completer
from speclsp.seam.documents import Document
from speclsp.seam.event_pump import EventPump
from speclsp.seam.events import Event, Problem, Progress, StateChanged
from speclsp.seam.request import Q
from speclsp.settings import Settings

logger = logging.getLogger(__name__)

MAX_WAITING: Final = 1 << 24
"""Bytes that wait for a window that does not read; one that lets more wait is dropped."""
MAX_UNANSWERED: Final = 256
"""Requests of one window that may wait; no more is read from it until some are answered."""

STILL_S: Final = 30.0
"""Seconds without progress, beyond the model's own pace, after which a decode counts as hung."""
_PACE: Final = 4

_DISMISS_S: Final = 0.5
_STATISTICS_S: Final = 1.0
"""Least seconds between the statistics that follow answers."""

MakeCompleter = Callable[[Settings], Completer]
"""Makes the completer of a window."""


class Watchdog:
    """Ends the process when a decode makes no progress, as with a hung driver.

    It counts its own ticks, since the clock runs on while the process is suspended.
    """

    def __init__(
        self,
        progress: Callable[[], int | None],
        *,
        still_s: float = STILL_S,
        tick_s: float = 1.0,
        end: Callable[[], None] = os.abort,
    ) -> None:
        """``progress`` returns a number that grows with each sign of life; None at rest.

        The process ends once it has not changed for ``still_s`` seconds and four times the longest
        such time so far.
        """
        self._progress = progress
        self._still_s = still_s
        self._tick_s = tick_s
        self._end = end
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="speclsp-watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._closing.set()

    def _run(self) -> None:
        last: int | None = None
        n_still = n_longest = 0
        while not self._closing.wait(self._tick_s):
            now = self._progress()
            if now is None or now != last:
                n_longest = max(n_longest, n_still)
                n_still, last = 0, now
                continue
            n_still += 1
            if n_still * self._tick_s >= self._still_s + _PACE * n_longest * self._tick_s:
                logger.critical("a decode made no progress for %d s", n_still * self._tick_s)
                self._end()  # faulthandler writes where it hung
                return


class EngineServer:
    """Serves windows, in one event loop."""

    def __init__(self, make_completer: MakeCompleter, own: Settings | None = None) -> None:
        """``own`` are the engine's settings where windows are on other machines.

        They override the windows' settings, and the windows' folders do not exist here.
        """
        self._make_completer = make_completer
        self._own = own
        self._windows: set[_Window] = set()
        self._numbers = itertools.count(1)

    async def serve_window(self, streams: Streams) -> None:
        """Serve a window until it has gone."""
        connection = wire.Connection(streams, wire.OF_WINDOWS, max_waiting=MAX_WAITING)
        window = _Window(connection, next(self._numbers), self._own)
        self._windows.add(window)
        try:
            await window.serve(self._make_completer)
        finally:
            self._windows.discard(window)

    async def close(self) -> None:
        """Tell all windows that the engine shuts down, and disconnect them."""
        await asyncio.gather(*(window.dismiss() for window in self._windows))

    def status(self) -> list[dict[str, object]]:
        """Return each window's folders and numbers of requests."""
        return [window.status() for window in self._windows]


class _Window:
    """One connected window.

    Its documents' URIs get its number, since other windows have documents of the same URI.
    """

    def __init__(
        self,
        connection: wire.Connection[wire.WindowMessage],
        number: int,
        own: Settings | None = None,
    ) -> None:
        self._connection = connection
        self._own = own
        self._scope = f"{number}:"
        self._loop = asyncio.get_running_loop()
        self._has_left = asyncio.Event()
        self._may_ask = asyncio.Semaphore(MAX_UNANSWERED)
        self._tokens: dict[int, CancellationToken] = {}
        """Of the requests that are not answered."""
        self._counted_at = -math.inf
        """When statistics were sent, by the loop's clock."""
        self._n_requests = 0
        self._since = time.time()
        self._folders: dict[str, None] = {}
        self._documents: dict[str, Document] = {}
        """The newest versions, by the URIs with the window's number."""

    async def serve(self, make_completer: MakeCompleter) -> None:
        """Handle the window's messages until it disconnects."""
        completer: Completer | None = None
        try:
            while (message := await self._connection.receive()) is not None:
                if completer is None and isinstance(message, wire.ApplySettings):
                    completer = make_completer(self._settled(message.settings))
                    send = partial(post, self._loop, self._send_event, completer)
                    EventPump(completer, send)
                    completer.start()
                elif isinstance(message, wire.Ask) and completer is not None:
                    # Nothing is read meanwhile, and the window's own queue fills.
                    await self._may_ask.acquire()
                    self._ask(completer, message)
                elif completer is not None:
                    self._do(completer, message)
        except EngineProcessError as error:
            logger.warning("a window is disconnected: %s", error)
        except Exception:
            logger.exception("a window was dropped")
            self._drop()
        finally:
            self._connection.close()
            self._has_left.set()
            for token in self._tokens.values():
                token.cancel(for_good=True)
            if completer is not None:
                try:
                    await in_daemon_thread(completer.close)
                except RuntimeError:  # the limit of the user's threads
                    completer.close()

    def _settled(self, settings: Settings) -> Settings:
        return settings if self._own is None else wire.settings_elsewhere(self._own, settings)

    async def dismiss(self) -> None:
        """Disconnect the window because the engine shuts down.

        A window that does not read may not learn that this was on purpose.
        """
        self._connection.send(wire.Closing())
        self._connection.finish()
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISMISS_S):
                await self._has_left.wait()
        self._connection.abort()

    def status(self) -> dict[str, object]:
        """Return the window's folders and numbers of requests."""
        return {
            "since": self._since,
            "folders": list(self._folders),
            "requests": self._n_requests,
            "unanswered": len(self._tokens),
        }

    def _do(self, completer: Completer, message: wire.WindowMessage) -> None:
        match message:
            case wire.ChangeDocument() if former := self._documents.get(self._scope + message.uri):
                document = former.edited(message.version, message.edit)
                self._documents[document.uri] = document
                completer.change_document(document, message.edit, message.hidden)
            case wire.Cancel():
                token = self._tokens.get(message.number)
                if token is not None:
                    token.cancel(for_good=message.for_good)
            case wire.OpenDocument():
                document = replace(message.document, uri=self._scope + message.document.uri)
                self._documents[document.uri] = document
                completer.open_document(document)
            case wire.SaveDocument():
                completer.save_document(self._scope + message.uri)
            case wire.CloseDocument():
                self._documents.pop(self._scope + message.uri, None)
                completer.close_document(self._scope + message.uri)
            case wire.Learn():
                completer.learn(message.accepted)
            case wire.AskStatistics():
                self._send_statistics(completer)
            case _:
                self._do_guarded(completer, message)

    def _do_guarded(self, completer: Completer, message: wire.WindowMessage) -> None:
        """Take settings, folders, or what to forget; an exception does not end the connection.

        Otherwise the window would connect again and send the same.
        """
        try:
            match message:
                case wire.ApplySettings():
                    completer.apply_settings(self._settled(message.settings))
                case wire.OpenFolder() if self._own is None:
                    self._folders[message.folder.root] = None
                    completer.open_folder(message.folder)
                case wire.CloseFolder():
                    self._folders.pop(message.root, None)
                    completer.close_folder(message.root)
                case wire.Reindex():
                    completer.reindex()
                case wire.Forget():
                    completer.forget(message.name, message.ranges)
                case wire.ForgetSecrets():
                    completer.forget_secrets(message.secrets)
        except Exception as error:
            logger.exception("%s failed", type(message).__name__)
            problem = Problem(
                message=f"{type(message).__name__} failed in the engine: {error!r}.",
                remedy="Completion goes on; please report what `speclsp engine log` says.",
            )
            self._send(problem)

    def _ask(self, completer: Completer, message: wire.Ask) -> None:
        self._n_requests += 1
        token = self._tokens[message.number] = CancellationToken()
        future: Future[Any] = completer.submit(self._scoped(message.request), token)
        future.add_done_callback(partial(post, self._loop, self._answer, completer, message.number))

    def _scoped(self, request: Q) -> Q:
        scope = self._scope
        return structs.replace(
            request,
            uri=scope + request.uri,
            above=tuple((scope + uri, version) for uri, version in request.above),
            below=tuple((scope + uri, version) for uri, version in request.below),
        )

    @contextmanager
    def _disconnecting(self) -> Iterator[None]:
        """Disconnect the window if the block raises: it would wait for the message."""
        try:
            yield
        except Exception:
            logger.exception("a window was dropped")
            self._drop()

    def _drop(self) -> None:
        """Disconnect the window after a defect."""
        self._connection.close()
        self._loop.call_later(_DISMISS_S, self._connection.abort)  # of one that does not read

    def _answer(self, completer: Completer, number: int, future: Future[Any]) -> None:
        self._tokens.pop(number, None)
        self._may_ask.release()
        with self._disconnecting():
            self._send(_answer_of(number, future))
        if self._loop.time() - self._counted_at >= _STATISTICS_S:
            # So that the window's log has them if the engine is killed.  What has arrived is read
            # first: sending to a window that has left discards what it had sent.
            self._counted_at = self._loop.time()
            self._loop.call_later(0.0, self._send_statistics, completer)

    def _send_statistics(self, completer: Completer) -> None:
        self._counted_at = self._loop.time()
        with self._disconnecting():
            self._send(wire.Statistics(completer.statistics()))

    def _send_event(self, completer: Completer, event: Event) -> None:
        with self._disconnecting():
            if isinstance(event, StateChanged | Progress):
                self._send_statistics(completer)
            self._send(event)

    def _send(self, *messages: wire.EngineMessage) -> None:
        if not self._connection.is_closed and not self._connection.send(*messages):
            logger.warning("a window is disconnected: it does not read, or is gone")


def _answer_of(number: int, future: Future[Any]) -> wire.EngineMessage:
    error = future.exception()
    if error is None:
        return wire.Answer(number, future.result())
    if isinstance(error, SpecLspError):
        return wire.Failed(number, type(error).__name__, error.message, error.remedy)
    return wire.Failed(number, "EngineError", f"the engine failed: {error!r}.", "")
