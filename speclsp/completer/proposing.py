"""What drafts for the loaded models, made from the settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.ngram_cache import NAME as NGRAM_CACHE
from speclsp.drafting.ngram_cache import StatisticsDrafter
from speclsp.drafting.proposer import DrafterChain, Proposer
from speclsp.drafting.registry import (
    DRAFT_MODEL,
    draft_limits,
    drafter_names,
    load_drafters,
    most_verified,
    unread_settings,
)
from speclsp.engine.models import Weights
from speclsp.errors import DrafterError, SpecLspError
from speclsp.settings import Settings


def make_proposer(
    settings: Settings,
    weights: Weights,
    table: AcceptanceTable,
    report: Callable[[SpecLspError], None],
) -> Proposer | None:
    """Return what drafts by these settings; None for nothing.  Problems go to ``report``.

    ``table`` says how often drafts were right with these weights.
    """
    if not settings.speculation:
        return None
    if not weights.supports_rollback:
        report(DrafterError("speculation is off: this model's memory cannot be rolled back."))
        return None
    drafters, problems = load_drafters(settings, draft_model=weights.draft)
    joining: tuple[StatisticsDrafter, ...] = ()
    named = {drafter.name for drafter in drafters}
    if drafters and settings.mode != "first" and NGRAM_CACHE not in named:
        joining = (StatisticsDrafter(n_draft=settings.spec_ngram_cache_n_max),)
    running = named | {drafter.name for drafter in joining}
    for problem in (*problems, *unread_settings(settings, running)):
        report(problem)
    if not drafters:
        if drafter_names(settings.drafters) == (DRAFT_MODEL,):
            report(
                DrafterError(
                    "nothing drafts: `drafters` names a draft model only, and none is loaded.",
                    remedy="Set `spec_draft_model`, or add a drafter that needs no model, as "
                    "`suffix`.",
                )
            )
        return None
    limits = partial(draft_limits, settings)
    if settings.mode == "first":
        return DrafterChain(drafters, limits)
    return DraftMerger(
        drafters,
        table,
        joining=joining,
        limits=limits,
        mode=settings.mode,
        p_split=settings.p_split,
        n_max=most_verified(settings, running),
    )
