"""The completer of a window whose engine is another process.

A thread connects to the engine, hands over the window's documents and folders, and receives the
engine's messages.  When the engine dies, requests are answered empty and the thread connects again.
Neither NumPy nor llama.cpp is loaded here.
"""

from __future__ import annotations

import enum
import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from speclsp import errors
from speclsp import settings as settings_table
from speclsp.cancellation import CancellationToken
from speclsp.engine_process import wire
from speclsp.engine_process.restarts import MAX_CRASHES, PAUSES_S, EngineLife, Restarts
from speclsp.engine_process.shared_documents import SharedDocuments
from speclsp.engine_process.transport import MAX_SELECT_S
from speclsp.errors import EngineError, EngineProcessError, EngineUnavailableError, SpecLspError
from speclsp.events import EventQueue
from speclsp.request import (
    AcceptedText,
    AnyPlaced,
    Document,
    EditRequest,
    EngineState,
    Event,
    FinishReason,
    R,
    Request,
    SessionStats,
    StateChanged,
    TextEdit,
    WorkspaceFolder,
)
from speclsp.seam import answered
from speclsp.settings import Settings

if TYPE_CHECKING:
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
"""Accepted texts that wait for the next engine."""


_OF_FOLDERS: Final = (wire.OpenFolder, wire.CloseFolder, wire.Reindex)
"""Messages that an engine on another machine is not sent."""

_STARTING: Final = EngineUnavailableError("the engine is starting, and the model is loading.")
_CLOSING: Final = EngineUnavailableError("the server is shutting down.")
_UNSENDABLE_SETTINGS: Final = (
    "Give paths in UTF-8, and start the server in a folder with such a path."
)


Link: TypeAlias = "Callable[[Settings], EngineConnection]"
"""Connects to the engine of these settings, and starts it where none runs.

Raises :class:`~speclsp.errors.SpecLspError`, with a remedy, and OSError where the next attempt may
succeed at once.
"""


class _Phase(enum.Enum):
    """What a window has of an engine."""

    CONNECTING = enum.auto()
    """None yet, or none any more: the thread connects, after a pause where that failed."""
    CONNECTED = enum.auto()
    STOPPED = enum.auto()
    """None, since it was stopped on purpose: the next request connects."""
    GIVEN_UP = enum.auto()
    """None until the settings change."""
    CLOSING = enum.auto()
    """The window ends."""


class _UnsendableError(EngineProcessError):
    """The settings cannot be sent to any engine."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Pending:
    """A request without an answer."""

    number: int
    request: Request[Any]
    placed: AnyPlaced
    cancel: CancellationToken
    overdue_at: float
    is_sent: bool = False
    future: Future[Any] = field(default_factory=Future)

    def answer_empty(self, reason: FinishReason) -> None:
        self.future.set_result(self.request.empty(reason))


class _WaitingRequests:
    """The requests without an answer, by number.  Not thread-safe: the client's lock is held."""

    def __init__(self) -> None:
        self._by_number: dict[int, _Pending] = {}

    def add(self, pending: _Pending) -> None:
        """Wait for the answer to a request."""
        self._by_number[pending.number] = pending

    def get(self, number: int) -> _Pending | None:
        """Return a request that waits; None where it was answered."""
        return self._by_number.get(number)

    def take(self, number: int) -> _Pending | None:
        """Return a request and wait for it no longer; None where it was answered."""
        return self._by_number.pop(number, None)

    def take_all(self, *, sent_only: bool = False) -> list[_Pending]:
        """Return all requests, or those that were sent, and wait for them no longer."""
        return self._take(lambda pending: pending.is_sent or not sent_only)

    def take_overdue(self, now: float) -> list[_Pending]:
        """Return the requests that should have been answered, and wait for them no longer."""
        return self._take(lambda pending: now >= pending.overdue_at)

    def overdue_at(self) -> float:
        """Return when the first request is overdue; infinity without requests."""
        return min((p.overdue_at for p in self._by_number.values()), default=math.inf)

    def __iter__(self) -> Iterator[_Pending]:
        """Iterate over the requests in their order."""
        return iter(self._by_number.values())

    def _take(self, wanted: Callable[[_Pending], bool]) -> list[_Pending]:
        taken = [number for number, pending in self._by_number.items() if wanted(pending)]
        return [self._by_number.pop(number) for number in taken]


