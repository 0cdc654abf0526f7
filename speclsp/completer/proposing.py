"""What drafts for the loaded models, made from the settings."""

from __future__ import annotations

from speclsp.completer.events import EventQueue
from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.ngram_cache import NAME as NGRAM_CACHE
from speclsp.drafting.ngram_cache import StatisticsDrafter
from speclsp.drafting.proposer import DrafterChain, Proposer
from speclsp.drafting.registry import DRAFT_MODEL, drafter_names, load_drafters
from speclsp.engine.models import Weights
from speclsp.settings import Settings


def make_proposer(
    settings: Settings, weights: Weights, table: AcceptanceTable, events: EventQueue
) -> Proposer | None:
    """Return what drafts by these settings; None for nothing.  Problems are reported.

    ``table`` says how often drafts were right with these weights.
    """
    if not settings.speculation:
        return None
    if not weights.supports_rollback:
        events.log("warning", "speculation is off: this model's memory cannot be rolled back.")
        return None
    drafters, problems = load_drafters(settings, draft_model=weights.draft)
    for problem in problems:
        events.problem(problem.message, problem.remedy)
    if not drafters:
        if drafter_names(settings.drafters) == (DRAFT_MODEL,):
            events.problem(
                "nothing drafts: `drafters` names a draft model only, and none is loaded.",
                "Set `spec_draft_model`, or add a drafter that needs no model, as `suffix`.",
            )
        return None
    if settings.mode == "first":
        return DrafterChain(drafters)
    joining: tuple[StatisticsDrafter, ...] = ()
    if all(drafter.name != NGRAM_CACHE for drafter in drafters):
        joining = (StatisticsDrafter(n_draft=settings.spec_ngram_cache_n_max),)
    return DraftMerger(
        drafters,
        table,
        joining=joining,
        mode=settings.mode,
        p_split=settings.p_split,
        n_max=settings.max_draft,
    )
