"""Each piece of advice has a session that brings it about; good sessions get none.

``tests/cli/test_advice.py`` brings the main ones about by real processes.
"""

import re
from dataclasses import replace
from importlib.metadata import entry_points

import pytest

from speclsp.drafting.registry import GROUP
from speclsp.reporting.advice import ENOUGH, ENOUGH_CALLS, ENOUGH_PASSES, advice_lines
from speclsp.seam.statistics import DrafterStats, RequestStats
from speclsp.settings import DRAFT_MODEL, DRAFTERS, Settings
from speclsp.settings_resolution import canonical_name, resolve


def drafter(
    n_drafted: int, n_accepted: int, *, depth: int = 1, n_proposed_more: int = 0, **more
) -> DrafterStats:
    """Return a drafter whose drafts were all verified to the same depth."""
    n_drafts = n_drafted // depth
    return DrafterStats(
        n_draft_calls=100,
        n_proposed_drafts=n_drafts,
        n_proposed=n_drafted + n_proposed_more,
        n_drafts=n_drafts,
        n_drafted=n_drafted,
        n_accepted=n_accepted,
        n_drafted_at=(n_drafts,) * depth,
        **more,
    )


SILENT = DrafterStats(n_begin_calls=9, n_draft_calls=62, ms_draft=1.5)
"""Asked often, without a proposal."""


def session(
    *,
    ms_predict: float = 2000.0,
    ms_draft: float = 0.0,
    n_single_passes: int = 100,
    **drafters: DrafterStats,
) -> RequestStats:
    """Return a session of 400 tokens in 217 passes; one without a draft takes 10 ms.

    Drafters' names have underscores for hyphens.
    """
    named = {name.replace("_", "-"): one for name, one in drafters.items()}
    return RequestStats(
        n_predicted=400,
        n_decode_passes=217,
        n_drafted=sum(one.n_drafted for one in named.values()),
        n_accepted=sum(one.n_accepted for one in named.values()),
        drafters=named,
        ms_predict=ms_predict,
        ms_draft=ms_draft,
        ms_verify=2170.0,
        n_single_passes=n_single_passes,
        ms_single_passes=10.0 * n_single_passes,
    )


def unknown_gain(**drafters: DrafterStats) -> RequestStats:
    """Return a session in which each pass had a draft, so that T(1) is not known."""
    return session(n_single_passes=0, **drafters)


def advice(totals: RequestStats, *, has_gpu: bool = False, **options) -> str:
    """Return the only line of advice, or an empty string."""
    lines = advice_lines(totals, resolve([options]).settings, has_gpu=has_gpu)
    assert len(lines) <= 1
    return lines[0] if lines else ""


def settings_named(line: str) -> list[str]:
    return re.findall(r"`(?:drafter_options\.)?([^`]+)`", line)


# --- good sessions --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_accepted", [50, 55, 60])
def test_from_half_of_the_tokens_on_there_is_no_advice(n_accepted):
    assert advice(session(draft=drafter(100, n_accepted))) == ""
    assert advice(unknown_gain(draft=drafter(100, n_accepted))) == ""


def test_a_good_session_has_no_advice():
    assert advice(RequestStats()) == ""
    waiting = DrafterStats(n_draft_calls=100)
    assert advice(session(suffix=drafter(100, 75, depth=2), ngram_cache=waiting)) == ""


@pytest.mark.parametrize("mode", ["auto", "tree", "chain"])
def test_rejected_tokens_that_saved_time_are_no_fault(mode):
    # The alternatives of a tree are rejected but for one.
    assert advice(session(suffix=drafter(1000, 150)), mode=mode) == ""


def test_few_tokens_and_calls_are_not_judged():
    assert advice(unknown_gain(draft=drafter(ENOUGH - 1, 0))) == ""
    assert advice(unknown_gain(draft=drafter(ENOUGH - 1, ENOUGH - 1)), draft_max=1) == ""
    asked = DrafterStats(n_draft_calls=ENOUGH_CALLS - 1)
    assert advice(session(ngram_mod=asked), n_predict=32) == ""
    short = RequestStats(n_decode_passes=ENOUGH - 1, drafters={"ngram-mod": SILENT})
    assert advice(short, n_predict=32) == ""


