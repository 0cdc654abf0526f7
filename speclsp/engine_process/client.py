"""The completer of a window whose engine is another process.

An event loop on a thread of its own connects to the engine, hands over the window's documents and
folders, and receives the engine's messages.  When the engine dies, requests are answered empty and
it connects again.  Neither NumPy nor llama.cpp is loaded here.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Set
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from msgspec import structs

from speclsp import errors
from speclsp import settings as settings_table
from speclsp.engine_process import wire
from speclsp.engine_process.restarts import MAX_ENDS, PAUSES_S, Restarts
from speclsp.engine_process.shared_documents import SharedDocuments
from speclsp.engine_process.wire import AnyRequest
from speclsp.errors import EngineError, EngineProcessError, EngineUnavailableError, SpecLspError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.documents import AcceptedText, Document, Ranges, TextEdit, WorkspaceFolder
from speclsp.seam.edit import EditRequest
from speclsp.seam.events import Event, EventQueue, StateChanged
from speclsp.seam.request import FinishReason, R, Request
from speclsp.seam.statistics import EngineState, SessionStats
from speclsp.secrets.pieces import clipped
from speclsp.settings import Settings

if TYPE_CHECKING:
    from speclsp.engine_process.place import EnginePlace
    from speclsp.engine_process.start import EngineConnection

MAX_WAITING: Final = 1 << 28
"""Bytes that wait for an engine that does not read; more close the connection."""
_SLACK_S: Final = 0.5
"""Seconds after a request's deadline at which it is answered here."""
_SILENT_S: Final = 30.0
"""Seconds after which a connected engine that has not said anything is reported."""
_CLOSE_S: Final = 0.5
"""Most seconds that closing takes, also where the engine is suspended."""
_ELSEWHERE_LACKS: Final = ("drafts and context from open files only",)
"""What an engine on another machine cannot do: the folders are not there."""
_MAX_LEARNED: Final = 500
"""Accepted texts that wait for the next engine, and names of those that it has to forget."""


_OF_FOLDERS: Final = (wire.OpenFolder, wire.CloseFolder, wire.Reindex)
"""Messages that an engine on another machine is not sent."""

_NO_SECRETS: Final = wire.ForgetSecrets(())
_STARTING: Final = EngineUnavailableError("the engine is starting, and the model is loading.")
_CLOSING: Final = EngineUnavailableError("the server is shutting down.")


_T = TypeVar("_T")

Link: TypeAlias = "Callable[[Settings], Awaitable[EngineConnection]]"
"""Connects to the engine of these settings, and starts it where none runs.

Raises :class:`~speclsp.errors.SpecLspError`, with a remedy, and OSError where the next attempt may
succeed at once.
"""


