"""The completer seam, in this process: documents, the engine thread, the project index."""

from __future__ import annotations

import dataclasses
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

from speclsp import settings as settings_table
from speclsp.cancellation import CancellationToken
from speclsp.completer.accepted import AcceptedTexts
from speclsp.completer.buffers import OpenBuffers
from speclsp.completer.completion import DraftSources, settings_of
from speclsp.completer.engine_thread import EngineThread
from speclsp.completer.events import EventQueue
from speclsp.completer.jobs import CompletionJob
from speclsp.completer.project import Project
from speclsp.completer.statistics import StatisticsSource
from speclsp.decoding.session import SessionRecorder
from speclsp.engine.models import LlamaLoader, Loader, Words
from speclsp.request import (
    CompletionRequest,
    CompletionResult,
    Document,
    EngineState,
    Event,
    SessionStats,
    WorkspaceFolder,
)
from speclsp.settings import Settings

CLOSE_TIMEOUT_S = 5.0
MAX_REMEMBERED = 256
"""Completions whose acceptance can still be reported."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Remembered:
    request: CompletionRequest
    text: str


class LocalCompleter:
    """A :class:`speclsp.seam.Completer` whose engine runs on a thread of this process."""

    def __init__(
        self,
        settings: Settings,
        *,
        loader: Loader | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._events = EventQueue()
        self._buffers = OpenBuffers()
        self._recorder = SessionRecorder()
        self._recorder_lock = threading.Lock()
        self._remembered: OrderedDict[str, _Remembered] = OrderedDict()
        self._engine = EngineThread(
            settings=settings,
            loader=loader if loader is not None else LlamaLoader(self._events.log),
            buffers=self._buffers,
            events=self._events,
            loaded=self._loaded,
            failed=self._request_failed,
            sources=self._sources,
            on_words=self._take_words,
            clock=clock,
        )
        self._project = Project(settings, self._events, busy=lambda: self._engine.busy)
        self._statistics = StatisticsSource(settings, self._events)
        self._accepted = AcceptedTexts(
            settings,
            self._events,
            root_of=self._project.root_of,
            later=self._engine.run_idle,
            count=self._statistics.learn,
        )

    # --- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to load the models; folders are indexed once the vocabulary is there."""
        self._engine.start()

    def close(self) -> None:
        """Stop all threads and free the models."""
        self._accepted.flush()
        self._engine.close(CLOSE_TIMEOUT_S)
        self._project.close()
        self._accepted.close()
        self._statistics.close()
        self._events.close()

    def state(self) -> EngineState:
        """Return what the engine is doing."""
        return self._engine.state

    def next_event(self, timeout_s: float) -> Event | None:
        """Return the next event, or None."""
        return self._events.next(timeout_s)

    def apply_settings(self, settings: Settings) -> tuple[str, ...]:
        """Take new settings; returns those that need a restart."""
        changed = settings_table.changed(self._settings, settings)
        scopes = {name: settings_table.info(name).scope for name in changed}
        self._settings = settings
        if changed:
            self._engine.apply_settings(settings, reload="engine" in scopes.values())
            self._project.apply_settings(settings)
            self._statistics.apply_settings(settings)
        return tuple(name for name, scope in scopes.items() if scope == "restart")

    # --- folders and documents --------------------------------------------------------------------

    def open_folder(self, folder: WorkspaceFolder) -> None:
        """Index a folder in the background."""
        self._project.open_folder(folder)

    def close_folder(self, root: str) -> None:
        """Forget a folder."""
        self._project.close_folder(root)

    def reindex(self) -> None:
        """Scan all folders again."""
        self._project.reindex()

    def open_document(self, document: Document) -> None:
        """Take an opened buffer."""
        self._take(document)
        self._project.set_open(self._buffers.documents())

    def change_document(self, document: Document) -> None:
        """Take a changed buffer."""
        self._take(document)

    def save_document(self, uri: str) -> None:
        """Note that a buffer's file was written."""
        document = self._buffers.get(uri)
        if document is not None:
            self._project.saved(document.file)

    def close_document(self, uri: str) -> None:
        """Forget a buffer."""
        document = self._buffers.remove(uri)
        self._project.set_open(self._buffers.documents())
        if document is not None:
            self._project.saved(document.file)

    def _take(self, document: Document) -> None:
        self._buffers.put(document)
        self._engine.run_idle(document.uri, lambda: self._warm(document.uri))

    def _warm(self, uri: str) -> None:
        """Tokenise a piece of a buffer on the engine thread before the first request needs it."""
        words = self._project.words
        if words is None or self._engine.closing:
            return
        if not self._buffers.warm(uri, words.vocabulary.tokenize):
            self._engine.run_idle(uri, lambda: self._warm(uri))

    # --- completions ------------------------------------------------------------------------------

    def complete(
        self, request: CompletionRequest, cancel: CancellationToken
    ) -> Future[CompletionResult]:
        """Queue a completion."""
        now = self._clock()
        deadline_ms = request.deadline_ms
        if deadline_ms is None:
            deadline_ms = settings_of(self._settings, request).deadline_ms
        job = CompletionJob(
            request=request,
            completion_id=uuid.uuid4().hex,
            cancel=cancel,
            submitted=now,
            deadline=now + deadline_ms / 1000,
            record=lambda result: self._record(request, result),
        )
        self._engine.submit(job)
        return job.future

    def _record(self, request: CompletionRequest, result: CompletionResult) -> None:
        with self._recorder_lock:
            self._recorder.add(result)
            if result.text:
                self._remembered[result.completion_id] = _Remembered(request, result.text)
                while len(self._remembered) > MAX_REMEMBERED:
                    self._remembered.popitem(last=False)

    def shown(self, completion_id: str) -> None:
        """Note that a suggestion is on screen."""
        with self._recorder_lock:
            if completion_id in self._remembered:
                self._recorder.shown(completion_id)

    def accepted(self, completion_id: str, n_chars: int | None = None) -> None:
        """Learn what the user took."""
        with self._recorder_lock:
            remembered = self._remembered.get(completion_id)
            if remembered is None:
                return
            text = remembered.text if n_chars is None else remembered.text[:n_chars]
            self._recorder.accepted(completion_id, len(text), len(remembered.text))
        if len(text) == len(remembered.text):
            self._accepted.take(completion_id, remembered.request, text)
        else:
            self._accepted.take_part(completion_id, remembered.request, text)

    def statistics(self) -> SessionStats:
        """Return the session's sums."""
        with self._recorder_lock:
            return self._recorder.snapshot(
                state=self.state(),
                index=self._project.stats(),
                verify_ms=self._engine.verify_ms,
            )

    # --- told by the engine thread ----------------------------------------------------------------

    def _take_words(self, words: Words) -> None:
        self._project.take_words(words)
        self._accepted.take_words(words)
        self._statistics.take_words(words)

    def _sources(self, request: CompletionRequest) -> DraftSources:
        return DraftSources(
            corpora=self._project.corpora(),
            accepted=self._accepted.tokens(request),
            statistics=self._statistics.current(self._project.root_of(request.file)),
        )

    def _loaded(self, *, model: str, draft_model: str, layers: dict[str, int], n_ctx: int) -> None:
        with self._recorder_lock:
            self._recorder.loaded(model=model, draft_model=draft_model, layers=layers, n_ctx=n_ctx)

    def _request_failed(self) -> None:
        with self._recorder_lock:
            self._recorder.failed()
