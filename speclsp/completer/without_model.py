"""Requests that need no model: text typed as suggested, and places where nothing would help."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

from speclsp.completer.completion import settings_of
from speclsp.completer.prefetch import Prefetches
from speclsp.completer.request_filters import RequestFilters
from speclsp.request import CompletionRequest, CompletionResult, RequestStats
from speclsp.settings import Settings
from speclsp.suggestions.answers import Answers, Rest, answers_of
from speclsp.suggestions.rejections import Rejections
from speclsp.suggestions.waiting_time import WaitingTime


class WithoutModel:
    """What is known from earlier answers and from what became of them.

    Any thread may call it.  Requests that do not supersede stand apart (headless use): they are
    neither answered from here nor remembered, so that each gets what the model says to it.
    """

    def __init__(
        self, settings: Settings, warn: Callable[[str], None], clock: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._answers = Answers()
        self._rejections = Rejections()
        self._filters = RequestFilters(warn)
        self._waiting = WaitingTime()
        self._prefetches = Prefetches()

    def apply_settings(self, settings: Settings) -> None:
        """Take new settings; what the old ones led to is forgotten."""
        with self._lock:
            self._settings = settings
            self._clear()

    def clear(self) -> None:
        """Forget the answers: others would be given now."""
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        self._answers.clear()
        self._prefetches.forget()

    def forget(self, uri: str) -> None:
        """Forget a document that was closed."""
        with self._lock:
            self._answers.forget(uri)
            self._rejections.forget(uri)

    # --- answers --------------------------------------------------------------------------------

    def answer(
        self, request: CompletionRequest, completion_id: str
    ) -> tuple[CompletionResult, Rest | None] | None:
        """Return a request's answer where no model is needed, with what it is the rest of."""
        if not request.supersede:
            return None
        started = self._clock()
        settings = self.settings_for(request)
        with self._lock:
            rest = self._rest(settings, request)
            if rest is not None:
                result = rest.result(completion_id, RequestStats())
                if self._holds_back(settings, request, rest.text):
                    result = dataclasses.replace(result, text="", n_replaced=0, source="filter")
            elif request.trigger == "automatic" and self._filters.refuses(settings, request):
                result = CompletionResult(
                    completion_id=completion_id,
                    text="",
                    finish_reason="stop",
                    stats=RequestStats(),
                    source="filter",
                )
            else:
                return None
        return result.timed(ms_queue=0.0, ms_total=1000 * (self._clock() - started)), rest

    def take(
        self,
        request: CompletionRequest,
        result: CompletionResult,
        settings: Settings,
        *,
        prefetched: bool = False,
    ) -> None:
        """Remember what the model said to a request, unless ``settings`` do not hold any more."""
        if not request.supersede or not self.settings_for(request).suggestion_memory:
            return
        answers = answers_of(request, result, now=self._clock(), prefetched=prefetched)
        with self._lock:
            if settings is not self._settings:
                return
            self._answers.add(answers)
            if prefetched and result.text:
                self._prefetches.made(result.completion_id)

    def given(self, result: CompletionResult, rest: Rest | None) -> bool:
        """Take note of an answer that goes out; whether it is the first use of a prefetch."""
        with self._lock:
            if result.source == "model":
                self._waiting.answered(result)
            if rest is None or not rest.answer.prefetched or not result.text:
                return False
            return self._prefetches.used(rest.answer.completion_id)

    def held_back(self, request: CompletionRequest, result: CompletionResult) -> CompletionResult:
        """Return the model's answer, without its text where that was turned down here too often."""
        with self._lock:
            if not self._holds_back(self.settings_for(request), request, result.text):
                return result
        return dataclasses.replace(
            result, text="", n_replaced=0, source="filter", alternatives=(), mean_logprob=None
        )

    def _rest(self, settings: Settings, request: CompletionRequest) -> Rest | None:
        self._rejections.asked(request)
        if not settings.suggestion_memory or not settings.enabled or request.n_candidates > 1:
            return None
        if self._wants_another_draw(settings, request):
            return None
        rest = self._answers.find(request, self._clock())
        if rest is not None and request.trigger == "invoked":
            # Who asks wants an answer, and the whole of it.
            return rest if rest.text and rest.answer.finish_reason != "deadline" else None
        return rest

    def _holds_back(self, settings: Settings, request: CompletionRequest, text: str) -> bool:
        return (
            request.supersede
            and request.trigger == "automatic"
            and settings.automatic_filters
            and bool(text)
            and self._rejections.holds_back(request, text)
        )

    def may_go_on(self, request: CompletionRequest) -> bool:
        """Whether one generation may serve this request and those that follow while typing."""
        settings = self.settings_for(request)
        return (
            request.supersede
            and settings.suggestion_memory
            and request.n_candidates == 1
            and not self._wants_another_draw(settings, request)
        )

    def _wants_another_draw(self, settings: Settings, request: CompletionRequest) -> bool:
        temperature = request.temperature
        if temperature is None:
            temperature = settings.temperature
        return request.trigger == "invoked" and temperature > 0

    # --- what becomes of them -------------------------------------------------------------------

    def shown(
        self,
        request: CompletionRequest,
        text: str,
        n_replaced: int,
        *,
        n_said: int,
    ) -> CompletionRequest | None:
        """Note that a text is on screen; returns what to prefetch, if anything.

        It is what is left of a suggestion of which ``n_said`` characters were typed.
        """
        settings = self.settings_for(request)
        with self._lock:
            self._rejections.shown(request, text)
            if not request.supersede or not settings.prefetch or not settings.suggestion_memory:
                return None
            return self._prefetches.request_after(request, text, n_replaced, n_said=n_said)

    def accepted(self, request: CompletionRequest, text: str) -> None:
        """Note that the user took ``text`` at the request's place."""
        with self._lock:
            self._rejections.accepted(request, text)

    # --- waiting --------------------------------------------------------------------------------

    def delay_ms(self, request: CompletionRequest, *, busy: bool) -> float:
        """Return how long a request should wait for the next keystroke before the model gets it."""
        if request.trigger != "automatic" or not request.supersede:
            return 0.0
        debounce_ms = self.settings_for(request).debounce_ms
        if debounce_ms >= 0:
            return float(debounce_ms)
        with self._lock:
            return self._waiting.ms(busy=busy) + self._rejections.extra_ms(request)

    def settings_for(self, request: CompletionRequest) -> Settings:
        """Return the settings that hold for a request."""
        settings = self._settings
        if not request.overrides and request.language_id not in settings.languages:
            return settings
        return settings_of(settings, request)
