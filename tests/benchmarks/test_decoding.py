"""Decoding alone: whose turn it is, and what is the same."""

import pytest

from benchmarks.askers import Answer
from benchmarks.decoding import (
    DecodePlace,
    DecodeSide,
    decode_all,
    decode_runs_of,
    in_rounds,
    same_text,
)
from benchmarks.peers.own import OURS_PLAIN
from benchmarks.replay_project import ReplayCursor
from speclsp.drafting.drafter import DraftContext
from speclsp.errors import EngineError


def place(name: str) -> DecodePlace:
    cursor = ReplayCursor(path=name, prefix="", truth="", suffix="")
    return DecodePlace(task="cases", cursor=cursor, repo_name="", corpora=())


def side(name: str, text: str, told: list[tuple[str, str, int]], fails_at: str = "") -> DecodeSide:
    def decode(at: DecodePlace, _context: DraftContext, n_predict: int) -> Answer:
        told.append((name, at.cursor.path, n_predict))
        if at.cursor.path == fails_at:
            raise EngineError("it fell over.")
        return Answer(text=text)

    return DecodeSide(name, decode)


def no_context(_place: DecodePlace, _n: int) -> DraftContext:
    return DraftContext(prompt=(1, 2, 3))


def test_places_are_dealt_out_and_sides_take_turns():
    told: list[tuple[str, str, int]] = []
    rounds = in_rounds([place(name) for name in "abcde"], 3)
    assert [[at.cursor.path for at in one] for one in rounds] == [["a", "d"], ["b", "e"], ["c"]]
    sides = [side(OURS_PLAIN, "same", told), side("B", "same", told), side("C", "other", told)]
    labels: list[str] = []
    runs = decode_runs_of(sides)
    decode_all(
        runs, sides, rounds, no_context, plain=OURS_PLAIN, n_predict=9, progress=labels.append
    )
    first, second = told[:6], told[6:12]
    assert [(name, n) for name, _, n in first] == [
        (OURS_PLAIN, 4), (OURS_PLAIN, 9), ("B", 4), ("B", 9), ("C", 4), ("C", 9),
    ]  # fmt: skip
    assert [name for name, _, n in second if n == 9] == ["B", "C", OURS_PLAIN]
    assert [[[one.is_same for one in answers] for answers in run.rounds] for run in runs] == [
        [[True, True], [True, True], [True]],
        [[True, True], [True, True], [True]],
        [[False, False], [False, False], [False]],
    ]
    assert len(labels) == 15


def test_a_side_that_fails_is_left_out_from_then_on():
    told: list[tuple[str, str, int]] = []
    sides = [side(OURS_PLAIN, "x", told), side("B", "x", told, fails_at="b")]
    rounds = in_rounds([place(name) for name in "abc"], 3)
    plain, failed = runs = decode_runs_of(sides)
    decode_all(
        runs, sides, rounds, no_context, plain=OURS_PLAIN, n_predict=9, progress=lambda _: None
    )
    assert (plain.why_not, failed.why_not) == ("", "it fell over.")
    assert [len(answers) for answers in plain.rounds] == [1, 1, 1]
    assert [at for name, at, _ in told if name == "B"] == ["a", "a", "b"]


def test_what_whole_rounds_measured_is_there_when_it_is_interrupted():
    def interrupts(label):
        labels.append(label)
        if len(labels) == 7:
            raise KeyboardInterrupt

    labels: list[str] = []
    sides = [side(OURS_PLAIN, "x", []), side("B", "x", [])]
    runs = decode_runs_of(sides)
    rounds = in_rounds([place(name) for name in "abcd"], 2)
    with pytest.raises(KeyboardInterrupt):
        decode_all(
            runs, sides, rounds, no_context, plain=OURS_PLAIN, n_predict=9, progress=interrupts
        )
    assert [[len(answers) for answers in run.rounds] for run in runs] == [[2], [2]]


def test_a_character_that_was_left_unfinished_makes_no_other_text():
    assert same_text("a é", "a é\ufffd")
    assert not same_text("a", "a e")
