"""One generation after the other: whom each is for, who gets it, and what goes wrong."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

from speclsp.completer.completion import DraftSources, Workbench, run_completion
from speclsp.completer.jobs import CompletionJob, ControlJob
from speclsp.completer.model_life import Loaded
from speclsp.completer.running import RunningGeneration
from speclsp.engine.models import Tokenizer
from speclsp.engine.scheduler import FairQueue
from speclsp.errors import EngineError, SpecLspError
from speclsp.request import CompletionRequest, CompletionResult, RequestStats
from speclsp.settings import Settings
from speclsp.suggestions.answers import Rest, answers_of, rest_of


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """Who is told what the engine does, on its thread."""

    loaded: Loaded
    failed: Callable[[], None]
    """A request ended in an error."""
    generated: Callable[[CompletionRequest, CompletionResult, Settings], None]
    """The model said this at the request's place by these settings: whole, for whoever it may
    serve."""
    in_vain: Callable[[RequestStats], None]
    """This was spent on a text that nobody got."""
    went_on: Callable[[], None]
    """A generation goes on for a newer request."""
    prefetched: Callable[[CompletionRequest, CompletionResult, Settings], None]
    """This was made while nobody had asked for it, to its end or not."""
    tokenizer: Callable[[Tokenizer], None]
    """A vocabulary was loaded."""


class Generations:
    """Runs generations on the engine thread; other threads may join or stop the one that runs.

    ``sources`` tells what a request's drafts may come from.
    """

    def __init__(
        self,
        queue: FairQueue[CompletionJob, ControlJob],
        reports: Reports,
        sources: Callable[[CompletionRequest], DraftSources],
        clock: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._reports = reports
        self._sources = sources
        self._clock = clock
        self._running: RunningGeneration | None = None
        self._placing = threading.Lock()
        """Held where a request finds its place: in the queue, or with what runs."""

    # --- called from any thread ---------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a completion that somebody asked for is running."""
        running = self._running
        return running is not None and running.waiter is not None

    def place(self, job: CompletionJob) -> None:
        """Let what runs answer ``job`` where it is on the way to that, else queue it.

        Older requests that it supersedes are answered empty.
        """
        uri, supersede = job.request.uri, job.request.supersede
        with self._placing:
            older = self._joined(job)
            if older is None:
                older = self._queue.put(uri, job, supersede=supersede)
                if supersede:
                    self._stop_running(uri)
        self._answer_superseded(older)

    def supersede(self, uri: str) -> None:
        """Answer a document's requests empty: a newer one was answered without the model."""
        with self._placing:
            older = self._queue.take(uri)
            self._stop_running(uri)
        self._answer_superseded(older)

    def could_join(self, request: CompletionRequest) -> bool:
        """Whether the generation that runs, as far as it is, would answer a newer request."""
        running = self._running
        return running is not None and running.agrees_with(request)

    def let_nobody_join(self) -> None:
        """Let what runs serve those who wait for it and no others: settings have changed."""
        running = self._running
        if running is not None:
            running.let_nobody_join()

    def stop(self) -> None:
        """Stop what runs at its next check."""
        running = self._running
        if running is not None:
            running.stop()

    def _joined(self, job: CompletionJob) -> list[CompletionJob] | None:
        """Whom ``job`` supersedes where it joined what runs; None where it cannot."""
        running = self._running
        if running is None:
            return None
        joined, older = running.join(job)
        if not joined:
            return None
        self._reports.went_on()
        waiting = self._queue.take(job.request.uri)
        return waiting if older is None else [older, *waiting]

    def _stop_running(self, uri: str) -> None:
        running = self._running
        if running is not None and running.waiter is not None and running.request.uri == uri:
            running.waiter.supersede()

    def _answer_superseded(self, older: list[CompletionJob]) -> None:
        for job in older:
            job.answer_empty("cancelled", 1000 * (self._clock() - job.submitted))

    # --- the engine thread ----------------------------------------------------------------------

    def run(
        self,
        request: CompletionRequest,
        job: CompletionJob | None,
        completion_id: str,
        deadline: float,
        settings: Settings,
        bench: Workbench,
    ) -> SpecLspError | None:
        """Let the model complete a request, and give the result to whoever waits for it then.

        ``job`` waits from the start; None for a request that nobody has made.  Returns what went
        wrong, which whoever waited was told.
        """
        running = RunningGeneration(
            request, job, deadline=deadline, others_wait=self._queue.waiting
        )
        self._running = running
        started = self._clock()
        try:
            result = run_completion(
                request,
                completion_id,
                settings,
                bench,
                self._sources(request),
                lambda: running.interrupted(self._clock()),
                self._clock,
                running.watch,
            )
        except SpecLspError as error:
            return self._failed(running, error)
        except Exception as error:  # noqa: BLE001 - the thread must outlive any defect
            known = EngineError(f"the engine had an internal error: {error!r}.")
            return self._failed(running, known)
        self._deliver(running, job, result, settings, started)
        return None

    def _failed(self, running: RunningGeneration, error: SpecLspError) -> SpecLspError:
        with self._placing:
            self._running = None
            waiter = running.end()
        if waiter is not None:
            self._reports.failed()
            waiter.fail(error)
        return error

    def _deliver(
        self,
        running: RunningGeneration,
        job: CompletionJob | None,
        result: CompletionResult,
        settings: Settings,
        started: float,
    ) -> None:
        with self._placing:
            self._running = None
            waiter = running.end()
            rest = None
            if waiter is not None and waiter is not job:
                rest = self._rest_for(waiter, running.request, result)
                if rest is None:
                    self._queue.put(waiter.request.uri, waiter, supersede=False)
        if job is None and (waiter is None or rest is None):
            ms_total = 1000 * (self._clock() - started)
            timed = result.timed(ms_queue=0, ms_total=ms_total)
            self._reports.prefetched(running.request, timed, settings)
            return
        if result.finish_reason != "cancelled":
            self._reports.generated(running.request, result, settings)
        if waiter is None or (waiter is not job and rest is None):
            self._reports.in_vain(result.stats)
            return
        if rest is not None:
            result = dataclasses.replace(
                rest.result(waiter.completion_id, result.stats), source="model"
            )
        if waiter.may_go_on and waiter.cancel.cancelled:
            result = dataclasses.replace(result, finish_reason="cancelled")
        timed = result.timed(
            ms_queue=max(0.0, 1000 * (started - waiter.submitted)),
            ms_total=1000 * (self._clock() - waiter.submitted),
        )
        waiter.answer(timed, rest)

    def _rest_for(
        self, waiter: CompletionJob, request: CompletionRequest, result: CompletionResult
    ) -> Rest | None:
        """Return what a result for an earlier request leaves for the one that waits."""
        if result.finish_reason == "cancelled":
            return None
        *_, answer = answers_of(request, result, now=self._clock())
        return rest_of(answer, waiter.request) if answer.text else None