# --- many rejected --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "settings", "below_40"),
    [
        ("draft", ["draft.n_max", "draft.p_min"], ["spec_draft_model"]),
        ("suffix", ["max_draft"], ["drafters"]),
        ("prompt-lookup", ["prompt-lookup.num_pred_tokens"], ["drafters"]),
        ("ngram-simple", ["max_draft", "spec_ngram_size_n", "spec_ngram_min_hits"], ["drafters"]),
        ("ngram-mod", ["max_draft", "ngram-mod.n_match"], ["drafters"]),
        ("ngram-cache", ["draft_max"], ["drafters"]),
        ("theirs", ["theirs", "drafters"], ["drafters"]),
    ],
)
def test_below_a_half_a_drafter_is_to_draft_less(name, settings, below_40):
    line = advice(unknown_gain(**{name: drafter(100, 45)}))
    assert line.startswith(
        f"advice: 45.0% of the tokens that {name} drafted are accepted, below 50%"
    )
    assert settings_named(line) == settings
    worse = advice(unknown_gain(**{name: drafter(100, 39)}))
    assert "39.0% of the tokens" in worse
    assert "below 40%" in worse
    assert settings_named(worse) == [*settings, *below_40]


def test_the_options_that_were_given_are_named():
    line = advice(
        unknown_gain(ngram_simple=drafter(200, 44)), mode="first", spec_ngram_size_n=8, draft_max=16
    )
    assert line == (
        "advice: 22.0% of the tokens that ngram-simple drafted are accepted, below 40%: lower "
        "`draft_max` (16), raise `spec_ngram_size_n` (8), raise "
        "`spec_ngram_min_hits` (1), or choose other `drafters`."
    )


def test_of_two_limits_that_one_option_sets_that_option_is_named():
    line = advice(unknown_gain(suffix=drafter(200, 44)), mode="first", draft_max=64)
    assert "lower `draft_max` (64) or choose" in line


def test_what_cannot_be_lowered_is_not_to_be_lowered():
    line = advice(unknown_gain(draft=drafter(100, 45)), draft_max=1)
    assert line.endswith(": raise `drafter_options.draft.p_min` (0.0).")


def test_llama_cpps_rule_drafts_too_much_though_time_is_saved():
    assert "below 40%" in advice(session(draft=drafter(100, 30)), mode="first")


def test_the_drafter_with_most_rejected_tokens_is_named():
    right = drafter(300, 165)
    line = advice(unknown_gain(suffix=right, draft=drafter(100, 10), ngram_cache=drafter(60, 10)))
    assert "that draft drafted" in line
    assert advice(unknown_gain(suffix=drafter(300, 240), draft=drafter(100, 10))) == ""


# --- time -----------------------------------------------------------------------------------------


def test_a_slow_down_is_blamed_on_the_drafter_that_took_the_time():
    slow = drafter(20, 15, ms_draft=2200.0)
    totals = session(ms_predict=5000.0, draft=slow, suffix=drafter(60, 40, ms_draft=90.0))
    line = advice(totals, has_gpu=True)
    assert line.startswith(
        "advice: speculation costs more than it saves here (0.80x), most by draft: 2200.0 ms to "
        "draft and "
    )
    assert "a draft model (`spec_draft_model`) of a tenth of the target's size or less" in line
    assert settings_named(line) == [
        "spec_draft_model",
        "n_gpu_layers",
        "spec_draft_ngl",
        "speculation",
    ]
    assert settings_named(advice(totals)) == ["spec_draft_model", "speculation"]


def test_a_draft_model_that_was_never_right_is_blamed_too():
    asked = DrafterStats(n_draft_calls=8, n_proposed=14, ms_draft=1177.0)
    line = advice(session(ms_predict=5500.0, draft=asked, suffix=drafter(60, 40)))
    assert "most by draft: 1177.0 ms to draft and merge, 0.0 ms to verify, for 0.0 ms saved" in line


def test_a_slow_down_by_look_ups_is_blamed_on_them():
    line = advice(session(ms_predict=5000.0, suffix=drafter(60, 40, ms_draft=2200.0)))
    assert "most by suffix" in line
    assert settings_named(line) == ["suffix", "drafters", "speculation"]


