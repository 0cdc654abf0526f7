"""The ledger: the latest suggestions of a window, and the outcome of each.

A suggestion is requested (or prefetched), generated, shown, typed through, accepted in parts or
rejected.  While the user types the text of a suggestion, requests are answered with its rest, and
the model does not run.  Such an answer is not what the model would generate now: it may have
several lines where the settings now allow one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from speclsp.common_ends import common_head
from speclsp.reporting.session import SessionRecorder
from speclsp.seam.completion import (
    CompletionRequest,
    CompletionResult,
    GeneratedText,
    PlacedCompletion,
)
from speclsp.seam.documents import AcceptedText, TextEdit, edit_between
from speclsp.secrets.pieces import Pieces
from speclsp.text.typed_text import CursorContext, cursor_context, rest_of, rules_of, typed_length
from speclsp.window.impressions import Impressions

MAX_SUGGESTIONS: Final = 512
MAX_AGE_S: Final = 600.0
"""Seconds that a suggestion answers requests; other files may have changed after that."""
MAX_AGE_OF_NOTHING_S: Final = 2.0
"""Seconds that an empty answer is reused."""

N_REJECTIONS: Final = 2
"""Rejections of one text at one place after which it is not shown there again."""
N_AGREED: Final = 3
"""Characters typed as suggested after which typing something else is no rejection."""

CONTEXT_LINES: Final = 2
"""Lines before the cursor that are kept with an accepted text."""

_MAX_REJECTED: Final = 512
_N_LINE_CHARS: Final = 200


@dataclass(slots=True, kw_only=True, eq=False)
class Suggestion:
    """One text at one place, and its outcome."""

    generated: GeneratedText
    """Empty where it was not generated (yet); of the rest of a suggestion, that rest."""
    counted_as: str
    """Id of the suggestion that it counts as where it is shown or accepted."""
    request: CompletionRequest
    path: str
    file: str
    place: CursorContext
    rules: tuple[object, ...]
    line_before: str
    made_at: float | None = None
    """Seconds of the caller's clock; None where it was not generated (yet)."""
    is_pending: bool = False
    """Whether the model is generating it."""
    may_answer: bool = False
    """Whether its rest may answer later requests."""
    rest_of: Suggestion | None = None
    """The suggestion of which it is the rest."""
    n_typed: int = 0
    """Characters of that one's text before the cursor."""
    is_used: bool = False
    """Whether a request was answered with it, or from it."""
    is_shown: bool = False
    n_taken: int = 0
    """Characters of the text that were accepted."""
    is_learned: bool = False
    sent_text: str = ""
    """The text as the client got it, which may begin with a word or a popup's item."""
    n_foreign: int = 0
    """Characters that it has before :attr:`text`; negative where that has more."""

    @property
    def text(self) -> str:
        """The generated text."""
        return self.generated.text

    @property
    def whole(self) -> Suggestion:
        """The suggestion that it is the rest of, or itself."""
        return self if self.rest_of is None else self.rest_of

    @property
    def lines_before(self) -> str:
        """The last lines before it, which are learned with it."""
        return "".join(self.place.before.splitlines(keepends=True)[-CONTEXT_LINES:])

    def continues(self, other: Suggestion) -> bool:
        """Whether the text is what is left of another one's, at the cursor there."""
        n_typed = self.place.n_before - other.place.n_before
        return (
            0 <= n_typed < len(other.text)
            and self.place.before.endswith(other.text[:n_typed])
            and self.text == other.text[n_typed:]
        )


class Known(NamedTuple):
    """A suggestion and its rest at a request's cursor, ``n_typed`` characters from its start."""

    suggestion: Suggestion
    n_typed: int
    rest: GeneratedText


Outcome = Literal["accepted", "undone"]


@dataclass(slots=True, eq=False)
class _Offer:
    uri: str
    before: tuple[int, int]
    """Length and hash of the document's text without the offer."""
    after: tuple[int, int]
    is_accepted: bool = False


