"""The engine thread: the only one that uses the models.

It loads them, serves completions in turn, and frees the weights after idle time.  No error ends it.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from speclsp.completer.battery import Battery
from speclsp.completer.fair_queue import FairQueue
from speclsp.completer.jobs import AnyJob, EngineWindow, Job, RunControl, RunningJob, Workbench, run
from speclsp.completer.loaded_models import Models
from speclsp.errors import (
    EngineError,
    EngineUnavailableError,
    OtherModelError,
    RequestError,
    SettingsError,
    SpecLspError,
)
from speclsp.reporting.session import summed
from speclsp.seam.events import Event, EventQueue, LogLine, Problem, StateChanged
from speclsp.seam.request import FinishReason, R
from speclsp.seam.statistics import RequestStats, SessionStats
from speclsp.settings import Settings

_T = TypeVar("_T")

MAX_FAILURES: Final = 3
"""Decoding failures in a row after which the models are loaded again."""

PAUSE_S: Final = 0.25
"""Seconds without a call after which idle work begins: most keystrokes come sooner."""

Action = Callable[[], None]
"""Other work of the engine thread, such as loading, freeing and tokenising."""


class WindowEvents(EventQueue):
    """Gives the engine's events to its windows; log lines to the one that caused them, if any."""

    def __init__(self, log: Callable[[Event], None]) -> None:
        super().__init__()
        self._log = log
        self.cause: EngineWindow | None = None
        """The window for which the engine works now."""
        self.windows: tuple[EngineWindow, ...] = ()
        self.state: StateChanged | None = None
        """The last change of the engine's state."""
        self._lock = threading.Lock()

    def emit(self, event: Event) -> None:
        """Give an event to the windows that it concerns."""
        self._log(event)
        with self._lock:
            if isinstance(event, StateChanged):
                self.state = event
            windows = self.windows
        if isinstance(event, LogLine) and self.cause in windows:
            windows = (self.cause,)
        for window in windows:
            window.receive_event(event)

    def join(self, window: EngineWindow) -> None:
        """Add a window, and send it the engine's state."""
        with self._lock:
            self.windows = (*self.windows, window)
            if self.state is not None:
                window.receive_event(self.state)

    def leave(self, window: EngineWindow) -> None:
        """Remove a window."""
        with self._lock:
            self.windows = tuple(known for known in self.windows if known is not window)
            if self.cause is window:
                self.cause = None


