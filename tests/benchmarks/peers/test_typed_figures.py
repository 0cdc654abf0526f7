"""Typed sessions of which some were cut short, or typed in the first round only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from case_folders import case

from benchmarks.askers import Answer
from benchmarks.peers.figures import typed_figures, typing_lines, without_slower_kinds
from benchmarks.peers.own import OURS
from benchmarks.peers.typed_rounds import PeerRun, TypedRound, TypingPlan, all_of
from benchmarks.typing_session import TypedRequest, TypedSession
from speclsp.request import RequestStats, SessionStats


def one_round(ms: Sequence[float], *, is_cut: bool = False) -> TypedRound:
    """Return a session in which each request was answered after so long, and each key wrote one."""
    requests = [
        TypedRequest(
            step="line" if idx else "jump",
            answer=Answer(text="", ms=took, stats=RequestStats(n_prompt=9, n_prompt_evaluated=9)),
            was_fitting=False,
            after_taking=False,
            n_chars=idx,
            n_taken=0,
        )
        for idx, took in enumerate(ms)
    ]
    session = TypedSession(
        requests=requests, n_keys=len(ms) - 1, n_jumps=1, n_chars=len(ms) - 1, is_cut=is_cut
    )
    return TypedRound(session=session, own_work=SessionStats(), resident_mib=1.0, host_ms=None)


def plan(n_rounds: int) -> TypingPlan:
    rounds = [[case("abcd")]] * n_rounds
    return TypingPlan(rounds=rounds, seed=0, longest_s=60.0, key_s=2.0, going_on=all_of)


OURS_RUN = PeerRun(OURS, [one_round([900.0, 10.0, 20.0, 30.0, 40.0])] * 2)


def test_who_was_cut_short_is_compared_over_what_both_wrote() -> None:
    slow = PeerRun("slow", [one_round([900.0, 200.0], is_cut=True)] * 2)
    other = PeerRun("other", [one_round([60.0] * 5)] * 2)
    ours, cut, whole = typed_figures([OURS_RUN, slow, other])
    assert [side.is_partial for side in (ours, cut, whole)] == [False, True, False]
    assert (list(ours.n_chars), list(cut.n_chars)) == ([4, 4], [1, 1])
    assert ours.median("ms_p50") == 30.0
    assert cut.median("ms_p50") == 550.0
    assert whole.pairs is None
    assert cut.pairs is not None
    # Ours over its first two requests: the jump weighs as much as it does there.
    assert cut.pairs["ms_p50"] == [(455.0, 550.0)] * 2
    assert {"resident_mib", "host_ms", "evaluated_per_char"}.isdisjoint(cut.pairs)


def test_who_was_left_out_behind_the_first_round_is_best_of_nothing() -> None:
    _, once = typed_figures([OURS_RUN, PeerRun("once", OURS_RUN.rounds[:1])])
    assert once.is_partial
    assert once.pairs is None


def test_where_ours_was_cut_short_the_others_are_taken_as_far() -> None:
    ours = PeerRun(OURS, [one_round([10.0, 20.0], is_cut=True)])
    found, other = typed_figures([ours, PeerRun("other", [one_round([30.0, 50.0, 90.0])])])
    assert found.pairs is None
    assert other.pairs is not None
    assert other.pairs["ms_p50"] == [(15.0, 40.0)]


def kinds(*ms: float) -> list[PeerRun]:
    names = [OURS, "llama-server", "llama-server one", "llama-server two", "llama-server three"]
    return [
        PeerRun(name, [one_round([took])] if took else [])
        for name, took in zip(names, ms, strict=True)
    ]


@pytest.mark.parametrize(
    ("runs", "staying"),
    [
        (kinds(1, 5, 4, 3, 9), {"llama-server two"}),
        (kinds(1, 5, 4, 0, 9), {"llama-server one"}),
        (kinds(1, 5, 0, 0, 0), set()),
    ],
)
def test_the_fastest_kind_goes_on_with_all_that_are_no_kinds(
    runs: list[PeerRun], staying: set[str]
) -> None:
    assert without_slower_kinds(runs) == {OURS, "llama-server", *staying}


def test_the_best_by_p50_and_the_best_by_p95_may_be_two() -> None:
    steady = PeerRun("llama-server steady", [one_round([50.0] * 9)])
    mostly = PeerRun("llama-server mostly", [one_round([10.0] * 7 + [900.0] * 2)])
    cut = PeerRun("llama-server cut", [one_round([1.0], is_cut=True)])
    assert without_slower_kinds([steady, mostly, cut]) == {steady.name, mostly.name}
    assert without_slower_kinds([cut]) == {cut.name}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda: [OURS_RUN], "Typing, once more, was cut short: 2 of 3 rounds are whole."),
        (
            lambda: [OURS_RUN, PeerRun("one", OURS_RUN.rounds[:1])],
            (
                "† Typed to, once more, in the first round alone, where other kinds were faster: "
                "one; their figures are of that round's cases."
            ),
        ),
        (
            lambda: [PeerRun("one", [one_round([1.0, 2.0], is_cut=True), one_round([1.0] * 5)])],
            (
                "† one, once more, was cut short, since it took more than 2 seconds a key or 60 "
                "in all: its figures are of 1 of 4, 4 of 4 characters in the rounds, its ratios "
                "of those that both wrote."
            ),
        ),
    ],
)
def test_what_is_less_than_all_is_said(change: Callable[[], list[PeerRun]], line: str) -> None:
    found = typing_lines("once more", typed_figures(change()), plan(3))
    assert line in found


def test_nothing_is_said_of_what_is_whole() -> None:
    assert typing_lines("once more", typed_figures([OURS_RUN]), plan(2)) == []


def test_who_did_not_run_is_not_marked_as_cut_short() -> None:
    missing = PeerRun("missing", why_not="no llama-server is given.")
    _, side = typed_figures([OURS_RUN, missing])
    assert side.why_not
    assert not side.is_partial
