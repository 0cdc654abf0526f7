"""Further texts beside the emitted one, which share its prefill.

Each shares a beginning of the emitted text, takes another token there, and continues on its own.
In the KV cache they are forks: each step evaluates one token of every unfinished text in one batch,
and no token of the prompt again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from speclsp.decoding.sampling import Sampler
from speclsp.decoding.target import ForkTarget
from speclsp.decoding.token_scores import Rival, TokenScores
from speclsp.errors import DecodeInterruptedError
from speclsp.seam.request import FinishReason

LEAST_PROBABILITY: Final = 0.001
"""Tokens less probable than this begin no text."""


@dataclass(slots=True, kw_only=True)
class Fork:
    """One further text while it is generated."""

    tokens: list[int]
    """All tokens: the shared ones, the first one of its own, and what followed."""
    n_shared: int
    sampler: Sampler
    stop: Callable[[int], bool]
    """As in :func:`speclsp.decoding.speculate.generate`; was called for the shared tokens."""
    scores: TokenScores
    """Has the log-probabilities of the shared tokens and of the first one of its own."""
    finish: FinishReason | None = None


def best_rivals(
    rivals: Sequence[Rival], n_rivals: int, n_tokens: int, *, excluded: Collection[int] = ()
) -> list[Rival]:
    """Return the rivals that begin the most useful further texts, the best first.

    A rival's value is its probability times the share of the text's ``n_tokens`` tokens after it:
    texts that differ in their last token only are of little use, and improbable ones are wrong.
    A rival at the end of the text continues it.  The ``excluded`` tokens begin no text.
    """
    floor = math.log(LEAST_PROBABILITY)
    chosen = [
        rival
        for rival in rivals
        if rival.position <= n_tokens and rival.token not in excluded and rival.logprob > floor
    ]
    chosen.sort(
        key=lambda rival: (
            -rival.logprob - math.log((n_tokens + 1 - rival.position) / (n_tokens + 1)),
            rival.position,
            rival.token,
        )
    )
    return chosen[:n_rivals]


def grow_forks(
    target: ForkTarget,
    n_prompt: int,
    forks: Sequence[Fork],
    *,
    n_predict: int,
    interrupted: Callable[[], FinishReason | None],
) -> None:
    """Continue each fork of the text after ``n_prompt`` tokens until it is finished.

    Each fork has its first own token, and at most ``n_predict`` tokens.  ``interrupted`` is called
    before each decode; a reason ends all unfinished forks, as a full cache does with ``length``.

    Afterwards every fork has a finish reason, and the target's cache is unchanged.
    Raises :class:`~speclsp.errors.DecodeError`, after which the cache is empty.
    """
    for fork in forks:
        _finish(fork, n_predict)
    target.fork([n_prompt + fork.n_shared for fork in forks])
    reason: FinishReason | None = None
    try:
        while reason is None and (live := _live(forks)):
            reason = interrupted()
            if reason is None and target.n_free < len(live):
                reason = "length"
            if reason is None:
                _step(target, forks, live, n_predict)
    except DecodeInterruptedError:
        reason = interrupted() or "cancelled"
    finally:
        target.drop_forks()
    for fork in forks:
        fork.finish = fork.finish or reason


def _live(forks: Sequence[Fork]) -> list[int]:
    return [idx for idx, fork in enumerate(forks) if fork.finish is None]


def _step(target: ForkTarget, forks: Sequence[Fork], live: list[int], n_predict: int) -> None:
    rows = target.decode_forks(live, [forks[idx].tokens[-1] for idx in live])
    for row, idx in zip(rows, live, strict=True):
        fork = forks[idx]
        token = fork.sampler.sample(row)
        fork.scores.observe(token, row)
        fork.tokens.append(token)
        _finish(fork, n_predict)


def _finish(fork: Fork, n_predict: int) -> None:
    """Finish a fork if its last token ends it."""
    if fork.stop(fork.tokens[-1]):
        fork.finish = "stop"
    elif len(fork.tokens) >= n_predict:
        fork.finish = "length"
