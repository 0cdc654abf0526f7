"""What the user has just turned down: typed something else while a suggestion was on screen."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeAlias

from speclsp.request import CompletionRequest
from speclsp.suggestions.place import Place, place_of
from speclsp.suggestions.typed_text import n_said

N_HELD_BACK: Final = 2
"""As many rejections of one text at one place hold it back there."""
N_PATIENT: Final = 8
"""As many rejections in a row at one kind of place change nothing."""
MS_PER_REJECTION: Final = 20.0
"""Each further one lets the next request of that kind wait so much longer."""
MAX_EXTRA_MS: Final = 200.0
N_AGREED: Final = 3
"""Characters typed as suggested that end the row: the suggestion was right, if not to its end."""

_MAX_REJECTED: Final = 512
_MAX_SHOWN: Final = 64
_N_LINE_CHARS: Final = 200
_CLOSERS: Final = " \t)]}\"'`;:,>"


_OnScreen: TypeAlias = tuple[Place, str, str, str]
"""The place, the text, the line before it and the kind of place."""


class Rejections:
    """Counts them by place and text, and in a row by kind of place.  It is not synchronised."""

    def __init__(self) -> None:
        self._on_screen: OrderedDict[str, _OnScreen] = OrderedDict()
        """By document."""
        self._n_by_text: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        self._n_in_a_row: dict[str, int] = {}

    def shown(self, request: CompletionRequest, text: str) -> None:
        """Note that ``text`` is on screen at the request's place.

        The rest of what was on screen counts as that: it is still the same suggestion.
        """
        before = self._on_screen.get(request.uri)
        if before is not None and _is_rest(before, request, text):
            return
        self._on_screen[request.uri] = (
            place_of(request), text, _line_before(request), place_kind(request)
        )  # fmt: skip
        self._on_screen.move_to_end(request.uri)
        while len(self._on_screen) > _MAX_SHOWN:
            self._on_screen.popitem(last=False)

    def asked(self, request: CompletionRequest) -> None:
        """Note where the user is now: it tells what became of the text on screen."""
        on_screen = self._on_screen.get(request.uri)
        if on_screen is None:
            return
        place, text, line, kind = on_screen
        moved = place.moved_to(request)
        if moved is None:
            self._on_screen.pop(request.uri)
            return
        is_right_so_far = n_said(text, moved.typed) is not None
        if not is_right_so_far:
            self._on_screen.pop(request.uri)
        first = moved.typed[:N_AGREED]
        if len(first) == N_AGREED and text.startswith(first):
            self._n_in_a_row.pop(kind, None)
        elif not is_right_so_far:
            key = (request.uri, line, text)
            self._n_by_text[key] = self._n_by_text.pop(key, 0) + 1
            while len(self._n_by_text) > _MAX_REJECTED:
                self._n_by_text.popitem(last=False)
            self._n_in_a_row[kind] = self._n_in_a_row.get(kind, 0) + 1

    def accepted(self, request: CompletionRequest, text: str) -> None:
        """Note that the user took ``text``, or a part of it, at the request's place."""
        self._n_in_a_row.pop(place_kind(request), None)
        self._n_by_text.pop((request.uri, _line_before(request), text), None)
        self._on_screen.pop(request.uri, None)

    def holds_back(self, request: CompletionRequest, text: str) -> bool:
        """Whether ``text`` was turned down at the request's place too often to show it again."""
        key = (request.uri, _line_before(request), text)
        return self._n_by_text.get(key, 0) >= N_HELD_BACK

    def extra_ms(self, request: CompletionRequest) -> float:
        """Return how much longer to wait at a kind of place where nothing is taken."""
        n_in_a_row = self._n_in_a_row.get(place_kind(request), 0)
        return min(MAX_EXTRA_MS, MS_PER_REJECTION * max(0, n_in_a_row - N_PATIENT))

    def forget(self, uri: str) -> None:
        """Forget what is on screen in a document that was closed."""
        self._on_screen.pop(uri, None)


def place_kind(request: CompletionRequest) -> str:
    """Return a name for places like the request's: language, and what is around the cursor."""
    before = _line_before(request)
    after = request.suffix[:_N_LINE_CHARS].partition("\n")[0].strip(_CLOSERS)
    if not before.strip():
        kind = "blank"
    elif after:
        kind = "inside"
    else:
        kind = "word" if before[-1].isalnum() or before[-1] == "_" else "end"
    return f"{request.language_id} {kind}"


def _is_rest(before: _OnScreen, request: CompletionRequest, text: str) -> bool:
    place, whole, _, _ = before
    moved = place.moved_to(request)
    n = None if moved is None else n_said(whole, moved.typed)
    return n is not None and whole[n:] == text


def _line_before(request: CompletionRequest) -> str:
    return request.prefix[-_N_LINE_CHARS:].rpartition("\n")[2]
