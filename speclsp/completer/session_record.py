"""What was answered in a session, and what became of it."""

from __future__ import annotations

import threading

from speclsp.completer.given import Given, GivenSuggestions
from speclsp.decoding.session import SessionRecorder
from speclsp.request import (
    CompletionRequest,
    CompletionResult,
    EngineState,
    IndexStats,
    RequestStats,
    SessionStats,
)
from speclsp.suggestions.answers import Rest


class SessionRecord:
    """The session's sums and its latest suggestions.  Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recorder = SessionRecorder()
        self._given = GivenSuggestions()

    def answered(
        self,
        request: CompletionRequest,
        result: CompletionResult,
        rest: Rest | None,
        *,
        uses_prefetch: bool = False,
    ) -> None:
        """Note an answer as it is given, and what it is the rest of."""
        with self._lock:
            self._recorder.add(result)
            if uses_prefetch:
                self._recorder.prefetch_used()
            self._given.add(request, result, rest)

    def shown(self, completion_id: str) -> Given | None:
        """Note that a suggestion is on screen, and return it; None where it is not known."""
        with self._lock:
            given = self._given.get(completion_id)
            if given is not None:
                self._recorder.shown(completion_id)
            return given

    def accepted(self, completion_id: str, n_chars: int | None) -> tuple[Given, str] | None:
        """Note that a suggestion was taken; returns it and the text that was.

        ``n_chars`` is None for all of it.  None where the suggestion is not known.
        """
        with self._lock:
            given = self._given.get(completion_id)
            if given is None:
                return None
            text = given.text if n_chars is None else given.text[:n_chars]
            self._recorder.accepted(completion_id, len(text), len(given.text))
            return given, text

    def closed(self, uri: str) -> None:
        """Let go of a closed document's text."""
        with self._lock:
            self._given.forget_whole(uri)

    def loaded(self, *, model: str, draft_model: str, layers: dict[str, int], n_ctx: int) -> None:
        """Note which models are there."""
        with self._lock:
            self._recorder.loaded(model=model, draft_model=draft_model, layers=layers, n_ctx=n_ctx)

    def failed(self) -> None:
        """Count a request that ended in an error."""
        with self._lock:
            self._recorder.failed()

    def spent_in_vain(self, stats: RequestStats) -> None:
        """Count what was spent on a text that nobody got."""
        with self._lock:
            self._recorder.spent_in_vain(stats)

    def went_on(self) -> None:
        """Count a generation that goes on for a newer request."""
        with self._lock:
            self._recorder.gone_on()

    def prefetched(self, stats: RequestStats) -> None:
        """Count what was spent ahead."""
        with self._lock:
            self._recorder.prefetched(stats)

    def statistics(
        self,
        *,
        state: EngineState,
        index: IndexStats,
        n_idle_evaluated: int,
        verify_ms: tuple[tuple[int, float], ...],
    ) -> SessionStats:
        """Return the sums so far, with what others know."""
        with self._lock:
            return self._recorder.snapshot(
                state=state, index=index, n_idle_evaluated=n_idle_evaluated, verify_ms=verify_ms
            )
