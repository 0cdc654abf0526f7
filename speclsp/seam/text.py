"""A program's request for the model's own text, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from speclsp.seam.request import AnswerSource, FinishReason, Origin, Request, Result
from speclsp.seam.statistics import RequestStats

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


class TextRequest(Request[TextResult], frozen=True, kw_only=True):
    """A program's request for the model's own text, as it comes.

    It is the text between what is before and after the cursor or, with ``prompt``, what follows
    these tokens; the document is empty then.  Sampling follows the settings.
    """

    kind: ClassVar[str] = "text"
    urgency: ClassVar[int] = 0

    origin: Origin = "program"
    prompt: tuple[int, ...] = ()
    """The whole prompt, special tokens included; empty to lay it out around the cursor."""
    extra: tuple[tuple[str, str], ...] = ()
    """Paths and texts of context from other files for a prompt around the cursor, the best last."""
    n_predict: int = -1
    """Most tokens of the text; -1 for as many as the context holds.  0 counts as 1, as llama-server
    has it: the next request finds the prompt in the KV cache."""
    stops: tuple[str, ...] = ()
    """Strings that end the text before them."""
    n_indent: int = 0
    """Least indentation, in characters, of the text's second and later lines; a line of less ends
    it.  As in llama.cpp an empty line has none."""
    t_max_predict_ms: int = 0
    """The first line end so many milliseconds after the first token ends the text; 0: none does."""
    n_probs: int = 0
    """Of how many tokens at each place the result tells the probabilities; 0 for no scores."""
    has_infill_sampler: bool = False
    """Whether llama.cpp's sampler ``infill`` chooses among the tokens that the others leave."""
    is_streamed: bool = False
    """Whether the text is told as it grows, by :class:`TextGrew`."""
    is_fitted: bool = False
    """Whether a text around the cursor is ended and fitted as an editor's completion is: at the end
    of its block or where the model stops being sure, without loops, and without what stands after
    the cursor already."""
    n_texts: int = 1
    """Most texts: others than the first begin with another token that is likely, if there is one.
    """

    def empty(self, reason: FinishReason, source: AnswerSource = "model") -> TextResult:
        """Return a result without text."""
        return TextResult(
            completion_id=self.completion_id,
            text="",
            finish_reason=reason,
            stats=RequestStats(),
            source=source,
        )