def test_merging_counts_for_the_drafter_with_many_proposals():
    look_ups = {
        "suffix": drafter(60, 40, ms_draft=100.0, n_proposed_more=3000),
        "ngram-cache": drafter(10, 5, ms_draft=150.0),
    }
    line = advice(session(ms_predict=5000.0, ms_draft=2250.0, **look_ups))
    assert "most by suffix: 2093.5 ms to draft" in line


def test_where_no_drafter_is_to_blame_none_is():
    assert advice(session(ms_predict=5000.0, suffix=drafter(60, 40)), mode="tree") == (
        "advice: speculation costs more than it saves here (0.80x): set `mode` to `auto` (it "
        "verifies what saves time) or set `speculation` to false."
    )


def test_a_slow_down_by_verifying_asks_for_shorter_drafts():
    totals = session(ms_predict=5000.0, draft=drafter(300, 100, ms_draft=60.0))
    line = advice(replace(totals, ms_verify=4700.0), mode="first")
    assert "60.0 ms to draft and merge, 2530.0 ms to verify, for 1000.0 ms saved" in line
    assert settings_named(line) == ["mode", "auto", "draft.n_max", "draft.p_min", "speculation"]


@pytest.mark.parametrize("mode", ["first", "tree"])
def test_few_passes_to_compare_with_suffice_for_a_loss_where_nearly_all_have_drafts(mode):
    slow = drafter(190, 183, ms_draft=3000.0)
    totals = session(ms_predict=5200.0, n_single_passes=3, draft=slow)
    line = advice(totals, mode=mode)
    assert "costs more than it saves here (0." in line
    assert settings_named(line)[:2] == ["mode", "auto"]


def test_to_draft_more_is_no_advice_beside_a_loss():
    ended = drafter(96, 90, depth=8)
    assert "raise it" in advice(session(draft=ended), draft=8)
    few = replace(session(n_single_passes=2, draft=ended), n_predicted=100, n_decode_passes=12)
    assert advice(few, draft=8) == ""  # 0.5x


def test_without_passes_to_compare_with_a_certain_loss_is_told():
    # Had no pass a draft, it took no longer than the mean of those that had: 10 ms.
    slow = drafter(190, 183, ms_draft=3000.0)
    line = advice(session(ms_predict=5200.0, n_single_passes=0, draft=slow), mode="first")
    assert "costs more than it saves here (at most 0.77x), most by draft" in line
    assert advice(session(ms_predict=4000.0, n_single_passes=0, draft=drafter(100, 55))) == ""


def test_a_loss_is_only_told_after_enough_passes():
    slow = drafter(60, 33, ms_draft=2200.0)
    few = session(ms_predict=5000.0, n_single_passes=ENOUGH_PASSES - 1, draft=slow)
    assert "costs more" in advice(replace(few, n_decode_passes=ENOUGH_PASSES))
    assert advice(replace(few, n_decode_passes=ENOUGH_PASSES - 1)) == ""


def test_what_noise_may_make_is_no_loss():
    assert advice(session(ms_predict=4300.0, suffix=drafter(60, 40, ms_draft=900.0))) == ""


# --- drafting more --------------------------------------------------------------------------------


def test_a_setting_that_ends_good_drafts_is_to_be_raised():
    line = advice(session(draft=drafter(102, 100, depth=3)))
    assert line == (
        "advice: 98.0% of the tokens that draft drafted are accepted, and "
        "`drafter_options.draft.n_max` (3) ended 34 of 34 drafts: raise it."
    )
    assert "`draft_max` (3)" in advice(session(draft=drafter(102, 100, depth=3)), draft_max=3)
    # Of 48 tokens the decision takes at most 15.
    assert "`max_draft` (31)" in advice(session(ngram_simple=drafter(310, 310, depth=31)))
    first = advice(session(ngram_simple=drafter(480, 450, depth=48)), mode="first")
    assert "`spec_ngram_size_m` (48)" in first


def test_drafts_that_end_earlier_by_themselves_need_no_longer_ones():
    assert advice(session(draft=drafter(102, 100, depth=2))) == ""
    assert advice(session(draft=drafter(102, 61, depth=3))) == ""
    few = DrafterStats(n_drafts=50, n_drafted=100, n_accepted=100, n_drafted_at=(50, 30, 20))
    assert advice(session(draft=few)) == ""
    assert advice(session(theirs=drafter(100, 100, depth=4))) == ""


def test_longer_drafts_are_not_asked_for_where_the_present_ones_lose():
    assert advice(session(ms_predict=4200.0, draft=drafter(102, 100, depth=3))) == ""


