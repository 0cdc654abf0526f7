"""The same session typed to each side of a comparison, in alternating rounds.

In every round each side is started anew, warmed up and typed to, in an order that changes from
round to round, so that whatever else the machine does hits all alike.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from speclsp.bench.cases import EditCase
from speclsp.bench.peers.contract import Peer, PeerOptions
from speclsp.bench.peers.reasons import reason, without_folders
from speclsp.bench.typing_counts import TypingCounts, count_typing
from speclsp.bench.typing_session import replay_typing
from speclsp.decoding.session import summed
from speclsp.errors import SpecLspError
from speclsp.request import RequestStats

WARM_UP: Final = EditCase(
    id="warm-up",
    project=None,
    path="warm_up.py",
    language_id="python",
    prefix="def one():\n    ",
    typed="return 1",
    suffix="\n",
)
"""Asked at before the session, so that nobody's first decode is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedRound:
    """What one side did in one round."""

    counts: TypingCounts
    stats: RequestStats
    """Sums over the session's requests, without what was done ahead or in idle time."""
    resident_mib: float
    host_ms: float | None
    """Per decode step outside llama_decode, None where that is not told."""


@dataclass(slots=True)
class PeerRun:
    """A side over all rounds."""

    name: str
    rounds: list[TypedRound] = field(default_factory=list)
    why_not: str = ""
    """Why it could not run, or went on no further; its rounds count for nothing then."""


def type_to_all(
    peers: Sequence[Peer],
    options: PeerOptions,
    cases: Sequence[EditCase],
    *,
    n_rounds: int,
    seed: int,
    progress: Callable[[str, int], None],
) -> list[PeerRun]:
    """Type ``cases`` to all sides ``n_rounds`` times; a side that fails says why.

    ``progress`` is told who is typed to, and how many characters were written since last told;
    those that will not be written any more count as written.
    """
    runs = [
        PeerRun(peer.name, why_not=without_folders(peer.why_not(options) or "")) for peer in peers
    ]
    n_chars = sum(len(case.typed) for case in cases)
    for round_idx in range(n_rounds):
        for idx in rotated(len(peers), round_idx):
            peer, run = peers[idx], runs[idx]
            label = f"{peer.name}, round {round_idx + 1} of {n_rounds}"
            left = _Left(n_chars, functools.partial(progress, label))
            left.write(0)
            if not run.why_not:
                try:
                    run.rounds.append(_type_to(peer, options, cases, seed, left.write))
                except SpecLspError as error:
                    run.why_not = reason(error)
                    run.rounds.clear()
            left.write(left.n_chars)
    return runs


@dataclass(slots=True)
class _Left:
    """What is still to be written of a session."""

    n_chars: int
    progress: Callable[[int], None]

    def write(self, n_chars: int) -> None:
        """Note that so many characters more are done with."""
        self.n_chars -= n_chars
        self.progress(n_chars)


def _type_to(
    peer: Peer,
    options: PeerOptions,
    cases: Sequence[EditCase],
    seed: int,
    progress: Callable[[int], None],
) -> TypedRound:
    with peer.open(options) as session:
        asker = session.asker
        asker.enter(WARM_UP)
        asker.ask(WARM_UP, 0)
        asker.leave(WARM_UP)
        asker.rest()
        before = asker.statistics()
        typed = replay_typing(cases, asker, seed=seed, progress=progress)
        after = asker.statistics()
        own_work = replace(
            after,
            n_idle_evaluated=after.n_idle_evaluated - before.n_idle_evaluated,
            prefetch=replace(
                after.prefetch,
                n_prompt_evaluated=after.prefetch.n_prompt_evaluated
                - before.prefetch.n_prompt_evaluated,
                n_predicted=after.prefetch.n_predicted - before.prefetch.n_predicted,
            ),
        )
        return TypedRound(
            counts=count_typing(typed, own_work),
            stats=functools.reduce(
                summed, (request.answer.stats for request in typed.requests), RequestStats()
            ),
            resident_mib=session.resident_mib(),
            host_ms=session.host_ms_per_step(),
        )


def rotated(n_items: int, shift: int) -> Sequence[int]:
    """Return the indices of ``n_items``, beginning at another one for each ``shift``."""
    return [(idx + shift) % n_items for idx in range(n_items)]
