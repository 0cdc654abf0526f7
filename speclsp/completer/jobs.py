"""Jobs of the engine thread: what is decoded for a request of any kind, and how it is answered.

A kind of request is a subclass of :class:`Job`, whose plan says what is decoded and makes the
answer of it.  Queue, decoding and interruption know no kind.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Protocol, TypeAlias

import numpy as np

from speclsp.backends.http.messages import RemoteParams, RemotePrompt
from speclsp.backends.http.target import RemoteTarget, remote_target
from speclsp.backends.weights import Tokenizer, Weights
from speclsp.completer.document_tokens import DocumentTokens
from speclsp.completer.target_prompts import TargetPrompts
from speclsp.decoding.sampling import Sampler, SamplingParams
from speclsp.decoding.speculate import Generation, generate
from speclsp.decoding.token_scores import TokenScores
from speclsp.drafting.drafter import (
    NO_STATISTICS,
    DraftContext,
    Statistics,
    TokenArray,
    TokenCorpus,
)
from speclsp.drafting.proposer import Proposer
from speclsp.errors import SpecLspError
from speclsp.prompt.document_prompts import NO_CHUNK_SOURCE, ChunkSource
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.edit import Change
from speclsp.seam.events import Event
from speclsp.seam.request import AnyPlaced, FinishReason, PlacedRequest, Q, R
from speclsp.settings import Settings
from speclsp.vocabulary_protocol import Vocabulary

N_GENERATED: Final = 8
"""Generated texts that are drafted from: at the next key the model generates much of one again.  In
typed sessions they raise tokens per pass from 1.49 to 1.83, and 128 of them to 1.84."""
_N_BEFORE: Final = 16
"""Tokens before the cursor kept with a generated text, so that its beginning can be matched."""


@dataclass(slots=True, kw_only=True)
class Workbench:
    """The models and caches that a job works with, for the engine thread."""

    model_name: str
    """What is known of the model's name."""
    tokenizer: Tokenizer
    weights: Weights
    proposer: Proposer | None
    tokens: DocumentTokens
    prompts: TargetPrompts
    """The documents' prompts, which change little, so that the KV cache is reused."""
    generated: deque[TokenArray]
    """The last generated texts, the latest first, each with the tokens before it."""
    report: Callable[[SpecLspError], None]
    """Takes problems that do not stop the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSources:
    """Sources of a request's drafts and prompt beside the open buffers."""

    corpora: tuple[TokenCorpus, ...] = ()
    """The project's files."""
    accepted: tuple[TokenArray, ...] = ()
    """Texts that were accepted before."""
    statistics: Statistics = NO_STATISTICS
    chunks: ChunkSource = NO_CHUNK_SOURCE
    """Context from other files for the prompt."""
    changes: tuple[Change, ...] = ()
    """The window's latest edits, the oldest first."""


class EngineWindow(Protocol):
    """The engine's view of a window."""

    settings: Settings
    """The window's settings, under those of a request's folder and language."""
    tokens: DocumentTokens

    @property
    def is_choosing(self) -> bool:
        """Whether context from other files is being chosen for its prompts."""

    def sources(self, request: AnyPlaced) -> DraftSources:
        """Return the sources of a request's drafts and of the context in its prompt."""

    def use_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Take another vocabulary."""

    def receive_event(self, event: Event) -> None:
        """Take an event of the engine."""


class GrowingOutput(Protocol):
    """The text of a plan while it is decoded."""

    @property
    def so_far(self) -> str:
        """The text that was fed."""

    def feed(self, token: int, logprob: float = math.nan) -> bool:
        """Take the next token and the logarithm of its probability; return whether to stop."""


@dataclass(slots=True, kw_only=True)
class Plan(ABC, Generic[R]):
    """What is decoded for a request, and how that becomes its answer."""

    context: DraftContext
    """The prompt's tokens, and what is drafted from."""
    output: GrowingOutput
    sampler: Sampler
    scores: TokenScores
    """What records the tokens' probabilities."""
    n_predict: int

    def stop(self, token: int) -> bool:
        """Take the next token, which was scored already; return whether to stop."""
        return self.output.feed(token, self.scores.logprobs[-1])

    def remote(self, target: RemoteTarget) -> tuple[RemotePrompt, RemoteParams]:
        """Return the prompt as a remote engine takes it."""
        raise NotImplementedError

    def following(self, generation: Generation) -> Plan[R] | None:  # noqa: ARG002
        """Return what to decode next, after this; None where the answer can be made."""
        return None

    @abstractmethod
    def finish(self, generation: Generation, interrupted: Callable[[], FinishReason | None]) -> R:
        """Return the answer; ``interrupted`` is asked between further decodes, if it needs any."""


