"""How many prompt tokens a request at a new place waits for.

What is missing is laid out and evaluated in the next pause, so that what counts is how soon
somebody who begins to type sees a first suggestion.  On a fast machine that is a share of the
prompt; where evaluating so much takes longer than people wait, it is what the machine evaluates in
that time.  Texts depend on it: it goes by coarse steps, so that measuring noise seldom shows.
"""

from __future__ import annotations

from typing import Final

SHARE: Final = 0.35
"""Share of a prompt that is waited for at the most."""

WAIT_S: Final = 0.9
"""Seconds that evaluating may take: with a few tokens decoded, an answer after little more than a
second.  More context makes a first suggestion better, but one that comes later than the next
keystrokes is not seen."""

LEAST: Final = 96
"""Tokens that are always waited for: fewer show the model hardly more than the lines around."""
_SECOND: Final = LEAST * 4 // 3
"""The step above, as :func:`step_below` has it."""


def n_waited_for(n_prompt: int, prompt_speed: float | None) -> int:
    """Return the tokens of a prompt of ``n_prompt`` that a request at a new place waits for.

    ``prompt_speed`` is in tokens per second, None where nobody knows it.
    """
    share = int(n_prompt * SHARE)
    if prompt_speed is None or prompt_speed >= fast_enough(n_prompt):
        return share
    return min(share, step_below(prompt_speed * WAIT_S, LEAST))


def fast_enough(n_prompt: int) -> float:
    """Return the tokens per second from which on the share alone counts."""
    return n_prompt * SHARE / WAIT_S


def tells_steps_apart(prompt_speed: float) -> bool:
    """Whether so many tokens per second are more than the slowest, for whom :data:`LEAST` count."""
    return prompt_speed * WAIT_S >= _SECOND


def step_below(n_tokens: float, least: int) -> int:
    """Return the largest that is no more of ``least`` · (1, 4/3, 2, 8/3, 4, …), or ``least``."""
    step, following = least, least * 4 // 3
    while following <= n_tokens:
        step, following = following, 2 * step
    return step
