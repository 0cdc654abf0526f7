"""The completer seam, in this process: documents, the engine thread, the project index."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

from speclsp import settings as settings_table
from speclsp.cancellation import CancellationToken
from speclsp.completer.accepted import AcceptedTexts
from speclsp.completer.buffers import OpenBuffers
from speclsp.completer.completion import DraftSources
from speclsp.completer.context_chunks import ContextChunks
from speclsp.completer.engine_thread import EngineThread
from speclsp.completer.events import EventQueue
from speclsp.completer.explaining import PromptExplanation, explain_prompt
from speclsp.completer.generating import Reports
from speclsp.completer.jobs import CompletionJob
from speclsp.completer.looked_through import LookedThrough
from speclsp.completer.private_text import PrivateText, Refusal
from speclsp.completer.project import Project
from speclsp.completer.prompts import ChunkSource
from speclsp.completer.session_record import SessionRecord
from speclsp.completer.statistics import StatisticsSource
from speclsp.completer.without_model import WithoutModel
from speclsp.engine.models import LlamaLoader, Loader, Tokenizer
from speclsp.request import (
    CompletionRequest,
    CompletionResult,
    Document,
    EngineState,
    Event,
    FinishReason,
    RequestStats,
    SessionStats,
    WorkspaceFolder,
)
from speclsp.settings import Settings
from speclsp.suggestions.answers import Rest

CLOSE_TIMEOUT_S = 5.0


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
        self._record = SessionRecord()
        self._without_model = WithoutModel(
            settings, lambda message: self._events.log("warning", message), clock
        )
        self._engine = EngineThread(
            settings=settings,
            loader=loader if loader is not None else LlamaLoader(self._events.log),
            buffers=self._buffers,
            events=self._events,
            reports=Reports(
                loaded=self._loaded,
                failed=self._record.failed,
                generated=self._without_model.take,
                in_vain=self._record.spent_in_vain,
                went_on=self._record.went_on,
                prefetched=self._prefetched,
                tokenizer=self._take_tokenizer,
            ),
            sources=self._sources,
            clock=clock,
        )
        self._project = Project(settings, self._events, busy=lambda: self._engine.busy)
        self._private = PrivateText(settings, self._project.is_ignored)
        self._looked_through = LookedThrough(self._private, self._take, self._not_looked_through)
        self._opening = threading.Lock()
        """Held while buffers come or go, so that the project knows the open ones."""
        self._context = ContextChunks(
            settings,
            self._events,
            project=self._project,
            busy=lambda: self._engine.busy,
            chosen=self._engine.look_for_plans,
        )
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
        self._looked_through.close()
        self._context.close()
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
            self._without_model.apply_settings(settings)
            self._project.apply_settings(settings)
            self._context.apply_settings(settings)
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
        self._looked_through.take(document)

    def change_document(self, document: Document) -> None:
        """Take a changed buffer."""
        self._looked_through.take(document)

    def save_document(self, uri: str) -> None:
        """Note that a buffer's file was written."""
        document = self._buffers.get(uri)
        if document is not None:
            self._project.saved(document.file)

    def close_document(self, uri: str) -> None:
        """Forget a buffer."""
        self._looked_through.forget(uri)
        with self._opening:
            document = self._buffers.remove(uri)
            if document is not None:
                self._project.closed(document.file)
        self._context.forget(uri)
        self._without_model.forget(uri)
        self._record.closed(uri)
        self._engine.run_idle(uri, lambda: self._warm(uri))  # which drops its tokens

    def _take(self, document: Document) -> None:
        """Take a version of a buffer, its secrets masked."""
        with self._opening:
            former = self._buffers.get(document.uri)
            self._buffers.put(document)
            if former is None:
                self._project.opened(document.file)
        self._context.take(document)
        self._engine.run_idle(document.uri, lambda: self._warm(document.uri))

    def _not_looked_through(self, error: Exception) -> None:
        self._events.problem(
            f"A file could not be looked through for secrets and is left out: {error!r}",
            "Type into it again, or open it anew.",
        )

    def _warm(self, uri: str) -> None:
        """Tokenise a piece of a buffer on the engine thread before the first request needs it."""
        tokenizer = self._project.tokenizer
        if tokenizer is None or self._engine.closing:
            return
        if not self._buffers.warm(uri, tokenizer.vocabulary.tokenize):
            self._engine.run_idle(uri, lambda: self._warm(uri))

    # --- completions ------------------------------------------------------------------------------

    def known(self, request: CompletionRequest) -> CompletionResult | None:
        """Answer without the model, where that can be."""
        private = self._private.request(request)
        if private == "unknown":
            return None
        return self._refused(request) if private == "private" else self._known(private)

    def _known(self, request: CompletionRequest) -> CompletionResult | None:
        answered = self._without_model.answer(request, uuid.uuid4().hex)
        if request.supersede and not (answered is None and self._could_join(request)):
            self._engine.supersede(request.uri)
        if answered is None:
            return None
        result, rest = answered
        return self._finish(request, result, rest)

    def delay_ms(self, request: CompletionRequest) -> float:
        """Return how long to wait for the next keystroke."""
        private = self._private.request(request)
        if not isinstance(private, CompletionRequest) or self._could_join(private):
            return 0.0
        return self._without_model.delay_ms(private, busy=self._engine.busy)

    def _could_join(self, request: CompletionRequest) -> bool:
        return self._without_model.may_go_on(request) and self._engine.could_join(request)

    def complete(
        self, request: CompletionRequest, cancel: CancellationToken
    ) -> Future[CompletionResult]:
        """Answer from what is known, or queue a completion."""
        asked = self._clock()
        return self._looked_through.ask(
            request, cancel, lambda private: self._complete(request, private, cancel, asked)
        )

    def _complete(
        self,
        request: CompletionRequest,
        private: CompletionRequest | Refusal,
        cancel: CancellationToken,
        asked: float,
    ) -> Future[CompletionResult]:
        if private == "unknown":
            return _answered(self._empty(request, "cancelled"))
        if private == "private":
            return _answered(self._refused(request))
        request = private
        known = self._known(request)
        if known is not None:
            return _answered(known)
        self._context.asked(request)
        deadline_ms = request.deadline_ms
        if deadline_ms is None:
            deadline_ms = self._without_model.settings_for(request).deadline_ms
        job = CompletionJob(
            request=request,
            completion_id=uuid.uuid4().hex,
            cancel=cancel,
            submitted=asked,
            deadline=asked + deadline_ms / 1000,
            finish=lambda result, rest: self._finish(request, result, rest),
            may_go_on=self._without_model.may_go_on(request),
        )
        self._engine.submit(job)
        return job.future

    def explain(self, request: CompletionRequest) -> Future[PromptExplanation]:
        """Say what the prompt of a request would be, and why, without asking the model."""
        private = self._private.request(request)
        if private == "unknown":
            self._private.look_through(request)
            private = self._private.request(request)
        if not isinstance(private, CompletionRequest):
            future: Future[PromptExplanation] = Future()
            future.set_result(PromptExplanation(refused=self._private.reason(request)))
            return future
        self._context.asked(private)
        return self._engine.with_models(
            lambda bench, settings: explain_prompt(
                private, settings, bench.tokenizer, bench.weights, self._context.candidates(private)
            )
        )

    def _refused(self, request: CompletionRequest) -> CompletionResult:
        """Answer a request whose text is nobody's business."""
        self._engine.supersede(request.uri)
        return self._empty(request, "stop")

    def _empty(self, request: CompletionRequest, reason: FinishReason) -> CompletionResult:
        result = CompletionResult(
            completion_id=uuid.uuid4().hex,
            text="",
            finish_reason=reason,
            stats=RequestStats(),
            source="filter",
        )
        self._record.answered(request, result, None)
        return result

    def _finish(
        self, request: CompletionRequest, result: CompletionResult, rest: Rest | None
    ) -> CompletionResult:
        """Note an answer, and return it as it is given."""
        result = self._without_model.held_back(request, result)
        uses_prefetch = self._without_model.given(result, rest)
        self._record.answered(request, result, rest, uses_prefetch=uses_prefetch)
        return result

    def shown(self, completion_id: str) -> None:
        """Note that a suggestion is on screen, and complete what follows it in idle time."""
        given = self._record.shown(completion_id)
        if given is None:
            return
        if given.is_whole:
            after = self._without_model.shown(
                given.request,
                given.text,
                given.n_replaced,
                n_said=len(given.said_before),
            )
            if after is not None:
                self._engine.prefetch(after, uuid.uuid4().hex)

    def accepted(self, completion_id: str, n_chars: int | None = None) -> None:
        """Learn what the user took."""
        taken = self._record.accepted(completion_id, n_chars)
        if taken is None:
            return
        given, text = taken
        self._without_model.accepted(given.request, given.text)
        learn = self._accepted.take if text == given.text else self._accepted.take_part
        learn(given.learned_id, given.learned_request, given.said_before + text)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until the engine has nothing left to do, idle work included; whether it has."""
        return (
            self._looked_through.wait_done(timeout_s)
            and self._project.wait_done(timeout_s)
            and self._context.wait_settled(timeout_s)
            and self._engine.wait_idle(timeout_s)
        )

    def statistics(self) -> SessionStats:
        """Return the session's sums."""
        stats = self._record.statistics(
            state=self.state(),
            index=self._project.stats(),
            n_idle_evaluated=self._engine.n_idle_evaluated,
            verify_ms=self._engine.verify_ms,
        )
        return replace(stats, is_idle=self.wait_idle(0.0))

    # --- told by the engine thread ----------------------------------------------------------------

    def _take_tokenizer(self, tokenizer: Tokenizer) -> None:
        self._project.take_tokenizer(tokenizer)
        self._accepted.take_tokenizer(tokenizer)
        self._statistics.take_tokenizer(tokenizer)

    def _sources(self, request: CompletionRequest) -> DraftSources:
        return DraftSources(
            corpora=self._project.corpora(),
            accepted=self._accepted.tokens(request),
            statistics=self._statistics.current(self._project.root_of(request.file)),
            chunks=ChunkSource(
                ranked=lambda: self._context.ranked(request), gone=self._context.gone
            ),
        )

    def _loaded(self, *, model: str, draft_model: str, layers: dict[str, int], n_ctx: int) -> None:
        self._record.loaded(model=model, draft_model=draft_model, layers=layers, n_ctx=n_ctx)
        self._without_model.clear()

    def _prefetched(
        self, request: CompletionRequest, result: CompletionResult, settings: Settings
    ) -> None:
        self._record.prefetched(result.stats)
        if result.finish_reason != "cancelled":
            self._without_model.take(request, result, settings, prefetched=True)


def _answered(result: CompletionResult) -> Future[CompletionResult]:
    future: Future[CompletionResult] = Future()
    future.set_result(result)
    return future
