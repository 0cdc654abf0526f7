"""Every token that a completion's decoding gave, with its probability, while a block runs.

A completer's answer holds the text alone.  Here the plan of each completion writes down what it was
made of, before stop rules, fitting and thresholds took anything away.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from speclsp.completer import local
from speclsp.completer.completion_job import CompletionJob, CompletionPlan
from speclsp.completer.jobs import DraftSources, Workbench
from speclsp.decoding.speculate import Generation
from speclsp.seam.completion import CompletionRequest, CompletionResult
from speclsp.seam.request import FinishReason
from speclsp.text.stopping import StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedGeneration:
    """What one completion decoded."""

    pieces: tuple[bytes, ...]
    """The verified tokens' bytes in order, an end token's among them."""
    logprobs: tuple[float, ...]
    """Of each, by the model at temperature 1, given those before it."""
    held_back: str
    """The end of the text before the cursor that the tokens repeat first (token healing)."""
    text: str
    """The text as it is inserted, also where it was withheld."""
    n_replaced: int
    finish_reason: FinishReason
    stopped_by: StopReason | None


Records = dict[str, RecordedGeneration]
"""By the completion's id."""


@contextmanager
def recorded_generations() -> Iterator[Records]:
    """Record the completions of all completers that are in this process."""
    records: Records = {}

    @dataclass(slots=True, kw_only=True)
    class RecordingPlan(CompletionPlan):
        def finish(
            self, generation: Generation, interrupted: Callable[[], FinishReason | None]
        ) -> CompletionResult:
            done = self.output.finish()
            piece = self.bench.tokenizer.vocabulary.piece
            records[self.request.completion_id] = RecordedGeneration(
                pieces=tuple(map(piece, generation.tokens)),
                logprobs=tuple(self.scores.logprobs[: len(generation.tokens)]),
                held_back=self.maker.typed,
                text=done.text,
                n_replaced=done.n_replaced,
                finish_reason=generation.finish_reason,
                stopped_by=self.output.stopped_by,
            )
            # Not super(): slots make another class of this one.
            return CompletionPlan.finish(self, generation, interrupted)

    @dataclass(slots=True, kw_only=True, eq=False)
    class RecordingJob(CompletionJob):
        def plan(
            self, bench: Workbench, sources: DraftSources, clock: Callable[[], float]
        ) -> CompletionPlan | None:
            plan = CompletionJob.plan(self, bench, sources, clock)
            if plan is None:
                return None
            fields = {one.name: getattr(plan, one.name) for one in dataclasses.fields(plan)}
            return RecordingPlan(**fields)

    with patch.dict(local.JOBS, {CompletionRequest: RecordingJob}):
        yield records
