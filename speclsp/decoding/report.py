"""What speculation gains, and the statistics as lines for the log.

Where llama.cpp prints the same, the lines have its format.  A speed-up compares with decoding the
same tokens one at a time, at T(1) per token.  T(1) is the mean time of the passes after the prefill
that happened to carry no draft, so it holds for the same model, context lengths and load; nothing
has to be run twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from speclsp.request import CompletionResult, DrafterStats, RequestStats, SessionStats

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


def single_pass_ms(stats: RequestStats) -> float | None:
    """Return T(1) in milliseconds, None where every pass carried a draft."""
    if not stats.n_single_passes:
        return None
    return stats.ms_single_passes / stats.n_single_passes


def tokens_per_pass(stats: RequestStats) -> float:
    """Return E, the tokens that one target pass emits on average; 0 where there was no pass."""
    return stats.n_predicted / stats.n_target_passes if stats.n_target_passes else 0.0


def acceptance_probability(stats: RequestStats) -> float | None:
    """Return p, the chance that a draft token is right if those before it are; None if untried."""
    return stats.n_accepted / stats.n_tried if stats.n_tried else None


def tokens_per_draft_pass(stats: RequestStats) -> float | None:
    """Return the tokens that a pass with a draft emits on average; None without any."""
    if not stats.n_draft_passes:
        return None
    return 1.0 + stats.n_accepted / stats.n_draft_passes


def expected_tokens_per_draft_pass(stats: RequestStats) -> float | None:
    """Return (1 - p^(k + 1)) / (1 - p), what acceptance at random with p promises.

    k is the mean depth of a draft (Leviathan et al. 2023).  The measured figure is above it where
    acceptance comes in runs, as it does in copied code, and where trees branch.
    """
    p = acceptance_probability(stats)
    if p is None or not stats.n_draft_passes:
        return None
    k = stats.n_draft_depths / stats.n_draft_passes
    return k + 1.0 if p >= 1.0 else (1.0 - p ** (k + 1.0)) / (1.0 - p)


def expected_speedup(stats: RequestStats) -> float | None:
    """Return E / (1 + k · T_draft / T_target), None where nothing was timed.

    k · T_draft is the time that drafting took per pass.  T_target is T(1), or the mean pass where
    T(1) is not known.  The formula takes a pass to cost the same whatever its draft
    (Leviathan et al. 2023); how far that is wrong on this machine shows beside the measured one.
    """
    target_ms = single_pass_ms(stats)
    if target_ms is None and stats.n_decode_passes:
        target_ms = stats.ms_verify / stats.n_decode_passes
    if not target_ms or not stats.n_target_passes:
        return None
    draft_ms = stats.ms_draft / stats.n_target_passes
    return tokens_per_pass(stats) / (1.0 + draft_ms / target_ms)


def measured_speedup(stats: RequestStats) -> float | None:
    """Return the time that the tokens would have taken one at a time over the time they took.

    The prefill emits one token with or without drafts, so one token of each prefill has no part
    in it.  None where T(1) is not known or nothing came after the prefill.
    """
    single_ms = single_pass_ms(stats)
    n_prefills = stats.n_target_passes - stats.n_decode_passes
    if single_ms is None or stats.ms_predict <= 0.0:
        return None
    return (stats.n_predicted - n_prefills) * single_ms / stats.ms_predict


def report_lines(stats: SessionStats) -> list[str]:
    """Return the session's statistics block, one entry per line of the log."""
    totals = stats.totals
    return [
        *_session_lines(stats),
        *_time_lines(totals),
        *_speculation_lines(totals),
        *_cost_lines(stats),
        *_latency_lines(stats),
        *advice_lines(totals),
    ]


def request_line(result: CompletionResult) -> str:
    """Return one completion's line for the log."""
    stats = result.stats
    if result.source != "model" and not stats.n_target_passes:
        return (
            f"completion {result.completion_id}: by {result.source}, "
            f"{len(result.text)} characters in {stats.ms_total:.2f} ms"
        )
    drafters = ", ".join(
        f"{name} {drafter.n_accepted}/{drafter.n_drafted}"
        for name, drafter in stats.drafters.items()
        if drafter.n_drafted
    )
    return (
        f"completion {result.completion_id}: {result.finish_reason}, "
        f"{stats.n_predicted} tokens in {stats.n_target_passes} target passes "
        f"({tokens_per_pass(stats):.2f} per pass), "
        f"prompt {stats.n_prompt_evaluated}/{stats.n_prompt} evaluated, "
        f"accepted {stats.n_accepted}/{stats.n_drafted} draft tokens"
        f"{f' ({drafters})' if drafters else ''}, "
        f"queue {stats.ms_queue:.1f}, tokenize {stats.ms_tokenize:.1f}, "
        f"prompt {stats.ms_prompt:.1f}, draft {stats.ms_draft:.1f}, "
        f"verify {stats.ms_verify:.1f}, predict {stats.ms_predict:.1f}, "
        f"total {stats.ms_total:.1f} ms"
    )


