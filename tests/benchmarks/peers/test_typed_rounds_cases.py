"""Which cases are typed in which round."""

from benchmarks.cases import EditCase
from benchmarks.peers.typed_rounds import case_lines, typed_rounds
from tests.benchmarks.case_folders import case

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
