"""What speculation gains, as measured and as expected (Leviathan et al. 2023, arXiv:2211.17192).

A step is a target pass with a draft.  In its formulas p is the probability that a draft token is
right if those before it are, k the draft's length, T_draft the time of drafting for each of its
tokens and T_target the time of a pass without a draft.  In a step that a draft model drafted for,
the look-ups were asked, too, and in other passes it may not have been: so T_draft is the time that
all drafters took in the steps, divided by their drafts' lengths.

The accepted tokens of a step are j with probability p^j · (1 − p) for j < k, and k with p^k.  Their
mean, Σ j · p^j · (1 − p) + k · p^k, is exactly p · (1 − p^k) / (1 − p).  llama.cpp's documentation
gives (1 − p^k) / (1 − p), which is larger by the factor 1 / p.  With the bonus token a step has
(1 − p^(k+1)) / (1 − p) tokens, one more than the exact mean.
"""

from __future__ import annotations

from typing import NamedTuple

from speclsp.seam.statistics import DrafterStats, RequestStats


class Expectation(NamedTuple):
    """The expected gain of a step, if all drafts had the mean length; times in milliseconds."""

    p: float
    k: float
    draft_ms: float = 0.0
    """T_draft."""
    target_ms: float = 0.0
    """T_target; 0 where every pass after the prefill had a draft."""
    pass_ms: float = 0.0
    """T(k+1): the mean time of a step without drafting."""

    @property
    def n_accepted(self) -> float:
        """Exact: p · (1 − p^k) / (1 − p)."""
        return self.n_tokens - 1.0

    @property
    def n_accepted_roughly(self) -> float:
        """As in llama.cpp's documentation: (1 − p^k) / (1 − p)."""
        return _powers(self.p, self.k)

    @property
    def n_tokens(self) -> float:
        """(1 − p^(k+1)) / (1 − p); the measured value is larger if right tokens come in runs."""
        return _powers(self.p, self.k + 1.0)

    def speedup(self, pass_ratio: float = 1.0) -> float:
        """Return n_tokens / (T(k+1)/T(1) + k · T_draft / T_target); the ratio is 1 by default.

        T_target is known.
        """
        return self.n_tokens / (pass_ratio + self.k * self.draft_ms / self.target_ms)


def _powers(p: float, n: float) -> float:
    """Return p^0 + p^1 + … + p^(n−1), continued to an ``n`` that is not whole."""
    return n if p >= 1.0 else (1.0 - p**n) / (1.0 - p)


def expectation(stats: RequestStats) -> Expectation | None:
    """Return the expected gain of a step; None if no draft was verified after the prefill."""
    n_steps, target_ms = n_draft_steps(stats), single_pass_ms(stats)
    if not stats.n_tried or not stats.n_draft_depths or not n_steps:
        return None
    p = (n_step_tokens(stats) - n_steps) / stats.n_tried
    k = stats.n_draft_depths / n_steps
    if target_ms is None:
        return Expectation(p, k)
    pass_ms = (stats.ms_draft_passes - stats.ms_drafting) / n_steps
    return Expectation(p, k, stats.ms_drafting / n_steps / k, target_ms, pass_ms)


def n_draft_steps(stats: RequestStats) -> int:
    """Return how many passes after the prefill had a draft."""
    return stats.n_decode_passes - stats.n_single_passes


def n_step_tokens(stats: RequestStats) -> int:
    """Return how many tokens these passes emitted; one without a draft emits one."""
    return stats.n_predicted - stats.n_prefill_predicted - stats.n_single_passes


def own_ms(drafter: DrafterStats) -> float:
    """Return the time that a drafter took in all."""
    return drafter.ms_begin + drafter.ms_draft + drafter.ms_accept


def single_pass_ms(stats: RequestStats) -> float | None:
    """Return T(1): the mean time of a pass without a draft; None if every pass had one."""
    return stats.ms_single_passes / stats.n_single_passes if stats.n_single_passes else None


def tokens_per_pass(stats: RequestStats) -> float:
    """Return the mean tokens per target pass; 0 without passes."""
    return stats.n_predicted / stats.n_target_passes if stats.n_target_passes else 0.0


def measured_speedup(stats: RequestStats) -> float | None:
    """Return the time of decoding the tokens one at a time, divided by the time they took.

    Tokens that the prompt's last pass emitted do not count.  None if T(1) is not known.
    """
    single_ms = single_pass_ms(stats)
    if single_ms is None or stats.ms_predict <= 0.0:
        return None
    return (stats.n_predicted - stats.n_prefill_predicted) * single_ms / stats.ms_predict


def measured_step_speedup(stats: RequestStats) -> float | None:
    """Return the same of the passes with a draft alone; None without any after the prefill."""
    single_ms = single_pass_ms(stats)
    if single_ms is None or stats.ms_draft_passes <= 0.0:
        return None
    return n_step_tokens(stats) * single_ms / stats.ms_draft_passes
