"""The ledger: one table of the latest suggestions, and what became of each.

A suggestion is asked for (or prefetched), generated, shown, typed through, accepted word by word,
or rejected.  Typing what a suggestion says leaves its rest as the suggestion, and nobody needs to
ask a model: a remembered answer is therefore the rest of an earlier one, not what the model would
say now.  Behind ``for x in`` it may have several lines where the settings would now ask for one.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from speclsp.decoding.session import SessionRecorder
from speclsp.request import (
    AcceptedText,
    CompletionRequest,
    CompletionResult,
    FinishReason,
    GeneratedText,
    PlacedRequest,
)
from speclsp.text.typed_text import CursorContext, Rest, cursor_context, n_said, rest_of, rules_of

MAX_SUGGESTIONS: Final = 512
MAX_AGE_S: Final = 600.0
"""After that what the answer depended on has probably changed elsewhere."""
MAX_AGE_OF_NOTHING_S: Final = 2.0
"""How long it is known that the model has nothing to say."""

N_HELD_BACK: Final = 2
"""After so many rejections of one text at one place it is not shown there again."""
N_TOLERATED: Final = 8
"""So many rejections in a row at one kind of place change nothing."""
MS_PER_REJECTION: Final = 20.0
"""Each further one lets the next request of that kind wait so much longer."""
MAX_EXTRA_MS: Final = 200.0
N_AGREED: Final = 3
"""Characters typed as suggested that end the row: the suggestion was right, if not to its end."""

N_LATEST_PREFETCHES: Final = 24
"""Latest prefetches that decide whether they are worth it."""
LEAST_USED: Final = 0.1
"""Where a smaller share of them answers a request, prefetching rests: it costs a completion's work
for every suggestion shown, which a machine on battery notices."""
N_RESTED: Final = 6
"""While it rests, one in so many suggestions is prefetched for all the same."""
N_COMMITTED: Final = 2
"""Who has typed so much as suggested is likely to take what is left: then nothing rests."""

CONTEXT_LINES: Final = 2
"""Lines before the cursor that are learned with an accepted text."""

_MAX_REJECTED: Final = 512
_N_LINE_CHARS: Final = 200
_CLOSERS: Final = " \t)]}\"'`;:,>"


@dataclass(slots=True, kw_only=True, eq=False)
class Suggestion:
    """One text for one place, and what became of it."""

    completion_id: str
    request: CompletionRequest
    path: str
    file: str
    place: CursorContext
    rules: tuple[object, ...]
    kind: str
    """What is around the cursor; see :func:`place_kind`."""
    line_before: str
    text: str = ""
    n_replaced: int = 0
    finish_reason: FinishReason = "stop"
    mean_logprob: float | None = None
    made_at: float | None = None
    """Seconds of the caller's clock; None while it is generated, or where it never was."""
    is_pending: bool = False
    """Whether the model has been asked and has not answered."""
    may_answer: bool = False
    """Whether its rest may answer later requests."""
    rest_of: Suggestion | None = None
    """The suggestion that the text is what is left of."""
    n_said: int = 0
    """Characters of that one's text that stand before the cursor."""
    is_used: bool = False
    """Whether a request was answered from it."""
    is_shown: bool = False
    n_taken: int = 0
    """Characters of the text that the user took."""
    is_learned: bool = False
    sent_text: str = ""
    """The text as the client was given it, which may begin with a word or a popup's item."""
    n_foreign: int = 0
    """How many characters longer that is at its front than ``text``; negative where the user had
    typed some already."""

    @property
    def whole(self) -> Suggestion:
        """The suggestion that it is the rest of, or itself."""
        return self if self.rest_of is None else self.rest_of


class Known(NamedTuple):
    """A suggestion, and what it leaves for a request."""

    suggestion: Suggestion
    rest: Rest


