"""Advice: which settings to change, by what a session's drafters took and gave.

The limits and remedies are those of llama-server's documentation: aim for more than 50 % accepted
tokens, draft more above 60 %, and less below; below 40 % another method or draft model is better; a
draft model should have a fifth to a twentieth of the target's size.
"""

from __future__ import annotations

from typing import Any, Final

from speclsp.reporting.gain import measured_speedup, own_ms, single_pass_ms
from speclsp.seam.statistics import RequestStats
from speclsp.settings import DRAFT_MODEL, DRAFTERS, Settings, default, shown_name
from speclsp.settings_resolution import SHARED, as_read

ENOUGH: Final = 50
"""Passes from which on silence is judged, and draft tokens from which on their acceptance is: a
share of 50 is known to within 0.14 (95 %)."""
ENOUGH_PASSES: Final = 20
"""Passes from which on a speed-up is judged."""
ENOUGH_SINGLE: Final = 3
"""Passes without a draft that T(1) is known by: `mode` first makes few."""
ENOUGH_CALLS: Final = 20
"""Calls without a proposal from which on a drafter is silent: it proposes in less than 0.14 of them
(95 %).  Mode auto asks a draft model that saves nothing ever less."""
LOSS: Final = 0.9
"""The speed-up below which speculation costs time: rounds of typing that it neither helped nor
slowed gave 0.88 to 1.02 on two CPU cores (README)."""
HIGH, AIM, LOW = 0.6, 0.5, 0.4
"""Shares of accepted draft tokens."""


def advice_lines(totals: RequestStats, settings: Settings, *, has_gpu: bool) -> list[str]:
    """Return lines of advice on a session; none where its drafters do well.

    ``has_gpu``: some layers are on one.

    A drafter that was asked often and proposed nothing has a line of its own; of the others, the
    one to blame for a loss of time, or else for rejected tokens, or else one that may draft more.
    """
    silent = [
        name
        for name, one in totals.drafters.items()
        if one.n_draft_calls >= ENOUGH_CALLS
        and not one.n_proposed
        and totals.n_decode_passes >= ENOUGH
    ]
    speedup = _speedup_at_most(totals)
    if speedup is not None and speedup < LOSS and totals.drafters:
        worst, loss = _loss(totals, settings, speedup, has_gpu=has_gpu)
        lines = [loss, *(_silent(name, totals, settings) for name in silent if name != worst)]
    else:
        lines = [_silent(name, totals, settings) for name in silent]
        lines.append(_rejected(totals, settings) or _longer(totals, settings))
    return [f"advice: {line}." for line in lines if line]


def _silent(name: str, totals: RequestStats, settings: Settings) -> str:
    """Return which settings keep a drafter from drafting; "" where none is known to."""
    one = totals.drafters[name]
    knobs = DRAFTERS.get(name)
    settings = as_read(name, settings)
    if knobs is None:
        remedy = f"take `{name}` out of `drafters`"
    elif name == "ngram-cache":
        has_files = settings.lookup_cache_dynamic or settings.lookup_cache_static
        if "suffix" in settings.drafters and not has_files:
            return ""  # it waits for what will be accepted
        remedy = "name statistics files of code like yours (`lookup_cache_dynamic`)"
    elif settings.n_predict <= getattr(settings, knobs.least):
        remedy = (
            f"raise {_shown(settings, 'n_predict')} above {_shown(settings, knobs.least)}, its "
            "shortest draft, or lower that"
        )
    else:
        lowered = [setting for setting in knobs.surer if _holds_back(settings, setting)]
        if getattr(settings, knobs.least) > 1:
            lowered.insert(0, knobs.least)
        if not lowered:
            return ""
        lowered.sort(key=lambda setting: bool(getattr(settings, setting) == default(setting)))
        remedy = f"lower {_either([_shown(settings, setting) for setting in lowered])}"
    n_nothing = one.n_draft_calls - one.n_proposed_drafts
    return (
        f"{name} proposed nothing in {n_nothing} of {one.n_draft_calls} calls "
        f"({own_ms(one):.1f} ms): {remedy}"
    )