def draft_acceptance_line(stats: RequestStats) -> str:
    """Return llama.cpp's line on all drafts of a request or a session."""
    n_drafts = stats.n_draft_passes
    rate = stats.n_accepted / stats.n_drafted if stats.n_drafted else 0.0
    mean_length = 1.0 + stats.n_accepted / n_drafts if n_drafts else 1.0
    return (
        f"draft acceptance = {rate:0.5f} ({stats.n_accepted:5d} accepted / "
        f"{stats.n_drafted:5d} generated), mean len = {mean_length:5.2f}"
    )


def drafter_line(name: str, stats: DrafterStats) -> str:
    """Return llama.cpp's ``statistics`` line of one drafter."""
    accepted = ""
    if stats.n_accept_calls:
        mean_length = 1.0 + stats.n_accepted / stats.n_accept_calls
        rates = ", ".join(f"{n / stats.n_accept_calls:.3f}" for n in stats.n_accepted_at)
        accepted = f", #mean acc len = {mean_length:.2f}, #acc rate/pos = ({rates})"
    return (
        f"statistics {name:>16s}: #calls(b,g,a) = {stats.n_begin_calls:4d} "
        f"{stats.n_draft_calls:6d} {stats.n_accept_calls:6d}, "
        f"#gen drafts = {stats.n_drafts:6d}, #acc drafts = {stats.n_accepted_drafts:5d}, "
        f"#gen tokens = {stats.n_drafted:6d}, #acc tokens = {stats.n_accepted:5d}{accepted}, "
        f"dur(b,g,a) = {stats.ms_begin:.3f}, {stats.ms_draft:.3f}, {stats.ms_accept:.3f} ms"
    )


def _session_lines(stats: SessionStats) -> list[str]:
    lines = [
        (
            f"requests = {stats.n_requests} ({stats.n_completions} with text, "
            f"{stats.n_empty} empty, {stats.n_withheld} withheld, "
            f"{stats.n_cancelled} cancelled, {stats.n_failed} failed), "
            f"suggestions shown = {stats.n_shown}, accepted = {stats.n_accepted_items} "
            f"(in part {stats.n_partially_accepted}), "
            f"characters accepted = {stats.n_chars_accepted}"
        ),
    ]
    if stats.model:
        draft = f", draft model = {stats.draft_model}" if stats.draft_model else ""
        layers = ", ".join(f"{device} {n}" for device, n in stats.layers.items()) or "none"
        lines.append(
            f"model = {stats.model}{draft}, n_ctx = {stats.n_ctx}, layers per device: {layers}"
        )
    lines += _spared_lines(stats)
    index = stats.index
    if index.n_files or index.n_skipped or index.building:
        building = ", still building" if index.building else ""
        lines.append(
            f"index = {index.n_files} files, {index.n_tokens} tokens, "
            f"{index.n_skipped} files skipped{building}"
        )
    return lines


def _spared_lines(stats: SessionStats) -> list[str]:
    """Return what needed no model, and what was spent ahead of requests."""
    lines = []
    if stats.n_memory or stats.n_filtered or stats.n_coalesced:
        lines.append(
            f"without the model = {stats.n_memory} from memory, {stats.n_filtered} filtered; "
            f"coalesced requests = {stats.n_coalesced}"
        )
    if stats.n_prefetches:
        prefetch = stats.prefetch
        lines.append(
            f"prefetches = {stats.n_prefetches} ({stats.n_prefetches_used} used), "
            f"{prefetch.n_prompt_evaluated} prompt tokens evaluated, "
            f"{prefetch.n_predicted} tokens predicted, beside the sums below"
        )
    if stats.n_idle_evaluated:
        lines.append(
            f"idle time = {stats.n_idle_evaluated} prompt tokens evaluated, beside the sums below"
        )
    return lines


