"""Decoding alone: whose turn it is, what is the same, and what our own sides say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest
from case_folders import case
from scripted_peers import ScriptedPeer

from benchmarks.askers import Answer
from benchmarks.machine import loaded_models
from benchmarks.peers.decoding import (
    OURS_HUMAN,
    DecodePlace,
    DecodeSide,
    OwnDecoders,
    PlaceFinder,
    decode_all,
    decode_runs_of,
    in_rounds,
    same_text,
    server_side,
)
from benchmarks.peers.llama_server import LlamaServerSession
from benchmarks.peers.own import OURS, OURS_PLAIN
from benchmarks.replay_project import ReplayCursor
from speclsp.drafting.protocol import DraftContext
from speclsp.embedded import sample_project
from speclsp.engine.models import Tokenizer, Weights
from speclsp.errors import EngineError
from speclsp.settings import Settings

SETTINGS = Settings(threads=1, mode="tree")


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


def test_places_are_dealt_out_and_sides_take_turns() -> None:
    told: list[tuple[str, str, int]] = []
    rounds = in_rounds([place(name) for name in "abcde"], 3)
    assert [[at.cursor.path for at in one] for one in rounds] == [["a", "d"], ["b", "e"], ["c"]]
    sides = [side(OURS_PLAIN, "same", told), side("B", "same", told), side("C", "other", told)]
    labels: list[str] = []
    runs = decode_runs_of(sides)
    decode_all(runs, sides, rounds, no_context, n_predict=9, progress=labels.append)
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


def test_a_side_that_fails_is_left_out_from_then_on() -> None:
    told: list[tuple[str, str, int]] = []
    sides = [side(OURS_PLAIN, "x", told), side("B", "x", told, fails_at="b")]
    rounds = in_rounds([place(name) for name in "abc"], 3)
    plain, failed = runs = decode_runs_of(sides)
    decode_all(runs, sides, rounds, no_context, n_predict=9, progress=lambda _: None)
    assert (plain.why_not, failed.why_not) == ("", "it fell over.")
    assert [len(answers) for answers in plain.rounds] == [1, 1, 1]
    assert [at for name, at, _ in told if name == "B"] == ["a", "a", "b"]


def test_what_whole_rounds_measured_is_there_when_it_is_interrupted() -> None:
    def interrupts(label: str) -> None:
        labels.append(label)
        if len(labels) == 7:
            raise KeyboardInterrupt

    labels: list[str] = []
    sides = [side(OURS_PLAIN, "x", []), side("B", "x", [])]
    runs = decode_runs_of(sides)
    rounds = in_rounds([place(name) for name in "abcd"], 2)
    with pytest.raises(KeyboardInterrupt):
        decode_all(runs, sides, rounds, no_context, n_predict=9, progress=interrupts)
    assert [[len(answers) for answers in run.rounds] for run in runs] == [[2], [2]]


def test_a_peers_server_gets_the_prompts_tokens() -> None:
    with ScriptedPeer("A").open(None) as session:
        side = server_side("A", cast("LlamaServerSession", session))
        found = side.decode(place("a"), no_context(place("a"), 0), 5)
    assert (found.stats.n_prompt, found.stats.n_predicted) == (3, 5)


def test_a_character_that_was_left_unfinished_makes_no_other_text() -> None:
    assert same_text("a é", "a é\ufffd")
    assert not same_text("a", "a e")


@pytest.fixture(scope="module")
def models() -> Iterator[tuple[Tokenizer, Weights]]:
    with loaded_models(SETTINGS) as found:
        yield found


@pytest.mark.real
def test_our_sides_say_the_same_and_the_humans_text_is_the_humans(
    models: tuple[Tokenizer, Weights],
) -> None:
    tokenizer, weights = models
    project = sample_project()
    file = next(path for path in sorted(project.rglob("*.py")) if path.stat().st_size > 1500)
    text = file.read_text(encoding="utf-8")
    begins = text.index("\n", len(text) // 2) + 1
    one = case(
        text[begins : begins + 40],
        prefix=text[:begins],
        suffix=text[begins + 40 :],
        path=file.relative_to(project).as_posix(),
        project=project,
    )
    finder = PlaceFinder(SETTINGS, tokenizer.vocabulary.tokenize)
    (at,) = finder.of_cases([one], 3, 0)
    assert (at.task, at.cursor.truth, at.repo_name) == ("cases", one.typed, project.name)
    own = OwnDecoders(SETTINGS, tokenizer, weights)
    context = own.context(at, 24)
    answers = {decoder.name: decoder.decode(at, context, 24) for decoder in own.sides("edits")}
    assert list(answers) == [OURS, OURS_PLAIN, OURS_HUMAN]
    assert [decoder.name for decoder in own.sides("cases")] == [OURS, OURS_PLAIN]
    ours, plain, human = answers.values()
    assert ours.text == plain.text
    assert plain.stats.n_target_passes == plain.stats.n_predicted
    assert one.typed.startswith(human.text.rstrip("\ufffd"))
    assert human.stats.n_predicted == min(24, len(tokenizer.vocabulary.tokenize(one.typed)))
    again = own.sides("cases")[1].decode(at, context, 24)
    assert (again.text, again.stats.n_prompt_evaluated) == (plain.text, 1)


@pytest.mark.real
def test_edits_are_begun_copies_of_the_projects_blocks(models: tuple[Tokenizer, Weights]) -> None:
    tokenizer, _ = models
    finder = PlaceFinder(SETTINGS, tokenizer.vocabulary.tokenize)
    one = case("x", project=sample_project())
    found = finder.of_edits([one, case("y", id="two")], 4, 0)
    assert len(found) == 4
    assert {at.task for at in found} == {"edits"}
    for at in found:
        lines = at.cursor.truth.splitlines()
        copied = sum(line in at.cursor.prefix.splitlines() for line in lines)
        assert copied >= len(lines) // 3  # but for a name and lines that were changed
    assert finder.of_edits([case("y")], 4, 0) == []
    again = finder.of_edits([one], 4, 0)
    assert [at.cursor for at in again] == [at.cursor for at in found]