class SharedCompleter:
    """A :class:`speclsp.seam.Completer` whose engine is a process that other windows use, too."""

    def __init__(self, settings: Settings, link: Link) -> None:
        self._settings = settings
        self._link = link
        self._events = EventQueue()
        self._changed = threading.Condition(threading.RLock())
        """Guards everything below; what is sent is sent while it is held."""
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
        self._waiting = _WaitingRequests()
        self._idle: dict[int, bool | None] = {}
        """Answers to AwaitIdle by number, while somebody waits; None until the engine answers."""
        self._numbers = itertools.count(1)
        self._state: EngineState = "loading"
        self._shown: StateChanged | None = None
        """The state that the window was told last, with its message."""
        self._stats = SessionStats()
        self._phase = _Phase.CONNECTING
        self._ends_as: _Phase | None = None
        """What follows the end of the connection; None where the engine is lost by it."""
        self._is_dropped = False
        """Whether the engine said that a defect of it ends this connection."""
        self._restarts = Restarts()
        self._thread = threading.Thread(target=self._run, name="speclsp-client", daemon=True)

    # --- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def close(self) -> None:
        """Send what waits, and disconnect; the engine process keeps running for other windows."""
        until = time.monotonic() + _CLOSE_S
        with self._changed:
            if self._phase is _Phase.CLOSING:
                return
            self._phase = _Phase.CLOSING
            connection = self._connection
            self._changed.notify_all()
        if connection is not None:
            connection.finish(_CLOSE_S)
        if self._thread.ident is not None:
            self._thread.join(max(0.0, until - time.monotonic()))
        if connection is not None:
            connection.close()
        self._fail(_CLOSING)
        self._events.close()

    def state(self) -> EngineState:
        """Return the engine's state for this window."""
        return self._state

    @property
    def n_sent(self) -> int:
        """Bytes that went to the engine that is connected."""
        with self._changed:
            return self._connection.n_sent if self._connection is not None else 0

    def next_event(self, timeout_s: float | None = None) -> Event | None:
        """Wait for the next event; None when none came in time or the completer is closed."""
        return self._events.next(timeout_s)

    def apply_settings(self, settings: Settings) -> tuple[str, ...]:
        """Take new settings; those of scope ``engine`` need another engine.

        Any change connects at once where there is no connection.
        """
        changed = settings_table.changed(self._settings, settings)
        scopes = {name: settings_table.info(name).scope for name in changed}
        with self._changed:
            self._settings = self._documents.settings = settings
            is_another = "engine" in scopes.values()
            if is_another and self._connection is not None:
                # Disconnect first: the former engine must not get what the new one may have.
                self._ends_as = _Phase.CONNECTING
                self._connection.close()
            self._documents.renew_rules()
            if not changed:
                return ()
            self._is_told = False
            self._absence = _STARTING
            self._want()
            self._want(_Phase.GIVEN_UP)
            self._restarts.forget()
            if not is_another:
                try:
                    self._send(wire.ApplySettings(self._documents.sent_settings()))
                except EngineProcessError as error:  # the engine keeps the former ones
                    self._events.problem(error.message, error.remedy)
            self._changed.notify_all()
        return tuple(name for name, scope in scopes.items() if scope == "restart")

    def statistics(self) -> SessionStats:
        """Return the engine's latest statistics, and ask for newer ones."""
        with self._changed:
            if not self._is_asking:
                self._is_asking = self._send(wire.AskStatistics())
            stats = replace(self._stats, state=self._state)
            if not self._settings.engine_listens or not stats.model:
                return stats
            model = f"{stats.model} at {self._settings.engine_host}"
            return replace(stats, model=model, lacks=_ELSEWHERE_LACKS)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until the engine has nothing left to do; return whether that came about."""
        if timeout_s <= 0.0:
            return self.statistics().is_idle
        until = time.monotonic() + timeout_s
        with self._changed:
            self._changed.wait_for(
                lambda: self._connection or self._phase is _Phase.GIVEN_UP, timeout_s
            )
            if self._phase is _Phase.GIVEN_UP:
                return True
            number, connection = next(self._numbers), self._connection
            left_s = max(0.0, until - time.monotonic())
            self._idle[number] = None
            if self._send(wire.AwaitIdle(number, left_s)):
                self._changed.wait_for(
                    lambda: self._idle[number] is not None or self._connection is not connection,
                    left_s + _SLACK_S,
                )
            return bool(self._idle.pop(number))

    # --- folders and documents --------------------------------------------------------------------

    def open_folder(self, folder: WorkspaceFolder) -> None:
        """Let the engine index a folder."""
        with self._changed:
            self._documents.open_folder(folder)

    def close_folder(self, root: str) -> None:
        """Forget a folder."""
        with self._changed:
            self._documents.close_folder(root)

    def reindex(self) -> None:
        """Scan all folders again."""
        with self._changed:
            self._documents.renew_rules()
            self._send(wire.Reindex())

    def open_document(self, document: Document) -> None:
        """Take an opened document."""
        with self._changed:
            self._documents.open(document)

    def change_document(self, uri: str, version: int, edit: TextEdit) -> None:
        """Take an edit of an open document."""
        with self._changed:
            self._documents.change(uri, version, edit)

    def save_document(self, uri: str) -> None:
        """Note that a document was written to its file."""
        with self._changed:
            self._documents.save(uri)

    def close_document(self, uri: str) -> None:
        """Forget a document."""
        with self._changed:
            self._documents.close(uri)

    # --- requests ---------------------------------------------------------------------------------

    def submit(self, request: Request[R], cancel: CancellationToken) -> Future[R]:
        """Send a request to the engine."""
        placed = self._documents.place(request)
        if placed is None:
            return answered(request.empty("cancelled"))
        deadline_s = (placed.settings_over(self._settings).deadline_ms + request.debounce_ms) / 1000
        pending = _Pending(
            number=next(self._numbers),
            request=request,
            placed=placed,
            cancel=cancel,
            overdue_at=time.monotonic() + deadline_s + _SLACK_S,
        )
        pending.future.set_running_or_notify_cancel()
        with self._changed:
            if not self._documents.share(request.uri):
                return answered(request.empty("stop", "filter"))
            self._want()
            refusal = self._refusal(request)
            if refusal is not None:
                # Otherwise the shared error's traceback grows with each request that raises it.
                pending.future.set_exception(refusal.with_traceback(None))
                return pending.future
            self._waiting.add(pending)
            if self._connection is not None:
                self._send_pending(pending)
                self._connection.wake()  # the thread waits until the first request is overdue
        cancel.watch(lambda: self._cancelled(pending))
        return pending.future

    def _want(self, former: _Phase = _Phase.STOPPED) -> None:
        """Connect where the window is in the phase ``former``, or will be.  The lock is held."""
        if self._ends_as is former:
            self._ends_as = _Phase.CONNECTING
        if self._phase is former:
            self._phase = _Phase.CONNECTING
            self._changed.notify_all()

    def learn(self, accepted: AcceptedText) -> None:
        """Send an accepted text to the engine, now or when one is connected."""
        with self._changed:
            if self._documents.is_kept_here(accepted.file):
                return
            if not self._send(wire.Learn(self._documents.without_path(accepted))):
                self._learned.append(accepted)

    def _refusal(self, request: Request[Any]) -> SpecLspError | None:
        """Return why a request cannot be served now.  The lock is held."""
        if self._phase is _Phase.CLOSING:
            return _CLOSING
        if self._phase is _Phase.GIVEN_UP:
            return self._absence
        return self._absence if self._connection is None and not request.wait_for_model else None

    def _cancelled(self, pending: _Pending) -> None:
        with self._changed:
            if self._waiting.get(pending.number) is None:
                return
            if pending.is_sent:
                self._send(wire.Cancel(pending.number, pending.cancel.is_for_good))
                return
            self._waiting.take(pending.number)
        pending.answer_empty("cancelled")

    # --- sending ----------------------------------------------------------------------------------

    def _send(self, *messages: wire.WindowMessage) -> bool:
        """Send messages; return whether there is a connection.  The lock is held.

        A message that cannot be sent is left out, and logged; the engine lacks its document then.
        Raises :class:`_UnsendableError` for settings.
        """
        if self._connection is None:
            return False
        if self._settings.engine_listens:  # it has no folders
            messages = tuple(m for m in messages if not isinstance(m, _OF_FOLDERS))
        try:
            return self._connection.send(*messages)
        except EngineProcessError as error:
            if len(messages) > 1:
                return all(self._send(message) for message in messages)
            self._left_out(messages[0], error)
            return True

    def _left_out(self, message: wire.WindowMessage, error: EngineProcessError) -> None:
        match message:
            case wire.ApplySettings():
                text = f"of the settings, {error.message}"
                raise _UnsendableError(text, remedy=_UNSENDABLE_SETTINGS) from error
            case wire.OpenDocument(document=Document(uri=uri)) | wire.ChangeDocument(uri=uri):
                self._documents.left_out(uri, error.message)
            case wire.CloseDocument():
                pass  # the engine never got a document of this URI
            case _:
                self._events.warn(error)

    def _send_pending(self, pending: _Pending) -> None:
        pending.is_sent = True
        request = pending.request
        if isinstance(request, EditRequest):
            changes = self._documents.sent_changes(request, pending.placed.file)
            request = replace(request, changes=changes)
        self._send(wire.ASKS[type(request)](pending.number, request))

    def _hand_over(
        self, connection: wire.Connection[wire.EngineMessage], settings: Settings
    ) -> bool:
        """Send a new engine the settings, folders, documents and requests of this window.

        Sends nothing and returns False where the completer is closing, or the settings have
        changed to those of another engine.
        """
        with self._changed:
            if self._phase is _Phase.CLOSING or self._is_outdated(settings):
                return False
            self._connection = connection
            self._phase, self._ends_as = _Phase.CONNECTED, None
            documents = self._documents
            messages = documents.hand_over()
            learned = [text for text in self._learned if not documents.is_kept_here(text.file)]
            self._send(*messages, *map(wire.Learn, map(documents.without_path, learned)))
            self._learned.clear()
            self._absence = _STARTING
            self._is_told = False
            for pending in self._waiting:
                if documents.has(pending.placed.uri):  # else it is answered when overdue
                    self._send_pending(pending)
            self._changed.notify_all()
            return True

    def _is_outdated(self, settings: Settings) -> bool:
        """Whether the settings have changed to those of another engine."""
        changed = settings_table.changed(settings, self._settings)
        return any(settings_table.info(name).scope == "engine" for name in changed)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._wait_for_turn():
            settings = self._settings
            try:
                self._connect(settings)
            except SpecLspError as error:
                self._failed(error, settings)
            except Exception as error:  # noqa: BLE001  without this thread there is no engine
                self._restarts.n_losses = len(PAUSES_S)  # it may recur as soon as it is connected
                message = f"the connection to the engine failed: {type(error).__name__}: {error}."
                self._failed(EngineProcessError(message, remedy="Please report this."), settings)

    def _connect(self, settings: Settings) -> None:
        """Connect to the engine of these settings, and use it until the connection ends.

        Raises :class:`~speclsp.errors.SpecLspError` where there is no engine.
        """
        self._is_dropped = False
        life = EngineLife()  # before the engine starts, which Linux may end for memory
        try:
            link = self._link(settings)
        except OSError as error:
            self._died(life, settings, f"there is no connection to the engine: {error}")
            return
        log = link.place.log if link.place is not None else None
        life = EngineLife(log, link.process)
        connection = wire.window_connection(link.socket, max_waiting=MAX_WAITING)
        try:
            if self._hand_over(connection, settings):
                self._receive(connection, link.pid)
        finally:
            self._disconnected()
            connection.free()
        if self._phase is not _Phase.CLOSING and self._ends_as is None:
            self._died(life, settings)

    def _wait_for_turn(self) -> bool:
        """Wait until it is time to connect; return False when the completer closes."""
        with self._changed:
            restarts = self._restarts
            self._changed.wait_for(
                lambda: self._phase is _Phase.CLOSING or not restarts.pause_s, restarts.pause_s
            )
            self._changed.wait_for(lambda: self._phase in (_Phase.CLOSING, _Phase.CONNECTING))
            return self._phase is _Phase.CONNECTING

    def _receive(self, connection: wire.Connection[wire.EngineMessage], pid: int) -> None:
        silent_at = time.monotonic() + _SILENT_S
        while True:
            with self._changed:
                overdue_at = self._waiting.overdue_at()
            wakes_at = min(overdue_at, silent_at)
            timeout_s = None
            if wakes_at < math.inf:
                timeout_s = min(max(0.0, wakes_at - time.monotonic()), MAX_SELECT_S)
            try:
                messages = connection.receive(timeout_s)
            except EngineProcessError as error:
                self._events.warn(error)
                return
            if messages is None:
                return
            for message in messages:
                self._take(message)
            self._answer_overdue()
            if messages:
                silent_at = math.inf
            elif time.monotonic() >= silent_at:
                silent_at = math.inf
                self._report_silence(pid)

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

    def _take(self, message: wire.EngineMessage) -> None:
        match message:
            case wire.Answer() | wire.Failed():
                self._take_answer(message)
            case wire.Statistics():
                with self._changed:
                    self._stats, self._is_asking = message.stats, False
            case wire.Idle():
                with self._changed:
                    if message.number in self._idle:  # else it came too late
                        self._idle[message.number] = message.is_idle
                        self._changed.notify_all()
            case wire.Closing():
                # It was stopped on purpose: the next request starts it again.  An engine on another
                # machine cannot be started from here, so its end counts as a lost connection.
                with self._changed:
                    if self._ends_as is None and not self._settings.engine_listens:
                        self._ends_as = _Phase.STOPPED
            case wire.Dropped():
                self._is_dropped = True
            case _:
                self._take_event(message)

    def _take_answer(self, message: wire.Answer[Any] | wire.Failed) -> None:
        with self._changed:
            pending = self._waiting.take(message.number)
        if pending is None:  # overdue, and answered
            return
        if isinstance(message, wire.Failed):
            pending.future.set_exception(_error(message))
        else:
            self._restarts.n_texts += not message.result.is_empty
            pending.future.set_result(message.result)

    def _take_event(self, event: Event) -> None:
        if isinstance(event, StateChanged):
            self._state, self._shown = event.state, event
            if event.state == "ready":
                self._restarts.n_losses = 0
        self._events.emit(event)

    def _answer_overdue(self) -> None:
        now = time.monotonic()
        with self._changed:
            late = self._waiting.take_overdue(now)
            for pending in late:
                self._send(wire.Cancel(pending.number, for_good=True))
        for pending in late:
            pending.answer_empty("deadline")

    # --- an engine that is gone -------------------------------------------------------------------

    def _disconnected(self) -> None:
        """Answer the open requests with empty results."""
        with self._changed:
            self._connection = None
            unanswered = self._waiting.take_all(sent_only=True)
            self._is_asking = False
            if self._phase is _Phase.CONNECTED:
                self._phase = self._ends_as or _Phase.CONNECTING
            phase = self._phase
            self._changed.notify_all()
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

    def _died(
        self, life: EngineLife, settings: Settings, what: str = "the engine process was ended"
    ) -> None:
        """Record that the engine died; after three crashes start none until settings change."""
        if settings.engine_listens:
            host = settings.engine_host
            lost = EngineProcessError(f"The connection to the engine at {host} is lost.")
            self._failed(lost, settings)
            return
        cause = "crashed" if self._is_dropped else life.cause()
        model = Path(settings.model).name or "its model"
        crashes = EngineUnavailableError(
            f"the engine process {cause} {MAX_CRASHES} times with {model}.",
            remedy="Choose another model, or other settings of the engine, such as "
            f"n_gpu_layers or ctx_size: any change of settings tries again.{life.last_words()}",
        )
        with self._changed:
            if self._is_outdated(settings):
                return
            is_hopeless = self._restarts.lost(is_crash=cause is not None)
            pause_s = self._restarts.pause_s
            what = f"the engine process {cause}" if cause is not None else what
            line = f"{what}; it is started again in {pause_s:.0f} s."
            if is_hopeless:
                self._give_up(crashes)
            else:
                self._events.log("warning", line)
                if pause_s:
                    self._absence = EngineUnavailableError(line)
                    self._set_state("failed", line)
        if is_hopeless:
            self._fail(crashes)

    def _failed(self, error: SpecLspError, settings: Settings) -> None:
        """Fail the open requests, and report why there is no engine.

        The window tries again after growing pauses, and shows the problem once until it is
        connected.  It gives up where the settings cannot be sent or the engine crashes each time.
        """
        is_crash = isinstance(error, EngineProcessError) and error.is_crash
        with self._changed:
            if self._is_outdated(settings):
                return
            is_hopeless = self._restarts.lost(is_crash=is_crash)
            pause_s = self._restarts.pause_s
            line = f"{error} speclsp tries again {f'in {pause_s:.0f} s' if pause_s else 'now'}."
            if is_hopeless or isinstance(error, _UnsendableError):
                self._give_up(error)
            else:
                self._absence = error
                if self._set_state("failed", line):
                    self._events.log("warning", line)
                if error.remedy and not (is_crash or self._is_told):
                    self._is_told = True
                    self._events.problem(error.message, error.remedy)
        self._fail(error)

    def _give_up(self, error: SpecLspError) -> None:
        """Have no engine until the settings change.  The lock is held."""
        if self._phase is not _Phase.CLOSING:
            self._phase = _Phase.GIVEN_UP
        self._absence = error
        self._set_state("failed", str(error))
        self._events.problem(error.message, error.remedy)
        self._changed.notify_all()

    def _fail(self, error: SpecLspError) -> None:
        """Fail all open requests."""
        with self._changed:
            waiting = self._waiting.take_all()
        for pending in waiting:
            pending.future.set_exception(error)

    def _set_state(self, state: EngineState, message: str) -> bool:
        """Send the window a state, unless it has it; return whether it was sent."""
        event = StateChanged(state=state, message=message)
        is_new = event != self._shown
        if is_new:
            self._take_event(event)
        return is_new


def _error(failed: wire.Failed) -> SpecLspError:
    """Return the engine's exception as one of ``speclsp.errors``."""
    kind = getattr(errors, failed.error, EngineError)
    known = isinstance(kind, type) and issubclass(kind, SpecLspError)
    return (kind if known else EngineError)(failed.message, remedy=failed.remedy)
