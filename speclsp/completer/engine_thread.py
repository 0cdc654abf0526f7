"""The engine thread: the only one that touches the models.

It loads them, serves completions fairly, frees the weights after idle time, and survives whatever
goes wrong in any one of these.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from speclsp.completer.buffers import OpenBuffers
from speclsp.completer.completion import DraftSources, run_completion
from speclsp.completer.events import EventQueue, ProgressReport
from speclsp.completer.jobs import CompletionJob, ControlJob
from speclsp.completer.loaded_models import LoadedModels
from speclsp.engine.models import Loader, Words
from speclsp.engine.scheduler import FairQueue
from speclsp.errors import EngineError, EngineUnavailableError, SpecLspError
from speclsp.request import CompletionRequest, CompletionResult, EngineState, StateChanged
from speclsp.settings import Settings

Clock = Callable[[], float]
Sources = Callable[[CompletionRequest], DraftSources]
"""What a request's drafts may come from."""


class Loaded(Protocol):
    """Is told what was loaded."""

    def __call__(self, *, model: str, draft_model: str, layers: dict[str, int], n_ctx: int) -> None:
        """Take descriptions, layers per device and the context's size."""


MAX_FAILURES = 3
"""Decoding failures in a row after which the models are loaded anew."""


class EngineThread:
    """Runs jobs on a thread of its own until closed.

    ``on_words`` is told on the engine thread when a vocabulary was loaded.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        loader: Loader,
        buffers: OpenBuffers,
        events: EventQueue,
        loaded: Loaded,
        failed: Callable[[], None],
        sources: Sources,
        on_words: Callable[[Words], None],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._events = events
        self._loaded = loaded
        self._request_failed = failed
        self._sources = sources
        self._clock = clock
        self._queue: FairQueue[CompletionJob, ControlJob] = FairQueue()
        self._lock = threading.Lock()
        self._state: EngineState = "loading"
        self._reason: SpecLspError = EngineUnavailableError("the model is still loading.")
        self._running: CompletionJob | None = None
        self._closing = threading.Event()
        # Only the engine thread reads and writes what follows.
        self._models = LoadedModels(loader, buffers, events, on_words, persist=settings.persist)
        self._n_failures = 0
        self._thread = threading.Thread(target=self._run, name="speclsp-engine", daemon=True)

    # --- called from any thread ---------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; it loads the models first."""
        self._queue.put_control(ControlJob(self._load))
        self._thread.start()

    @property
    def state(self) -> EngineState:
        """What the engine is doing."""
        return self._state

    @property
    def closing(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closing.is_set()

    @property
    def verify_ms(self) -> tuple[tuple[int, float], ...]:
        """(k, T(k) in milliseconds) of the target, as measured; empty without a model."""
        weights = self._models.weights
        if weights is None or weights.verify_cost is None:
            return ()
        return weights.verify_cost.milliseconds

    @property
    def busy(self) -> bool:
        """Whether a completion is running or waiting."""
        return self._running is not None or self._queue.waiting()

    def submit(self, job: CompletionJob) -> None:
        """Queue a completion, or fail it at once where the engine cannot serve it."""
        with self._lock:
            state, reason = self._state, self._reason
        if self._closing.is_set():
            state, reason = "off", EngineUnavailableError("the server is shutting down.")
        if state == "unloaded":
            self._wake()
        if state in ("off", "failed") or (state != "ready" and not job.request.wait_for_model):
            job.fail(reason)
            return
        supersede = job.request.supersede
        for older in self._queue.put(job.request.uri, job, supersede=supersede):
            older.answer_empty("cancelled", 1000 * (self._clock() - older.submitted))
        running = self._running
        if supersede and running is not None and running.request.uri == job.request.uri:
            running.supersede()

    def run_idle(self, key: str, action: Callable[[], None]) -> None:
        """Run ``action`` on the engine thread when nothing else waits, or when closing."""
        self._queue.put_idle(key, ControlJob(action))

    def apply_settings(self, settings: Settings, *, reload: bool) -> None:
        """Take new settings with the next job; ``reload`` frees and loads the models."""
        self._queue.put_control(ControlJob(lambda: self._take_settings(settings, reload)))

    def close(self, timeout_s: float) -> bool:
        """Stop the thread and free the models; returns whether it stopped in time."""
        self._closing.set()
        running = self._running
        if running is not None:
            running.supersede()
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
                self._free_weights("unloaded", "idle")
        self._abandon(EngineUnavailableError("the server is shutting down."))
        for job in self._queue.take_idle():
            self._control(job)
        self._models.close()
        self._set_state("off", EngineUnavailableError("completion is switched off."))

    def _idle_timeout(self) -> float | None:
        """Return the seconds to wait for a job before the weights are freed."""
        seconds = self._settings.sleep_idle_seconds
        return None if seconds < 0 or self._models.weights is None else max(seconds, 1)

    def _control(self, job: ControlJob) -> None:
        try:
            job.run()
        except SpecLspError as error:
            self._events.problem(error.message, error.remedy)
        except Exception as error:  # noqa: BLE001 - the thread must outlive any defect
            self._events.problem(f"the engine had an internal error: {error!r}.")

    def _complete(self, job: CompletionJob) -> None:
        waited = 1000 * (self._clock() - job.submitted)
        reason = job.interrupted(self._clock())
        if reason is not None:
            job.answer_empty(reason, waited)
            return
        if self._models.weights is None and not self._load_for(job):
            return
        self._running = job
        try:
            result = self._answer(job)
            self._n_failures = 0
        except SpecLspError as error:
            self._failed(job, error)
        except Exception as error:  # noqa: BLE001 - the thread must outlive any defect
            self._failed(job, EngineError(f"the engine had an internal error: {error!r}."))
        else:
            job.answer(result)
            save = self._models.completed()
            if save is not None:
                self.run_idle("calibration", save)
        finally:
            self._running = None

    def _load_for(self, job: CompletionJob) -> bool:
        """Load the weights for a job that waits for them; False when the job was failed."""
        if self._state == "unloaded":
            self._load()
        if self._models.weights is None:
            job.fail(self._reason)
            return False
        return True

    def _answer(self, job: CompletionJob) -> CompletionResult:
        started = self._clock()
        result = run_completion(
            job.request,
            job.completion_id,
            self._settings,
            self._models.workbench(),
            self._sources(job.request),
            lambda: job.interrupted(self._clock()),
            self._clock,
        )
        return result.timed(
            ms_queue=1000 * (started - job.submitted),
            ms_total=1000 * (self._clock() - job.submitted),
        )

    def _failed(self, job: CompletionJob, error: SpecLspError) -> None:
        self._request_failed()
        job.fail(error)
        self._events.log("error", f"completion failed: {error}")
        self._n_failures += 1
        if self._n_failures >= MAX_FAILURES:
            self._n_failures = 0
            self._events.problem(
                f"the engine failed {MAX_FAILURES} times in a row: {error.message}",
                error.remedy or "The models are being loaded anew.",
            )
            self._queue.put_control(ControlJob(self._reload))

    # --- loading and freeing --------------------------------------------------------------------

    def _take_settings(self, settings: Settings, reload: bool) -> None:
        was_enabled = self._settings.enabled
        self._settings = settings
        if not settings.enabled:
            self._free_weights("off", "switched off")
        elif reload or not was_enabled:
            self._reload()
        else:
            self._models.make_proposer(settings)

    def _reload(self) -> None:
        self._free_weights("loading", "to load it anew")
        self._load()

    def _wake(self) -> None:
        """Queue one load, however many requests come while the weights are freed."""
        with self._lock:
            if self._state != "unloaded":
                return
            self._set_state_locked("loading", EngineUnavailableError("the model is loading."))
        self._queue.put_control(ControlJob(self._load))

    def _load(self) -> None:
        if not self._settings.enabled:
            self._set_state("off", EngineUnavailableError("completion is switched off."))
            return
        if self._models.weights is not None:
            return
        self._set_state("loading", EngineUnavailableError("the model is still loading."))
        report = ProgressReport(self._events, "speclsp/load", "Loading the model")
        try:
            self._load_models(report)
        except Exception as error:  # noqa: BLE001 - the server must outlive any model
            self._load_failed(error)
        finally:
            report.end()

    def _load_models(self, report: ProgressReport) -> None:
        def progress(fraction: float) -> bool:
            report.report(fraction)
            return not self._closing.is_set()

        weights = self._models.load(self._settings, progress)
        self._loaded(
            model=weights.description,
            draft_model=weights.draft_description,
            layers=weights.layers,
            n_ctx=weights.target.n_ctx,
        )
        places = ", ".join(f"{n} layers on {device}" for device, n in weights.layers.items())
        self._set_state("ready", message=f"{weights.description}: {places}")

    def _load_failed(self, error: Exception) -> None:
        known = (
            error
            if isinstance(error, SpecLspError)
            else EngineError(f"loading the model failed: {error!r}.")
        )
        self._models.free("the model could not be loaded")
        self._set_state("failed", known, message=known.message)
        self._events.problem(known.message, known.remedy)
        self._abandon(known)

    def _free_weights(self, state: EngineState, why: str) -> None:
        self._models.free(why)
        reason = "completion is switched off." if state == "off" else "the model is not loaded."
        self._set_state(state, EngineUnavailableError(reason))
        if state == "off":
            self._abandon(EngineUnavailableError(reason))

    def _abandon(self, error: SpecLspError) -> None:
        """Fail every completion that still waits."""
        for job in self._queue.take_all():
            job.fail(error)

    def _set_state(
        self, state: EngineState, reason: SpecLspError | None = None, message: str = ""
    ) -> None:
        with self._lock:
            self._set_state_locked(state, reason, message)

    def _set_state_locked(
        self, state: EngineState, reason: SpecLspError | None = None, message: str = ""
    ) -> None:
        changed = state != self._state or message
        self._state = state
        if reason is not None:
            self._reason = reason
        if changed:
            self._events.emit(StateChanged(state=state, message=message))
