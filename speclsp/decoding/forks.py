"""Further texts beside the one that was emitted, all sharing its prefill.

Each begins with what was emitted up to some place, takes another token there, and goes on by
itself.  In the KV cache they are forks: each step evaluates one token of every unfinished text in
one batch, and nothing of the prompt again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from speclsp.decoding.protocol import ForkTarget
from speclsp.decoding.sampling import Sampler
from speclsp.decoding.token_scores import Rival, TokenScores
from speclsp.errors import DecodeInterruptedError
from speclsp.request import FinishReason

LEAST_PROBABILITY: Final = 0.001
"""Tokens less probable than this begin no text: what follows them is noise."""


@dataclass(slots=True, kw_only=True)
class Fork:
    """One further text while it grows."""

    tokens: list[int]
    """All of its tokens: those that it shares, the first of its own, and what followed."""
    n_shared: int
    sampler: Sampler
    stop: Callable[[int], bool]
    """As in :func:`speclsp.decoding.speculate.generate`; it was asked for the shared tokens."""
    scores: TokenScores
    """Has the shared tokens' log-probabilities, and that of the first of its own."""
    finish: FinishReason | None = None


@dataclass(slots=True)
class ForkCounts:
    """What growing forks took: tokens evaluated, decodes, and seconds."""

    n_tokens: int = 0
    n_passes: int = 0
    seconds: float = 0.0

    def add(self, other: ForkCounts) -> None:
        """Take what growing more forks took."""
        self.n_tokens += other.n_tokens
        self.n_passes += other.n_passes
        self.seconds += other.seconds


def best_rivals(
    rivals: Sequence[Rival], n_rivals: int, n_tokens: int, *, excluded: Collection[int] = ()
) -> list[Rival]:
    """Return the rivals that begin the most useful further texts, the best first.

    A rival is worth its probability times the share of the text's ``n_tokens`` tokens that it puts
    in question: two texts that part at their last token tell the user little, and two that part at
    an improbable one are not both right.  The place behind the last token counts as one too: there
    a text goes on that ended.  The ``excluded`` tokens begin none.
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
    clock: Callable[[], float],
) -> ForkCounts:
    """Continue each fork of what was emitted behind ``n_prompt`` tokens until it is finished.

    Each fork has its first own token.  ``n_predict`` is for each of them, ``interrupted`` is asked
    before each decode and ends all that are not finished; so does a full cache, with ``length``.

    Afterwards every fork has a finish reason, and the target's cache is as before.
    Raises :class:`~speclsp.errors.DecodeError`, after which the cache is empty.
    """
    counts = ForkCounts()
    started = clock()
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
                counts.n_tokens += len(live)
                counts.n_passes += 1
    except DecodeInterruptedError:
        reason = interrupted() or "cancelled"
    finally:
        target.drop_forks()
    for fork in forks:
        fork.finish = fork.finish or reason
    counts.seconds = clock() - started
    return counts


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
    """Ask whether the last token ends a fork."""
    if fork.stop(fork.tokens[-1]):
        fork.finish = "stop"
    elif len(fork.tokens) >= n_predict:
        fork.finish = "length"