class Ledger:
    """The latest suggestions of one window.  It is not synchronised.

    ``now`` is in seconds of the caller's clock.  What becomes of suggestions is counted in
    ``counts``.
    """

    def __init__(self, counts: SessionRecorder) -> None:
        self._counts = counts
        self._by_id: OrderedDict[str, Suggestion] = OrderedDict()
        self._on_screen: dict[str, Suggestion] = {}
        """By document."""
        self._n_rejected: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        """By document, line before the cursor and text."""
        self._n_in_a_row: dict[str, int] = {}
        """Rejections since something was taken, by kind of place."""
        self._was_used: deque[bool] = deque(maxlen=N_LATEST_PREFETCHES)
        self._unused: deque[Suggestion] = deque()
        """Prefetches that no request was answered from yet."""
        self._n_rested = 0
        self._in_part: tuple[Suggestion, str] | None = None
        """What was last taken in part, which is learned when no more of it can come."""

    def get(self, completion_id: str) -> Suggestion | None:
        """Return a suggestion, or None where it is not known any more."""
        return self._by_id.get(completion_id)

    def by_sent_text(self, text: str) -> Suggestion | None:
        """Return the latest suggestion that a client was given as ``text``, or None."""
        if not text:
            return None
        return next((s for s in reversed(self._by_id.values()) if s.sent_text == text), None)

    # --- asked and generated --------------------------------------------------------------------

    def asked(self, request: PlacedRequest, *, may_answer: bool) -> None:
        """Note that the model is asked."""
        suggestion = self._new(request, request.completion_id)
        suggestion.is_pending = True
        suggestion.may_answer = may_answer

    def generated(self, request: PlacedRequest, result: CompletionResult, now: float) -> None:
        """Take the model's answer to a request, with its alternatives."""
        own = self._by_id.get(request.completion_id) or self._new(request, request.completion_id)
        own.is_pending = False
        of = result.generated
        whole = self._by_id.get(of.completion_id) if of is not None else None
        if of is not None and whole is not None:
            self._fill(whole, of, now)
            rest = rest_of(whole.place, of.text, of.n_replaced, request)
            if rest is not None and rest.text == result.text:
                own.rest_of, own.n_said = whole, rest.n_said
                own.text, own.n_replaced = result.text, result.n_replaced
                own.may_answer = False  # the whole of it may
                return
        if result.finish_reason == "cancelled":
            return
        for other in reversed(result.alternatives):
            beside = self._new(request, other.completion_id)
            beside.may_answer = own.may_answer
            self._fill(beside, other, now)
        self._fill(own, result, now)
        if request.is_prefetch and result.text:
            self._unused.append(own)
            if len(self._unused) > N_LATEST_PREFETCHES:
                self._unused.popleft()
                self._was_used.append(False)

    def failed(self, request: PlacedRequest) -> None:
        """Note that the model has no answer."""
        suggestion = self._by_id.get(request.completion_id)
        if suggestion is not None:
            suggestion.is_pending = False

    # --- answered without a model ---------------------------------------------------------------

    def find(self, request: PlacedRequest, now: float) -> Known | None:
        """Return the latest suggestion that leaves something for a request, or None."""
        rules = rules_of(request)
        for suggestion in reversed(self._by_id.values()):
            if not suggestion.may_answer or suggestion.made_at is None:
                continue
            if suggestion.request.uri != request.uri or suggestion.rules != rules:
                continue
            max_age_s = MAX_AGE_S if suggestion.text else MAX_AGE_OF_NOTHING_S
            if now - suggestion.made_at > max_age_s:
                continue
            rest = rest_of(suggestion.place, suggestion.text, suggestion.n_replaced, request)
            if rest is not None:
                return Known(suggestion, rest)
        return None

    def used(self, request: PlacedRequest, known: Known) -> None:
        """Note that a request is answered with what is left of a suggestion."""
        whole, rest = known
        if not rest.text:
            return
        given = self._new(request, request.completion_id)
        given.text, given.n_replaced = rest.text, rest.n_replaced
        given.rest_of, given.n_said = whole, rest.n_said
        whole.is_used = True
        if whole in self._unused:
            self._unused.remove(whole)
            self._was_used.append(True)
            self._counts.prefetch_used()

    def clear(self) -> None:
        """Forget the answers: others would be given now."""
        for suggestion in self._by_id.values():
            suggestion.may_answer = False
        self._unused.clear()

    def forget(self, uri: str) -> None:
        """Forget the answers for a document that was closed, and what is on screen in it."""
        for suggestion in self._by_id.values():
            suggestion.may_answer = suggestion.may_answer and suggestion.request.uri != uri
        self._on_screen.pop(uri, None)

    # --- shown, typed through, rejected ---------------------------------------------------------

    def sent(self, completion_id: str, text: str, n_foreign: int) -> None:
        """Note what the client was given for a suggestion."""
        suggestion = self._by_id.get(completion_id)
        if suggestion is not None:
            suggestion.sent_text, suggestion.n_foreign = text, n_foreign

    def shown(self, completion_id: str) -> Suggestion | None:
        """Note that a suggestion is on screen; returns it the first time.

        The rest of what was on screen counts as that: it is still the same suggestion.
        """
        suggestion = self._by_id.get(completion_id)
        if suggestion is None or suggestion.is_shown:
            return None
        suggestion.is_shown = True
        self._counts.shown()
        before = self._on_screen.get(suggestion.request.uri)
        is_same = before is not None and before.whole is suggestion.whole
        if before is None or not is_same or suggestion.n_said < before.n_said:
            self._on_screen[suggestion.request.uri] = suggestion
        return suggestion

    def typed(self, request: PlacedRequest) -> None:
        """Note where the user is now: it tells what became of the suggestion on screen."""
        suggestion = self._on_screen.get(request.uri)
        if suggestion is None:
            return
        moved = suggestion.place.moved_to(request)
        if moved is None:
            del self._on_screen[request.uri]
            return
        text = suggestion.text
        is_right_so_far = n_said(text, moved.typed) is not None
        if not is_right_so_far:
            del self._on_screen[request.uri]
        first = moved.typed[:N_AGREED]
        if len(first) == N_AGREED and text.startswith(first):
            self._n_in_a_row.pop(suggestion.kind, None)
        elif not is_right_so_far:
            key = (request.uri, suggestion.line_before, text)
            self._n_rejected[key] = self._n_rejected.pop(key, 0) + 1
            while len(self._n_rejected) > _MAX_REJECTED:
                self._n_rejected.popitem(last=False)
            kind = suggestion.kind
            self._n_in_a_row[kind] = self._n_in_a_row.get(kind, 0) + 1

    def holds_back(self, request: PlacedRequest, text: str) -> bool:
        """Whether ``text`` was rejected at the request's place too often to show it again."""
        key = (request.uri, line_before(cursor_context(request).before), text)
        return self._n_rejected.get(key, 0) >= N_HELD_BACK

    def extra_ms(self, request: PlacedRequest) -> float:
        """Return how much longer to wait at a kind of place where nothing is taken."""
        n_in_a_row = self._n_in_a_row.get(
            place_kind(request.language_id, cursor_context(request)), 0
        )
        return min(MAX_EXTRA_MS, MS_PER_REJECTION * max(0, n_in_a_row - N_TOLERATED))

    # --- accepted -------------------------------------------------------------------------------

    def accepted(self, completion_id: str, n_chars: int | None) -> list[AcceptedText]:
        """Note that the first ``n_chars`` characters (all where None) of a suggestion were taken.

        Returns what can be learned by now: what was taken in part is learned when no more of it
        can come, with the next suggestion that is accepted.
        """
        suggestion = self._by_id.get(completion_id)
        if suggestion is None:
            return []
        n_chars = len(suggestion.text) if n_chars is None else min(n_chars, len(suggestion.text))
        self._counts.accepted(suggestion.n_taken, n_chars, len(suggestion.text))
        suggestion.n_taken = max(suggestion.n_taken, n_chars)
        self._n_in_a_row.pop(suggestion.kind, None)
        key = (suggestion.request.uri, suggestion.line_before, suggestion.text)
        self._n_rejected.pop(key, None)
        self._on_screen.pop(suggestion.request.uri, None)
        whole = suggestion.whole
        said = whole.text[: suggestion.n_said] if whole is not suggestion else ""
        taken = (whole, said + suggestion.text[:n_chars])
        learned = []
        if self._in_part is not None and self._in_part[0] is not whole:
            learned += self.flush()
        self._in_part = taken
        return learned + self.flush() if n_chars == len(suggestion.text) else learned

    def flush(self) -> list[AcceptedText]:
        """Return what was taken in part so far, to be learned."""
        taken, self._in_part = self._in_part, None
        if taken is None or taken[0].is_learned:
            return []
        suggestion, text = taken
        suggestion.is_learned = True
        before = "".join(suggestion.place.before.splitlines(keepends=True)[-CONTEXT_LINES:])
        return [AcceptedText(path=suggestion.path, file=suggestion.file, before=before, text=text)]

    # --- prefetched -----------------------------------------------------------------------------

    def wants_prefetch(self, shown: Suggestion, after: PlacedRequest) -> bool:
        """Whether to ask ahead for what follows the acceptance of a suggestion on screen.

        One step ahead and no further: what was prefetched is looked beyond when it is on screen.
        """
        place, rules = cursor_context(after), rules_of(after)
        for known in self._by_id.values():
            is_there = known.is_pending or (known.may_answer and known.made_at is not None)
            is_same_document = known.request.uri == after.uri and known.rules == rules
            if is_there and is_same_document and known.place == place:
                return False
        return shown.n_said >= N_COMMITTED or not self._prefetching_rests()

    def _prefetching_rests(self) -> bool:
        n = len(self._was_used)
        if n < N_LATEST_PREFETCHES or sum(self._was_used) >= LEAST_USED * n:
            return False
        self._n_rested = (self._n_rested + 1) % N_RESTED
        return self._n_rested != 0

    # --- the table ------------------------------------------------------------------------------

    def _new(self, request: PlacedRequest, completion_id: str) -> Suggestion:
        place = cursor_context(request)
        suggestion = Suggestion(
            completion_id=completion_id,
            request=request.plain(),
            path=request.path,
            file=request.file,
            place=place,
            rules=rules_of(request),
            kind=place_kind(request.language_id, place),
            line_before=line_before(place.before),
        )
        self._by_id[completion_id] = suggestion
        while len(self._by_id) > MAX_SUGGESTIONS:
            self._by_id.popitem(last=False)
        return suggestion

    def _fill(
        self, suggestion: Suggestion, made: CompletionResult | GeneratedText, now: float
    ) -> None:
        suggestion.text, suggestion.n_replaced = made.text, made.n_replaced
        suggestion.finish_reason = made.finish_reason
        suggestion.mean_logprob = made.mean_logprob
        suggestion.made_at = now
        suggestion.is_pending = False
        if suggestion.completion_id in self._by_id:
            self._by_id.move_to_end(suggestion.completion_id)


def place_kind(language_id: str, place: CursorContext) -> str:
    """Return a name for places of one kind: language, and what is around the cursor."""
    before = line_before(place.before)
    after = place.after[:_N_LINE_CHARS].partition("\n")[0].strip(_CLOSERS)
    if not before.strip():
        kind = "blank"
    elif after:
        kind = "inside"
    else:
        kind = "word" if before[-1].isalnum() or before[-1] == "_" else "end"
    return f"{language_id} {kind}"


def line_before(before: str) -> str:
    """Return the end of the cursor's line before the cursor."""
    return before[-_N_LINE_CHARS:].rpartition("\n")[2]