def _loss(
    totals: RequestStats, settings: Settings, speedup: float, *, has_gpu: bool
) -> tuple[str, str]:
    """Return the drafter that lost most time, and what to do about it; "" where none lost any."""
    n_passes = max(1, totals.n_decode_passes)
    single_ms = single_pass_ms(totals) or totals.ms_verify / n_passes
    # What a draft token adds to the time of its pass, and a proposed one to that of merging.
    verify_ms = max(0.0, totals.ms_verify - n_passes * single_ms) / max(1, totals.n_drafted)
    drafters = totals.drafters
    merge_ms = max(0.0, totals.ms_draft - sum(map(own_ms, drafters.values())))
    merge_ms /= max(1, sum(one.n_proposed for one in drafters.values()))

    def times(name: str) -> tuple[float, float, float]:
        """Return the milliseconds to draft and merge, and to verify, and those saved."""
        one = drafters[name]
        drafting_ms = own_ms(one) + one.n_proposed * merge_ms
        return drafting_ms, one.n_drafted * verify_ms, one.n_accepted * single_ms

    def lost(name: str) -> float:
        drafting_ms, verifying_ms, saved_ms = times(name)
        return drafting_ms + verifying_ms - saved_ms

    worst = max(drafters, key=lost)
    drafting_ms, verifying_ms, saved_ms = times(worst)
    one, blamed, remedies = drafters[worst], "", []
    if lost(worst) <= 0.0:
        worst = ""
    else:
        blamed = (
            f", most by {worst}: {drafting_ms:.1f} ms to draft and merge, {verifying_ms:.1f} ms to "
            f"verify, for {saved_ms:.1f} ms saved"
        )
        if drafting_ms < verifying_ms:
            remedies = _draft_less(worst, settings)
        elif 2 * one.n_proposed_drafts < one.n_draft_calls and (
            held_back := _silent(worst, totals, settings)
        ):
            return worst, held_back
        elif worst == DRAFT_MODEL:
            remedies = [
                "name a draft model (`spec_draft_model`) of a tenth of the target's size or less"
            ]
            if has_gpu:
                remedies.append("put both models on the GPU (`n_gpu_layers`, `spec_draft_ngl`)")
        else:
            remedies = [f"take `{worst}` out of `drafters`"]
    if settings.mode != "auto":
        remedies.insert(0, "set `mode` to `auto` (it verifies what saves time)")
    remedies.append("set `speculation` to false")
    bound = "at most " if _speedup(totals) is None else ""
    return worst, (
        f"speculation costs more than it saves here ({bound}{speedup:.2f}x){blamed}: "
        f"{_either(remedies)}"
    )


def _rejected(totals: RequestStats, settings: Settings) -> str:
    """Return the advice on the drafter with the most rejected tokens, where too many are."""
    if settings.mode != "first" and (_speedup(totals) or 0.0) >= 1.0:
        return ""  # the decision verified what was worth its cost
    judged = {name: one for name, one in totals.drafters.items() if one.n_drafted >= ENOUGH}
    few = [name for name, one in judged.items() if one.n_accepted < AIM * one.n_drafted]
    if not few or totals.n_accepted >= AIM * totals.n_drafted:
        return ""
    worst = max(few, key=lambda name: judged[name].n_drafted - judged[name].n_accepted)
    rate = judged[worst].n_accepted / judged[worst].n_drafted
    remedies = _draft_less(worst, settings)
    if rate < LOW and worst == DRAFT_MODEL:
        remedies += ["name another draft model (`spec_draft_model`)", "draft by look-ups alone"]
    elif rate < LOW:
        remedies.append("choose other `drafters`")
    limit = LOW if rate < LOW else AIM
    return (
        f"{rate:.1%} of the tokens that {worst} drafted are accepted, below {limit:.0%}: "
        f"{_either(remedies)}"
    )


