"""The completer of this process: documents, engine thread, project index, accepted texts."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from msgspec import structs

from speclsp import settings as settings_table
from speclsp.backends.weights import Loader, Tokenizer
from speclsp.completer.completion_job import CompletionJob
from speclsp.completer.context_chunks import ContextChunks
from speclsp.completer.document_tokens import DocumentTokens
from speclsp.completer.edit_job import EditJob
from speclsp.completer.engine import Engine
from speclsp.completer.explaining import (
    EditExplanation,
    PromptExplanation,
    explain_edit,
    explain_prompt,
)
from speclsp.completer.jobs import AnyJob, DraftSources, Workbench
from speclsp.completer.learned_files import LearnInto, learn_into
from speclsp.completer.project import Project
from speclsp.completer.statistics_files import StatisticsFiles
from speclsp.completer.text_job import TextJob
from speclsp.errors import EngineUnavailableError
from speclsp.prompt.document_prompts import ChunkSource
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completer import answered
from speclsp.seam.completion import CompletionRequest, CompletionResult
from speclsp.seam.documents import AcceptedText, Document, Ranges, TextEdit, WorkspaceFolder
from speclsp.seam.edit import Change, EditRequest
from speclsp.seam.events import Event, EventQueue, StateChanged
from speclsp.seam.open_documents import Documents
from speclsp.seam.request import AnyPlaced, R, Request
from speclsp.seam.statistics import EngineState, SessionStats
from speclsp.seam.text import TextRequest
from speclsp.secrets.masked_text import PLACEHOLDER
from speclsp.secrets.pieces import Pieces
from speclsp.settings import Settings

JOBS: Mapping[type[Request[Any]], Callable[..., AnyJob]] = {
    CompletionRequest: CompletionJob,
    EditRequest: EditJob,
    TextRequest: TextJob,
}
"""The job of each kind of request."""

_Explanation = TypeVar("_Explanation", PromptExplanation, EditExplanation)

IGNORED: Final = ".gitignore or the setting exclude leaves the file out"
"""Why nothing is requested in a file."""
_NEARLY_S: Final = 1.0
"""Most seconds that a window's first request waits for what is nearly there."""
_N_LINES_BEFORE = 2
"""Lines before a generated text that are read with it, as with an accepted one."""


