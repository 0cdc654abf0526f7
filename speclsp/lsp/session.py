"""One client's session, from initialize to exit: documents, folders, settings, the completer.

Everything here runs on the event loop and returns at once.  Slow work runs on the completer's
threads, whose results arrive as events, or under :func:`asyncio.to_thread`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import msgspec
from lsprotocol import types

from speclsp import settings as settings_table
from speclsp.errors import EngineUnavailableError, SpecLspError
from speclsp.event_loop import post
from speclsp.lsp.client_settings import ClientSettings
from speclsp.lsp.completion_requests import InFlightRequests, SharedAnswers, TriggerKinds
from speclsp.lsp.document_store import DocumentStore
from speclsp.lsp.editor import Editor, ProgressReporter
from speclsp.lsp.locations import Location, WorkspaceFolders, cell_path, locate
from speclsp.lsp.model_commands import NamedModels
from speclsp.lsp.protocol import SpecProtocol
from speclsp.lsp.text_buffer import Cursor, PositionEncoding, TextBuffer
from speclsp.reporting.report import report_lines, request_line
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completer import Completer
from speclsp.seam.completion import CompletionRequest, CompletionResult
from speclsp.seam.documents import Document
from speclsp.seam.event_pump import EventPump
from speclsp.seam.events import Event, LogLevel, LogLine, Problem, Progress, StateChanged
from speclsp.seam.request import Q, R
from speclsp.seam.statistics import SessionStats
from speclsp.settings import Settings, SettingValue
from speclsp.window.window import Window

logger = logging.getLogger(__name__)

CompleterFactory = Callable[[Settings], Completer]

MAX_DOCUMENT_CHARS = 4_000_000
"""Characters of the largest document with suggestions: as many as its kept versions have together
(docs/decisions/appendix/campaigns.md)."""
STATISTICS_EVERY = 50
"""Completions between two statistics blocks in the log."""
_CONFIGURATION_TIMEOUT_S = 2.0
"""Seconds that loading the models waits for the client's settings; later ones still apply."""


