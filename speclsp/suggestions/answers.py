"""Answers of the model by the place that they were given for, and what is left of them.

Typing what a suggestion says leaves its rest as the suggestion, and nobody needs to ask a model.
A remembered answer is therefore the rest of an earlier one, not what the model would say now:
behind ``for x in`` it may have several lines where the settings would now ask for one.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

from speclsp.request import CompletionRequest, CompletionResult, FinishReason, RequestStats
from speclsp.suggestions.place import N_CHARS, Place, place_of, rules_of
from speclsp.suggestions.typed_text import n_said
from speclsp.text.trim import n_closers_replaced

MAX_DOCUMENTS: Final = 32
MAX_ANSWERS: Final = 64
"""Answers of one document."""
MAX_AGE_S: Final = 600.0
"""After that what the answer depended on has probably changed elsewhere."""
MAX_AGE_OF_NOTHING_S: Final = 2.0
"""How long it is known that the model has nothing to say."""

_TRIPLE_QUOTES: Final = ('"""', "'''", "```")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model said at a place; ``text`` may be empty."""

    request: CompletionRequest
    """With its texts cut to what stands near the cursor."""
    place: Place
    rules: tuple[object, ...]
    completion_id: str
    text: str
    n_replaced: int
    finish_reason: FinishReason
    mean_logprob: float | None
    given_at: float
    """Seconds of the caller's clock."""
    prefetched: bool = False


@dataclass(frozen=True, slots=True)
class Rest:
    """What is left of an answer for a later request."""

    answer: Answer
    n_said: int
    """Characters of the answer's text that stand before the cursor by now."""
    text: str
    """What to insert at the later request's cursor."""
    n_replaced: int

    def result(self, completion_id: str, stats: RequestStats) -> CompletionResult:
        """Return the rest as the answer to the later request."""
        return CompletionResult(
            completion_id=completion_id,
            text=self.text,
            finish_reason=self.answer.finish_reason,
            stats=stats,
            n_replaced=self.n_replaced,
            source="memory",
            mean_logprob=self.answer.mean_logprob,
        )


def answers_of(
    request: CompletionRequest, result: CompletionResult, *, now: float, prefetched: bool = False
) -> tuple[Answer, ...]:
    """Return what a result says at a request's place, the best last."""
    place, rules = place_of(request), rules_of(request)
    near = dataclasses.replace(
        request, prefix=request.prefix[-N_CHARS:], suffix=request.suffix[:N_CHARS]
    )
    said = [
        (a.completion_id, a.text, a.n_replaced, a.mean_logprob)
        for a in reversed(result.alternatives)
    ]
    said.append((result.completion_id, result.text, result.n_replaced, result.mean_logprob))
    return tuple(
        Answer(
            request=near,
            place=place,
            rules=rules,
            completion_id=completion_id,
            text=text,
            n_replaced=n_replaced,
            finish_reason=result.finish_reason,
            mean_logprob=mean_logprob,
            given_at=now,
            prefetched=prefetched,
        )
        for completion_id, text, n_replaced, mean_logprob in said
    )


def rest_of(answer: Answer, request: CompletionRequest) -> Rest | None:
    """Return what ``answer`` leaves for a request of the same document.

    None where the request is somewhere else, was typed otherwise or has typed all of it.
    Where the answer's text is empty, there is a rest, empty too, at the very place alone.
    """
    moved = answer.place.moved_to(request)
    if moved is None or moved.n_passed > answer.n_replaced:
        return None
    n = n_said(answer.text, moved.typed)
    if n is None or (n == len(answer.text) and answer.text):
        return None
    text = answer.text[n:]
    n_replaced = answer.n_replaced - moved.n_passed
    if not moved.closers:
        return Rest(answer, n, text, n_replaced)
    if "\n" in moved.closers:
        kept = _without_last_line(text, moved.closers)
        return Rest(answer, n, kept, n_replaced) if kept else None
    if not _says(text, moved.closers, moved.typed):
        return None
    return Rest(answer, n, text, n_replaced + len(moved.closers))


class Answers:
    """The latest answers by document.  It is not synchronised."""

    def __init__(self) -> None:
        self._by_document: OrderedDict[str, deque[Answer]] = OrderedDict()

    def add(self, answers: tuple[Answer, ...]) -> None:
        """Remember answers, the best last."""
        for answer in answers:
            uri = answer.request.uri
            kept = self._by_document.setdefault(uri, deque(maxlen=MAX_ANSWERS))
            kept.append(answer)
            self._by_document.move_to_end(uri)
        while len(self._by_document) > MAX_DOCUMENTS:
            self._by_document.popitem(last=False)

    def forget(self, uri: str) -> None:
        """Forget a document's answers."""
        self._by_document.pop(uri, None)

    def clear(self) -> None:
        """Forget all."""
        self._by_document.clear()

    def find(self, request: CompletionRequest, now: float) -> Rest | None:
        """Return what the latest fitting answer leaves for a request, or None."""
        rules = rules_of(request)
        for answer in reversed(self._by_document.get(request.uri, ())):
            max_age_s = MAX_AGE_S if answer.text else MAX_AGE_OF_NOTHING_S
            if now - answer.given_at > max_age_s or answer.rules != rules:
                continue
            rest = rest_of(answer, request)
            if rest is not None:
                return rest
        return None


def _says(text: str, closers: str, typed: str) -> bool:
    """Whether ``text`` brings the closers along that ``typed`` made the editor write."""
    if closers.strip() in _TRIPLE_QUOTES:
        return closers.strip() in text
    line_typed = typed.rpartition("\n")[2]
    return n_closers_replaced(text, line_typed, closers) == len(closers)


def _without_last_line(text: str, closers: str) -> str:
    """Return ``text`` without the closers on its last line, which stand below already; or ""."""
    head, _, last = text.rstrip().rpartition("\n")
    return head.rstrip() if last.strip() == closers.strip() else ""
