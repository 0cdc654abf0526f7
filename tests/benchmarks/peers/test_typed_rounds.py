"""A session typed to several sides in alternating rounds."""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.askers import Answer
from benchmarks.cases import EditCase
from benchmarks.decoding import rotated
from benchmarks.peers.contract import PeerOptions
from benchmarks.peers.own import OURS, OURS_PLAIN, our_peers, own_settings
from benchmarks.peers.typed_rounds import (
    WARM_UP,
    PeerRun,
    case_lines,
    type_to_all,
    typed_rounds,
    typed_runs_of,
)
from speclsp.errors import EngineError
from speclsp.seam.statistics import RequestStats
from speclsp.settings import Settings
from tests.benchmarks.case_folders import case
from tests.benchmarks.scripted_peers import ScriptedPeer, peer_options


def options(folder: Path) -> PeerOptions:
    return peer_options(folder, model=folder / "model.gguf", n_threads=2, n_gpu_layers=-1)


ROUNDS = [[case("abc"), case("defg", id="two", path="b.py")]] * 3


def typed(
    folder: Path, *peers: ScriptedPeer, rounds: list[list[EditCase]] = ROUNDS
) -> tuple[list[PeerRun], Counter[str]]:
    told: Counter[str] = Counter()
    runs = typed_runs_of(peers, options(folder))
    type_to_all(runs, peers, options(folder), rounds, 0, lambda label, n: told.update({label: n}))
    return runs, told


def test_each_side_is_started_anew_in_each_round_and_nobody_is_always_first(tmp_path):
    log: list[str] = []
    runs, told = typed(tmp_path, *(ScriptedPeer(name, log=log) for name in "ABC"))
    opened = [line for line in log if line.startswith("open")]
    assert opened == [f"open {name}" for name in "ABCBCACAB"]
    assert [line.split()[0] for line in log] == ["open", "close"] * 9
    assert [(run.name, len(run.rounds), run.why_not) for run in runs] == [
        ("A", 3, ""), ("B", 3, ""), ("C", 3, ""),
    ]  # fmt: skip
    assert set(told.values()) == {7}
    assert "B, round 2 of 3" in told


def test_a_side_is_warmed_up_before_and_that_counts_nowhere(tmp_path):
    def slow_at_first(one, _n):
        ms = 900.0 if one.id == WARM_UP.id else 2.0
        return Answer(text="", ms=ms, stats=RequestStats(n_prompt=1, n_prompt_evaluated=1))

    peer = ScriptedPeer("A", slow_at_first)
    (run,), _ = typed(tmp_path, peer)
    assert peer.askers[0].told[:3] == [
        ("enter", "warm-up"), ("ask", "warm-up", 0), ("leave", "warm-up"),
    ]  # fmt: skip
    counts = run.rounds[0].counts
    assert (counts.ms["all"].most, counts.n_requests, counts.n_chars) == (2.0, 9, 7)
    assert run.rounds[0].stats.n_prompt_evaluated == 9
    assert run.rounds[0].resident_mib == 100.0


def test_a_side_that_cannot_run_says_why_and_the_others_go_on(tmp_path):
    def fails(one, n_typed):
        if one.id == "two" and n_typed == 1:
            raise EngineError("it fell over.")
        return ""

    log: list[str] = []
    peers = (
        ScriptedPeer("A", fails, log),
        ScriptedPeer("B", log=log, missing="there is none."),
        ScriptedPeer("C", log=log),
    )
    (failed, missing, fine), told = typed(tmp_path, *peers)
    assert (failed.why_not, failed.rounds) == ("it fell over.", [])
    assert (missing.why_not, missing.rounds) == ("there is none.", [])
    assert len(fine.rounds) == 3
    assert [line for line in log if "A" in line] == ["open A", "close A"]
    assert set(told.values()) == {7}  # what will not be written counts as done


def test_what_whole_rounds_measured_is_there_when_it_is_interrupted(tmp_path):
    def interrupts(one, _n):
        if one.id == "two" and len(peers[1].askers) == 2:
            raise KeyboardInterrupt
        return ""

    log: list[str] = []
    peers = (ScriptedPeer("A", log=log), ScriptedPeer("B", interrupts, log))
    runs = typed_runs_of(peers, options(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        type_to_all(runs, peers, options(tmp_path), ROUNDS, 0, lambda _label, _n: None)
    assert [(run.name, len(run.rounds), run.why_not) for run in runs] == [
        ("A", 1, ""),
        ("B", 1, ""),
    ]
    assert log == ["open A", "close A", "open B", "close B", "open B", "close B"]


def test_rounds_may_have_cases_of_their_own(tmp_path):
    peer = ScriptedPeer("A")
    rounds = [[case("abc")], [case("defg", id="two")]]
    (run,), told = typed(tmp_path, peer, rounds=rounds)
    assert [one.counts.n_chars for one in run.rounds] == [3, 4]
    assert [asker.told[3] for asker in peer.askers] == [("enter", "one"), ("enter", "two")]
    assert list(told.values()) == [3, 4]


def test_turns_are_taken():
    assert [list(rotated(3, shift)) for shift in range(4)] == [
        [0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2],
    ]  # fmt: skip


def test_our_sides_get_what_all_sides_are_given(tmp_path):
    base = Settings(model="mine.gguf", max_draft=4)
    ours, plain = our_peers(base)
    assert (ours.name, plain.name) == (OURS, OURS_PLAIN)
    assert ours.why_not(options(tmp_path)) is None
    found = own_settings(base, options(tmp_path))
    assert (found.model, found.threads, found.ctx_size, found.n_predict, found.max_draft) == (
        str(tmp_path / "model.gguf"), 2, 1024, 16, 4,
    )  # fmt: skip
    # The embedded model stays it: the settings then know how long its prompts may be.
    assert own_settings(Settings(), options(tmp_path)).model == ""


CASES = [case("abcdefgh"[:n_chars], id=f"{n_chars}") for n_chars in range(1, 9)]


def drawn(cases: list[EditCase], n_cases: int, n_keys: int) -> tuple[list[list[str]], list[str]]:
    rounds = typed_rounds(cases, n_rounds=3, n_cases=n_cases, n_keys=n_keys, seed=0)
    assert all(len(one.typed) <= n_keys for typed in rounds for one in typed)
    return [[one.id for one in typed] for typed in rounds], case_lines(rounds, n_cases, n_keys)


def test_each_round_has_cases_of_its_own_that_are_long_enough():
    found, lines = drawn(CASES, 2, 3)
    assert found == [["3", "6"], ["4", "7"], ["5", "8"]]
    assert lines == []


def test_where_there_are_too_few_all_rounds_have_the_same():
    found, lines = drawn(CASES, 2, 4)
    assert len(found[0]) == 2
    assert found == [found[0]] * 3
    by_seed = {
        tuple(one.id for one in typed_rounds(CASES, n_rounds=3, n_cases=2, n_keys=4, seed=seed)[0])
        for seed in range(8)
    }
    assert len(by_seed) > 1
    assert lines == ["All rounds type the same cases: there are too few for each to have its own."]
    found, lines = drawn(CASES, 9, 8)
    assert found == [["8"]] * 3
    assert lines[1] == "1 cases are typed instead of 9: there are no others."


def test_shorter_ones_are_taken_where_there_are_no_others():
    found, lines = drawn(CASES[:3], 1, 9)
    assert found == [["1"], ["2"], ["3"]]
    assert lines == ["No case has 9 characters (--keys): shorter ones are typed."]


def test_none_are_typed_where_none_are_wanted():
    assert drawn(CASES, 0, 3) == ([], [])