# --- never drafting -------------------------------------------------------------------------------


def test_a_text_too_short_for_any_draft_is_named():
    assert advice(session(ngram_mod=SILENT), n_predict=32) == (
        "advice: ngram-mod proposed nothing in 62 of 62 calls (1.5 ms): raise `n_predict` (32) "
        "above `draft_min` (48), its shortest draft, or lower that."
    )


@pytest.mark.parametrize(
    ("name", "options", "remedy"),
    [
        ("ngram-mod", {}, ("lower `draft_min` (48) or `drafter_options.ngram-mod.n_match` (24)")),
        (
            "draft",
            {"draft": 16, "draft_min": 5, "draft_p_min": 0.75},
            "lower `draft_min` (5) or `drafter_options.draft.p_min` (0.75)",
        ),
        ("draft", {"draft_p_min": 0.99}, "lower `drafter_options.draft.p_min` (0.99)"),
        (
            "ngram-simple",
            {"spec_ngram_min_hits": 70},
            "lower `spec_ngram_min_hits` (70) or `spec_ngram_size_n` (12)",
        ),
        ("ngram-map-k", {}, "lower `spec_ngram_size_n` (12)"),
        ("ngram-map-k4v", {"spec_ngram_size_n": 8}, "lower `spec_ngram_size_n` (8)"),
        ("suffix", {"draft_min": 12}, "lower `draft_min` (12)"),
        (
            "ngram-cache",
            {"drafters": "ngram-cache"},
            "name statistics files of code like yours (`lookup_cache_dynamic`)",
        ),
        ("theirs", {}, "take `theirs` out of `drafters`"),
    ],
)
def test_a_drafter_that_never_drafts_is_named_with_what_holds_it_back(name, options, remedy):
    line = advice(session(**{name: SILENT}), **options)
    assert line == f"advice: {name} proposed nothing in 62 of 62 calls (1.5 ms): {remedy}."


@pytest.mark.parametrize("name", ["suffix", "draft", "ngram-cache", "prompt-lookup"])
def test_what_no_setting_holds_back_is_not_complained_of(name):
    assert advice(session(**{name: SILENT})) == ""


@pytest.mark.parametrize("n_calls", [8, 104])
def test_a_silent_drafter_that_took_the_time_has_one_line(n_calls):
    silent = DrafterStats(n_draft_calls=n_calls, ms_draft=2200.0)
    line = advice(session(ms_predict=5000.0, draft=silent), draft_p_min=0.99)
    assert line.startswith(
        f"advice: draft proposed nothing in {n_calls} of {n_calls} calls (2200.0 ms): lower"
    )


def test_a_drafter_whose_drafts_are_mostly_dropped_took_its_time_for_nothing():
    seldom = DrafterStats(
        n_draft_calls=443, n_proposed_drafts=5, n_proposed=25, n_drafted=25, n_accepted=25,
        ms_draft=2200.0,
    )  # fmt: skip
    line = advice(session(ms_predict=5000.0, draft=seldom), draft_min=5, draft_p_min=0.75)
    assert line == (
        "advice: draft proposed nothing in 438 of 443 calls (2200.0 ms): lower `draft_min` (5) or "
        "`drafter_options.draft.p_min` (0.75)."
    )
    assert advice(session(draft=seldom), draft_min=5, draft_p_min=0.75) == ""


def test_each_silent_drafter_has_its_line_beside_that_on_time():
    slow = drafter(20, 15, ms_draft=2200.0)
    lines = advice_lines(
        session(ms_predict=5000.0, draft=slow, ngram_mod=SILENT), Settings(), has_gpu=False
    )
    assert ["most by draft" in line for line in lines] == [True, False]
    assert lines[1].startswith("advice: ngram-mod proposed nothing")


# --- the settings ---------------------------------------------------------------------------------


def test_every_drafter_of_ours_has_advice_on_settings_that_exist():
    ours = {e.name for e in entry_points(group=GROUP) if e.value.startswith("speclsp.")}
    assert set(DRAFTERS) == {*ours, DRAFT_MODEL}
    for knobs in DRAFTERS.values():
        for name in (knobs.most, *knobs.surer, knobs.least):
            assert canonical_name(name) == name
            assert getattr(Settings(), name) is not None