def _time_lines(totals: RequestStats) -> list[str]:
    n_reused = totals.n_prompt - totals.n_prompt_evaluated
    share = 100.0 * n_reused / totals.n_prompt if totals.n_prompt else 0.0
    return [
        f"prompt eval time = {_rate_text(totals.ms_prompt, totals.n_prompt_evaluated)}",
        f"       eval time = {_rate_text(totals.ms_predict, totals.n_predicted)}",
        (
            f"      total time = {totals.ms_prompt + totals.ms_predict:10.2f} ms / "
            f"{totals.n_prompt_evaluated + totals.n_predicted:5d} tokens"
        ),
        (
            f"KV reuse = {share:.1f} % ({totals.n_prompt} prompt tokens, "
            f"{totals.n_prompt_evaluated} evaluated, {n_reused} reused)"
        ),
    ]


def _rate_text(milliseconds: float, n_tokens: int) -> str:
    per_token = milliseconds / n_tokens if n_tokens else 0.0
    per_second = 1e3 * n_tokens / milliseconds if milliseconds > 0.0 else 0.0
    return (
        f"{milliseconds:10.2f} ms / {n_tokens:5d} tokens "
        f"({per_token:8.2f} ms per token, {per_second:8.2f} tokens per second)"
    )


def _speculation_lines(totals: RequestStats) -> list[str]:
    single_ms = single_pass_ms(totals)
    basis = f"T(1) = {single_ms:.2f} ms" if single_ms is not None else "no pass without a draft"
    return [
        (
            f"tokens per target pass = {tokens_per_pass(totals):.2f} "
            f"({totals.n_predicted} tokens / {totals.n_target_passes} passes)"
        ),
        (
            f"speed-up: expected E/(1 + k·T_draft/T_target) = {_times(expected_speedup(totals))}, "
            f"measured = {_times(measured_speedup(totals))} ({basis})"
        ),
        *_draft_pass_lines(totals),
        draft_acceptance_line(totals),
        *(drafter_line(name, stats) for name, stats in totals.drafters.items()),
    ]


def _draft_pass_lines(totals: RequestStats) -> list[str]:
    """Return how many passes carry a draft, and what these emit against what p promises."""
    if not totals.n_target_passes:
        return []
    share = 100.0 * totals.n_draft_passes / totals.n_target_passes
    line = (
        f"passes with a draft = {share:.1f} % ({totals.n_draft_passes} of {totals.n_target_passes})"
    )
    expected = expected_tokens_per_draft_pass(totals)
    p, measured = acceptance_probability(totals), tokens_per_draft_pass(totals)
    if expected is None or p is None or measured is None:
        return [line]
    k = totals.n_draft_depths / totals.n_draft_passes
    return [
        (
            f"{line}, tokens in each = {measured:.2f}, "
            f"expected (1 - p^(k+1))/(1 - p) = {expected:.2f} (p = {p:.3f}, k = {k:.2f})"
        )
    ]


def _cost_lines(stats: SessionStats) -> list[str]:
    """Return where the time after the prefill goes, and what passes cost by their size."""
    totals = stats.totals
    lines = []
    if totals.n_decode_passes:
        host_ms = max(0.0, totals.ms_predict - totals.ms_draft - totals.ms_verify)
        n_passes = totals.n_decode_passes
        lines.append(
            f"time per pass: draft = {totals.ms_draft / n_passes:.3f}, "
            f"verify = {totals.ms_verify / n_passes:.3f}, host = {host_ms / n_passes:.3f} ms "
            f"({n_passes} passes after the prefill)"
        )
    if stats.verify_ms:
        lines.append(verify_times_line(stats.verify_ms))
    return lines


def verify_times_line(verify_ms: Sequence[tuple[int, float]]) -> str:
    """Return T(k) as measured: ``verify_ms`` has (k, milliseconds)."""
    sizes = ", ".join(str(size) for size, _ in verify_ms)
    times = ", ".join(f"{ms:.3g}" for _, ms in verify_ms)
    return f"T(k) as measured for k = {sizes} tokens: {times} ms"


def _times(speedup: float | None) -> str:
    return "not measured" if speedup is None else f"{speedup:.2f}x"


def _latency_lines(stats: SessionStats) -> list[str]:
    return [
        f"latency {stage:>8s}: p50 = {p.p50:8.2f}, p95 = {p.p95:8.2f}, p99 = {p.p99:8.2f} ms "
        f"({p.n} requests)"
        for stage, p in stats.latency.items()
    ]


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
