"""The answers to requests of each kind, as they cross the completer seam."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias, TypeVar

import msgspec

from speclsp.seam.documents import TextEdit
from speclsp.seam.statistics import RequestStats

FinishReason = Literal["stop", "length", "deadline", "cancelled"]
"""Why a completion ended: a stop rule or end token, ``n_predict``, the deadline or the latency
budget, or a cancel."""

AnswerSource = Literal["model", "memory", "filter"]
"""Where an answer comes from: the model, earlier answers, or a rule that skips the request."""

R = TypeVar("R", bound="Result")
"""A kind's answer."""

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Starts and ends in characters of a text, rising."""


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


class Result(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """What the answers to all kinds of requests have.

    It is written as an array: its class's name, then the fields in order.
    """

    stats: RequestStats
    source: AnswerSource = "model"

    @property
    def is_empty(self) -> bool:
        """Whether it suggests nothing."""
        raise NotImplementedError

    def timed(self, *, ms_queue: float, ms_total: float) -> Self:
        """Return the result with the times in the queue and in all."""
        stats = replace(self.stats, ms_queue=ms_queue, ms_total=ms_total)
        return msgspec.structs.replace(self, stats=stats)


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


StopKind = Literal["end", "word", "limit", "rule", "none"]
"""What ended a text: an end token, a stop string, a limit of tokens, time or indentation, or a rule
of editors' completions, such as the end of the block; ``none`` where nothing was generated, or the
request was cut short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredToken:
    """A token with its log-probability by the model, at temperature 1 (natural logarithm)."""

    token: int
    logprob: float
    best: tuple[tuple[int, float], ...] = ()
    """The most probable tokens at its place and their log-probabilities, the best first."""


class TextResult(Result, frozen=True, kw_only=True):
    """The text that the model wrote, up to what ended it, and not fitted to any document."""

    completion_id: str
    finish_reason: FinishReason
    text: str
    tokens: tuple[int, ...] = ()
    """As they were generated, an end token included."""
    prompt: tuple[int, ...] = ()
    """The prompt's tokens, as it was laid out."""
    scores: tuple[ScoredToken, ...] = ()
    """Of ``tokens``, where they were asked for."""
    stopped_by: StopKind = "none"
    stopping_word: str = ""
    """The stop string that ended the text, which is not part of it."""
    others: tuple[TextResult, ...] = ()
    """Further texts in its place, all different, the likeliest beginning first.  Their statistics
    count their own tokens only."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no text."""
        return not self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """A token with which the answer to an edit request leaves the text as it is."""

    line: str
    """The line of the answer that the token is in, masked."""
    probability: float
    """By the model, at temperature 1."""


class EditResult(Result, frozen=True, kw_only=True):
    """The next edit of a document, or none."""

    completion_id: str
    finish_reason: FinishReason
    hunks: tuple[TextEdit, ...] = ()
    """The lines that change, as they are shown; whole lines, rising.  None: there is no edit."""
    is_far: bool = False
    """Whether the edit begins or ends more than two lines from the cursor."""
    probability: float | None = None
    """Of the first of ``divergences``; None where it was not computed."""
    divergences: tuple[Divergence, ...] = ()
    """One for each hunk of the answer, also where the edit is withheld."""
    withheld: str = ""
    """Why an edit that the model proposed is not shown (:data:`speclsp.edits.edit.Withheld`), or
    why there was no request of the model: ``refused``, ``secret``."""

    @property
    def is_empty(self) -> bool:
        """Whether it suggests nothing."""
        return not self.hunks


AnyResult: TypeAlias = CompletionResult | EditResult | TextResult
"""An answer of any kind."""
