"""The engine thread: the only one that touches the models.

It loads them, serves completions fairly, frees the weights after idle time, and survives whatever
goes wrong in any one of these.

While somebody types what is being generated, the generation goes on and answers the newest request
with the rest of its text (requests coalesce).  Where typed and generated text part, it stops at its
next check.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final, TypeVar

from speclsp.cancellation import CancellationToken
from speclsp.completer.completion import DraftSources, Workbench, run_completion
from speclsp.completer.document_tokens import DocumentTokens
from speclsp.completer.events import EventQueue
from speclsp.completer.fair_queue import FairQueue
from speclsp.completer.models import Models
from speclsp.decoding.session import summed
from speclsp.engine.models import Loader, Tokenizer
from speclsp.errors import EngineError, EngineUnavailableError, SpecLspError
from speclsp.request import (
    CompletionResult,
    EngineState,
    FinishReason,
    GeneratedText,
    PlacedRequest,
    RequestStats,
    SessionStats,
)
from speclsp.settings import Settings
from speclsp.text.stopping import CompletionText
from speclsp.text.typed_text import contradicts, cursor_context, rest_of, rules_of

_T = TypeVar("_T")

MAX_FAILURES: Final = 3
"""Decoding failures in a row after which the models are loaded anew."""

PAUSE_S: Final = 0.25
"""Seconds without a call after which idle time begins: most keystrokes come sooner, and chunks
from other files were chosen meanwhile."""

GRACE_S: Final = 0.15
"""Editors cancel a request before they send the newer one; so long a generation waits for that."""


@dataclass(slots=True, kw_only=True, eq=False)
class CompletionJob:
    """A request on its way.  ``submitted`` and ``deadline`` are seconds of the clock."""

    request: PlacedRequest
    cancel: CancellationToken
    submitted: float
    deadline: float
    may_coalesce: bool = False
    """Whether its generation may answer a newer request, and a generation that runs may answer
    it, where what was typed between the two agrees."""
    outran: GeneratedText | None = None
    """A finished text that the job joined and whose typing contradicted it at its end."""
    future: Future[CompletionResult] = field(default_factory=Future)
    _superseded: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Mark the future as running: whoever waits for it cannot cancel it."""
        self.future.set_running_or_notify_cancel()

    def supersede(self) -> None:
        """Stop the job at its next check: a newer request of its document is here."""
        self._superseded.set()

    @property
    def superseded(self) -> bool:
        """Whether a newer request of its document is here."""
        return self._superseded.is_set()

    def interrupted(self, now: float) -> FinishReason | None:
        """Return why the job has to stop now, if it has to."""
        if self.cancel.cancelled or self.superseded:
            return "cancelled"
        return "deadline" if now >= self.deadline else None

    def answer(self, result: CompletionResult) -> None:
        """Fulfil the future, once."""
        if not self.future.done():
            if result.generated is None:
                result = dataclasses.replace(result, generated=self.outran)
            self.future.set_result(result)

    def answer_empty(self, reason: FinishReason, now: float) -> None:
        """Fulfil the future without text."""
        ms = 1000 * (now - self.submitted)
        self.answer(
            CompletionResult(
                completion_id=self.request.completion_id,
                text="",
                finish_reason=reason,
                stats=RequestStats(ms_queue=ms, ms_total=ms),
            )
        )

    def fail(self, error: SpecLspError) -> None:
        """Let the future raise ``error``."""
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(frozen=True, slots=True)
class ControlJob:
    """Something else to do on the engine thread: load, free, make tokens ahead."""

    run: Callable[[], None]


