"""Figures of typed sessions, some of which were cut short or typed in the first round only."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from benchmarks.peers.llama_server_peers import NAME as LLAMA_SERVER
from benchmarks.peers_columns import TYPED_COLUMNS
from benchmarks.peers_figures import Figures, figures_of
from benchmarks.peers_own import OURS
from benchmarks.peers_typing import PeerRun, TypedRound, TypingPlan

_KIND: Final = f"{LLAMA_SERVER} "


def typed_figures(runs: Sequence[PeerRun]) -> list[Figures]:
    """Return each side's figures of a typed session.

    Where a side was cut short, it is compared with ours over what both wrote: behind more keys
    there are fewer requests for a whole prompt among all.
    """
    ours = next((run for run in runs if run.name == OURS and not run.why_not), None)
    n_rounds = max((len(run.rounds) for run in runs), default=0)
    return [
        dataclasses.replace(
            figures_of(run.name, TYPED_COLUMNS, run.rounds, run.why_not),
            n_chars=[one.session.n_chars for one in run.rounds],
            is_partial=not run.why_not and (_is_cut(run) or len(run.rounds) < n_rounds),
            pairs=_pairs(ours, run) if ours is not None and ours is not run else None,
        )
        for run in runs
    ]


def without_slower_kinds(runs: Sequence[PeerRun]) -> Collection[str]:
    """Return which sides go on behind the first round: all but llama-server's slower kinds.

    Of its kinds of speculation those stay whose p50 or p95 was the least.
    """
    kinds = [run for run in runs if run.name.startswith(_KIND) and run.rounds]
    whole = [run for run in kinds if not _is_cut(run)] or kinds
    names = {run.name for run in runs if not run.name.startswith(_KIND)}
    if whole:
        names.add(min(whole, key=lambda run: run.rounds[0].counts.ms["all"].p50).name)
        names.add(min(whole, key=lambda run: run.rounds[0].counts.ms["all"].p95).name)
    return names


def typing_lines(title: str, figures: Sequence[Figures], plan: TypingPlan) -> list[str]:
    """Return what has to be known of figures that are not of all rounds or not of all keys.

    ``title`` says which session it is, since there may be two.
    """
    lines: list[str] = []
    n_rounds, n_done = len(plan.rounds), max((side.n_rounds for side in figures), default=0)
    if n_done < n_rounds:
        lines.append(f"Typing, {title}, was cut short: {n_done} of {n_rounds} rounds are whole.")
    once = [side.name for side in figures if 0 < side.n_rounds < n_done]
    if once:
        lines.append(
            f"† Typed to, {title}, in the first round alone, where other kinds were faster: "
            f"{', '.join(once)}; their figures are of that round's cases."
        )
    for side in figures:
        written = list(zip(side.n_chars, plan.n_chars, strict=False))
        if any(n_chars < n_all for n_chars, n_all in written):
            said = ", ".join(f"{n_chars} of {n_all}" for n_chars, n_all in written)
            lines.append(
                f"† {side.name}, {title}, was cut short after {plan.longest_s:g} seconds: its "
                f"figures are of {said} characters in the rounds, its ratios of those that both "
                "wrote."
            )
    return lines


def _pairs(
    ours: PeerRun, other: PeerRun
) -> Mapping[str, Sequence[tuple[float | None, float | None]]] | None:
    if not _is_cut(ours) and not _is_cut(other):
        return None
    alike: list[tuple[TypedRound, TypedRound]] = []
    for mine, theirs in zip(ours.rounds, other.rounds, strict=False):
        n_chars = min(mine.session.n_chars, theirs.session.n_chars)
        alike.append((mine.until(n_chars), theirs.until(n_chars)))
    return {
        column.name: [(column.value(mine), column.value(theirs)) for mine, theirs in alike]
        for column in TYPED_COLUMNS
        if not column.of_whole
    }


def _is_cut(run: PeerRun) -> bool:
    return any(one.session.is_cut for one in run.rounds)
