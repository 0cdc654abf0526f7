"""What drafts for the loaded models: made from the settings, with what it learned before."""

from __future__ import annotations

from speclsp.completer.events import EventQueue
from speclsp.completer.kept_store import KeptStore
from speclsp.drafting.calibration import Calibration
from speclsp.drafting.chain import DrafterChain
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.ngram_cache import NAME as NGRAM_CACHE
from speclsp.drafting.ngram_cache import StatisticsDrafter
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.registry import DRAFT_MODEL, drafter_names, load_drafters
from speclsp.engine.models import Tokenizer, Weights
from speclsp.settings import Settings
from speclsp.storage.calibration_store import CalibrationStore

SAVE_EVERY = 32
"""Completions between two times that the calibration is saved."""


class Proposing:
    """Makes proposers, and keeps their calibration.  Belongs to the engine thread."""

    def __init__(self, events: EventQueue, *, persist: bool) -> None:
        self._events = events
        self._store = KeptStore(
            CalibrationStore.open, events, what="how often drafts are right is", persist=persist
        )
        self._model = ""
        self._calibration = Calibration()
        self._n_unsaved = 0

    def make(self, settings: Settings, tokenizer: Tokenizer, weights: Weights) -> Proposer | None:
        """Return what drafts by these settings; None for nothing.  Problems are reported."""
        if not settings.speculation:
            return None
        if not weights.supports_rollback:
            self._events.log(
                "warning", "speculation is off: this model's memory cannot be rolled back."
            )
            return None
        drafters, problems = load_drafters(settings, draft_model=weights.draft)
        for problem in problems:
            self._events.problem(problem.message, problem.remedy)
        if not drafters:
            if drafter_names(settings.drafters) == (DRAFT_MODEL,):
                self._events.problem(
                    "nothing drafts: `drafters` names a draft model only, and none is loaded.",
                    "Set `spec_draft_model`, or add a drafter that needs no model, as `suffix`.",
                )
            return None
        if settings.mode == "first":
            return DrafterChain(drafters)
        self._take_model(_model_name(tokenizer, weights))
        joining: tuple[StatisticsDrafter, ...] = ()
        if all(drafter.name != NGRAM_CACHE for drafter in drafters):
            joining = (StatisticsDrafter(n_draft=settings.spec_ngram_cache_n_max),)
        return DraftMerger(
            drafters,
            self._calibration,
            joining=joining,
            mode=settings.mode,
            p_split=settings.p_split,
            n_max=settings.max_draft,
        )

    def completed(self) -> bool:
        """Note that a completion was made; returns whether it is time to save what was learned."""
        self._n_unsaved += 1
        return self._n_unsaved >= SAVE_EVERY

    def save(self) -> None:
        """Save what was learned since the last time."""
        if not self._model or not self._n_unsaved:
            return
        if self._store.use(self._saved, otherwise=not self._store.is_kept):
            self._n_unsaved = 0

    def close(self) -> None:
        """Save and close."""
        self.save()
        self._store.close()

    def _take_model(self, model: str) -> None:
        if model == self._model:
            return
        self.save()
        self._model = model
        self._n_unsaved = 0
        self._calibration = Calibration()
        self._calibration.take(self._store.use(lambda store: store.load(model), otherwise={}))

    def _saved(self, store: CalibrationStore) -> bool:
        store.save(self._model, self._calibration.cells())
        return True


def _model_name(tokenizer: Tokenizer, weights: Weights) -> str:
    """Return what the calibration is kept under: a draft model is right for one target alone."""
    names = (weights.description, tokenizer.vocabulary.fingerprint, weights.draft_description)
    return " ".join(name for name in names if name)