class Offers:
    """What clients may insert without a word: next edits and popup items.  Any thread may call it.

    Clients differ in what they report: copilot-lsp, Helix and eglot run no command.  So one rule
    holds for all offers of all clients: a change that makes a document exactly what an offer would
    make of it accepts the offer, and the change back undoes that.
    """

    N_KEPT: Final = 64
    """Latest offers that are known."""
    N_AT_ONCE: Final = 2
    """Characters from which a change is more than a key, or the rest of an offer typed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: OrderedDict[str, _Offer] = OrderedDict()
        self._texts: dict[str, str] = {}
        """The newest text of each document that has offers."""

    def offer(self, offer_id: str, uri: str, text: str, edit: TextEdit) -> None:
        """Note that a client may make an edit of a document's text."""
        with self._lock:
            former = self._by_id.pop(offer_id, None)
            offered = _Offer(uri, _mark(text), _mark(edit.applied_to(text)))
            offered.is_accepted = former is not None and former.is_accepted
            self._by_id[offer_id] = offered
            self._texts.setdefault(uri, text)
            while len(self._by_id) > self.N_KEPT:
                self._by_id.popitem(last=False)

    def accepted(self, offer_id: str) -> None:
        """Note that a client has reported an offer as accepted."""
        with self._lock:
            offered = self._by_id.get(offer_id)
            if offered is not None:
                offered.is_accepted = True

    def changed(self, uri: str, text: str) -> list[tuple[str, Outcome]]:
        """Take a document's next text; return the offers of which it tells the outcome."""
        with self._lock:
            if uri not in self._texts:
                return []
            of_document = [(i, one) for i, one in self._by_id.items() if one.uri == uri]
            former = self._texts.pop(uri)
            if not of_document:
                return []
            self._texts[uri] = text
            n_chars = len(text)
            if all(n_chars not in (one.before[0], one.after[0]) for _, one in of_document):
                return []
            now = _mark(text)
            found: list[tuple[str, Outcome]] = []
            made = [(i, one) for i, one in of_document if one.after == now and not one.is_accepted]
            if made:
                # What was offered again for typed letters comes to the same; the newest is shown.
                newest_id, newest = made[-1]
                for offer_id, _ in made[:-1]:
                    del self._by_id[offer_id]
                change = edit_between(former, text)
                n_at_once = max(len(change.text), change.end - change.start)
                if n_at_once >= self.N_AT_ONCE or newest.before == _mark(former):
                    newest.is_accepted = True
                    found.append((newest_id, "accepted"))
                else:
                    del self._by_id[newest_id]
            for offer_id, one in of_document:
                if one.before == now and one.is_accepted:
                    del self._by_id[offer_id]
                    found.append((offer_id, "undone"))
            return found

    def are_in(self, uri: str) -> bool:
        """Whether a document may have offers."""
        return uri in self._texts

    def forget(self, uri: str) -> None:
        """Forget the offers in a closed document."""
        with self._lock:
            self._texts.pop(uri, None)
            for offer_id in [i for i, one in self._by_id.items() if one.uri == uri]:
                del self._by_id[offer_id]


def _mark(text: str) -> tuple[int, int]:
    return len(text), hash(text)


