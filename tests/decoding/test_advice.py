"""Advice on drafting names settings that exist and that change what is complained of."""

from __future__ import annotations

import re
from importlib.metadata import entry_points

import pytest

from speclsp.decoding.report import _DRAFT_LESS, ENOUGH_SINGLE_PASSES, advice_lines
from speclsp.drafting.registry import DRAFT_MODEL, GROUP
from speclsp.request import DrafterStats, RequestStats
from speclsp.settings_resolution import canonical_name


def advice(name: str, n_drafted: int, n_accepted: int, **changes) -> str:
    """Return the advice on a session with one drafter; a pass without a draft takes 1 ms."""
    drafter = DrafterStats(n_drafts=n_drafted, n_drafted=n_drafted, n_accepted=n_accepted)
    stats = RequestStats(
        n_predicted=400,
        n_decode_passes=217,
        n_drafted=n_drafted,
        n_accepted=n_accepted,
        drafters={"idle": DrafterStats(), name: drafter},
        ms_predict=2000.0,
        **changes,
    )
    lines = advice_lines(stats)
    assert len(lines) <= 1
    return lines[0] if lines else ""


@pytest.mark.parametrize(
    ("name", "n_accepted", "settings_named"),
    [
        ("prompt-lookup", 39, ["min_ngram_size", "num_pred_tokens"]),
        ("draft", 39, ["spec_draft_n_max", "spec_draft_p_min"]),
        ("suffix", 39, ["max_draft"]),
        ("ngram-cache", 39, ["spec_ngram_cache_n_max"]),
        ("theirs", 39, ["drafters"]),
    ],
)
def test_advice_names_settings_that_exist(name, n_accepted, settings_named):
    line = advice(name, 100, n_accepted)
    assert line
    named = [n for n in re.findall(r"`([^`]+)`", line) if n != name]
    assert named == settings_named
    assert all(canonical_name(n) == n for n in named)
    assert f"{n_accepted}%" in line


@pytest.mark.parametrize("n_accepted", [40, 50, 90])
def test_no_advice_from_40_percent_on(n_accepted):
    assert advice("draft", 100, n_accepted) == ""


def test_a_gain_is_not_called_a_loss():
    slow_alone = {"n_single_passes": ENOUGH_SINGLE_PASSES, "ms_single_passes": 400.0}
    assert advice("draft", 100, 50, **slow_alone) == ""


def test_a_loss_is_only_claimed_after_enough_passes():
    few = {"n_single_passes": ENOUGH_SINGLE_PASSES - 1, "ms_single_passes": 19.0}
    assert advice("draft", 100, 50, **few) == ""
    enough = {"n_single_passes": ENOUGH_SINGLE_PASSES, "ms_single_passes": 20.0}
    assert "`speculation`" in advice("draft", 100, 50, **enough)


def test_every_drafter_of_ours_has_advice():
    ours = {e.name for e in entry_points(group=GROUP) if e.value.startswith("speclsp.")}
    assert set(_DRAFT_LESS) == {*ours, DRAFT_MODEL}
    for change in _DRAFT_LESS.values():
        for name in re.findall(r"`([^`]+)`", change):
            assert canonical_name(name) == name
