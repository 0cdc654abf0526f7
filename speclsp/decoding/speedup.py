"""What speculation gains: the speed-up that the acceptance promises, and the one that was measured.

Both compare with decoding the same tokens one at a time, at T(1) per token.  T(1) is the mean time
of the passes after the prefill that happened to carry no draft, so it holds for the same model,
context lengths and load; nothing has to be run twice.
"""

from __future__ import annotations

from speclsp.request import RequestStats


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