class Ledger:
    """The latest suggestions of one window.  It is not synchronised, except for the offers.

    ``now`` is in seconds of the caller's clock.  ``counts`` counts prefetches.
    """

    def __init__(self, counts: SessionRecorder) -> None:
        self._counts = counts
        self.impressions = Impressions()
        """What was shown and accepted."""
        self.offers = Offers()
        self._by_id: OrderedDict[str, Suggestion] = OrderedDict()
        self._on_screen: dict[str, Suggestion] = {}
        """By document."""
        self._n_rejected: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        """By document, line before the cursor and text."""
        self._in_part: tuple[Suggestion, str] | None = None
        """The text accepted in part so far; it is learned when no further part can follow."""

    def get(self, completion_id: str) -> Suggestion | None:
        """Return a suggestion, or None where it is not known any more."""
        return self._by_id.get(completion_id)

    # --- requested and generated ----------------------------------------------------------------

    def requested(self, request: PlacedCompletion, *, may_answer: bool) -> None:
        """Note a request that the model gets."""
        suggestion = self._new(request, request.completion_id)
        suggestion.is_pending = True
        suggestion.may_answer = may_answer

    def generated(self, request: PlacedCompletion, result: CompletionResult, now: float) -> None:
        """Note the model's answer to a request, with its alternatives."""
        own = self._by_id.get(request.completion_id) or self._new(request, request.completion_id)
        own.is_pending = False
        if result.generated.finish_reason == "cancelled":
            return
        for other in reversed(result.alternatives):
            beside = self._new(request, other.completion_id)
            beside.may_answer = own.may_answer
            beside.counted_as = own.counted_as
            self._fill(beside, other, now)
        self._fill(own, result.generated, now)

    def failed(self, request: PlacedCompletion) -> None:
        """Note that a request failed."""
        suggestion = self._by_id.get(request.completion_id)
        if suggestion is not None:
            suggestion.is_pending = False

    # --- answered from memory -------------------------------------------------------------------

    def find(self, request: PlacedCompletion, now: float) -> Known | None:
        """Return the latest suggestion that has a rest at a request's cursor, or None."""
        rules = rules_of(request)
        for suggestion in reversed(self._by_id.values()):
            if not suggestion.may_answer or suggestion.made_at is None:
                continue
            if suggestion.request.uri != request.uri or suggestion.rules != rules:
                continue
            max_age_s = MAX_AGE_S if suggestion.text else MAX_AGE_OF_NOTHING_S
            if now - suggestion.made_at > max_age_s:
                continue
            rest = rest_of(suggestion.place, suggestion.generated, request)
            if rest is not None:
                return Known(suggestion, *rest)
        return None

    def given(self, completion_id: str) -> None:
        """Note that a suggestion of the model answers the request with its id."""
        suggestion = self._by_id.get(completion_id)
        if suggestion is not None:
            suggestion.is_used = True

    def used(self, request: PlacedCompletion, known: Known) -> bool:
        """Note that the rest of a suggestion answers a request; return whether it is the first."""
        whole, n_typed, rest = known
        if not rest.text:
            return False
        given = self._new(request, request.completion_id)
        given.generated, given.rest_of, given.n_typed = rest, whole, n_typed
        given.counted_as = whole.counted_as
        is_first = not whole.is_used
        if whole.request.is_prefetch and is_first:
            self._counts.prefetch_used()
        whole.is_used = True
        return is_first

    def clear(self) -> None:
        """Stop answering requests from the present suggestions: settings or models changed."""
        for suggestion in self._by_id.values():
            suggestion.may_answer = False

    def forget(self, uri: str) -> None:
        """Stop answering requests from the suggestions of a closed document."""
        for suggestion in self._by_id.values():
            suggestion.may_answer = suggestion.may_answer and suggestion.request.uri != uri
        self.offers.forget(uri)
        self._leaves_screen(uri)

    def forget_secrets(self, pieces: Pieces) -> None:
        """Forget the suggestions, and the texts accepted or rejected, that hold a piece of one."""
        secret = [
            completion_id
            for completion_id, suggestion in self._by_id.items()
            if pieces.are_in(suggestion.lines_before + suggestion.whole.text + suggestion.text)
        ]
        for completion_id in secret:
            suggestion = self._by_id.pop(completion_id)
            if self._on_screen.get(suggestion.request.uri) is suggestion:
                self._leaves_screen(suggestion.request.uri)
        if self._in_part is not None and pieces.are_in(
            self._in_part[0].lines_before + self._in_part[1]
        ):
            self._in_part = None
        rejected = [key for key in self._n_rejected if pieces.are_in("".join(key[1:]))]
        for key in rejected:
            del self._n_rejected[key]

    # --- shown, typed through, rejected ---------------------------------------------------------

    def sent(self, completion_id: str, text: str, n_foreign: int) -> None:
        """Note the text that the client got for a suggestion."""
        suggestion = self._by_id.get(completion_id)
        if suggestion is not None:
            suggestion.sent_text, suggestion.n_foreign = text, n_foreign

    def shown(self, completion_id: str, now: float) -> Suggestion | None:
        """Note that a suggestion is on screen; return it the first time.

        The rest of the suggestion on screen counts as the same one, also where the model has
        generated it anew.
        """
        suggestion = self._by_id.get(completion_id)
        if suggestion is None or suggestion.is_shown:
            return None
        suggestion.is_shown = True
        uri = suggestion.request.uri
        before = self._on_screen.get(uri)
        if before is not None and suggestion.continues(before):
            suggestion.counted_as = before.counted_as
        elif before is not None and before.counted_as != suggestion.counted_as:
            self._leaves_screen(uri)
        self.impressions.shown(suggestion.counted_as, len(suggestion.text), now)
        is_same = before is not None and before.whole is suggestion.whole
        if before is None or not is_same or suggestion.n_typed < before.n_typed:
            self._on_screen[uri] = suggestion
        return suggestion

    def _leaves_screen(self, uri: str) -> None:
        suggestion = self._on_screen.pop(uri, None)
        if suggestion is not None:
            self.impressions.ended(suggestion.counted_as)

    def typed(self, request: PlacedCompletion) -> None:
        """Note a new request's cursor, which may reject the suggestion on screen."""
        suggestion = self._on_screen.get(request.uri)
        if suggestion is None:
            return
        moved = suggestion.place.moved_to(request)
        if moved is not None and typed_length(suggestion.text, moved.typed) is not None:
            return
        self._leaves_screen(request.uri)
        if moved is not None and moved.typed:
            n_same = common_head(suggestion.text, moved.typed, len(suggestion.text))
            self.impressions.typed_over(len(suggestion.text) - n_same)
        if moved is not None and typed_length(suggestion.text, moved.typed[:N_AGREED]) != N_AGREED:
            key = (request.uri, suggestion.line_before, suggestion.text)
            self._n_rejected[key] = self._n_rejected.pop(key, 0) + 1
            while len(self._n_rejected) > _MAX_REJECTED:
                self._n_rejected.popitem(last=False)

    def was_rejected(self, request: PlacedCompletion, text: str) -> bool:
        """Whether ``text`` was rejected at the request's place too often to show it again."""
        key = (request.uri, line_before(cursor_context(request).before), text)
        return self._n_rejected.get(key, 0) >= N_REJECTIONS

    # --- accepted -------------------------------------------------------------------------------

    def accepted(self, completion_id: str, n_chars: int | None) -> list[AcceptedText]:
        """Note that the first ``n_chars`` characters of a suggestion (None: all) were accepted.

        Returns the texts that are complete now.  One that was accepted in part is complete when
        another suggestion is accepted.
        """
        suggestion = self._by_id.get(completion_id)
        if suggestion is None:
            return []
        n_chars = len(suggestion.text) if n_chars is None else min(n_chars, len(suggestion.text))
        if n_chars > suggestion.n_taken:
            self.impressions.accepted(
                suggestion.counted_as,
                n_chars - suggestion.n_taken,
                to_its_end=n_chars == len(suggestion.text),
            )
            suggestion.n_taken = n_chars
        key = (suggestion.request.uri, suggestion.line_before, suggestion.text)
        self._n_rejected.pop(key, None)
        self._leaves_screen(suggestion.request.uri)
        whole = suggestion.whole
        typed = whole.text[: suggestion.n_typed] if whole is not suggestion else ""
        taken = (whole, typed + suggestion.text[:n_chars])
        learned = []
        if self._in_part is not None and self._in_part[0] is not whole:
            learned += self.flush()
        self._in_part = taken
        return learned + self.flush() if n_chars == len(suggestion.text) else learned

    def flush(self) -> list[AcceptedText]:
        """Return the text that was accepted in part, if it was not returned before."""
        taken, self._in_part = self._in_part, None
        if taken is None or taken[0].is_learned:
            return []
        suggestion, text = taken
        suggestion.is_learned = True
        return [
            AcceptedText(
                path=suggestion.path,
                file=suggestion.file,
                before=suggestion.lines_before,
                text=text,
                uri=suggestion.request.uri,
            )
        ]

    def has_text_at(self, request: PlacedCompletion) -> bool:
        """Whether a text for a request's place is known or being generated."""
        place, rules = cursor_context(request), rules_of(request)
        return any(
            (known.is_pending or (known.may_answer and known.made_at is not None))
            and known.request.uri == request.uri
            and known.rules == rules
            and known.place == place
            for known in self._by_id.values()
        )

    # --- the table ------------------------------------------------------------------------------

    def _new(self, request: PlacedCompletion, completion_id: str) -> Suggestion:
        place = cursor_context(request)
        suggestion = Suggestion(
            generated=GeneratedText(completion_id=completion_id),
            counted_as=completion_id,
            request=request.plain,
            path=request.path,
            file=request.file,
            place=place,
            rules=rules_of(request),
            line_before=line_before(place.before),
        )
        self._by_id[completion_id] = suggestion
        while len(self._by_id) > MAX_SUGGESTIONS:
            self._by_id.popitem(last=False)
        return suggestion

    def _fill(self, suggestion: Suggestion, generated: GeneratedText, now: float) -> None:
        suggestion.generated, suggestion.made_at = generated, now
        suggestion.is_pending = False
        if generated.completion_id in self._by_id:
            self._by_id.move_to_end(generated.completion_id)


def line_before(before: str) -> str:
    """Return the part of the cursor's line before the cursor, at most 200 characters."""
    return before[-_N_LINE_CHARS:].rpartition("\n")[2]
