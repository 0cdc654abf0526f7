"""A session of requests, for the tests of what is said of it."""

import dataclasses

from speclsp.seam.statistics import DrafterStats, RequestStats

LOOKUP = DrafterStats(
    n_begin_calls=12,
    n_draft_calls=340,
    n_accept_calls=100,
    n_proposed_drafts=110,
    n_proposed=620,
    n_drafts=100,
    n_accepted_drafts=80,
    n_drafted=297,
    n_accepted=171,
    n_drafted_at=(100, 99, 98),
    n_accepted_at=(80, 60, 31),
    ms_begin=1.2345,
    ms_draft=23.0,
    ms_accept=0.5,
    ms_steps=20.0,
)


def totals(**changes) -> RequestStats:
    stats = RequestStats(
        n_prompt=1000,
        n_prompt_evaluated=250,
        n_predicted=400,
        n_target_passes=229,
        n_decode_passes=217,
        n_prefill_predicted=12,
        n_drafted=297,
        n_accepted=171,
        n_draft_passes=100,
        n_tried=240,
        n_draft_depths=297,
        n_single_passes=117,
        drafters={"prompt-lookup": LOOKUP},
        ms_prompt=100.0,
        ms_predict=5000.0,
        ms_draft=229.0,
        ms_verify=4000.0,
        ms_single_passes=1170.0,
        ms_draft_passes=3600.0,
        ms_drafting=60.0,
    )
    return dataclasses.replace(stats, **changes)
