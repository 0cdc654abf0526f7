"""What became of the suggestions that were on screen, to learn from.

While someone types along, one suggestion after the other is shown that are all the rest of the
first: together they are one.  It is decided when the user has taken it, by a key or by typing all
of it, or has gone on otherwise.  A suggestion that was typed over before anybody could have read it
says nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from speclsp.request import CompletionRequest, CompletionResult
from speclsp.suggestions.place import Place, place_of
from speclsp.suggestions.typed_text import n_said

READ_S: Final = 0.75
"""Seconds on screen after which a suggestion counts as read; editors' telemetry takes the same."""

MAX_GIVEN: Final = 16
"""The latest answers, kept with the whole texts of their requests until they are on screen."""

_MAX_ON_SCREEN: Final = 64

Learn = Callable[[float, int], None]
"""Takes a suggestion's mean log-probability and how many of its characters were taken."""


@dataclass(frozen=True, slots=True)
class _Suggested:
    uri: str
    place: Place
    text: str
    mean_logprob: float


@dataclass(slots=True)
class _OnScreen:
    """A suggestion and its rests."""

    first: _Suggested
    since: float
    ids: set[str] = field(default_factory=set)
    n_taken: int = 0


class Outcomes:
    """The latest suggestions made while typing.  It is not synchronised.

    ``now`` is in seconds of the caller's clock.
    """

    def __init__(self, learn: Learn) -> None:
        self._learn = learn
        self._given: OrderedDict[str, tuple[_Suggested, CompletionRequest]] = OrderedDict()
        self._on_screen: OrderedDict[str, _OnScreen] = OrderedDict()

    def given(self, request: CompletionRequest, result: CompletionResult) -> None:
        """Note an answer that may be shown; those that were asked for by hand teach nothing."""
        if request.trigger != "automatic" or not result.text or result.mean_logprob is None:
            return
        text = result.text.replace("\r\n", "\n")
        suggested = _Suggested(request.uri, place_of(request), text, result.mean_logprob)
        self._given[result.completion_id] = (suggested, request)
        while len(self._given) > MAX_GIVEN:
            self._given.popitem(last=False)

    def shown(self, completion_id: str, now: float) -> None:
        """Note that a suggestion is on screen."""
        given = self._given.get(completion_id)
        if given is None:
            return
        suggested, request = given
        before = self._on_screen.get(suggested.uri)
        if before is not None and _is_rest(suggested.text, request, before.first):
            before.ids.add(completion_id)
            return
        self._end(suggested.uri, now)
        self._on_screen[suggested.uri] = _OnScreen(suggested, now, {completion_id})
        while len(self._on_screen) > _MAX_ON_SCREEN:
            self._end(next(iter(self._on_screen)), now)

    def asked(self, request: CompletionRequest, now: float) -> None:
        """Note where the user is now: it tells what became of the suggestion on screen."""
        shown = self._on_screen.get(request.uri)
        if shown is None:
            return
        moved = shown.first.place.moved_to(request)
        text = shown.first.text
        if moved is not None and moved.typed.startswith(text):
            shown.n_taken = len(text)
        if moved is None or moved.typed == text or n_said(text, moved.typed) is None:
            self._end(request.uri, now)

    def accepted(self, completion_id: str, n_chars: int | None, now: float) -> None:
        """Note that the first ``n_chars`` characters (all where None) were taken by a key."""
        given = self._given.get(completion_id)
        if given is None:
            return
        suggested, _ = given
        shown = self._on_screen.get(suggested.uri)
        if shown is None or completion_id not in shown.ids:
            return
        n_taken = len(suggested.text) if n_chars is None else n_chars
        shown.n_taken = max(shown.n_taken, n_taken)
        if n_taken >= len(suggested.text):
            self._end(suggested.uri, now)

    def forget(self, uri: str, now: float) -> None:
        """Note that a document was closed."""
        self._end(uri, now)

    def end_all(self, now: float) -> None:
        """Decide all that is open."""
        for uri in tuple(self._on_screen):
            self._end(uri, now)

    def _end(self, uri: str, now: float) -> None:
        shown = self._on_screen.pop(uri, None)
        if shown is not None and (shown.n_taken or now - shown.since >= READ_S):
            self._learn(shown.first.mean_logprob, shown.n_taken)


def _is_rest(text: str, request: CompletionRequest, first: _Suggested) -> bool:
    """Whether ``text`` says what is left of an earlier suggestion, or goes on from it."""
    moved = first.place.moved_to(request)
    n = None if moved is None else n_said(first.text, moved.typed)
    if n is None:
        return False
    rest = first.text[n:]
    return bool(rest) and (rest.startswith(text) or text.startswith(rest))