@dataclass(slots=True, kw_only=True, eq=False)
class Job(ABC, Generic[Q, R]):
    """A request and its future.  ``submitted`` and ``deadline`` are seconds of the clock."""

    is_edit: ClassVar[bool] = False
    """Whether next edits' drafters serve this kind, and the model of ``edit_model`` if any."""

    request: PlacedRequest[Q]
    settings: Settings
    """Those that hold for the request."""
    window: EngineWindow
    cancel: CancellationToken
    submitted: float
    deadline: float
    debounce_s: float = 0.0
    """Seconds to wait for the next keystroke before it is decoded."""
    is_superseded: bool = False
    """Whether a newer request of its key arrived; the job then stops at its next check."""
    future: Future[R] = field(default_factory=Future)

    def __post_init__(self) -> None:
        """Mark the future as running, so that its reader cannot cancel it."""
        self.future.set_running_or_notify_cancel()

    @abstractmethod
    def plan(
        self, bench: Workbench, sources: DraftSources, clock: Callable[[], float]
    ) -> Plan[R] | None:
        """Return what to decode; None where the settings want no answer here."""

    def unplanned(self) -> R:
        """Return the answer where :meth:`plan` returned nothing to decode."""
        empty: R = self.request.plain.empty("stop")
        return empty

    def grew(self, running: RunningJob[Q, R]) -> None:
        """Look at the text so far, before each decode."""

    def begun(self, others_wait: Callable[[], bool]) -> RunningJob[Q, R]:
        """Return the job as it runs; ``others_wait`` tells whether others wait for the engine."""
        return RunningJob(self, others_wait)

    @property
    def urgency(self) -> int:
        """The urgency of an editor's request; 0 for a program's."""
        return self.request.plain.urgency if self.request.is_editors else 0

    def debounced(self) -> None:
        """Count the job's times from the end of its wait for the next keystroke."""
        self.submitted += self.debounce_s
        self.deadline += self.debounce_s
        self.debounce_s = 0.0

    def interrupted(self, now: float) -> FinishReason | None:
        """Return why the job has to stop now, or None."""
        if self.cancel.cancelled or self.is_superseded:
            return "cancelled"
        return "deadline" if now >= self.deadline else None

    def answer(self, result: R) -> None:
        """Fulfil the future, once."""
        if not self.future.done():
            self.future.set_result(result)

    def answer_empty(self, reason: FinishReason, now: float) -> None:
        """Fulfil the future without text."""
        ms = 1000 * (now - self.submitted)
        empty: R = self.request.plain.empty(reason)
        self.answer(empty.timed(ms_queue=ms, ms_total=ms))

    def fail(self, error: SpecLspError) -> None:
        """Let the future raise ``error``."""
        if not self.future.done():
            self.future.set_exception(error)


class RunningJob(Generic[Q, R]):
    """A job that is being decoded, and the job that gets the result: itself, or one that joined."""

    def __init__(self, job: Job[Q, R], others_wait: Callable[[], bool]) -> None:
        self.job = job
        self.waiter = job
        """The job that gets the result."""
        self.output: GrowingOutput | None = None
        """What is decoded, from the first decode on."""
        self.is_preempted = False
        """Whether it has to stop for another job; it is queued again."""
        self.is_cut_off = False
        """Whether that ended the decoding of its text."""
        self.is_begun = False
        """Whether the first decode has begun."""
        self._others_wait = others_wait

    @property
    def so_far(self) -> str:
        """The text so far."""
        return self.output.so_far if self.output is not None else ""

    def join(self, job: AnyJob) -> Job[Q, R] | None:  # noqa: ARG002
        """Let a newer job get the result, and return the one that waited until now.

        None where the newer one cannot join.
        """
        return None

    def close(self) -> Job[Q, R]:
        """Let no other job join; return the one that gets the result."""
        return self.waiter

    def result_for(self, job: Job[Q, R], result: R) -> R | None:  # noqa: ARG002
        """Return a job's part of the result; None where it needs one of its own."""
        return result

    def interrupted(self, now: float) -> FinishReason | None:
        """Return why decoding has to stop now, or None.

        Called before each decode, and by the backend during one.
        """
        waiter = self.waiter
        if self.is_preempted or waiter.is_superseded:
            return "cancelled"
        if waiter.cancel.cancelled and not self._is_graced(now):
            return "cancelled"
        if waiter.request.plain.is_prefetch and self._others_wait():
            return "cancelled"
        return "deadline" if now >= waiter.deadline else None

    def _is_graced(self, now: float) -> bool:  # noqa: ARG002
        """Whether a cancelled job goes on, since a newer one may join it."""
        return False


