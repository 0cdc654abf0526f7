"""What to change where drafts cost more than they save, or could be longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from speclsp.decoding.speedup import measured_speedup
from speclsp.request import RequestStats

LOW_ACCEPTANCE: Final = 0.4
HIGH_ACCEPTANCE: Final = 0.6
ENOUGH_SINGLE_PASSES: Final = 20
"""Passes without a draft from which on their mean time is taken for T(1) in advice."""


@dataclass(frozen=True, slots=True)
class _Change:
    """What makes a drafter draft less, and what makes it draft more."""

    less: str
    more: str


_CHANGES: Final = {
    "prompt-lookup": _Change(
        "raise `min_ngram_size` or lower `num_pred_tokens`", "raise `num_pred_tokens`"
    ),
    "suffix": _Change("lower `max_draft`", "raise `max_draft`"),
    "ngram-simple": _Change("raise `spec_ngram_simple_size_n`", "raise `spec_ngram_simple_size_m`"),
    "ngram-map-k": _Change("raise `spec_ngram_map_k_size_n`", "raise `spec_ngram_map_k_size_m`"),
    "ngram-map-k4v": _Change(
        "raise `spec_ngram_map_k4v_size_n`", "raise `spec_ngram_map_k4v_size_m`"
    ),
    "ngram-mod": _Change("raise `spec_ngram_mod_n_match`", "raise `spec_ngram_mod_n_max`"),
    "ngram-cache": _Change("lower `spec_ngram_cache_n_max`", "raise `spec_ngram_cache_n_max`"),
    "draft": _Change(
        "lower `spec_draft_n_max` or raise `spec_draft_p_min`", "raise `spec_draft_n_max`"
    ),
}


def advice_lines(totals: RequestStats) -> list[str]:
    """Return a line on what to change where too little or very much is accepted."""
    if not totals.n_drafted:
        return []
    speedup = measured_speedup(totals)
    if speedup is not None and speedup < 1.0 and totals.n_single_passes >= ENOUGH_SINGLE_PASSES:
        return [
            (
                f"advice: speculation costs more than it saves here ({speedup:.2f}x): "
                f"{_change(_worst(totals)).less}, or set `speculation` to false."
            )
        ]
    rate = totals.n_accepted / totals.n_drafted
    if rate < LOW_ACCEPTANCE:
        name = _worst(totals)
        return [
            (
                f"advice: {rate:.0%} of the draft tokens are accepted, "
                f"below {LOW_ACCEPTANCE:.0%}, and most rejected ones come from {name}: "
                f"{_change(name).less}."
            )
        ]
    if rate > HIGH_ACCEPTANCE:
        name = max(totals.drafters, key=lambda n: totals.drafters[n].n_accepted, default="")
        return [
            (
                f"advice: {rate:.0%} of the draft tokens are accepted, "
                f"above {HIGH_ACCEPTANCE:.0%}, and most come from {name}: {_change(name).more}."
            )
        ]
    return []


def _worst(totals: RequestStats) -> str:
    """Return the drafter most of whose draft tokens were rejected."""
    return max(
        totals.drafters,
        key=lambda name: totals.drafters[name].n_drafted - totals.drafters[name].n_accepted,
        default="",
    )


def _change(drafter: str) -> _Change:
    foreign = _Change(f"take `{drafter}` out of `drafters`", "raise `max_draft`")
    return _CHANGES.get(drafter, foreign)