class RunningGeneration:
    """The generation on the engine thread, and the job that gets its result.

    That is the job it began for, or a newer one that joined.  :meth:`join` is called from any
    thread, the rest by the engine thread.
    """

    def __init__(self, job: CompletionJob, others_wait: Callable[[], bool]) -> None:
        self.request = job.request
        self._waiter = job
        self._others_wait = others_wait
        self.place = cursor_context(job.request)
        self._rules = rules_of(job.request)
        self._lock = threading.Lock()
        self._text: CompletionText | None = None
        self._typed = ""
        self._is_closed = False
        self._stopped = threading.Event()
        self._cancelled_at: float | None = None

    @property
    def waiter(self) -> CompletionJob:
        """The job that gets the result, as things stand."""
        return self._waiter

    def watch(self, text: CompletionText) -> None:
        """Take the text that is going to grow."""
        self._text = text

    def stop(self) -> None:
        """Stop at the next check."""
        self._stopped.set()

    def join(self, job: CompletionJob) -> CompletionJob | None:
        """Let the newer ``job`` get the result, where that agrees with what was typed so far.

        Returns the job that gets nothing now; None where the newer one cannot join.
        """
        with self._lock:
            typed = self._typed_before(job.request) if job.may_coalesce else None
            if typed is None:
                return None
            older, self._waiter = self._waiter, job
            self._typed = typed
            self._cancelled_at = None
            return older

    def could_join(self, request: PlacedRequest) -> bool:
        """Whether a request that may coalesce would get the result, as things stand."""
        with self._lock:
            return self._typed_before(request) is not None

    def close(self) -> CompletionJob:
        """Let no other job join; returns the one that gets the result."""
        with self._lock:
            self._is_closed = True
            return self._waiter

    def interrupted(self, now: float) -> FinishReason | None:
        """Return why the generation has to stop now, if it has to.

        Asked before each decode step, and by the backend within one.
        """
        if self._stopped.is_set() or self._is_contradicted():
            return "cancelled"
        waiter = self._waiter
        if waiter.superseded or (waiter.cancel.cancelled and not self._is_graced(waiter, now)):
            return "cancelled"
        if waiter.request.is_prefetch and self._others_wait():
            return "cancelled"
        return "deadline" if now >= waiter.deadline else None

    def _typed_before(self, request: PlacedRequest) -> str | None:
        """Return what was typed since the generation's request; None where it cannot answer."""
        if self._is_closed or self._stopped.is_set() or not self._waiter.may_coalesce:
            return None
        if request.uri != self.request.uri or rules_of(request) != self._rules:
            return None
        moved = self.place.moved_to(request)
        if moved is None:
            return None
        so_far = self._text.so_far if self._text is not None else ""
        return None if contradicts(so_far, moved.typed) else moved.typed

    def _is_contradicted(self) -> bool:
        typed = self._typed
        return bool(typed) and self._text is not None and contradicts(self._text.so_far, typed)

    def _is_graced(self, waiter: CompletionJob, now: float) -> bool:
        """Whether a cancelled request's generation may wait for the newer request."""
        if not waiter.may_coalesce or waiter.request.trigger != "automatic":
            return False
        if waiter.cancel.is_for_good or self._others_wait():
            return False
        if self._cancelled_at is None:
            self._cancelled_at = now
        return now - self._cancelled_at < GRACE_S