class Session:
    """The state that the method handlers share.

    Its many attributes are changed together on one loop; what has rules of its own is a class.
    """

    def __init__(
        self,
        wire: SpecProtocol,
        completer_factory: CompleterFactory,
        base_options: Mapping[str, Any],
    ) -> None:
        self.settings = ClientSettings(base_options)
        self.editor = Editor(wire, self.settings.current.log_level)
        self.encoding: PositionEncoding = "utf-16"
        self.documents = DocumentStore()
        self.folders = WorkspaceFolders()
        self.requests = InFlightRequests()
        self.shared = SharedAnswers()
        self.trigger_kinds = TriggerKinds()
        self.client_reports_shown = False
        """Whether the client reports what it shows; if not, a sent suggestion counts as shown."""
        self.window: Window | None = None
        """The completer with the client's documents and suggestions."""
        self._completer_factory = completer_factory
        self._applied = self.settings.for_completer
        self._pump: EventPump | None = None
        self._progress = ProgressReporter(self.editor)
        self.models = NamedModels(
            self.editor,
            self._progress,
            spawn=self.spawn,
            apply_settings=self.apply_settings,
            report=lambda message: self.show_problem("error", message),
        )
        self._state = StateChanged(state="loading")
        self._model_title = ""
        self._snoozed_until = 0.0
        """Seconds since the epoch."""
        self._snooze_end: asyncio.TimerHandle | None = None
        self._shown_problems: set[str] = set()
        self._changed: dict[str, TextBuffer] = {}
        """Documents whose latest versions the completer lacks, by URI."""
        self._reported_too_large: dict[str, object] = {}
        """Openings by URI; the first is shown to the user, the others are logged."""
        self._n_completions = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._start_lock = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None
        self._n_pulls = 0
        """Requests for the client's settings."""
        self._pull_taken = 0
        """The number of the request whose answer holds, counted from 1; 0 before any answer."""

    # --- life -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Fetch the client's settings, then start the completer; returns at once."""
        self.editor.greet()
        self.spawn(self._begin())

    async def _begin(self) -> None:
        registered = self.editor.watch_configuration()
        if registered is not None:
            registered.add_done_callback(_log_refusal)
        await asyncio.gather(
            self.pull_settings(), *(self.folders.learn_name(folder) for folder in self.folders)
        )
        await self._start_completer()

    async def close(self) -> None:
        """Log the statistics and stop the completer; later calls wait for the first."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        if self._snooze_end is not None:
            self._snooze_end.cancel()
        async with self._start_lock:
            if self.window is None:
                return
            self.log_statistics()
            window, self.window = self.window, None
        try:
            await asyncio.to_thread(window.close)
        except Exception:
            logger.exception("the completer did not close cleanly")
        if self._pump is not None:
            await asyncio.to_thread(self._pump.finish)
            await asyncio.sleep(0)  # lets the last deliveries run

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background; its exception is logged."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._spawned_done)

    def _spawned_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s failed", task.get_coro(), exc_info=error)

    # --- completer --------------------------------------------------------------------------------

    async def _start_completer(self) -> None:
        async with self._start_lock:
            if self.window is not None or self._closing is not None:
                return
            await self.models.prepare(self.settings.current)
            settings = self.models.resolve(self.settings.for_completer)
            try:
                completer = await asyncio.to_thread(self._completer_factory, settings)
            except Exception as error:
                logger.exception("the completer cannot be made")
                self.show_problem("error", f"speclsp cannot complete: {error}")
                self._set_state(StateChanged(state="failed", message=str(error)))
                return
            self._applied = settings
            self.window = Window(completer, settings, masks_late=True)
            self._pump = EventPump(
                completer, partial(post, asyncio.get_running_loop(), self._receive_event)
            )
            self.tell(completer.start)
            for folder in self.folders:
                if folder.on_disk is not None:
                    self.tell(completer.open_folder, folder.on_disk)
            for buffer in self.documents:
                self.tell_opened(buffer)
        self.apply_settings()

    def tell(self, call: Callable[..., object], *arguments: object) -> Any:
        """Call the completer, which gets the documents' changes first.

        Its exceptions are logged and do not reach the client.
        """
        self.tell_changes()
        return self._tell(call, *arguments)

    def _tell(self, call: Callable[..., object], *arguments: object) -> Any:
        try:
            return call(*arguments)
        except Exception:
            logger.exception("the completer failed at %s", getattr(call, "__name__", call))
            return None

    def _receive_event(self, event: Event) -> None:
        match event:
            case LogLine():
                self.editor.log(event.level, event.message)
            case Progress():
                self._progress.take(event)
            case Problem() if self._closing is not None:
                # Closing interrupts work such as loading the model, which is no error.
                self.editor.log("info", f"{event.message} {event.remedy}".strip())
            case Problem():
                self.show_problem("error", f"{event.message} {event.remedy}".strip())
            case StateChanged():
                self._set_state(event)
                reason = f": {event.message}" if event.message else ""
                self.editor.log("info", f"engine {event.state}{reason}")

    def show_problem(self, level: LogLevel, message: str) -> None:
        """Show a problem to the user, once; log it again."""
        if message in self._shown_problems:
            self.editor.log(level, message)
            return
        self._shown_problems.add(message)
        self.editor.show(level, message)

    # --- status -----------------------------------------------------------------------------------

    def _set_state(self, state: StateChanged) -> None:
        self._state = state
        if state.model is not None:
            former, self._model_title = self._model_title, state.model.title
            if self.window is not None and former not in ("", state.model.title):
                self.window.model_changed()
        self.send_status()
        if state.state == "ready" and state.model is not None and state.model.shortfall:
            self.show_problem("warning", f"speclsp: {state.model.shortfall}")

    def send_status(self, *, ask_again: bool = False) -> None:
        """Send the engine's state, and its model and the end of the snooze if there are any.

        With ``ask_again`` the client should repeat its latest request where the cursor rests.
        """
        status: dict[str, Any] = {"state": self._state.state, "message": self._state.message}
        if self._state.model is not None:
            status["model"] = msgspec.to_builtins(self._state.model)
        if self.is_snoozing:
            status["snoozed_until"] = self._snoozed_until
        if ask_again:
            status["ask_again"] = True
        self.editor.status(status)

    def snooze(self, minutes: float) -> None:
        """Suspend automatic suggestions for so many minutes; 0 ends that."""
        self._snoozed_until = time.time() + 60 * minutes
        if self._snooze_end is not None:
            self._snooze_end.cancel()
        loop = asyncio.get_running_loop()
        self._snooze_end = loop.call_later(60 * minutes, self.send_status) if minutes else None
        self.send_status()

    @property
    def is_snoozing(self) -> bool:
        """Whether automatic suggestions are suspended."""
        return time.time() < self._snoozed_until

    # --- settings ---------------------------------------------------------------------------------

    async def pull_settings(self) -> None:
        """Fetch the client's settings, globally and by folder, and apply them."""
        scopes: list[str | None] = [None, *(folder.uri for folder in self.folders)]
        if len(scopes) == 2:
            scopes = scopes[1:]  # the only folder's settings apply everywhere
        self._n_pulls += 1
        number = self._n_pulls
        answer = self.editor.configuration(scopes)
        if answer is not None:
            if (await asyncio.wait((answer,), timeout=_CONFIGURATION_TIMEOUT_S))[0]:
                self._take_pulled(number, scopes, answer)
            else:
                logger.info("the client has given no settings after %g s", _CONFIGURATION_TIMEOUT_S)
                answer.add_done_callback(lambda late: self._take_late(number, scopes, late))
        self.apply_settings()

    def _take_late(
        self, number: int, scopes: list[str | None], answer: asyncio.Future[Any]
    ) -> None:
        self._take_pulled(number, scopes, answer)
        self.apply_settings()

    def _take_pulled(
        self, number: int, scopes: list[str | None], answer: asyncio.Future[Any]
    ) -> None:
        """Take the answer to a pull, unless the answer to a newer one was taken."""
        if answer.cancelled():
            return
        if (error := answer.exception()) is not None:
            logger.info("the client gave no settings: %s", error)
            return
        if number < self._pull_taken:
            return
        values = answer.result()
        if not isinstance(values, list) or len(values) != len(scopes):
            if values is not None:
                logger.warning("workspace/configuration: expected %d settings", len(scopes))
            return
        by_folder = {uri: v for uri, v in zip(scopes[1:], values[1:], strict=True) if uri and v}
        self._pull_taken = number
        self.settings.set_pulled(values[0], by_folder)

    def apply_settings(self) -> None:
        """Apply the resolved settings, and report problems and settings that need a restart."""
        for problem in self.settings.new_problems():
            self.editor.show("warning", f"speclsp: {problem.message}")
        if self.window is None:
            new = self.settings.for_completer
        else:
            new = self.models.resolve(self.settings.for_completer)
        self.editor.log_level = new.log_level
        changed = settings_table.changed(self._applied, new)
        if not changed:
            return
        if self.window is None:
            if self._shown_problems and self._closing is None:
                self.spawn(self._start_completer())  # the change may have solved the problem
            return
        self._applied = new
        restart = self.tell(self.window.apply_settings, new) or ()
        logger.info("settings changed: %s", ", ".join(changed))
        if restart:
            logger.warning("takes effect after a restart of the server: %s", ", ".join(restart))

    # --- documents --------------------------------------------------------------------------------

    def location(self, buffer: TextBuffer) -> Location:
        """Return a document's location; a notebook's cells have the notebook's."""
        notebook = self.documents.notebook_uri(buffer.uri)
        found = locate(notebook or buffer.uri, buffer.language_id, self.folders)
        if notebook is None:
            return found
        return dataclasses.replace(found, path=cell_path(found.path, buffer.language_id))

    def is_too_large(self, buffer: TextBuffer) -> bool:
        """Whether a document is too large for suggestions; the first time, tell the user.

        Each key press copies a document's text a few times, which takes too long for tens of
        megabytes.
        """
        if buffer.n_chars <= MAX_DOCUMENT_CHARS:
            return False
        if self._reported_too_large.get(buffer.uri) is not buffer.opening:
            message = (
                f"speclsp suggests nothing in {buffer.uri.rpartition('/')[2]}: it has "
                f"{buffer.n_chars:,} characters, and more than {MAX_DOCUMENT_CHARS:,} are too many."
            )
            report = self.editor.log if self._reported_too_large else self.editor.show
            self._reported_too_large[buffer.uri] = buffer.opening
            report("warning", message)
        return True

    def tell_opened(self, buffer: TextBuffer) -> None:
        """Give the completer an opened document, unless it is too large."""
        if self.window is None or self.is_too_large(buffer):
            return
        location = self.location(buffer)
        document = Document(
            uri=buffer.uri,
            path=location.path,
            file=location.file,
            language_id=buffer.language_id,
            version=buffer.version,
            text=buffer.text,
            repo_name=location.repo_name,
        )
        self.tell(self.window.open_document, document)

    def tell_changed(self, buffer: TextBuffer) -> None:
        """Give the completer a document's next version soon: with what else has arrived, at once.

        It is masked once then, also where many changes of it have arrived.  Whatever else the
        completer is told or asked comes afterwards.
        """
        if self.window is None:
            return
        if not self._changed:
            asyncio.get_running_loop().call_soon(self.tell_changes)
        self._changed[buffer.uri] = buffer

    def tell_changes(self) -> None:
        """Give the completer the documents that have changed, unless they are too large."""
        changed, self._changed = self._changed, {}
        for buffer in changed.values():
            window = self.window
            if window is None or self.documents.get(buffer.uri) is not buffer:
                continue
            if window.document(buffer.uri) is None:
                self.tell_opened(buffer)
            elif self.is_too_large(buffer):
                self._tell(window.close_document, buffer.uri)
            else:
                self._tell(window.change_document, buffer.uri, buffer.version, buffer.text)

    def note_arrival(self, params: Any) -> None:
        """Let the completer have the version that an arriving request is made in."""
        self.tell_changes()
        self.documents.note_arrival(params)

    def tell_saved(self, uri: str) -> None:
        """Tell the completer that a document was written to its file."""
        if self.window is not None:
            self.tell(self.window.save_document, uri)

    def tell_closed(self, uri: str) -> None:
        """Tell the completer that a document was closed."""
        if self.window is not None:
            self.tell(self.window.close_document, uri)

    def tell_moved(self) -> None:
        """Open again the documents whose path or repository name has changed with the folders."""
        for buffer in self.documents:
            location = self.location(buffer)
            known = self.window.document(buffer.uri) if self.window is not None else None
            if known is not None and (known.path, known.repo_name) != (
                location.path,
                location.repo_name,
            ):
                self.tell_opened(buffer)

    # --- requests ---------------------------------------------------------------------------------

    def asked_in(self, uri: str) -> TextBuffer | None:
        """Return a document as of the current request's arrival.

        None where it is not open, or too large for suggestions.
        """
        buffer = self.documents.as_of_arrival(uri)
        if buffer is None or self.is_too_large(buffer):
            return None
        if self.window is not None and self.window.document(buffer.uri) is None:
            self.tell_opened(buffer)  # the limit was raised
        return buffer

    def cursor(self, buffer: TextBuffer, position: types.Position) -> Cursor:
        """Return the cursor at a client's position; outside the text, the nearest end."""
        return buffer.cursor_at(position.line, position.character, self.encoding)

    def wire_range(self, buffer: TextBuffer, start: Cursor, end: Cursor) -> types.Range:
        """Return the range between two cursors in the client's units."""
        return types.Range(
            start=types.Position(start.line, buffer.character_at(start, self.encoding)),
            end=types.Position(end.line, buffer.character_at(end, self.encoding)),
        )

    def settings_in(self, buffer: TextBuffer) -> tuple[Settings, dict[str, SettingValue]] | None:
        """Return a document's settings, and those of its folder that a request there carries.

        None where completion is switched off.
        """
        folder = self.location(buffer).folder
        folder_uri = folder.uri if folder is not None else None
        settings = self.settings.for_document(folder_uri, buffer.language_id)
        if self.settings.is_switched_off or not settings.enabled:
            return None
        return settings, self.settings.overrides(folder_uri)

    async def answer(
        self,
        what: str,
        ask: Callable[[Q, CancellationToken], Coroutine[Any, Any, R]],
        request: Q,
    ) -> R | None:
        """Return the completer's answer to a request for ``what``, or None where it has none.

        Cancelling the calling task cancels the request.
        """
        cancel = CancellationToken()
        try:
            return await ask(request, cancel)
        except asyncio.CancelledError:
            cancel.cancel()
            raise
        except EngineUnavailableError as error:
            logger.debug("no %s: %s", what, error)
        except SpecLspError as error:
            # A model that cannot be used was shown as a problem; else each key would log it again.
            is_told = str(error) in self._shown_problems
            logger.log(logging.DEBUG if is_told else logging.ERROR, "%s failed: %s", what, error)
        except Exception:
            logger.exception("%s failed", what)
        return None

    # --- statistics -------------------------------------------------------------------------------

    def count(self, result: CompletionResult) -> None:
        """Log a result's figures, and the session's statistics now and then."""
        self.editor.log("debug", request_line(result))
        if not result.is_empty:
            self._n_completions += 1
            if self._n_completions % STATISTICS_EVERY == 0:
                self.log_statistics()

    def tell_if_late(self, request: CompletionRequest, result: CompletionResult) -> None:
        """Let the client ask again where the prompt takes longer than `deadline_ms`."""
        if self.window is not None and self.window.note_late(request, result):
            self.send_status(ask_again=True)

    def statistics(self) -> SessionStats:
        """Return the session's statistics."""
        found = self.tell(self.window.statistics) if self.window is not None else None
        return found or SessionStats()

    def log_statistics(self) -> SessionStats:
        """Log the statistics block, and return the statistics."""
        stats = self.statistics()
        if lines := report_lines(stats, self._applied):
            self.editor.log("info", "\n".join(lines))
        return stats


def _log_refusal(answer: asyncio.Future[Any]) -> None:
    if not answer.cancelled() and (error := answer.exception()) is not None:
        logger.debug("the client does not report changed settings: %s", error)
