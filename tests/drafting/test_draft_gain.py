"""What a costly drafter's draft is expected to save."""

from __future__ import annotations

import numpy as np

from speclsp.drafting.cost import VerifyCurve, straight_curve
from speclsp.drafting.distribution import Distribution
from speclsp.drafting.draft_gain import DraftGain
from speclsp.drafting.protocol import Draft

FREE = VerifyCurve((1, 2), (1.0, 1.0))
ONE_TOKEN = np.ones(1, dtype=np.int64)


def taught(
    right: bool,
    seconds: float,
    *,
    saved: float = 0.0,
    rate: float = 1.0,
    gain: DraftGain | None = None,
) -> DraftGain:
    """A drafter's gain after drafts of three tokens where the others gave ``rate``."""
    gain = gain or DraftGain(cheap=0.0)
    for _ in range(100):
        gain.pays(rate, FREE, 1.0)
        gain.asked(Draft((1, 2, 3)), seconds, 1.0)
        gain.saved(saved)
        gain.learn((1, 2, 3, 4) if right else (9,))
    return gain


def n_asked(gain: DraftGain, n_passes: int, *, rate: float, seconds: float, n_unseen: int) -> int:
    """Drafts in so many passes, none of which saves anything."""
    n_drafts = 0
    for _ in range(n_passes):
        if gain.pays(rate, FREE, 1.0, n_unseen):
            n_drafts += 1
            gain.asked(Draft((1, 2, 3)), seconds, 1.0)
            gain.saved(0.0)
            gain.learn((9,))
        gain.passed(1.0)
    return n_drafts


def test_it_must_be_tried_first() -> None:
    gain = DraftGain(cheap=0.0)
    assert not gain.is_cheap(1.0)
    assert gain.pays(1.0, FREE, 1.0, n_unseen=500)
    other = DraftGain()
    assert other.is_cheap(1.0)
    other.asked(Draft(()), 5.0, 1.0)
    assert not other.is_cheap(1.0)


def test_what_is_right_pays_until_it_costs_more() -> None:
    assert taught(right=True, seconds=0.5).pays(1.0, FREE, 1.0)
    assert not taught(right=True, seconds=5.0).pays(1.0, FREE, 1.0)
    assert not taught(right=True, seconds=0.5).pays(3.9, FREE, 1.0)
    assert not taught(right=True, seconds=0.5).pays(1.0, straight_curve(2.0), 1.0)


def test_what_is_wrong_costs_a_small_share_of_the_time() -> None:
    gain = DraftGain(cheap=0.0)
    n_first = n_asked(gain, 100, rate=1.0, seconds=0.5, n_unseen=0)
    assert 2 <= n_first <= 10
    # 0.3 % of the time, at half a pass each.
    assert n_asked(gain, 2000, rate=1.0, seconds=0.5, n_unseen=0) <= 12 + 2


def test_what_it_adds_to_the_others_counts_where_they_know_as_much() -> None:
    gain = taught(right=True, seconds=3.5, saved=4.0, rate=1.5)
    taught(right=True, seconds=3.5, saved=3.0, rate=1.1, gain=gain)
    assert gain.pays(1.5, FREE, 1.0)
    assert not gain.pays(1.1, FREE, 1.0)


def test_what_began_wrongly_saved_nothing() -> None:
    gain = taught(right=False, seconds=0.5, saved=4.0)
    assert not gain.pays(1.0, FREE, 1.0)


def test_a_prompt_is_evaluated_where_the_request_pays_it_back() -> None:
    gain = taught(right=True, seconds=0.5)
    gain.begin()
    gain.pays(1.0, FREE, 1.0, n_unseen=100)
    gain.asked(Draft((1, 2, 3)), 10.5, 1.0)  # a tenth of a pass for each token
    gain.saved(2.5)
    for n_drafts in (20, 2):
        for _ in range(40):
            gain.begin()
            for _ in range(n_drafts):
                gain.pays(1.0, FREE, 1.0)
                gain.asked(Draft((1, 2, 3)), 0.5, 1.0)
                gain.saved(2.5)
                gain.learn((1, 2, 3, 4))
        gain.begin()
        # Each draft gains two passes and a half.
        assert gain.pays(1.0, FREE, 1.0, n_unseen=200) == (n_drafts == 20)
    assert gain.pays(1.0, FREE, 1.0, n_unseen=10)


def test_trials_do_not_evaluate_prompt_after_prompt() -> None:
    gain = DraftGain(cheap=0.0)
    n_prompts = 0
    for _ in range(100):  # completions of ten passes, each with a prompt of its own
        gain.begin()
        n_unseen = 400
        for _ in range(10):
            if gain.pays(1.0, FREE, 1.0, n_unseen):
                n_prompts += n_unseen > 0
                gain.asked(Draft((1,)), 5.0 if n_unseen else 0.2, 1.0)
                gain.saved(0.0)
                gain.learn((9,))
                n_unseen = 0
            gain.passed(1.0)
    assert 1 <= n_prompts <= 5


def test_a_drafter_without_a_model_is_cheap_by_the_measure_of_a_pass() -> None:
    gain = DraftGain()
    gain.asked(Draft((1,)), 0.01, 1.0)
    assert gain.is_cheap(1.0)
    assert not gain.is_cheap(0.05)
    one = Distribution(ONE_TOKEN, ONE_TOKEN.astype("float64"))
    gain.asked(Draft((1,), distributions=(one,)), 0.01, 1.0)
    assert not gain.is_cheap(1.0)


def test_a_pause_of_the_machine_does_not_count_for_long() -> None:
    gain = taught(right=True, seconds=0.5)
    gain.pays(1.0, FREE, 1.0)
    gain.asked(Draft((1, 2, 3)), 600.0, 1.0)
    assert gain.pays(1.0, FREE, 1.0)


def test_a_first_draft_that_evaluated_the_prompt_does_not_count_for_long() -> None:
    gain = DraftGain(cheap=0.0)
    gain.pays(1.0, FREE, 1.0)
    gain.asked(Draft((1, 2, 3)), 2.5, 1.0)
    gain.saved(2.0)
    gain.learn((1, 2, 3, 4))
    assert gain.pays(1.0, FREE, 1.0)
    gain.asked(Draft((1, 2, 3)), 0.1, 1.0)
    gain.saved(2.0)
    gain.learn((1, 2, 3, 4))
    assert gain.pays(1.0, FREE, 1.0)


def test_only_what_became_known_teaches() -> None:
    gain = DraftGain(cheap=0.0)
    for _ in range(100):
        gain.pays(1.0, FREE, 1.0)
        gain.asked(Draft((1, 2, 3)), 0.5, 1.0)
        gain.learn((1,))  # one right, and nothing known of the others
    assert gain.pays(1.3, FREE, 1.0)
    gain.learn((7,))  # no draft stands
    assert gain.pays(1.3, FREE, 1.0)


def test_a_draft_that_ends_early_gives_nothing_behind_its_end() -> None:
    gain = taught(right=True, seconds=0.5)
    for _ in range(100):
        gain.pays(1.7, FREE, 1.0)
        gain.asked(Draft((1,)), 0.5, 1.0)
        gain.saved(0.2)
        gain.learn((1, 2, 3, 4))
    # Two tokens for a pass and a half, where the others give nearly as many for one.
    assert not gain.pays(1.7, FREE, 1.0)
