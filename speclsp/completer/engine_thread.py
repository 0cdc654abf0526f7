"""The engine thread: the only one that touches the models.

It has them loaded, serves completions fairly, has the weights freed after idle time, and survives
whatever goes wrong in any one of these.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from speclsp.completer.buffers import OpenBuffers
from speclsp.completer.completion import DraftSources, Workbench
from speclsp.completer.events import EventQueue
from speclsp.completer.generating import Generations, Reports
from speclsp.completer.jobs import CompletionJob, ControlJob
from speclsp.completer.loaded_models import LoadedModels
from speclsp.completer.model_life import ModelLife
from speclsp.engine.models import Loader
from speclsp.engine.scheduler import FairQueue
from speclsp.errors import EngineUnavailableError, SpecLspError
from speclsp.request import CompletionRequest, EngineState
from speclsp.settings import Settings

_T = TypeVar("_T")

MAX_FAILURES = 3
"""Decoding failures in a row after which the models are loaded anew."""


class EngineThread:
    """Runs jobs on a thread of its own until closed."""

    def __init__(
        self,
        *,
        settings: Settings,
        loader: Loader,
        buffers: OpenBuffers,
        events: EventQueue,
        reports: Reports,
        sources: Callable[[CompletionRequest], DraftSources],
        clock: Callable[[], float],
    ) -> None:
        self._events = events
        self._clock = clock
        self._queue: FairQueue[CompletionJob, ControlJob] = FairQueue()
        self._generations = Generations(self._queue, reports, sources, clock)
        self._closing = threading.Event()
        # Only the engine thread reads and writes what follows.
        self._models = LoadedModels(
            loader, buffers, events, reports.tokenizer, persist=settings.persist
        )
        self._life = ModelLife(
            self._models,
            settings,
            events,
            loaded=reports.loaded,
            abandon=self._abandon,
            closing=self._closing.is_set,
        )
        self._n_failures = 0
        self._thread = threading.Thread(target=self._run, name="speclsp-engine", daemon=True)

    # --- called from any thread ---------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; it loads the models first."""
        self._queue.put_control(ControlJob(self._life.load))
        self._thread.start()

    @property
    def state(self) -> EngineState:
        """What the engine is doing."""
        return self._life.state

    @property
    def closing(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closing.is_set()

    @property
    def verify_ms(self) -> tuple[tuple[int, float], ...]:
        """(k, T(k) in milliseconds) of the target, as measured; empty without a model."""
        weights = self._models.weights
        return () if weights is None else weights.pass_cost.milliseconds

    @property
    def busy(self) -> bool:
        """Whether a completion that somebody asked for is running or waiting."""
        return self._generations.busy or self._queue.waiting()

    @property
    def n_idle_evaluated(self) -> int:
        """Prompt tokens that were evaluated in idle time since the start."""
        return self._models.n_idle_evaluated

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is left to do, idle work included; whether that came about."""
        return self._queue.wait_drained(timeout_s)

    def submit(self, job: CompletionJob) -> None:
        """Queue a completion, or fail it at once where the engine cannot serve it."""
        state, reason = self._life.availability()
        if self._closing.is_set():
            state, reason = "off", EngineUnavailableError("the server is shutting down.")
        if state == "unloaded" and self._life.wake():
            self._queue.put_control(ControlJob(self._life.load))
        if state in ("off", "failed") or (state != "ready" and not job.request.wait_for_model):
            job.fail(reason)
            return
        self._generations.place(job)

    def supersede(self, uri: str) -> None:
        """Answer a document's requests empty: a newer one was answered without the model."""
        self._generations.supersede(uri)

    def could_join(self, request: CompletionRequest) -> bool:
        """Whether the generation that runs, as far as it is, would answer a newer request."""
        return self._generations.could_join(request)

    def prefetch(self, request: CompletionRequest, completion_id: str) -> None:
        """Complete a request that nobody has made yet, when nothing else waits."""
        self.run_idle("prefetch", lambda: self._prefetch(request, completion_id))

    def run_idle(self, key: str, action: Callable[[], None]) -> None:
        """Run ``action`` on the engine thread when nothing else waits, or when closing."""
        self._queue.put_idle(key, ControlJob(action))

    def look_for_plans(self) -> None:
        """Evaluate in a pause what the next prompts should find, if that has changed."""
        self.run_idle("prompts", self._settle_prompts)

    def with_models(self, use: Callable[[Workbench, Settings], _T]) -> Future[_T]:
        """Let ``use`` look at the loaded models; the future raises where there are none."""
        future: Future[_T] = Future()

        def run() -> None:
            if self._models.weights is None:
                future.set_exception(self._life.availability()[1])
                return
            try:
                future.set_result(use(self._models.workbench(), self._life.settings))
            except SpecLspError as error:
                future.set_exception(error)

        self._queue.put_control(ControlJob(run))
        return future

    def apply_settings(self, settings: Settings, *, reload: bool) -> None:
        """Take new settings with the next job; ``reload`` frees and loads the models."""
        take = self._life.take_settings
        self._queue.put_control(ControlJob(lambda: take(settings, reload=reload)))
        self._generations.let_nobody_join()

    def close(self, timeout_s: float) -> bool:
        """Stop the thread and free the models; returns whether it stopped in time."""
        self._closing.set()
        self._generations.stop()
        self._queue.put_control(ControlJob(lambda: None))
        self._thread.join(timeout_s)
        self._abandon(EngineUnavailableError("the server is shutting down."))
        return not self._thread.is_alive()

    # --- the engine thread ----------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing.is_set():
            job = self._queue.get(self._idle_timeout())
            if isinstance(job, CompletionJob):
                self._complete(job)
            elif isinstance(job, ControlJob):
                self._control(job)
            elif job is None:
                self._life.free("unloaded", "idle")
        self._abandon(EngineUnavailableError("the server is shutting down."))
        for job in self._queue.take_idle():
            self._control(job)
        self._life.close()

    def _idle_timeout(self) -> float | None:
        """Return the seconds to wait for a job before the weights are freed."""
        seconds = self._life.settings.sleep_idle_seconds
        return None if seconds < 0 or self._models.weights is None else max(seconds, 1)

    def _control(self, job: ControlJob) -> None:
        try:
            job.run()
        except SpecLspError as error:
            self._events.problem(error.message, error.remedy)
        except Exception as error:  # noqa: BLE001 - the thread must outlive any defect
            self._events.problem(f"the engine had an internal error: {error!r}.")

    def _complete(self, job: CompletionJob) -> None:
        reason = job.interrupted(self._clock())
        if reason is not None:
            job.answer_empty(reason, 1000 * (self._clock() - job.submitted))
            return
        if self._models.weights is None and not self._load_for(job):
            return
        bench = self._models.workbench()
        self._generate(job.request, job, job.completion_id, job.deadline, bench)

    def _prefetch(self, request: CompletionRequest, completion_id: str) -> None:
        if self._models.weights is None or self._closing.is_set() or self._queue.waiting():
            return
        deadline = self._clock() + self._life.settings.deadline_ms / 1000
        # Most of what is prefetched is not gone to: the documents' prompts stay where they are.
        bench = self._models.workbench()
        bench = dataclasses.replace(bench, prompts=bench.prompts.apart())
        self._generate(request, None, completion_id, deadline, bench)

    def _load_for(self, job: CompletionJob) -> bool:
        """Load the weights for a job that waits for them; False when the job was failed."""
        if self._life.state == "unloaded":
            self._life.load()
        if self._models.weights is None:
            job.fail(self._life.availability()[1])
            return False
        return True

    def _generate(
        self,
        request: CompletionRequest,
        job: CompletionJob | None,
        completion_id: str,
        deadline: float,
        bench: Workbench,
    ) -> None:
        settings = self._life.settings
        error = self._generations.run(request, job, completion_id, deadline, settings, bench)
        if error is not None:
            self._failed(error)
            return
        self._n_failures = 0
        save = self._models.completed()
        if save is not None:
            self.run_idle("calibration", save)
        self.look_for_plans()

    def _settle_prompts(self) -> None:
        """Evaluate in a pause what the next prompts begin with."""
        if not self._closing.is_set() and not self._models.settle_prompts(self._queue):
            self.run_idle("prompts", self._settle_prompts)

    def _failed(self, error: SpecLspError) -> None:
        self._events.log("error", f"completion failed: {error}")
        self._n_failures += 1
        if self._n_failures >= MAX_FAILURES:
            self._n_failures = 0
            self._events.problem(
                f"the engine failed {MAX_FAILURES} times in a row: {error.message}",
                error.remedy or "The models are being loaded anew.",
            )
            self._queue.put_control(ControlJob(self._life.load_anew))

    def _abandon(self, error: SpecLspError) -> None:
        """Fail every completion that still waits."""
        for job in self._queue.take_all():
            job.fail(error)
