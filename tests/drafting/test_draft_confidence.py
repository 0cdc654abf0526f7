"""What a draft model's own probabilities are worth."""

from __future__ import annotations

import pytest

from speclsp.drafting.draft_confidence import DraftConfidence


def test_it_begins_with_what_the_model_says() -> None:
    confidence = DraftConfidence()
    assert confidence.of(0.0) == pytest.approx(0.05)
    assert confidence.of(0.55) == pytest.approx(0.55)
    assert confidence.of(1.0) == pytest.approx(0.95)


def test_it_learns_each_decile_up_to_the_first_wrong_token() -> None:
    confidence = DraftConfidence()
    for idx in range(50):
        confidence.drafted([(1, 0.9), (2, 0.55), (3, 0.3)], n_before=idx)
        confidence.learn([0] * idx + [1, 7, 3])
    assert confidence.of(0.95) > 0.9
    assert confidence.of(0.55) < 0.1
    assert confidence.of(0.35) == pytest.approx(0.35)  # behind a wrong one nothing is known
    before = confidence.of(0.55)
    confidence.learn([2] * 60)  # no draft stands
    assert confidence.of(0.55) == before