class _Phase(enum.Enum):
    """What a window has of an engine."""

    CONNECTING = enum.auto()
    """None yet, or none any more: the loop connects, after a pause where that failed."""
    CONNECTED = enum.auto()
    STOPPED = enum.auto()
    """None, since it was stopped on purpose or ended too often: the next request connects."""
    GIVEN_UP = enum.auto()
    """None until the settings change."""
    CLOSING = enum.auto()
    """The window ends."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Pending:
    """A request without an answer."""

    number: int
    request: Request[Any]
    cancel: CancellationToken
    future: Future[Any]
    overdue: asyncio.TimerHandle
    is_sent: bool = False
    forgotten: tuple[wire.Forget | wire.ForgetSecrets, ...] = ()
    """What the engine was told to forget before it was sent the request."""

    def answer_empty(self, reason: FinishReason) -> None:
        self.future.set_result(self.request.empty(reason))


class SharedCompleter:
    """A :class:`speclsp.seam.completer.Completer` whose engine is a process that windows share.

    All state belongs to the event loop: what other threads ask for is done there, in its order.
    Its many attributes are what outlives a connection, and change together when one ends.
    """

    def __init__(self, settings: Settings, link: Link, *, gives_up: bool = True) -> None:
        """``gives_up``: whether only other settings try an engine again that ended too often."""
        self._settings = settings
        self._gives_up = gives_up
        self._link = link
        self._events = EventQueue()
        self._connection: wire.Connection[wire.EngineMessage] | None = None
        self._documents = SharedDocuments(settings, self._send, self._events)
        self._is_asking = False
        """Whether the engine has not answered the last AskStatistics."""
        self._is_told = False
        """Whether the user was told that the engine on another machine cannot be reached."""
        self._absence: SpecLspError = _STARTING
        """Why requests fail while there is no connection."""
        self._learned: deque[AcceptedText] = deque(maxlen=_MAX_LEARNED)
        """Accepted texts to send to the next engine."""
        self._forgotten: deque[wire.Forget] = deque(maxlen=_MAX_LEARNED)
        self._secrets = _NO_SECRETS
        """What the next engine is to forget, unless a model's answer to a later request shows that
        this one did."""
        self._waiting: dict[int, _Pending] = {}
        """The requests without an answer, by number."""
        self._numbers = itertools.count(1)
        self._state: EngineState = "loading"
        self._shown: StateChanged | None = None
        """The state that the window was told last, with its message."""
        self._stats = SessionStats()
        self._phase = _Phase.CONNECTING
        self._ends_as: _Phase | None = None
        """What follows the end of the connection; None where the engine is lost by it."""
        self._restarts = Restarts()
        self._moved = asyncio.Event()
        """Set when the phase or the settings change."""
        self._serving: asyncio.Task[None] | None = None
        self._loop = asyncio.SelectorEventLoop()  # a Proactor's takes the main thread's signals
        self._posting = threading.Lock()
        self._is_closed = False
        """Whether the loop gets no more work."""
        self._thread = threading.Thread(target=self._run, name="speclsp-client", daemon=True)
        self._thread.start()

    # --- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to connect."""
        self._post(self._start)

    def close(self) -> None:
        """Send what waits, and disconnect; the engine process keeps running for other windows."""
        with self._posting:
            if self._is_closed:
                return
            self._is_closed = True
        asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        self._thread.join(2 * _CLOSE_S)  # longer where, for example, reading ignore files hangs
        self._events.close()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def _start(self) -> None:
        self._serving = self._loop.create_task(self._serve())

    async def _close(self) -> None:
        self._move(_Phase.CLOSING)
        if self._connection is not None and self._serving is not None:
            self._connection.finish()
            await asyncio.wait([self._serving], timeout=_CLOSE_S)
        if self._serving is not None:
            self._serving.cancel()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others)
        self._fail(_CLOSING)
        self._loop.stop()

    def _post(self, work: Callable[..., object], *arguments: object) -> bool:
        """Let the loop do something, after what was posted before; return whether it will."""
        with self._posting:
            if not self._is_closed:
                what = "the connection to the engine"
                self._loop.call_soon_threadsafe(self._events.guard, what, work, *arguments)
            return not self._is_closed

    def _result(self, work: Coroutine[Any, Any, _T], otherwise: _T) -> _T:
        """Let the loop do something, and wait for it; ``otherwise`` where it has ended."""
        with self._posting:
            if self._is_closed:
                work.close()
                return otherwise
            done = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result()

    def state(self) -> EngineState:
        """Return the engine's state for this window."""
        return self._state

    @property
    def n_sent(self) -> int:
        """Bytes that went to the engine that is connected."""
        connection = self._connection
        return connection.n_sent if connection is not None else 0

    def next_event(self, timeout_s: float | None = None) -> Event | None:
        """Wait for the next event; None when none came in time or the completer is closed."""
        return self._events.next(timeout_s)

    def apply_settings(self, settings: Settings) -> tuple[str, ...]:
        """Take new settings; those of scope ``engine`` need another engine.

        Any change connects at once where there is no connection.
        """
        return self._result(self._apply(settings), ())

    async def _apply(self, settings: Settings) -> tuple[str, ...]:
        changed = settings_table.changed(self._settings, settings)
        scopes = {name: settings_table.info(name).scope for name in changed}
        self._settings = self._documents.settings = settings
        is_another = "engine" in scopes.values()
        if is_another and self._connection is not None:
            # Disconnect first: the former engine must not get what the new one may have.
            self._ends_as = _Phase.CONNECTING
            self._connection.abort()
        self._documents.renew_rules()
        if not changed:
            return ()
        self._is_told = False
        self._absence = _STARTING
        self._want()
        self._want(_Phase.GIVEN_UP)
        self._restarts.forget()
        self._moved.set()
        if not is_another:
            self._send(wire.ApplySettings(self._documents.sent_settings()))
        return tuple(name for name, scope in scopes.items() if scope == "restart")

    def statistics(self) -> SessionStats:
        """Return the engine's latest statistics, and ask for newer ones."""
        self._post(self._ask_statistics)
        stats = replace(self._stats, state=self._state)
        settings = self._settings
        if not settings.engine_listens or not stats.model:
            return stats
        model = f"{stats.model} at {settings.engine_host}"
        return replace(stats, model=model, lacks=_ELSEWHERE_LACKS)

    def _ask_statistics(self) -> None:
        if not self._is_asking:
            self._is_asking = self._send(wire.AskStatistics())

    # --- folders and documents --------------------------------------------------------------------

    def open_folder(self, folder: WorkspaceFolder) -> None:
        """Let the engine index a folder."""
        self._post(self._documents.open_folder, folder)

    def close_folder(self, root: str) -> None:
        """Forget a folder."""
        self._post(self._documents.close_folder, root)

    def reindex(self) -> None:
        """Scan all folders again."""
        self._post(self._documents.renew_rules)
        self._post(self._send, wire.Reindex())

    def open_document(self, document: Document) -> None:
        """Take an opened document."""
        self._post(self._documents.open, document)

    def change_document(self, document: Document, edit: TextEdit, hidden: Ranges = ()) -> None:
        """Take the next version of an open document, and which letters are secrets now."""
        self._post(self._change, document, edit, hidden)

    def _change(self, document: Document, edit: TextEdit, hidden: Ranges) -> None:
        former = self._documents.get(document.uri)
        is_told = self._documents.change(document, edit, hidden)
        if former is None or not hidden or self._documents.is_kept_here(document.file):
            return
        secrets = [former.text[start:end] for start, end in hidden]
        self._forget_secrets(secrets, is_told=is_told)

    def save_document(self, uri: str) -> None:
        """Note that a document was written to its file."""
        self._post(self._documents.save, uri)

    def close_document(self, uri: str) -> None:
        """Forget a document."""
        self._post(self._documents.close, uri)

    # --- requests ---------------------------------------------------------------------------------

    def submit(self, request: Request[R], cancel: CancellationToken) -> Future[R]:
        """Send a request to the engine."""
        future: Future[R] = Future()
        future.set_running_or_notify_cancel()
        if not self._post(self._submit, request, cancel, future):
            future.set_exception(_CLOSING.with_traceback(None))
        return future

    def _submit(self, request: Request[R], cancel: CancellationToken, future: Future[R]) -> None:
        number = next(self._numbers)
        try:
            self._ask(number, request, cancel, future)
        except Exception as error:  # noqa: BLE001  every request gets an answer
            self._taken(number)
            future.set_exception(EngineError(f"the request cannot be sent: {error!r}."))

    def _ask(
        self, number: int, request: Request[R], cancel: CancellationToken, future: Future[R]
    ) -> None:
        document = self._documents.get(request.uri)
        if document is None:
            future.set_result(request.empty("cancelled"))
            return
        if not self._documents.share(request.uri):
            future.set_result(request.empty("stop", "filter"))
            return
        self._want()
        refusal = self._refusal(request)
        if refusal is not None:
            # Otherwise the shared error's traceback grows with each request that raises it.
            future.set_exception(refusal.with_traceback(None))
            return
        settings = request.settings_over(self._settings, document.language_id)
        deadline_s = (settings.deadline_ms + request.debounce_ms) / 1000
        pending = self._waiting[number] = _Pending(
            number=number,
            request=request,
            cancel=cancel,
            future=future,
            overdue=self._loop.call_later(deadline_s + _SLACK_S, self._is_overdue, number),
        )
        if self._connection is not None:
            self._send_pending(pending)
        cancel.watch(lambda: self._post(self._cancelled, pending))

    def _want(self, former: _Phase = _Phase.STOPPED) -> None:
        """Connect where the window is in the phase ``former``, or will be."""
        if self._ends_as is former:
            self._ends_as = _Phase.CONNECTING
        if self._phase is former:
            self._move(_Phase.CONNECTING)

    def learn(self, accepted: AcceptedText) -> None:
        """Send an accepted text to the engine, now or when one is connected."""
        self._post(self._learn, accepted)

    def _learn(self, accepted: AcceptedText) -> None:
        if self._documents.is_kept_here(accepted.file):
            return
        if not self._send(wire.Learn(self._documents.without_path(accepted))):
            self._learned.append(accepted)

    def forget(self, name: str, ranges: Ranges) -> None:
        """Let the engine forget a text that was learned, now or when one is connected."""
        self._post(self._forget, name, ranges)

    def _forget(self, name: str, ranges: Ranges) -> None:
        unsent = [text for text in self._learned if text.name != name]
        self._learned = deque(unsent, maxlen=_MAX_LEARNED)
        message = wire.Forget(name, ranges)
        self._forgotten.append(message)
        self._send(message)

    def forget_secrets(self, secrets: tuple[str, ...]) -> None:
        """Let the engine forget what holds a piece of secrets, now or when one is connected."""
        self._post(self._forget_secrets, secrets)

    def _forget_secrets(self, secrets: Iterable[str], *, is_told: bool = False) -> None:
        """Note what the next engine has to forget, and tell this one unless it ``is_told``.

        An engine on another machine, which may never have had the letters, is not told them.
        """
        kept = () if self._settings.engine_listens else clipped(secrets)
        if kept:
            noted = dict.fromkeys((*self._secrets.secrets, *kept))
            self._secrets = wire.ForgetSecrets(clipped(noted))
            if not is_told:
                self._send(wire.ForgetSecrets(kept))

    def _to_forget(self) -> tuple[wire.Forget | wire.ForgetSecrets, ...]:
        """Return what an engine is told to forget before it is asked anything."""
        if self._settings.engine_listens or self._secrets is _NO_SECRETS:
            return tuple(self._forgotten)
        return (*self._forgotten, self._secrets)

    def _refusal(self, request: Request[Any]) -> SpecLspError | None:
        """Return why a request cannot be served now."""
        if self._phase is _Phase.CLOSING:
            return _CLOSING
        if self._phase is _Phase.GIVEN_UP:
            return self._absence
        return self._absence if self._connection is None and not request.wait_for_model else None

    def _cancelled(self, pending: _Pending) -> None:
        if pending.number not in self._waiting:
            return
        if pending.is_sent:
            self._send(wire.Cancel(pending.number, pending.cancel.is_for_good))
        else:
            self._taken(pending.number)
            pending.answer_empty("cancelled")

    def _is_overdue(self, number: int) -> None:
        """Answer a request that the engine should have answered."""
        pending = self._taken(number)
        if pending is not None:
            self._send(wire.Cancel(number, for_good=True))
            pending.answer_empty("deadline")

    def _taken(self, number: int) -> _Pending | None:
        """Return a request and wait for it no longer; None where it was answered."""
        pending = self._waiting.pop(number, None)
        if pending is not None:
            pending.overdue.cancel()
        return pending

    def _all_taken(self, *, sent_only: bool = False) -> list[_Pending]:
        """Return all requests, or those that were sent, and wait for them no longer."""
        numbers = [n for n, pending in self._waiting.items() if pending.is_sent or not sent_only]
        return [pending for number in numbers if (pending := self._taken(number)) is not None]

    # --- sending ----------------------------------------------------------------------------------

    def _send(self, *messages: wire.WindowMessage) -> bool:
        """Send messages; return whether there is a connection."""
        if self._connection is None:
            return False
        if self._settings.engine_listens:  # it has no folders
            messages = tuple(m for m in messages if not isinstance(m, _OF_FOLDERS))
        return self._connection.send(*messages)

    def _send_pending(self, pending: _Pending) -> None:
        pending.is_sent = True
        pending.forgotten = self._to_forget()
        request = pending.request
        if isinstance(request, EditRequest):
            changes = self._documents.sent_changes(request)
            request = structs.replace(request, changes=changes)
        try:
            self._send(wire.Ask(pending.number, cast("AnyRequest", request)))
        except EngineProcessError as error:
            self._taken(pending.number)
            pending.future.set_exception(error)

    def _hand_over(
        self, connection: wire.Connection[wire.EngineMessage], settings: Settings
    ) -> bool:
        """Send a new engine the settings, folders, documents and requests of this window.

        Sends nothing and returns False where the completer is closing, or the settings have
        changed to those of another engine.
        """
        if self._phase is _Phase.CLOSING or self._is_outdated(settings):
            return False
        self._connection = connection
        self._ends_as = None
        documents = self._documents
        messages = documents.hand_over()
        learned = [text for text in self._learned if not documents.is_kept_here(text.file)]
        self._send(
            *messages,
            *map(wire.Learn, map(documents.without_path, learned)),
            *self._to_forget(),
        )
        self._learned.clear()
        self._absence = _STARTING
        self._is_told = False
        for pending in [*self._waiting.values()]:
            if documents.has(pending.request.uri):  # else it is answered when overdue
                self._send_pending(pending)
        self._move(_Phase.CONNECTED)
        return True

    def _is_outdated(self, settings: Settings) -> bool:
        """Whether the settings have changed to those of another engine."""
        changed = settings_table.changed(settings, self._settings)
        return any(settings_table.info(name).scope == "engine" for name in changed)

    # --- the connection ---------------------------------------------------------------------------

    def _move(self, phase: _Phase) -> None:
        self._phase = phase
        self._moved.set()

    async def _until(self, condition: Callable[[], object], timeout_s: float | None = None) -> None:
        """Wait for a condition on the phase or the settings, at most for some seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._moved.clear()
                    await self._moved.wait()

    async def _serve(self) -> None:
        while await self._is_my_turn():
            settings = self._settings
            try:
                await self._connect(settings)
            except SpecLspError as error:
                self._failed(error, settings)
            except Exception as error:  # noqa: BLE001  without this task there is no engine
                self._restarts.n_losses = len(PAUSES_S)  # it may recur as soon as it is connected
                message = f"the connection to the engine failed: {type(error).__name__}: {error}."
                self._failed(EngineProcessError(message, remedy="Please report this."), settings)

    async def _is_my_turn(self) -> bool:
        """Wait until it is time to connect; return False when the completer closes."""
        restarts = self._restarts
        closing = _Phase.CLOSING
        await self._until(lambda: self._phase is closing or not restarts.pause_s, restarts.pause_s)
        await self._until(lambda: self._phase in (closing, _Phase.CONNECTING))
        return self._phase is not closing

    async def _connect(self, settings: Settings) -> None:
        """Connect to the engine of these settings, and use it until the connection ends.

        Raises :class:`~speclsp.errors.SpecLspError` where there is no engine.
        """
        try:
            link = await self._link(settings)
        except OSError as error:
            self._ended(None, settings, f"there is no connection to the engine: {error}")
            return
        connection = wire.Connection(link.streams, wire.OF_ENGINES, max_waiting=MAX_WAITING)
        try:
            if self._hand_over(connection, settings):
                await self._receive(connection, link.pid)
        finally:
            connection.abort()
            self._disconnected()
        if self._phase is not _Phase.CLOSING and self._ends_as is None:
            self._ended(link.place, settings)

    async def _receive(self, connection: wire.Connection[wire.EngineMessage], pid: int) -> None:
        silence = self._loop.call_later(_SILENT_S, self._report_silence, pid)
        try:
            while (message := await connection.receive()) is not None:
                silence.cancel()
                self._receive_message(message)
        except EngineProcessError as error:
            self._events.warn(error)
        finally:
            silence.cancel()

    def _report_silence(self, pid: int) -> None:
        """Say that a connected engine says nothing; once it does, its own state counts."""
        if pid:
            message = f"The engine, process {pid}, says nothing: it is suspended, or lacks memory."
            remedy = f"Wait, or end it by `kill -9 {pid}`: another one is started."
        else:
            message = f"The engine at {self._settings.engine_host} says nothing."
            remedy = "Check that it runs there and is not suspended."
        self._set_state("failed", f"{message} {remedy}")
        self._events.problem(message, remedy)

    def _receive_message(self, message: wire.EngineMessage) -> None:
        match message:
            case wire.Answer() | wire.Failed():
                self._receive_answer(message)
            case wire.Statistics():
                self._stats, self._is_asking = message.stats, False
            case wire.Closing():
                # It was stopped on purpose: the next request starts it again.  An engine on another
                # machine cannot be started from here, so its end counts as a lost connection.
                if self._ends_as is None and not self._settings.engine_listens:
                    self._ends_as = _Phase.STOPPED
            case _:
                self._receive_event(message)

    def _receive_answer(self, message: wire.Answer | wire.Failed) -> None:
        pending = self._taken(message.number)
        if pending is None:  # overdue, and answered
            return
        self._restarts.answered()
        if isinstance(message, wire.Failed):
            pending.future.set_exception(_error(message))
        else:
            if message.result.stats.n_predicted:  # others may come before what is forgotten
                self._prune(set(map(id, pending.forgotten)))
            pending.future.set_result(message.result)

    def _prune(self, told: Set[int]) -> None:
        """Drop the messages with these ids: the next engine need not get them."""
        unsure = [one for one in self._forgotten if id(one) not in told]
        self._forgotten = deque(unsure, maxlen=_MAX_LEARNED)
        if id(self._secrets) in told:
            self._secrets = _NO_SECRETS

    def _receive_event(self, event: Event) -> None:
        if isinstance(event, StateChanged):
            self._state, self._shown = event.state, event
            if event.state == "ready":
                self._restarts.n_losses = 0
        self._events.emit(event)

    # --- an engine that is gone -------------------------------------------------------------------

    def _disconnected(self) -> None:
        """Answer the open requests with empty results."""
        self._connection = None
        unanswered = self._all_taken(sent_only=True)
        self._is_asking = False
        if self._phase is _Phase.CONNECTED:
            self._move(self._ends_as or _Phase.CONNECTING)
        phase = self._phase
        for pending in unanswered:
            if phase is _Phase.CLOSING:
                pending.future.set_exception(_CLOSING)
            else:
                pending.answer_empty("cancelled")
        if phase is _Phase.STOPPED:
            ended = "the connection to the engine ended; the next request starts it"
            self._set_state("unloaded", ended)
        elif phase is _Phase.CONNECTING:
            what = "starting the engine of the changed settings"
            if self._ends_as is None:
                what = "the connection to the engine ended; connecting again"
            self._set_state("loading", what)

    def _ended(
        self, place: EnginePlace | None, settings: Settings, what: str = "the engine process ended"
    ) -> None:
        """Record that the engine ended; where it always does, start none until settings change."""
        if settings.engine_listens:
            host = settings.engine_host
            lost = EngineProcessError(f"The connection to the engine at {host} is lost.")
            self._failed(lost, settings)
            return
        if self._is_outdated(settings):
            return
        its_log = f" Its log is {place.log}." if place is not None else ""
        if self._restarts.ended():
            model = Path(settings.model).name or "its model"
            again = "any change of settings" if self._gives_up else "a later request"
            hopeless = EngineUnavailableError(
                f"the engine process ended {MAX_ENDS} times with {model}.{its_log}",
                remedy="Choose another model, or other settings of the engine, such as "
                f"n_gpu_layers or ctx_size: {again} tries again.",
            )
            self._give_up(hopeless)
            self._fail(hopeless)
            return
        pause_s = self._restarts.pause_s
        line = f"{what}; it is started again in {pause_s:.0f} s.{its_log}"
        self._events.log("warning", line)
        if pause_s:
            self._absence = EngineUnavailableError(line)
            self._set_state("failed", line)

    def _failed(self, error: SpecLspError, settings: Settings) -> None:
        """Fail the open requests, and report why there is no engine.

        The window tries again after growing pauses, and shows the problem once until it is
        connected.
        """
        if self._is_outdated(settings):
            return
        self._restarts.lost()
        pause_s = self._restarts.pause_s
        line = f"{error} speclsp tries again {f'in {pause_s:.0f} s' if pause_s else 'now'}."
        self._absence = error
        if self._set_state("failed", line):
            self._events.log("warning", line)
        if error.remedy and not self._is_told:
            self._is_told = True
            self._events.problem(error.message, error.remedy)
        self._fail(error)

    def _give_up(self, error: SpecLspError) -> None:
        """Have no engine until the settings change, or else until the next request."""
        if self._phase is not _Phase.CLOSING:
            self._move(_Phase.GIVEN_UP if self._gives_up else _Phase.STOPPED)
        self._absence = error
        self._set_state("failed", str(error))
        self._events.problem(error.message, error.remedy)

    def _fail(self, error: SpecLspError) -> None:
        """Fail all open requests."""
        for pending in self._all_taken():
            pending.future.set_exception(error)

    def _set_state(self, state: EngineState, message: str) -> bool:
        """Send the window a state, unless it has it; return whether it was sent."""
        event = StateChanged(state=state, message=message)
        is_new = event != self._shown
        if is_new:
            self._receive_event(event)
        return is_new


def _error(failed: wire.Failed) -> SpecLspError:
    """Return the engine's exception as one of ``speclsp.errors``."""
    kind = getattr(errors, failed.error, EngineError)
    known = isinstance(kind, type) and issubclass(kind, SpecLspError)
    return (kind if known else EngineError)(failed.message, remedy=failed.remedy)
