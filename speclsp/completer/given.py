"""The suggestions that were given, so that what becomes of them can be told."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from speclsp.request import CompletionRequest, CompletionResult
from speclsp.suggestions.answers import Rest
from speclsp.suggestions.place import N_CHARS

MAX_GIVEN: Final = 256
"""Suggestions whose acceptance can still be reported."""
MAX_WHOLE: Final = 16
"""Of these the latest are kept with the whole texts of their requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A suggestion.  Where it is the rest of an earlier one, that one is what is learned."""

    request: CompletionRequest
    text: str
    n_replaced: int
    learned_id: str
    learned_request: CompletionRequest
    said_before: str
    """What of the earlier suggestion stood before the cursor already."""
    is_whole: bool = True
    """Whether the request's texts are whole."""


class GivenSuggestions:
    """The latest suggestions by id.  It is not synchronised."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[str, Given] = OrderedDict()

    def add(self, request: CompletionRequest, result: CompletionResult, rest: Rest | None) -> None:
        """Keep a result's texts."""
        for other in result.alternatives:
            self._put(
                other.completion_id,
                Given(
                    request=request,
                    text=other.text,
                    n_replaced=other.n_replaced,
                    learned_id=other.completion_id,
                    learned_request=request,
                    said_before="",
                ),
            )
        if result.text:
            answer = rest.answer if rest is not None else None
            said = answer.text[: rest.n_said] if answer is not None and rest is not None else ""
            given = Given(
                request=request,
                text=result.text,
                n_replaced=result.n_replaced,
                learned_id=answer.completion_id if answer is not None else result.completion_id,
                learned_request=answer.request if answer is not None else request,
                said_before=said,
            )
            self._put(result.completion_id, given)

    def get(self, completion_id: str) -> Given | None:
        """Return a suggestion, or None where it is not known any more."""
        return self._by_id.get(completion_id)

    def forget_whole(self, uri: str) -> None:
        """Keep no whole texts of a document that was closed."""
        for completion_id, given in self._by_id.items():
            if given.request.uri == uri and given.is_whole:
                self._by_id[completion_id] = _cut(given)

    def _put(self, completion_id: str, given: Given) -> None:
        self._by_id[completion_id] = given
        if len(self._by_id) > MAX_GIVEN:
            self._by_id.popitem(last=False)
        if len(self._by_id) > MAX_WHOLE:
            older_id = list(self._by_id)[-MAX_WHOLE - 1]
            self._by_id[older_id] = _cut(self._by_id[older_id])


def _cut(given: Given) -> Given:
    """Return a suggestion whose requests hold what stands near the cursor."""
    return dataclasses.replace(
        given,
        request=_near(given.request),
        learned_request=_near(given.learned_request),
        is_whole=False,
    )


def _near(request: CompletionRequest) -> CompletionRequest:
    return dataclasses.replace(
        request, prefix=request.prefix[-N_CHARS:], suffix=request.suffix[:N_CHARS]
    )
