"""Which cases are typed in which round of a comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from benchmarks.cases import EditCase, drawn_cases


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
    return [dataclasses.replace(case, typed=case.typed[:n_keys]) for case in cases]


def case_lines(rounds: Sequence[Sequence[EditCase]], n_cases: int, n_keys: int) -> list[str]:
    """Return what is other than was asked for, where the cases are few or short."""
    lines: list[str] = []
    ids = [[case.id for case in cases] for cases in rounds]
    if any(ids.count(of_round) > 1 for of_round in ids):
        lines.append("All rounds type the same cases: there are too few for each to have its own.")
    if any(len(cases) < n_cases for cases in rounds):
        lines.append(f"{len(rounds[0])} cases are typed instead of {n_cases}: there are no others.")
    if any(len(case.typed) < n_keys for cases in rounds for case in cases):
        lines.append(f"No case has {n_keys} characters (--keys): shorter ones are typed.")
    return lines
