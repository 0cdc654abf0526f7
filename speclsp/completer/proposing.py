"""What drafts for the loaded models, made from the settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.proposer import Proposer
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
    running = {drafter.name for drafter in drafters}
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
    return DraftMerger(
        drafters,
        table,
        limits=partial(draft_limits, settings),
        mode=settings.mode,
        p_split=settings.p_split,
        n_max=most_verified(settings, running),
    )
