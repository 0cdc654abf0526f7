"""A costly drafter's expected gain."""

from __future__ import annotations

from speclsp.drafting.draft_gain import DraftGain
from speclsp.drafting.protocol import Draft
from speclsp.drafting.verify_curve import VerifyCurve, straight_curve

FREE = VerifyCurve((1, 2), (1.0, 1.0))


def taught(right: bool, seconds: float, n_drafts: int = 100) -> DraftGain:
    gain = DraftGain()
    for _ in range(n_drafts):
        gain.drafted(Draft((1, 2, 3)), seconds)
        gain.learn((1, 2, 3, 4) if right else (9,))
    return gain


def test_it_must_be_tried_first() -> None:
    gain = DraftGain()
    assert gain.pays(100.0, FREE, 1.0)
    assert gain.is_cheap(0.0)
    gain.drafted(Draft(()), 5.0)
    assert not gain.is_cheap(1.0)
    assert gain.pays(100.0, FREE, 1.0)  # the first draft evaluated the prompt


def test_what_is_right_pays_until_it_costs_more() -> None:
    assert taught(right=True, seconds=0.5).pays(1.0, FREE, 1.0)
    assert not taught(right=True, seconds=5.0).pays(1.0, FREE, 1.0)
    assert not taught(right=True, seconds=0.5).pays(3.9, FREE, 1.0)
    assert not taught(right=True, seconds=0.5).pays(1.0, straight_curve(2.0), 1.0)


def test_what_is_wrong_does_not_pay_but_is_tried_now_and_then() -> None:
    gain = taught(right=False, seconds=0.5)
    n_tries = sum(gain.pays(1.0, FREE, 1.0) for _ in range(320))
    assert n_tries == 10


def test_it_is_cheap_by_the_measure_of_a_pass() -> None:
    gain = taught(right=False, seconds=0.01)
    assert gain.is_cheap(1.0)
    assert not gain.is_cheap(0.05)


def test_the_first_call_does_not_count_for_long() -> None:
    gain = DraftGain()
    gain.drafted(Draft((1,)), 60.0)
    gain.drafted(Draft((1,)), 0.1)
    assert gain.is_cheap(1.1)


def test_only_what_became_known_teaches() -> None:
    gain = DraftGain()
    for _ in range(100):
        gain.drafted(Draft((1, 2, 3)), 0.5)
        gain.learn((1,))  # one right, and nothing known of the others
    assert gain.pays(1.3, FREE, 1.0)
    gain.learn((7,))  # no draft stands
    assert gain.pays(1.3, FREE, 1.0)
