"""How many tokens a request at a new place waits for: a share, or what the machine can do."""

from __future__ import annotations

import pytest

from speclsp.prompt.jumps import LEAST, fast_enough, n_waited_for, step_below


def test_the_steps_are_half_octaves_from_the_least_on():
    steps = sorted({step_below(n_tokens, LEAST) for n_tokens in range(6_000)})
    assert steps == [96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096]
    for step in steps:
        assert step_below(step, LEAST) == step
    assert step_below(191.9, LEAST) == 128
    assert step_below(0.0, LEAST) == LEAST


@pytest.mark.parametrize(
    ("n_prompt", "prompt_speed", "n_tokens"),
    [
        (2048, None, 716),  # nobody knows
        (2048, 10.0, 96),
        (2048, 230.0, 192),
        (2048, 260.0, 192),
        (2048, 300.0, 256),
        (2048, 795.0, 512),
        (2048, 797.0, 716),
        (2048, float("inf"), 716),
        (8192, 2_000.0, 1536),
        (640, 230.0, 192),
        (640, 250.0, 224),
        (200, 10.0, 70),  # the share is the smaller, however slow
    ],
)
def test_the_smaller_of_the_share_and_of_what_the_machine_evaluates_counts(
    n_prompt, prompt_speed, n_tokens
):
    assert n_waited_for(n_prompt, prompt_speed) == n_tokens


def test_what_is_fast_enough_waits_for_the_share_whatever_was_measured():
    for n_prompt in (1, 96, 640, 2048, 32_768):
        enough = fast_enough(n_prompt)
        shares = {n_waited_for(n_prompt, enough * more) for more in (1.0, 1.1, 7.0, 1e6)}
        assert shares == {int(n_prompt * 0.35)}
