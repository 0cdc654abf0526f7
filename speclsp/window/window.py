"""One editor window's side of the completer seam.

A request that the ledger of suggestions can answer never reaches the completer.  Other automatic
requests say how long the engine waits for the next keystroke, which replaces them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
import unicodedata
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from msgspec import structs

from speclsp.errors import EngineUnavailableError
from speclsp.reporting.session import SessionRecorder
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completer import Completer, answered
from speclsp.seam.completion import CompletionRequest, CompletionResult, PlacedCompletion
from speclsp.seam.documents import AcceptedText, Document, TextEdit, edit_between
from speclsp.seam.request import AnyPlaced, FinishReason, PlacedRequest, Request
from speclsp.seam.statistics import RequestStats, SessionStats
from speclsp.secrets.masked_text import PLACEHOLDER
from speclsp.secrets.pieces import Pieces
from speclsp.settings import Settings
from speclsp.text.rules import least_probability
from speclsp.text.typed_text import may_share_text
from speclsp.window.ledger import Ledger, Suggestion
from speclsp.window.masked_documents import MaskedDocuments, Refusal
from speclsp.window.next_edits import NextEdits

_N_FUTILE: Final = 3
"""Times that a request is repeated although the one before got no further."""
_N_LEARNED: Final = 2_000
"""As many as are stored of a folder."""


def new_id() -> str:
    """Return a new id for a request and its answer."""
    return uuid.uuid4().hex


class Window:
    """A completer with the documents and suggestions of one window.  Any thread may call it.

    Requests that do not supersede (headless use) are neither answered from the ledger nor
    remembered there: each gets the model's own answer.
    """

    def __init__(
        self,
        completer: Completer,
        settings: Settings,
        *,
        masks_late: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """With ``masks_late`` a thread masks large texts, so that opening one does not block.

        :meth:`complete` waits for that; :meth:`ask` answers empty meanwhile.
        """
        self.completer = completer
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._documents = MaskedDocuments(
            completer,
            masks=settings.mask_secrets,
            masks_late=masks_late,
            clock=clock,
            became_secret=self._forget_secrets,
        )
        self._counts = SessionRecorder()
        self._ledger = Ledger(self._counts)
        self.next_edits = NextEdits(
            completer, self._documents, self._learn, self._ledger.offers, clock
        )
        self._debounce = Debounce()
        self._in_flight: list[tuple[AnyPlaced, CancellationToken]] = []
        self._unlearned: list[AcceptedText] = []
        """Accepted texts in lines that the cursor may still be in."""
        self._why_nothing = ""
        """As in the statistics."""
        self._learned: deque[AcceptedText] = deque(maxlen=_N_LEARNED)
        """The latest texts that the completer learned, any of which it may have to forget."""
        self._cursor = ("", 0)
        """URI and offset of the latest request."""
        self._late: _Late | None = None
        """Where the latest result was empty because time ran out."""

    def apply_settings(self, settings: Settings) -> tuple[str, ...]:
        """Take new settings; return those that take effect after a restart.

        Texts that were generated with the old ones answer no more requests.
        """
        with self._lock:
            self._settings = settings
            self._ledger.clear()
            self._why_nothing = ""
            self._late = None
        return self.completer.apply_settings(settings)

    def statistics(self) -> SessionStats:
        """Return the session's statistics."""
        engine = self.completer.statistics()
        with self._lock:
            shown = self._ledger.impressions.counts(self._clock())
            sums = self._counts.snapshot(engine)
            return dataclasses.replace(
                sums,
                edits=self.next_edits.statistics(),
                why_nothing=self._why_nothing,
                **shown,
            )

    def model_changed(self) -> None:
        """Forget the times of another model's answers, and why its latest was withheld."""
        with self._lock:
            self._counts.forget_times()
            self._why_nothing = ""
            self._late = None

    def close(self) -> None:
        """Let the completer learn what was accepted in lines that were left, and close it."""
        self._documents.stop_masking()
        with self._lock:
            self._unlearned += self._ledger.flush()
        self._learn_left_lines()
        self.completer.close()

    # --- documents ------------------------------------------------------------------------------

    def open_document(self, document: Document) -> None:
        """Take an opened document; one that is open already is replaced."""
        self._documents.open(document)

    def change_document(self, uri: str, version: int, text: str) -> None:
        """Take a document's next version, which may be what a suggestion makes of it."""
        self._documents.change(uri, version, text)
        for offer_id, outcome in self._ledger.offers.changed(uri, text):
            if outcome == "undone":
                self.next_edits.undone(offer_id)
            elif not self.next_edits.made(offer_id):
                self.shown(offer_id)
                self.accepted(offer_id)

    def document(self, uri: str) -> Document | None:
        """Return a document's newest version, masked or about to be; None where it is not open."""
        return self._documents.get(uri)

    def save_document(self, uri: str) -> None:
        """Note that a document was written to its file."""
        self.completer.save_document(uri)

    def close_document(self, uri: str) -> None:
        """Forget a document."""
        self._documents.close(uri)
        with self._lock:
            self._ledger.forget(uri)

    # --- completions ----------------------------------------------------------------------------

    async def complete(
        self, request: CompletionRequest, cancel: CancellationToken
    ) -> CompletionResult:
        """Answer from the ledger, or ask the completer.  Raises what its future does."""
        arrived = self._clock()
        await self._documents.until_masked(request)
        placed = self._place(request)
        if not isinstance(placed, PlacedRequest):
            return self._refused(request, placed)
        known = self._known(placed, arrived)
        if known is not None:
            return known
        plain = structs.replace(placed.plain, debounce_ms=self._debounce_ms(placed))
        placed = dataclasses.replace(placed, plain=plain)
        # The completer's thread sets the future, so it must not be cancelled.
        answer = asyncio.wrap_future(self._ask(placed, cancel, arrived))
        # An error that arrives after the caller has gone needs no line in the log.
        answer.add_done_callback(lambda done: done.exception())
        return await asyncio.shield(answer)

    def ask(
        self, request: CompletionRequest, cancel: CancellationToken
    ) -> Future[CompletionResult]:
        """Answer from the ledger, or ask the completer at once."""
        arrived = self._clock()
        placed = self._place(request)
        if not isinstance(placed, PlacedRequest):
            return answered(self._refused(request, placed))
        known = self._known(placed, arrived)
        return answered(known) if known is not None else self._ask(placed, cancel, arrived)

    def note_late(self, request: CompletionRequest, result: CompletionResult) -> bool:
        """Note whether time ran out before there was a text; return whether to repeat the request.

        A repeated request goes on with the prompt where the one before ended, but not at another
        server.  That ends: all of them together evaluate less than the prompt, and at most
        ``_N_FUTILE`` are repeated that got no further.  One may have waited for the decode of
        another, and decodes that do not end in time get smaller.
        """
        stats, generated = result.stats, result.generated
        place = (request.uri, request.version, request.offset)
        with self._lock:
            late = self._late
            if generated.finish_reason == "cancelled":
                return False
            if generated.finish_reason != "deadline" or not result.is_empty:
                self._late = None
                return False
            if self._settings.engine_url and not self._settings.engine_listens:
                return False
            if late is None or late.place != place:
                late = self._late = _Late(place)
            elif late.completion_id == generated.completion_id:  # two requests shared it
                return False
            late.completion_id = generated.completion_id
            late.n_evaluated += stats.n_prompt_evaluated
            # Tokens may leave no text, such as those that only spell what was typed.
            late.n_futile += bool(stats.n_predicted or not stats.n_prompt_evaluated)
            is_whole = 0 < stats.n_prompt <= late.n_evaluated and not stats.n_predicted
            return not is_whole and late.n_futile <= _N_FUTILE

    def masked_request(self, request: CompletionRequest) -> CompletionRequest | Refusal:
        """Return a request as the completer takes it, or why there is none."""
        placed = self._place(request)
        return placed.plain if isinstance(placed, PlacedRequest) else placed

    def _place(self, request: CompletionRequest) -> PlacedCompletion | Refusal:
        placed = self._documents.place(structs.replace(request, completion_id=new_id()))
        if isinstance(placed, PlacedRequest):
            self._cursor = (placed.uri, placed.plain.offset)
            self._learn_left_lines()
        return placed

    def _refused(self, request: CompletionRequest, refusal: Refusal) -> CompletionResult:
        reason: FinishReason = "stop" if refusal == "private" else "cancelled"
        result = request.empty(reason, "filter")
        with self._lock:
            self._counts.add(result)
            if request.origin == "editor":
                self._stop(request)
        return result

    def _known(self, request: PlacedCompletion, arrived: float) -> CompletionResult | None:
        """Return the answer to a request that needs no model; None where it needs one."""
        if not request.is_editors:
            return None
        started = self._clock()
        settings = self._settings_of(request)
        with self._lock:
            self._ledger.typed(request)
            result = self._remembered(settings, request, arrived)
            if result is None:
                if request.plain.trigger != "automatic" or not settings.automatic_filters:
                    return None
                if not is_inside_word(request.text, request.cursor):
                    return None
                result = request.plain.empty("stop", "filter")
            self._stop(request.plain)
            ms_total = 1000 * (self._clock() - started)
            result = result.timed(ms_queue=0.0, ms_total=ms_total)
            self._counts.add(result)
        return result

    def _remembered(
        self, settings: Settings, request: PlacedCompletion, arrived: float
    ) -> CompletionResult | None:
        if not settings.enabled or not may_share_text(settings, request):
            return None
        known = self._ledger.find(request, self._clock())
        if known is None:
            return None
        is_late = known.rest.finish_reason == "deadline"
        if is_late and not known.rest.text:
            return None  # the prompt is evaluated by now, or more of it
        is_cut = not known.rest.text or is_late
        if request.plain.trigger == "invoked" and is_cut:
            return None  # a request by hand gets a whole text
        if self._was_rejected(settings, request, known.rest.text):
            return request.plain.empty(known.rest.finish_reason, "filter")
        if self._ledger.used(request, known):
            self._counts.answered(1000 * (self._clock() - arrived))
        return CompletionResult(generated=known.rest, stats=RequestStats(), source="memory")

    def _was_rejected(self, settings: Settings, request: PlacedCompletion, text: str) -> bool:
        return (
            request.is_editors
            and request.plain.trigger == "automatic"
            and settings.automatic_filters
            and bool(text)
            and self._ledger.was_rejected(request, text)
        )

    def _ask(
        self, request: PlacedCompletion, cancel: CancellationToken, arrived: float
    ) -> Future[CompletionResult]:
        with self._lock:
            may_answer = request.is_editors and self._settings_of(request).suggestion_memory
            self._ledger.requested(request, may_answer=may_answer)
            self._in_flight.append((request, cancel))
        answer: Future[CompletionResult] = Future()
        answer.set_running_or_notify_cancel()

        def take(done: Future[CompletionResult]) -> None:
            try:
                answer.set_result(self._taken(request, cancel, done, arrived))
            except BaseException as error:  # noqa: BLE001 - every request gets an answer
                answer.set_exception(error)

        try:
            self.completer.submit(request.plain, cancel).add_done_callback(take)
        except BaseException:
            with self._lock:
                self._arrived(request)
                self._ledger.failed(request)
            raise
        return answer

    def _taken(
        self,
        request: PlacedCompletion,
        cancel: CancellationToken,
        done: Future[CompletionResult],
        arrived: float,
    ) -> CompletionResult:
        """Note the completer's answer to a request, on the completer's thread, and return it.

        Raises what the completer's future does.
        """
        error = done.exception()
        with self._lock:
            if not self._arrived(request):  # its text, or its answer, may show a secret
                self._ledger.failed(request)
                return request.plain.empty("cancelled")
            if error is not None:
                self._failed(request, error)
                raise error
            result = done.result()
            self._ledger.generated(request, result, self._clock())
            if request.plain.is_prefetch:
                if result.stats.n_prompt:
                    self._counts.prefetched(result.stats)
                return result
            self._debounce.answered(result)
            generated = result.generated
            if self._was_rejected(self._settings_of(request), request, generated.text):
                empty = request.plain.empty(generated.finish_reason, "filter")
                result = structs.replace(empty, stats=result.stats)
            if request.is_editors and cancel.cancelled:
                generated = dataclasses.replace(result.generated, finish_reason="cancelled")
                result = structs.replace(result, generated=generated)
            self._counts.add(result)
            self._why_nothing = self._why_withheld(request, result)
            if not result.is_empty and result.generated.finish_reason != "cancelled":
                self._ledger.given(request.completion_id)
                self._counts.answered(1000 * (self._clock() - arrived))
        return result

    def _failed(self, request: PlacedCompletion, error: BaseException) -> None:
        self._ledger.failed(request)
        if request.plain.is_prefetch:
            return
        if not isinstance(error, EngineUnavailableError):
            self._counts.failed()
        elif request.is_editors:  # others are repeated until the engine is ready
            self._counts.unavailable()

    def _why_withheld(self, request: PlacedCompletion, result: CompletionResult) -> str:
        if result.is_empty and result.generated.finish_reason == "deadline":
            return f"too slow (nothing in {self._settings_of(request).deadline_ms / 1000:g} s)"
        if not result.is_withheld:
            return ""
        least = least_probability(request, self._settings_of(request))
        return f"not sure ({result.unsure:.2g} of {least:.2g})"

    def _arrived(self, request: AnyPlaced) -> bool:
        """Take a request's answer; return False where the request was forgotten meanwhile."""
        n_in_flight = len(self._in_flight)
        self._in_flight = [asked for asked in self._in_flight if asked[0] is not request]
        return len(self._in_flight) < n_in_flight

    def _stop(self, newer: Request[Any]) -> None:
        """Cancel the requests that one supersedes, which is answered at once, or waits."""
        for request, cancel in self._in_flight:
            is_superseded = request.plain.key == newer.key and request.is_editors
            if is_superseded and not request.plain.is_prefetch:
                cancel.cancel(for_good=True)

    def _debounce_ms(self, request: PlacedCompletion) -> float:
        """Return how long a request waits for the next keystroke; 0 where the user made it."""
        if request.plain.trigger != "automatic" or not request.is_editors:
            return 0.0
        settings = self._settings_of(request)
        with self._lock:
            if settings.debounce_ms >= 0:
                return float(settings.debounce_ms)
            is_busy = any(not asked.plain.is_prefetch for asked, _ in self._in_flight)
            return self._debounce.ms(busy=is_busy)

    def _settings_of(self, request: AnyPlaced) -> Settings:
        return request.settings_over(self._settings)

    # --- suggestions ----------------------------------------------------------------------------

    def suggestion(self, completion_id: str) -> Suggestion | None:
        """Return a suggestion, or None where it is not known any more."""
        with self._lock:
            return self._ledger.get(completion_id)

    def sent(self, completion_id: str, text: str, n_foreign: int) -> None:
        """Note the text that the client gets for a suggestion; see :class:`Suggestion`."""
        with self._lock:
            self._ledger.sent(completion_id, text, n_foreign)

    def offered(self, completion_id: str, uri: str, text: str, edit: TextEdit) -> None:
        """Note the edit of a document's text that a client makes where it accepts a suggestion."""
        self._ledger.offers.offer(completion_id, uri, text, edit)

    def has_offers(self, uri: str) -> bool:
        """Whether a change of a document may tell of a suggestion."""
        return self._ledger.offers.are_in(uri)

    def shown(self, completion_id: str) -> None:
        """Note that a suggestion is on screen, and prefetch what follows it."""
        with self._lock:
            suggestion = self._ledger.shown(completion_id, self._clock())
            after = self._after(suggestion) if suggestion is not None else None
        if after is not None:
            self._ask(after, CancellationToken(), self._clock())

    def accepted(self, completion_id: str, n_chars: int | None = None) -> None:
        """Note that the first ``n_chars`` characters of a suggestion (None: all) were accepted.

        They are counted from its start in each call.
        """
        with self._lock:
            accepted = self._ledger.accepted(completion_id, n_chars)
            self._unlearned += accepted
        for text in accepted:
            self._documents.accepted(text.uri, text.text)

    def _learn_left_lines(self) -> None:
        """Let the completer learn the accepted texts in lines that the cursor has left.

        Before that, a line may hold the beginning of a secret that is accepted in parts.
        """
        with self._lock:
            accepted, self._unlearned = self._unlearned, []
        for text in accepted:
            document = self._documents.newest_masked(text.uri)
            if document is None:
                if self._documents.get(text.uri) is not None:  # it is being masked
                    with self._lock:
                        self._unlearned.append(text)
                continue  # or it was closed within the line
            lines = lines_of(text, document.text)
            uri, offset = self._cursor
            if uri == text.uri and any(line.start <= offset <= line.stop for line in lines):
                with self._lock:
                    self._unlearned.append(text)
            elif lines and not any(PLACEHOLDER in document.text[line] for line in lines):
                self._learn(text)

    def _learn(self, text: AcceptedText) -> None:
        with self._lock:
            self._learned.append(text)
        self.completer.learn(text)

    def _forget_secrets(self, pieces: Pieces) -> None:
        """Forget what holds a piece of what became a secret, and let the completer do so.

        Requests that were made before are answered empty.
        """
        with self._lock:
            self._ledger.forget_secrets(pieces)
            self._unlearned = [text for text in self._unlearned if not pieces.are_in(text.whole)]
            self._in_flight = [
                asked for asked in self._in_flight if not pieces.are_in(asked[0].text)
            ]
            secret = [text for text in self._learned if pieces.are_in(text.whole)]
            for text in secret:
                self._learned.remove(text)
        self.next_edits.forget_secrets(pieces)
        for text in secret:
            self.completer.forget(text.name, pieces.ranges_in(text.whole))

    def _after(self, shown: Suggestion) -> PlacedCompletion | None:
        """Return the request that follows a suggestion's acceptance, if it is to be prefetched."""
        request = shown.request
        document = self._documents.at_version(request.uri, request.version)
        if document is None or request.origin != "editor":
            return None
        text = document.text if request.edit is None else request.edit.applied_to(document.text)
        prefix = text[: request.offset] + shown.text
        suffix = text[request.offset + shown.generated.n_replaced :]
        after = self._documents.place_masked(
            structs.replace(
                request,
                offset=len(prefix),
                edit=edit_between(document.text, prefix + suffix, cursor=len(prefix)),
                trigger="automatic",
                n_candidates=1,
                is_prefetch=True,
                wait_for_model=False,
            )
        )
        if after == "unknown":
            return None
        settings = self._settings_of(after)
        wants = settings.idle_work in ("auto", "always") and settings.suggestion_memory
        if not wants or self._ledger.has_text_at(after):
            return None
        named = structs.replace(after.plain, completion_id=new_id())
        return dataclasses.replace(after, plain=named)