class LocalCompleter:
    """A :class:`speclsp.seam.completer.Completer` whose engine is a thread of this process.

    It serves one window.  Several may share an :class:`Engine`; then their documents must have
    different URIs.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        loader: Loader | None = None,
        clock: Callable[[], float] = time.perf_counter,
        engine: Engine | None = None,
    ) -> None:
        """Without ``engine`` the completer makes one, with ``loader`` and ``clock``."""
        self.settings = self._given = settings
        """Those in effect, and those given last: some take effect after a restart."""
        self._is_own = engine is None
        self._engine = engine or Engine(settings, loader=loader, clock=clock)
        self._clock = self._engine.clock
        self._events = EventQueue()
        self._documents = Documents()
        self._tokenizer: Tokenizer | None = None
        self._jobs: set[AnyJob] = set()
        """Those that are not answered."""
        self.tokens = DocumentTokens(self._documents, self._is_ignored)
        self._project = Project(
            _indexed(settings), self._events, self._documents, self._engine.indexes
        )
        self._context = ContextChunks(
            settings,
            self._events,
            documents=self._documents,
            project=self._project,
            is_ignored=self._is_ignored,
            chosen=self._engine.thread.look_for_plans,
        )
        self._statistics = StatisticsFiles(
            settings, self._events, self._engine.statistics_files, self._engine.learned_files
        )
        self._accepted = self._engine.accepted(settings)
        self._engine.join(self)
        if self._engine.is_off_for(self):
            self._tell_enabled()

    # --- start, state and settings ---------------------------------------------------------------

    def start(self) -> None:
        """Begin to load the models; folders are indexed when the vocabulary is loaded."""
        self._engine.start()

    def close(self) -> None:
        """Leave a shared engine; close one of its own: stop its threads and free the models."""
        if self._is_own:
            self._engine.begin_close()
        self._context.close()
        if self._is_own:
            self._engine.close()
        else:
            for document in self._documents.newest():
                self._documents.close(document.uri)
        self._engine.leave(self)
        self._project.close()
        self._statistics.close()
        self._events.close()

    def state(self) -> EngineState:
        """Return the engine's state."""
        return "off" if self._engine.is_off_for(self) else self._engine.models.state

    def next_event(self, timeout_s: float | None = None) -> Event | None:
        """Wait for the next event; None when none came in time or the completer is closed."""
        return self._events.next(timeout_s)

    def apply_settings(self, settings: Settings) -> tuple[str, ...]:
        """Take new settings; return those that take effect after a restart."""
        former, self._given = self._given, settings
        changed = settings_table.changed(former, settings)
        scopes = {name: settings_table.info(name).scope for name in changed}
        if changed:
            settings = self.settings = replace(
                settings, mask_secrets=self.settings.mask_secrets, persist=self.settings.persist
            )
            self._engine.apply_settings(self, reload="engine" in scopes.values())
            if settings.enabled != former.enabled:
                self._tell_enabled()
            self._project.apply_settings(_indexed(settings))
            self._context.apply_settings(settings)
            self._statistics.apply_settings(settings)
            if learn_into(settings) != learn_into(former):
                self._accepted.update_files()
        return tuple(name for name, scope in scopes.items() if scope == "restart")

    def _tell_enabled(self) -> None:
        """Send the window its own state where the engine runs on for other windows."""
        if self._engine.is_off_for(self):
            self._events.emit(StateChanged(state="off", message="switched off"))
        elif self.settings.enabled and self._engine.events.state is not None:
            self._events.emit(self._engine.events.state)

    def statistics(self) -> SessionStats:
        """Return the statistics of the models and of the index."""
        return replace(
            self._engine.thread.statistics(),
            index=self._project.stats(),
            is_idle=self.wait_idle(0.0),
        )

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is left to do, idle work included; False after ``timeout_s``."""
        return (
            self._context.wait_settled(timeout_s)
            and self._accepted.wait_done(timeout_s)
            and self._engine.thread.wait_idle(timeout_s)
        )

    @property
    def is_choosing(self) -> bool:
        """Whether context is being chosen; not while that waits for a folder to be indexed."""
        return not self._context.wait_settled(0.0) and not self._project.stats().building

    # --- folders and documents --------------------------------------------------------------------

    def open_folder(self, folder: WorkspaceFolder) -> None:
        """Index a folder in the background."""
        self._project.open_folder(folder)
        self._accepted.begin(folder.root)

    def close_folder(self, root: str) -> None:
        """Forget a folder."""
        self._project.close_folder(root)

    def reindex(self) -> None:
        """Scan all folders again."""
        self._project.reindex()

    def open_document(self, document: Document) -> None:
        """Take an opened document."""
        self._documents.open(document)
        self._project.documents_changed()
        if PLACEHOLDER in document.text:
            self._forget(())
        self._took(document)

    def change_document(self, document: Document, edit: TextEdit, hidden: Ranges = ()) -> None:
        """Take the next version of an open document, and which letters are secrets now."""
        former = self._documents.change(document)
        if former is None:
            return
        if hidden:
            secrets = tuple(former.text[start:end] for start, end in hidden)
            if any(secrets):
                self._documents.keep_newest(document.uri)
            self._forget(secrets)
        else:
            self.tokens.deleted.changed(former, edit)
        self._context.edited(former, edit)
        self._took(document)

    def _forget(self, secrets: tuple[str, ...]) -> None:
        """Forget the texts that may hold what became a secret, of which ``secrets`` were known."""
        for job in tuple(self._jobs):
            job.is_superseded = True  # its text may show them
        self.tokens.forget_texts()
        self._context.forget_texts()
        self._engine.forget(self, Pieces(secrets))

    def save_document(self, uri: str) -> None:
        """Note that a document's file was written."""
        document = self._documents.get(uri)
        if document is not None:
            self._project.saved(document.file)

    def close_document(self, uri: str) -> None:
        """Forget a document."""
        document = self._documents.close(uri)
        self.tokens.deleted.closed(uri)
        if document is not None:
            self._project.documents_changed()
            self._project.saved(document.file)
        self._context.forget(uri)
        self._engine.thread.run_idle(uri, lambda: self._warm(uri))  # which drops its tokens

    def _took(self, document: Document) -> None:
        self._context.changed(document)
        self._engine.thread.run_idle(document.uri, lambda: self._warm(document.uri))

    def _warm(self, uri: str) -> None:
        """Tokenise a piece of a document, on the engine thread, before a request needs it."""
        tokenizer = self._tokenizer
        if tokenizer is None or tokenizer.is_estimate:
            return
        if not self.tokens.warm(uri, tokenizer.vocabulary.tokenize):
            self._engine.thread.run_idle(uri, lambda: self._warm(uri))

    # --- requests ---------------------------------------------------------------------------------

    def submit(self, request: Request[R], cancel: CancellationToken) -> Future[R]:
        """Queue a request in the version of the document that it names."""
        submitted = self._clock()
        if not request.completion_id:
            request = structs.replace(request, completion_id=uuid.uuid4().hex)
        placed = self._documents.place(request)
        if placed is None:
            return answered(request.empty("cancelled"))
        if self._is_ignored(placed.file):
            return answered(request.empty("stop", "filter"))
        settings = placed.settings_over(self.settings)
        if self._engine.is_off_for(self):
            refused: Future[R] = Future()
            refused.set_exception(EngineUnavailableError("completion is switched off."))
            return refused
        if not placed.plain.is_prefetch:
            self._context.asked(placed)
        job = JOBS[type(request)](
            request=placed,
            settings=settings,
            window=self,
            cancel=cancel,
            submitted=submitted,
            deadline=submitted + settings.deadline_ms / 1000,
            debounce_s=request.debounce_ms / 1000,
        )
        into = learn_into(self.settings)
        if into.takes == "generated" and isinstance(request, CompletionRequest):
            job.future.add_done_callback(partial(self._learn_generated, placed, into))
        self._jobs.add(job)
        job.future.add_done_callback(lambda _: self._jobs.discard(job))
        self._engine.thread.submit(job)
        future: Future[R] = job.future
        return future

    def _learn_generated(
        self, request: AnyPlaced, into: LearnInto, future: Future[CompletionResult]
    ) -> None:
        """Count what the model wrote, as accepted texts."""
        if future.exception() is not None:
            return
        result = future.result()
        before = "".join(request.prefix.splitlines(keepends=True)[-_N_LINES_BEFORE:])
        for generated in (result.generated, *result.alternatives):
            text = AcceptedText(
                path=request.path, file=request.file, before=before, text=generated.text
            )
            self._accepted.take_generated(text, into)

    def explain(self, request: CompletionRequest) -> Future[PromptExplanation]:
        """Return the prompt of a request and the reasons for its parts, without decoding."""
        return self._explained(request, PromptExplanation, explain_prompt)

    def explain_edit(self, request: EditRequest) -> Future[EditExplanation]:
        """Return the prompt of a request for the next edit, without decoding."""
        return self._explained(request, EditExplanation, explain_edit)

    def _explained(
        self,
        request: Request[Any],
        kind: type[_Explanation],
        explain: Callable[[Any, Settings, Workbench, DraftSources], _Explanation],
    ) -> Future[_Explanation]:
        placed = self._documents.place(request)
        if placed is None:
            return answered(kind(refused="the document is not open"))
        if self._is_ignored(placed.file):
            return answered(kind(refused=IGNORED))
        self._context.asked(placed)
        return self._engine.thread.with_models(
            self,
            lambda bench, settings: explain(placed, settings, bench, self.sources(placed)),
            for_edits=isinstance(request, EditRequest),
        )

    def learn(self, accepted: AcceptedText) -> None:
        """Keep what the user accepted, and draft from it."""
        root = accepted.workspace or self._project.root_of(accepted.file)
        self._accepted.take(accepted, root, learn_into(self.settings))

    def forget(self, name: str, ranges: Ranges) -> None:
        """Forget a text that was learned, and all that holds its letters at ``ranges``."""
        self._forget(())
        self._engine.forget_learned(name, ranges)

    def forget_secrets(self, secrets: tuple[str, ...]) -> None:
        """Forget what holds a piece of secrets."""
        self._forget(secrets)

    def _is_ignored(self, file: str) -> bool:
        return self.settings.mask_secrets and bool(file) and self._project.is_ignored(file)

    def _changes(self, request: AnyPlaced) -> tuple[Change, ...]:
        """Return the changes in files of the request's folder that are not ignored."""
        if not isinstance(request.plain, EditRequest):
            return ()
        root = self._project.root_of(request.file)
        return tuple(
            change
            for change in request.plain.changes
            if not self._is_ignored(change.file) and self._project.root_of(change.file) == root
        )

    # --- called by the engine ---------------------------------------------------------------------

    def receive_event(self, event: Event) -> None:
        """Take an event of the engine; a window that is switched off gets no engine states."""
        if not (isinstance(event, StateChanged) and self._engine.is_off_for(self)):
            self._events.emit(event)

    def use_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Tokenise everything with another vocabulary."""
        self._tokenizer = tokenizer
        self.tokens.forget()
        self._project.use_tokenizer(tokenizer)
        for root in self._project.roots():
            self._accepted.begin(root)
        if not tokenizer.is_estimate:
            self._statistics.use_tokenizer(tokenizer)

    def sources(self, request: AnyPlaced) -> DraftSources:
        """Return the sources of a request's drafts and of the context in its prompt.

        The first request waits for statistics files, and a program's for the project index, too: a
        second at most, and half of its deadline.  A program's waits for what its folder's files
        define, too, for half of its deadline at most.
        """
        root = request.workspace or self._project.root_of(request.file)
        accepted = self._accepted.of_root(root)
        deadline_s = request.settings_over(self.settings).deadline_ms / 1000
        started_s = time.monotonic()
        until_s = started_s + min(_NEARLY_S, deadline_s / 2)
        files = self._statistics.current(until_s - time.monotonic())
        if not request.is_editors:
            self._project.wait_built(until_s - time.monotonic())
        counts = files.statistics
        if accepted is not None:
            own = accepted.counts_without(files.learned_ids)
            counts = replace(counts, dynamic=(*counts.dynamic, *own))
        return DraftSources(
            corpora=self._project.corpora(),
            accepted=(accepted.tokens,) if accepted is not None and accepted.tokens.size else (),
            statistics=counts,
            changes=self._changes(request),
            chunks=ChunkSource(
                ranked=lambda: self._context.ranked(request, started_s + deadline_s / 2),
                may_show=lambda path: self._context.may_show(request, path),
            ),
        )


def _indexed(settings: Settings) -> Settings:
    """Return settings that keep no tokens of files for a remote engine, only outlines."""
    return replace(settings, index_project=False) if settings.engine_url else settings