class EngineThread:
    """Runs jobs on a thread of its own until closed."""

    def __init__(
        self,
        *,
        settings: Settings,
        loader: Loader,
        tokens: DocumentTokens,
        events: EventQueue,
        take_tokenizer: Callable[[Tokenizer], None],
        sources: Callable[[PlacedRequest], DraftSources],
        clock: Callable[[], float],
    ) -> None:
        """``sources`` tells what a request's drafts and context may come from."""
        self._events = events
        self._sources = sources
        self._clock = clock
        self._queue: FairQueue[CompletionJob, ControlJob] = FairQueue()
        self._closing = threading.Event()
        self._placing = threading.Lock()
        """Held where a request finds its place: in the queue, or with what runs."""
        self._running: RunningGeneration | None = None
        self._prefetch: CompletionJob | None = None
        """The prefetch that waits."""
        self._n_coalesced = 0
        self._in_vain = RequestStats()
        # Only the engine thread reads and writes what follows.
        self._models = Models(
            settings,
            loader,
            tokens,
            events,
            take_tokenizer=take_tokenizer,
            abandon=self._abandon,
            closing=self._closing.is_set,
        )
        self._n_failures = 0
        self._thread = threading.Thread(target=self._run, name="speclsp-engine", daemon=True)

    # --- called from any thread ---------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; it loads the models first."""
        self._queue.put_control(ControlJob(self._models.load))
        self._thread.start()

    @property
    def state(self) -> EngineState:
        """What the engine is doing."""
        return self._models.state

    @property
    def closing(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closing.is_set()

    @property
    def busy(self) -> bool:
        """Whether a completion that somebody waits for is running or queued."""
        running = self._running
        is_running = running is not None and not running.waiter.request.is_prefetch
        return is_running or self._queue.waiting()

    def statistics(self) -> SessionStats:
        """Return what is known of the models, and what was spent on texts that nobody got."""
        return dataclasses.replace(
            self._models.statistics(), n_coalesced=self._n_coalesced, totals=self._in_vain
        )

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is left to do, idle work included; whether that came about."""
        return self._queue.wait_drained(timeout_s)

    def submit(self, job: CompletionJob) -> None:
        """Queue a completion, or fail it at once where the engine cannot serve it."""
        state, reason = self._models.availability()
        if self._closing.is_set():
            state, reason = "off", EngineUnavailableError("the server is shutting down.")
        if state == "unloaded" and not job.request.is_prefetch and self._models.wake():
            self._queue.put_control(ControlJob(self._models.load))
        if state in ("off", "failed") or (state != "ready" and not job.request.wait_for_model):
            job.fail(reason)
        elif job.request.is_prefetch:
            self._submit_prefetch(job)
        else:
            self._place(job)

    def could_join(self, request: PlacedRequest) -> bool:
        """Whether what is being generated may answer a request that may coalesce."""
        running = self._running
        return running is not None and running.could_join(request)

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
                future.set_exception(self._models.availability()[1])
                return
            try:
                future.set_result(use(self._models.workbench(), self._models.settings))
            except SpecLspError as error:
                future.set_exception(error)

        self._queue.put_control(ControlJob(run))
        return future

    def apply_settings(self, settings: Settings, *, reload: bool) -> None:
        """Take new settings with the next job; ``reload`` frees and loads the models.

        What runs serves those who wait for it, and no newer request.
        """
        take = self._models.take_settings
        self._queue.put_control(ControlJob(lambda: take(settings, reload=reload)))
        running = self._running
        if running is not None:
            running.close()

    def close(self, timeout_s: float) -> bool:
        """Stop the thread and free the models; returns whether it stopped in time."""
        self._closing.set()
        running = self._running
        if running is not None:
            running.stop()
        self._queue.put_control(ControlJob(lambda: None))
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        self._abandon(EngineUnavailableError("the server is shutting down."))
        return not self._thread.is_alive()

    def _place(self, job: CompletionJob) -> None:
        """Let what runs answer ``job`` where it is on the way to that, else queue it.

        Older requests that it supersedes are answered empty.
        """
        uri, supersede = job.request.uri, job.request.supersede
        with self._placing:
            running = self._running
            joined = running.join(job) if running is not None else None
            if joined is not None:
                self._n_coalesced += 1
                older = [joined, *self._queue.take(uri)]
            else:
                older = self._queue.put(uri, job, supersede=supersede)
                if supersede and running is not None and running.request.uri == uri:
                    running.waiter.supersede()
        for superseded in older:
            superseded.answer_empty("cancelled", self._clock())

    def _submit_prefetch(self, job: CompletionJob) -> None:
        with self._placing:
            older, self._prefetch = self._prefetch, job
        self.run_idle("prefetch", self._run_prefetch)
        if older is not None:
            older.answer_empty("cancelled", self._clock())

    # --- the engine thread ----------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing.is_set():
            job = self._queue.get(self._idle_timeout())
            if isinstance(job, CompletionJob):
                self._complete(job)
            elif isinstance(job, ControlJob):
                self._control(job)
            elif job is None:
                self._models.free("unloaded", "idle")
        self._abandon(EngineUnavailableError("the server is shutting down."))
        for job in self._queue.take_idle():
            self._control(job)
        self._models.close()

    def _idle_timeout(self) -> float | None:
        """Return the seconds to wait for a job before the weights are freed."""
        seconds = self._models.settings.sleep_idle_seconds
        return None if seconds < 0 or self._models.weights is None else max(seconds, 1)

    def _control(self, job: ControlJob) -> None:
        self._events.guard("the engine", job.run)

    def _complete(self, job: CompletionJob) -> None:
        reason = job.interrupted(self._clock())
        if reason is not None:
            job.answer_empty(reason, self._clock())
        elif self._models.weights is not None or self._load_for(job):
            self._generate(job, self._models.workbench())

    def _run_prefetch(self) -> None:
        with self._placing:
            job, self._prefetch = self._prefetch, None
        if job is None:
            return
        if self._models.weights is None or self._closing.is_set() or self._queue.waiting():
            job.answer_empty("cancelled", self._clock())
            return
        # Most of what is prefetched is not gone to: the documents' prompts stay where they are.
        bench = self._models.workbench()
        self._generate(job, dataclasses.replace(bench, prompts=bench.prompts.apart()))

    def _load_for(self, job: CompletionJob) -> bool:
        """Load the weights for a job that waits for them; False when the job was failed."""
        if self._models.state == "unloaded":
            self._models.load()
        if self._models.weights is None:
            job.fail(self._models.availability()[1])
            return False
        return True

    def _generate(self, job: CompletionJob, bench: Workbench) -> None:
        """Let the model complete a request, and give the result to the job that waits by then."""
        running = RunningGeneration(job, self._queue.waiting)
        self._running = running
        started = self._clock()
        try:
            result = run_completion(
                job.request,
                self._models.settings,
                bench,
                self._sources(job.request),
                lambda: running.interrupted(self._clock()),
                self._clock,
                running.watch,
            )
        except SpecLspError as error:
            self._failed(running, error)
            return
        except Exception as error:  # noqa: BLE001 - the thread must outlive any defect
            self._failed(running, EngineError(f"the engine had an internal error: {error!r}."))
            return
        self._deliver(running, job, result, started)
        self._n_failures = 0
        self.look_for_plans()

    def _deliver(
        self,
        running: RunningGeneration,
        job: CompletionJob,
        result: CompletionResult,
        started: float,
    ) -> None:
        with self._placing:
            self._running = None
            waiter = running.close()
            if waiter is not job:
                whole = _whole_of(running, result)
                rest = _rest_for(waiter, running, result, whole)
                if rest is None:
                    waiter.outran = whole
                    self._queue.put(waiter.request.uri, waiter, supersede=False)
                    self._in_vain = summed(self._in_vain, result.stats)
                    return
                result = rest
        waiter.answer(
            result.timed(
                ms_queue=max(0.0, 1000 * (started - waiter.submitted)),
                ms_total=1000 * (self._clock() - waiter.submitted),
            )
        )

    def _failed(self, running: RunningGeneration, error: SpecLspError) -> None:
        with self._placing:
            self._running = None
            waiter = running.close()
        waiter.fail(error)
        self._events.log("error", f"completion failed: {error}")
        self._n_failures += 1
        if self._n_failures >= MAX_FAILURES:
            self._n_failures = 0
            self._events.problem(
                f"the engine failed {MAX_FAILURES} times in a row: {error.message}",
                error.remedy or "The models are being loaded anew.",
            )
            self._queue.put_control(ControlJob(self._models.load_anew))

    def _settle_prompts(self) -> None:
        """Evaluate in a pause what the next prompts begin with.

        Any request that waits interrupts that within one decode.
        """
        weights, prompts = self._models.weights, self._models.prompts
        if self._closing.is_set() or weights is None or prompts is None or not prompts.has_plan():
            return
        is_done = False
        if self._queue.wait_quiet(PAUSE_S):
            weights.set_interrupt(self._queue.waiting)
            try:
                is_done = prompts.settle(self._queue.waiting)
            finally:
                weights.set_interrupt(None)
        if not is_done:
            self.run_idle("prompts", self._settle_prompts)

    def _abandon(self, error: SpecLspError) -> None:
        """Fail every completion that still waits."""
        for job in self._queue.take_all():
            job.fail(error)


def _whole_of(running: RunningGeneration, result: CompletionResult) -> GeneratedText | None:
    """Return a finished text as that of the request it was generated for; None where empty."""
    if result.finish_reason == "cancelled" or not result.text:
        return None
    return GeneratedText(
        completion_id=running.request.completion_id,
        text=result.text,
        n_replaced=result.n_replaced,
        mean_logprob=result.mean_logprob,
        finish_reason=result.finish_reason,
    )


def _rest_for(
    waiter: CompletionJob,
    running: RunningGeneration,
    result: CompletionResult,
    whole: GeneratedText | None,
) -> CompletionResult | None:
    """Return what a finished text leaves for the job that waits by now; None for nothing."""
    if whole is None:
        return None
    rest = rest_of(running.place, whole.text, whole.n_replaced, waiter.request)
    if rest is None:
        return None
    return dataclasses.replace(
        result,
        completion_id=waiter.request.completion_id,
        text=rest.text,
        n_replaced=rest.n_replaced,
        alternatives=(),
        generated=whole,
    )
