"""The same sessions typed to each side of a comparison, in alternating rounds.

In every round each side is started anew, warmed up and typed to, in an order that changes from
round to round, so that whatever else the machine does hits all alike.  Rounds may have cases of
their own: then a spread over them is one over places, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from benchmarks.cases import EditCase, drawn_cases
from benchmarks.decoding import rotated
from benchmarks.peers.contract import Peer, PeerOptions
from benchmarks.progress import RunProgress
from benchmarks.report import reason, without_folders
from benchmarks.typing_session import TypedSession, TypingCounts, count_typing, replay_typing
from speclsp.errors import SpecLspError
from speclsp.reporting.session import summed
from speclsp.seam.statistics import RequestStats, SessionStats

Rounds = Sequence[Sequence[EditCase]]
"""Each round's cases: the same to all sides."""


def typed_rounds(
    cases: Sequence[EditCase], *, n_rounds: int, n_cases: int, n_keys: int, seed: int
) -> list[list[EditCase]]:
    """Draw ``n_cases`` for each round, and cut them to ``n_keys`` characters.

    Shorter ones are drawn only where there are no others: each case begins with a jump, and short
    ones would make jumps of most requests.  Where there are too few for all rounds, all have the
    same.  No round without a case is returned.
    """
    if not n_cases:
        return []
    long_enough = [case for case in cases if len(case.typed) >= n_keys] or cases
    if len(long_enough) < n_cases * n_rounds:
        return [_cut(drawn_cases(long_enough, n_cases, seed), n_keys)] * n_rounds
    drawn = _cut(drawn_cases(long_enough, n_cases * n_rounds, seed), n_keys)
    # They are dealt out: cases of one project stand together.
    return [drawn[idx::n_rounds] for idx in range(n_rounds)]


def _cut(cases: Sequence[EditCase], n_keys: int) -> list[EditCase]:
    return [replace(case, typed=case.typed[:n_keys]) for case in cases]


def case_lines(rounds: Rounds, n_cases: int, n_keys: int) -> list[str]:
    """Return remarks about cases that are fewer or shorter than asked for."""
    lines: list[str] = []
    ids = [[case.id for case in cases] for cases in rounds]
    if any(ids.count(of_round) > 1 for of_round in ids):
        lines.append("All rounds type the same cases: there are too few for each to have its own.")
    if any(len(cases) < n_cases for cases in rounds):
        lines.append(f"{len(rounds[0])} cases are typed instead of {n_cases}: there are no others.")
    if any(len(case.typed) < n_keys for cases in rounds for case in cases):
        lines.append(f"No case has {n_keys} characters (--keys): shorter ones are typed.")
    return lines


def n_chars_of(cases: Sequence[EditCase]) -> int:
    """Return how many characters a session writes."""
    return sum(len(case.typed) for case in cases)


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

    session: TypedSession
    own_work: SessionStats
    """What the side did ahead and in idle time."""
    resident_mib: float
    host_ms: float | None
    """Per decode step outside llama_decode, None where that is not told."""

    @property
    def counts(self) -> TypingCounts:
        """The session's figures."""
        return count_typing(self.session, self.own_work)

    @property
    def stats(self) -> RequestStats:
        """Sums over the session's requests, without what was done ahead or in idle time."""
        found = (request.answer.stats for request in self.session.requests)
        return functools.reduce(summed, found, RequestStats())


@dataclass(slots=True)
class PeerRun:
    """One side's rounds."""

    name: str
    rounds: list[TypedRound] = field(default_factory=list)
    """Those that all sides have ended."""
    why_not: str = ""
    """Why it could not run, or went on no further; its rounds count for nothing then."""


def typed_runs_of(peers: Sequence[Peer], options: PeerOptions) -> list[PeerRun]:
    """Return empty runs for :func:`type_to_all`, with the reason for sides that cannot run."""
    return [
        PeerRun(peer.name, why_not=without_folders(peer.why_not(options) or "")) for peer in peers
    ]


def type_with_progress(
    runs: Sequence[PeerRun], peers: Sequence[Peer], options: PeerOptions, rounds: Rounds, seed: int
) -> None:
    """Call :func:`type_to_all` with a bar."""
    with RunProgress() as progress:
        total = len(peers) * sum(map(n_chars_of, rounds))
        task = progress.add_task("Typing", total=total)

        def advance(label: str, n_chars: int) -> None:
            progress.update(task, description=label, advance=n_chars)

        type_to_all(runs, peers, options, rounds, seed, advance)


def type_to_all(
    runs: Sequence[PeerRun],
    peers: Sequence[Peer],
    options: PeerOptions,
    rounds: Rounds,
    seed: int,
    progress: Callable[[str, int], None],
) -> None:
    """Type to all sides in rounds; a side that fails says why.

    ``runs`` are those of ``peers``, and get each round when it is whole, so that they hold what can
    be compared whenever this is interrupted.
    ``progress`` is told who is typed to, and how many characters were written since last told;
    those that will not be written any more count as written.
    """
    for round_idx, cases in enumerate(rounds):
        done: list[tuple[PeerRun, TypedRound]] = []
        for idx in rotated(len(peers), round_idx):
            peer, run = peers[idx], runs[idx]
            label = f"{peer.name}, round {round_idx + 1} of {len(rounds)}"
            left = _Left(n_chars_of(cases), functools.partial(progress, label))
            left.write(0)
            if not run.why_not:
                try:
                    done.append((run, _type_to(peer, options, cases, seed, left.write)))
                except SpecLspError as error:
                    run.why_not = reason(error)
                    run.rounds.clear()
            left.write(left.n_chars)
        for run, one in done:
            run.rounds.append(one)


@dataclass(slots=True)
class _Left:
    """The characters of a session that are still to be typed."""

    n_chars: int
    progress: Callable[[int], None]

    def write(self, n_chars: int) -> None:
        """Count characters as typed, and report progress."""
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
            session=typed,
            own_work=own_work,
            resident_mib=session.resident_mib(),
            host_ms=session.host_ms_per_step(),
        )