AnyJob: TypeAlias = Job[Any, Any]
"""A job of any kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunControl:
    """How a running job is observed and stopped."""

    interrupted: Callable[[], FinishReason | None]
    """Called between decodes; returns why to stop, or None."""
    aborted: Callable[[], FinishReason | None]
    """The same, called by the backend during a decode."""
    clock: Callable[[], float]
    """In seconds."""


def run(running: RunningJob[Q, R], bench: Workbench, control: RunControl) -> R:
    """Plan a job, decode it, and return its answer; on the engine thread.

    Raises :class:`~speclsp.errors.DecodeError`.
    """
    job = running.job
    started = control.clock()
    plan = job.plan(bench, job.window.sources(job.request), control.clock)
    if plan is None:
        return job.unplanned()
    running.output = plan.output
    tokenized = control.clock()
    bench.weights.set_interrupt(lambda: control.aborted() is not None)
    try:
        generation = _decoded(plan, bench, control, job.settings.deadline_ms / 1000)
        _keep_generated(generation, plan.context.prefix, bench)
        while (following := plan.following(generation)) is not None:
            plan = following
            running.output = plan.output
            generation = _decoded(plan, bench, control, job.settings.deadline_ms / 1000)
        running.is_cut_off = running.is_preempted and generation.finish_reason == "cancelled"
        stats = dataclasses.replace(generation.stats, ms_tokenize=1000 * (tokenized - started))
        generation = dataclasses.replace(generation, stats=stats)
        result = plan.finish(generation, control.interrupted)
    finally:
        bench.weights.set_interrupt(None)
    _report_problems(generation, bench, job.settings)
    return result


def _decoded(
    plan: Plan[Any], bench: Workbench, control: RunControl, deadline_s: float
) -> Generation:
    """Decode a plan; a remote engine is waited for ``deadline_s`` seconds."""
    if (remote := remote_target(bench.weights.target)) is not None:
        return remote.generate(
            plan.context.prompt,
            *plan.remote(remote),
            stop=plan.stop,
            interrupted=control.interrupted,
            aborted=control.aborted,
            deadline_s=deadline_s,
            clock=control.clock,
            scores=plan.scores,
        )
    generation = generate(
        bench.weights.target,
        plan.context,
        drafter=bench.proposer,
        sampler=plan.sampler,
        n_predict=plan.n_predict,
        stop=plan.stop,
        interrupted=control.interrupted,
        clock=control.clock,
        scores=plan.scores,
    )
    bench.weights.pass_cost.learn(generation.pass_times)
    return generation


def _keep_generated(generation: Generation, before: TokenArray, bench: Workbench) -> None:
    """Keep a generated text, with the last tokens before it, for later drafts."""
    end_tokens, vocabulary = bench.tokenizer.family.end_tokens, bench.tokenizer.vocabulary
    text_tokens = [token for token in generation.tokens if token not in end_tokens]
    if text_tokens:
        tokens = np.array((*before[-_N_BEFORE:], *text_tokens), dtype=np.int32)
        if bench.tokenizer.is_estimate:  # the server's pieces are not the estimate's
            tokens = vocabulary.tokenize(text_of(tokens, vocabulary))
        bench.generated.appendleft(tokens)


def sampling_params(settings: Settings) -> SamplingParams:
    """Return how the settings want tokens to be chosen."""
    return SamplingParams(
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p,
        seed=settings.seed,
    )


def text_of(tokens: Iterable[int], vocabulary: Vocabulary) -> str:
    """Return the text of tokens."""
    return b"".join(map(vocabulary.piece, tokens)).decode("utf-8", "replace")


def _report_problems(generation: Generation, bench: Workbench, settings: Settings) -> None:
    """Report drafters that failed, and a draft model that costs more than it saves."""
    for failure in generation.drafter_failures:
        bench.report(failure)
    draft, pass_cost = bench.weights.draft, bench.weights.pass_cost
    # The embedded pair is for trials: its speed does not matter.
    if draft is not None and not bench.weights.is_trial:
        costly = draft.costly(settings.mode, pass_cost.curve, pass_cost.single_s)
        if costly is not None:
            bench.report(costly)
