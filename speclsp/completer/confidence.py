"""How sure the model has to be while someone types: from the settings, or learned and kept."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from speclsp.completer.events import EventQueue
from speclsp.completer.kept_store import KeptStore
from speclsp.request import CompletionRequest, CompletionResult
from speclsp.settings import Settings
from speclsp.storage.acceptance_store import AcceptanceCount, AcceptanceStore
from speclsp.suggestions.outcomes import Outcomes
from speclsp.text import acceptance
from speclsp.text.acceptance import AcceptanceModel, bucket_of, counted_chars

SAVE_EVERY = 8
"""Suggestions decided between two times that what was learned is saved."""


class Confidence:
    """Follows what is shown, and says from where on it is worth showing.

    Any thread may call it.  The store is opened, read and written on the thread that runs
    ``later``'s actions, in idle time; until it was read the prior decides.
    """

    def __init__(
        self,
        settings: Settings,
        events: EventQueue,
        *,
        later: Callable[[str, Callable[[], None]], None],
        clock: Callable[[], float],
    ) -> None:
        self._later = later
        self._clock = clock
        self._lock = threading.Lock()
        self._outcomes = Outcomes(self._learn)
        self._model = ""
        self._learned = AcceptanceModel()
        self._unsaved: dict[int, acceptance.Outcomes] = {}
        self._n_unsaved = 0
        self._store = KeptStore(
            AcceptanceStore.open,
            events,
            what="how often suggestions are taken is",
            persist=settings.persist,
        )

    def threshold(self, settings: Settings) -> float:
        """Return the least mean log-probability by these settings."""
        confidence = settings.min_confidence
        if not isinstance(confidence, str):
            return math.log(confidence) if confidence > 0 else -math.inf
        with self._lock:
            return self._learned.threshold()

    def loaded(self, model: str) -> None:
        """Go on with what was learned of a model."""
        with self._lock:
            if model == self._model:
                return
            counts, before = self._take_unsaved(), self._model
            self._model = model
            self._learned = AcceptanceModel()
        self._later("acceptance of a model", lambda: self._change_model(before, counts, model))

    # --- what becomes of suggestions ------------------------------------------------------------

    def given(self, request: CompletionRequest, result: CompletionResult) -> None:
        """Note an answer that may be shown."""
        with self._lock:
            self._outcomes.given(request, result)

    def shown(self, completion_id: str) -> None:
        """Note that a suggestion is on screen."""
        with self._lock:
            self._outcomes.shown(completion_id, self._clock())

    def asked(self, request: CompletionRequest) -> None:
        """Note where the user is now."""
        with self._lock:
            self._outcomes.asked(request, self._clock())

    def accepted(self, completion_id: str, n_chars: int | None) -> None:
        """Note that a suggestion was taken, or its first characters."""
        with self._lock:
            self._outcomes.accepted(completion_id, n_chars, self._clock())

    def forget(self, uri: str) -> None:
        """Note that a document was closed."""
        with self._lock:
            self._outcomes.forget(uri, self._clock())

    def flush(self) -> None:
        """Decide what is open and save it with the next idle work, which closing does."""
        with self._lock:
            self._outcomes.end_all(self._clock())
        self._later("acceptance", self._save)

    def close(self) -> None:
        """Close the store; the thread that runs idle work has ended."""
        self._store.close()

    def _learn(self, mean_logprob: float, n_chars: int) -> None:
        bucket = bucket_of(mean_logprob)
        self._learned.note(bucket, n_chars)
        unsaved = self._unsaved.setdefault(bucket, acceptance.Outcomes())
        unsaved.n_shown += 1
        unsaved.n_chars += counted_chars(n_chars)
        self._n_unsaved += 1
        if self._n_unsaved >= SAVE_EVERY:
            self._n_unsaved = 0
            self._later("acceptance", self._save)

    # --- idle work ------------------------------------------------------------------------------

    def _take_unsaved(self) -> dict[int, AcceptanceCount]:
        unsaved, self._unsaved = self._unsaved, {}
        self._n_unsaved = 0
        return {b: AcceptanceCount(o.n_shown, o.n_chars) for b, o in unsaved.items()}

    def _save(self) -> None:
        with self._lock:
            model, counts = self._model, self._take_unsaved()
        self._add(model, counts)

    def _change_model(self, before: str, counts: dict[int, AcceptanceCount], model: str) -> None:
        self._add(before, counts)
        kept = self._load(model)
        with self._lock:
            if self._model != model:
                return
            learned = {b: acceptance.Outcomes(c.n_shown, c.n_chars) for b, c in kept.items()}
            for bucket, unsaved in self._unsaved.items():
                total = learned.setdefault(bucket, acceptance.Outcomes())
                total.n_shown += unsaved.n_shown
                total.n_chars += unsaved.n_chars
            self._learned = AcceptanceModel(learned)

    def _add(self, model: str, counts: dict[int, AcceptanceCount]) -> None:
        if model and counts:
            self._store.use(lambda store: store.add(model, counts), otherwise=None)

    def _load(self, model: str) -> dict[int, AcceptanceCount]:
        return self._store.use(lambda store: store.load(model), otherwise={})
