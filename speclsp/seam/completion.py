"""The request for a completion at the cursor, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from speclsp.seam.documents import Ranges
from speclsp.seam.request import AnswerSource, FinishReason, PlacedRequest, Request, Result
from speclsp.seam.statistics import RequestStats

Trigger = Literal["automatic", "invoked"]
"""Whether an editor asked while the user typed, or the user asked."""


def ranges_from(ranges: Ranges, start: int) -> Ranges:
    """Return the ranges of the text that is left from character ``start`` on."""
    return tuple((max(0, a - start), b - start) for a, b in ranges if b > start)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedText:
    """A text to insert at the cursor, with an id by which it can be accepted."""

    completion_id: str
    text: str = ""
    n_replaced: int = 0
    """Characters (code points) after the cursor, on its line, that ``text`` replaces."""
    mean_logprob: float | None = None
    """Mean over the text's tokens of the natural logarithm of their probability by the model, at
    temperature 1; None where it was not computed."""
    finish_reason: FinishReason = "stop"
    drafted: Ranges = ()
    """The parts of ``text`` that accepted draft tokens gave."""


class CompletionResult(Result, frozen=True, kw_only=True):
    """The text that was generated, and others in its place."""

    generated: GeneratedText
    alternatives: tuple[GeneratedText, ...] = ()
    """Further texts, all different, by falling ``mean_logprob``.  ``generated`` comes before them
    all: a request for one text gets it."""
    unsure: float = 0.0
    """The joint probability of the tokens with which it fell below the least one, so that the text
    ends before; 0 where it did not."""

    @property
    def is_empty(self) -> bool:
        """Whether it suggests nothing."""
        return not self.generated.text

    @property
    def is_withheld(self) -> bool:
        """Whether the model was too unsure for any text."""
        return self.unsure > 0.0 and self.is_empty


class CompletionRequest(Request[CompletionResult], frozen=True, kw_only=True):
    """A request for a completion at the cursor."""

    kind: ClassVar[str] = "completion"
    urgency: ClassVar[int] = 2

    trigger: Trigger = "automatic"
    n_candidates: int = 1
    """Number of distinct texts, the best first."""

    def empty(self, reason: FinishReason, source: AnswerSource = "model") -> CompletionResult:
        """Return a result without text."""
        empty = GeneratedText(completion_id=self.completion_id, finish_reason=reason)
        return CompletionResult(generated=empty, stats=RequestStats(), source=source)


PlacedCompletion: TypeAlias = PlacedRequest[CompletionRequest]