@dataclasses.dataclass(slots=True)
class _Late:
    """What requests at one place, for which time ran out, have got of their prompt."""

    place: tuple[str, int, int]
    """URI, version and offset."""
    completion_id: str = ""
    """That of the latest result."""
    n_evaluated: int = 0
    """Prompt tokens that were evaluated."""
    n_futile: int = 0
    """Results that evaluated none, or had tokens and yet no text."""


class Debounce:
    """How long an automatic request waits for the next keystroke, by the model's speed."""

    N_ANSWERS: Final = 32
    """Latest answers of the model of which the median time is taken."""
    N_KNOWN: Final = 4
    """Answers below which requests do not wait."""
    FAST_MS: Final = 60.0
    """Median time within which an idle engine gets requests at once."""
    SHARE: Final = 0.25
    """Share of the median time to wait, so that waiting costs no more than it can save."""
    MAX_MS: Final = 150.0

    def __init__(self) -> None:
        self._latest: deque[float] = deque(maxlen=self.N_ANSWERS)

    def answered(self, result: CompletionResult) -> None:
        """Note the time of a model's answer; an interrupted one does not count."""
        if result.stats.n_target_passes and result.generated.finish_reason in ("stop", "length"):
            self._latest.append(result.stats.ms_total - result.stats.ms_queue)

    def ms(self, *, busy: bool) -> float:
        """Return the milliseconds to wait."""
        if len(self._latest) < self.N_KNOWN:
            return 0.0
        median = sorted(self._latest)[len(self._latest) // 2]
        if median <= self.FAST_MS and not busy:
            return 0.0
        return min(self.MAX_MS, self.SHARE * median)


def lines_of(accepted: AcceptedText, text: str) -> list[slice]:
    """Return where an accepted text stands in a document's text: its lines as a whole.

    It is not there if it was edited, or masked as part of a secret.
    """
    typed = accepted.before.rpartition("\n")[2] + accepted.text
    found: list[slice] = []
    start = text.find(typed)
    while start >= 0:
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", start + len(typed))
        found.append(slice(line_start, len(text) if line_end < 0 else line_end))
        start = text.find(typed, start + 1)
    return found


def is_inside_word(text: str, cursor: int) -> bool:
    """Whether a word's letters stand on both sides of the cursor."""
    return _is_word_character(text[max(0, cursor - 1) : cursor]) and _is_word_character(
        text[cursor : cursor + 1]
    )


def _is_word_character(character: str) -> bool:
    # Scripts without case often have no spaces: each letter may be a word.
    is_letter = character.isalnum() and unicodedata.category(character) != "Lo"
    return is_letter or character == "_"