def _longer(totals: RequestStats, settings: Settings) -> str:
    """Return the advice to draft more, where a setting ended most drafts of a good drafter."""
    if (measured_speedup(totals) or 1.0) < 1.0:
        return ""  # to draft more would lose more
    for name, one in totals.drafters.items():
        rate = one.n_accepted / max(1, one.n_drafted)
        if name not in DRAFTERS or one.n_drafted < ENOUGH or rate <= HIGH:
            continue
        setting, n_most = _longest(name, settings)
        n_ended = one.n_drafted_at[n_most - 1] if len(one.n_drafted_at) >= n_most > 0 else 0
        if 2 * n_ended >= one.n_drafts:
            shown = _shown(as_read(name, settings), setting)
            return (
                f"{rate:.1%} of the tokens that {name} drafted are accepted, and {shown} ended "
                f"{n_ended} of {one.n_drafts} drafts: raise it"
            )
    return ""


def _speedup(totals: RequestStats) -> float | None:
    """Return the measured speed-up; None after few passes, or few without a draft."""
    is_known = totals.n_decode_passes >= ENOUGH_PASSES and totals.n_single_passes >= ENOUGH_SINGLE
    return measured_speedup(totals) if is_known else None


def _speedup_at_most(totals: RequestStats) -> float | None:
    """Return the speed-up, or a bound from above where that is not known; None after few passes.

    The bound takes all passes to be as fast without a draft as they were on average.
    """
    known = _speedup(totals)
    if known is not None or totals.n_decode_passes < ENOUGH_PASSES or totals.ms_predict <= 0.0:
        return known
    n_tokens = totals.n_predicted - totals.n_prefill_predicted
    return n_tokens * totals.ms_verify / totals.n_decode_passes / totals.ms_predict


def _draft_less(name: str, settings: Settings) -> list[str]:
    """Return how to make a drafter draft less, and better."""
    knobs = DRAFTERS.get(name)
    settings = as_read(name, settings)
    if knobs is None:
        return [f"take `{name}` out of `drafters`"]
    remedies = [f"raise {_shown(settings, setting)}" for setting in knobs.surer]
    most, n_most = _longest(name, settings)
    if n_most > 1:
        remedies.insert(0, f"lower {_shown(settings, most)}")
    return remedies


def _longest(name: str, settings: Settings) -> tuple[str, int]:
    """Return the setting that ends a drafter's longest drafts, and their length."""
    knobs, settings = DRAFTERS[name], as_read(name, settings)
    limits: dict[str, int] = {}
    if settings.draft_max >= 0 and knobs.most not in SHARED["draft_max"]:
        limits["draft_max"] = settings.draft_max  # first, since it may have set the others
    limits[knobs.most] = getattr(settings, knobs.most)
    if settings.mode != "first":
        keeps_whole = name in (DRAFT_MODEL, "ngram-mod")
        n_least = getattr(settings, knobs.least) if keeps_whole else 0
        limits["max_draft"] = max(settings.max_draft, n_least)
    setting = min(limits, key=lambda name: limits[name])
    return setting, limits[setting]


def _holds_back(settings: Settings, setting: str) -> bool:
    """Whether a lower value of a setting may let more be drafted."""
    value: float = getattr(settings, setting)
    return value > (0.0 if isinstance(value, float) else 1)  # a probability, or tokens or places


def _shown(settings: Settings, setting: str) -> str:
    """Return a setting as the user gave it, with its value."""
    value: Any = getattr(settings, setting)
    for shared, owns in SHARED.items():
        if setting in owns and default(shared) != getattr(settings, shared) == value:
            setting = shared
    return f"`{shown_name(setting)}` ({value})"


def _either(remedies: list[str]) -> str:
    *first, last = remedies
    return f"{', '.join(first)}, or {last}" if len(first) > 1 else " or ".join(remedies)