class EngineThread:
    """Runs jobs on a thread of its own until it is closed."""

    def __init__(
        self,
        models: Models,
        events: WindowEvents,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._models = models
        self._events = events
        self._clock = clock
        self._queue: FairQueue[AnyJob, Action] = FairQueue()
        self.closing = False
        """Whether :meth:`close` was called."""
        self._placing = threading.Lock()
        """Held while a request is queued or joins the running generation."""
        self._running: RunningJob[Any, Any] | None = None
        self._n_steps = 0
        self._is_decoding = False
        self._n_coalesced = 0
        self._unused = RequestStats()
        self._n_failures = 0
        self._refused: WeakKeyDictionary[EngineWindow, set[str]] = WeakKeyDictionary()
        """Messages about settings with which a window's requests failed; each is a problem once,
        until the window's settings change."""
        self._is_down = False
        """Whether a remote engine did not answer the last request."""
        self._battery = Battery()
        self._thread = threading.Thread(target=self._run, name="speclsp-engine", daemon=True)

    # --- called from any thread ---------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; it loads the models first."""
        self._queue.put_control(self._models.load)
        self._thread.start()

    @property
    def progress(self) -> int | None:
        """A count that grows between decodes, and on CPUs during them; None while none runs."""
        return self._n_steps if self._is_decoding else None

    @property
    def busy(self) -> bool:
        """Whether a completion other than a prefetch is running or queued."""
        running = self._running
        is_running = running is not None and not running.waiter.request.plain.is_prefetch
        return is_running or self._queue.waiting()

    def statistics(self) -> SessionStats:
        """Return the models' statistics, and the cost of texts that no request got."""
        return dataclasses.replace(
            self._models.statistics(), n_coalesced=self._n_coalesced, totals=self._unused
        )

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is left to do, idle work included; False after ``timeout_s``."""
        return self._queue.wait_drained(timeout_s)

    def submit(self, job: AnyJob) -> None:
        """Queue a completion, or fail it at once where the engine cannot serve it."""
        is_prefetch = job.request.plain.is_prefetch
        state, reason = self._models.availability()
        if self.closing:
            state, reason = "off", EngineUnavailableError("the server is shutting down.")
        if state == "unloaded" and not is_prefetch and self._models.wake():
            self._events.cause = job.window
            self._queue.put_control(self._models.load)
        if self._models.connects_again():
            self._queue.put_control(self._models.load)
        waits = job.request.plain.wait_for_model
        if state in ("off", "failed") or (state != "ready" and not waits):
            job.fail(reason)
        elif is_prefetch:
            self._answer_empty(self._queue.put_idle("prefetch", job))
        else:
            self._place(job)

    def run_idle(self, key: str, action: Action) -> None:
        """Run ``action`` when nothing else waits; a newer one of the same key replaces it."""
        self._queue.put_idle(key, action)

    def forget(self, window: EngineWindow) -> None:
        """Forget a window's texts before the next job; what runs for it answers nobody."""
        running = self._running
        if running is not None and running.waiter.window is window:
            running.close()
        self._queue.put_control(lambda: self._models.forget(window.tokens))

    def look_for_plans(self) -> None:
        """Evaluate the prompt that the next requests begin with in the next pause."""
        self.run_idle("prompts", self._settle_prompts)

    def with_models(
        self,
        window: EngineWindow,
        use: Callable[[Workbench, Settings], _T],
        *,
        for_edits: bool = False,
    ) -> Future[_T]:
        """Call ``use`` with the loaded models; the future raises where there are none."""
        future: Future[_T] = Future()

        def run() -> None:
            if self._models.weights is None:
                future.set_exception(self._models.availability()[1])
                return
            try:
                bench = self._models.workbench(window.settings, window.tokens, for_edits=for_edits)
                future.set_result(use(bench, window.settings))
            except Exception as error:  # noqa: BLE001 - a caller waits for the future
                future.set_exception(_as_engine_error(error))

        self._queue.put_control(run)
        return future

    def apply_settings(
        self, settings: Settings, window: EngineWindow | None, *, reload: bool
    ) -> None:
        """Take new settings with the next job; ``reload`` frees and loads the models.

        A running generation of the window whose settings changed answers no newer request.
        """

        def take() -> None:
            if window is not None:
                self._refused.pop(window, None)
            self._models.take_settings(settings, reload=reload)

        self._queue.put_control(take)
        running = self._running
        if running is not None and running.waiter.window is window:
            running.close()

    def close(self, timeout_s: float) -> None:
        """Stop the thread and free the models; waits ``timeout_s`` at most."""
        self.closing = True
        self._models.stop_loading()
        self._queue.put_control(lambda: None)
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        self._abandon(EngineUnavailableError("the server is shutting down."))

    def _place(self, job: AnyJob) -> None:
        """Let ``job`` join the running generation, or queue it; answer what it supersedes.

        A job that joins does not wait for the next keystroke.
        """
        key, supersede = job.request.plain.key, job.request.is_editors
        with self._placing:
            running = self._running
            joined = running.join(job) if running is not None else None
            if joined is not None:
                self._n_coalesced += 1
                older = [joined, *self._queue.take(key)]
            else:
                older = self._queue.put(
                    key, job, supersede=supersede, urgency=job.urgency, wait_s=job.debounce_s
                )
                if supersede and running is not None:
                    if running.job.request.plain.key == key:
                        running.waiter.is_superseded = True
                    elif not job.debounce_s and running.job.urgency <= job.urgency:
                        running.is_preempted = True
        for superseded in older:
            self._answer_empty(superseded)

    def _answer_empty(self, job: AnyJob | Action | None) -> None:
        if isinstance(job, Job):
            job.answer_empty("cancelled", self._clock())

    # --- the engine thread ----------------------------------------------------------------------

    def _run(self) -> None:
        while not self.closing:
            job = self._queue.get(self._idle_timeout())
            if isinstance(job, Job):
                self._take(job)
            else:
                self._act(job or self._free_idle)
        self._abandon(EngineUnavailableError("the server is shutting down."))
        self._models.close()

    def _idle_timeout(self) -> float | None:
        """Return the seconds to wait for a job before the weights are freed."""
        settings = self._models.settings
        seconds = -1 if settings.engine_url else settings.sleep_idle_seconds
        return None if seconds < 0 or self._models.weights is None else max(seconds, 1)

    def _free_idle(self) -> None:
        self._models.free("unloaded", "idle")

    def _act(self, action: Action) -> None:
        self._events.guard("the engine", action)
        self._events.cause = None
        state, reason = self._models.availability()
        if state in ("off", "failed"):
            self._abandon(reason)

    def _take(self, job: AnyJob) -> None:
        job.debounced()
        reason = job.interrupted(self._clock())
        has_weights = self._models.weights is not None
        is_prefetch = job.request.plain.is_prefetch
        if reason is not None or (is_prefetch and (not has_weights or self._rests())):
            job.answer_empty(reason or "cancelled", self._clock())
        elif has_weights:
            self._answer(job)
        else:
            job.fail(self._models.availability()[1])

    def _workbench(self, job: AnyJob) -> Workbench:
        bench = self._models.workbench(job.settings, job.window.tokens, for_edits=job.is_edit)
        if job.request.plain.is_prefetch:
            # Most prefetches are not used: the documents' prompts stay where they are.
            bench = dataclasses.replace(bench, prompts=bench.prompts.copy())
        return bench

    def _answer(self, job: AnyJob) -> None:
        """Decode a job, and give the result to the job that waits by then."""
        running = job.begun(self._queue.waiting)
        self._running = running
        self._events.cause = job.window
        self._is_decoding = True
        started = self._clock()
        others = self._queue.editors_jobs(job.urgency)
        yields = any(other.submitted > job.submitted for other in others)

        def interrupted() -> FinishReason | None:
            # Called between decodes; a job that others wait for gets one.
            running.is_preempted = running.is_preempted or (yields and running.is_begun)
            running.is_begun = True
            for due in self._queue.take_due():
                due.debounced()
                self._place(due)
            job.grew(running)
            return aborted()

        def aborted() -> FinishReason | None:
            self._n_steps += 1
            return "cancelled" if self.closing else running.interrupted(self._clock())

        try:
            control = RunControl(interrupted=interrupted, aborted=aborted, clock=self._clock)
            result = run(running, self._workbench(job), control)
        except Exception as error:  # noqa: BLE001 - the thread must outlive any defect
            self._failed(running, _as_engine_error(error))
            return
        finally:
            self._is_decoding = False
            self._events.cause = None
        if self._is_down:
            self._is_down = False
            self._events.log("info", "the remote engine answers again.")
        self._deliver(running, result, started)
        self._n_failures = 0
        self.look_for_plans()

    def _deliver(self, running: RunningJob[Any, R], result: R, started: float) -> None:
        with self._placing:
            self._running = None
            waiter = running.close()
            is_wanted = not waiter.request.plain.is_prefetch
            if running.is_cut_off and is_wanted and waiter.interrupted(self._clock()) is None:
                # The request runs again, with this text to draft from.
                answer = None
            else:
                answer = running.result_for(waiter, result)
            if answer is None:
                key, supersede = waiter.request.plain.key, waiter.request.is_editors
                self._queue.put_back(key, waiter, supersede=supersede, urgency=waiter.urgency)
                self._unused = summed(self._unused, result.stats)
                return
        waiter.answer(
            answer.timed(
                ms_queue=max(0.0, 1000 * (started - waiter.submitted)),
                ms_total=1000 * (self._clock() - waiter.submitted),
            )
        )

    def _failed(self, running: RunningJob[Any, Any], error: SpecLspError) -> None:
        with self._placing:
            self._running = None
            waiter = running.close()
        if isinstance(error, EngineUnavailableError):
            # The next request asks a remote engine again.
            if isinstance(error, OtherModelError):
                self._events.log("info", error.message)
                self._queue.put_control(self._models.load_anew)
            elif not self._is_down:
                self._is_down = True
                self._events.problem(error.message, error.remedy)
            waiter.fail(error)
            return
        waiter.fail(error)
        if isinstance(error, RequestError):  # the engine is well
            return
        if isinstance(error, SettingsError):  # loading the models again would not help
            self._events.warn(error)
            told = self._refused.setdefault(waiter.window, set())
            if error.message not in told:
                told.add(error.message)
                waiter.window.receive_event(Problem(message=error.message, remedy=error.remedy))
            return
        self._events.log("error", f"completion failed: {error}")
        self._n_failures += 1
        if self._n_failures >= MAX_FAILURES:
            self._n_failures = 0
            self._events.problem(
                f"the engine failed {MAX_FAILURES} times in a row: {error.message}",
                error.remedy or "The models are being loaded again.",
            )
            self._queue.put_control(self._models.load_anew)

    def _settle_prompts(self) -> None:
        """Evaluate a planned prompt in a pause; a request interrupts it within one decode.

        It waits for context that is being chosen, or the prompt would be evaluated twice.
        """
        weights, prompts = self._models.weights, self._models.prompts
        if weights is None or prompts is None or self._rests():
            return
        settings = self._models.settings
        if not (self._is_choosing() or weights.has_to_settle(settings) or prompts.has_plan()):
            return
        is_done = False

        def interrupted() -> bool:
            self._n_steps += 1
            return self._queue.waiting()

        if self._queue.wait_quiet(PAUSE_S) and not self._is_choosing():
            self._is_decoding = True
            weights.set_interrupt(interrupted)
            try:
                is_done = (
                    prompts.settle(interrupted)
                    and not prompts.has_plan()
                    and weights.settle(settings, interrupted)
                )
            finally:
                weights.set_interrupt(None)
                self._is_decoding = False
        if not is_done:
            self.run_idle("prompts", self._settle_prompts)

    def _is_choosing(self) -> bool:
        return any(window.is_choosing for window in self._events.windows)

    def _rests(self) -> bool:
        """Whether idle work is left out, by the settings or to save the battery."""
        wanted = self._models.settings.idle_work
        return wanted == "never" or (wanted != "always" and self._battery.is_discharging())

    def _abandon(self, error: SpecLspError) -> None:
        """Fail every completion that still waits."""
        for job in self._queue.take_all():
            if isinstance(job, Job):
                job.fail(error)


def _as_engine_error(error: Exception) -> SpecLspError:
    """Return ``error`` if it is one of speclsp's own, else an error that quotes it."""
    if isinstance(error, SpecLspError):
        return error
    return EngineError(f"the engine had an internal error: {error!r}.")
