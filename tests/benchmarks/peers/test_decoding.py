"""Where decoding is compared, and what our own sides say."""

from typing import cast

import pytest

from benchmarks.decoding import DecodePlace, Decoder
from benchmarks.machine import loaded_models
from benchmarks.peers.decoding import OURS_HUMAN, OwnDecoders, PlaceFinder, server_side
from benchmarks.peers.llama_server import LlamaServerSession
from benchmarks.peers.own import OURS, OURS_PLAIN
from benchmarks.replay_project import ReplayCursor
from speclsp.drafting.drafter import DraftContext
from speclsp.embedded import sample_project
from speclsp.settings import Settings
from tests.benchmarks.case_folders import case
from tests.benchmarks.scripted_peers import ScriptedPeer

SETTINGS = Settings(threads=1, mode="tree")


def test_a_peers_server_gets_the_prompts_tokens():
    cursor = ReplayCursor(path="a", prefix="", truth="", suffix="")
    at = DecodePlace(task="cases", cursor=cursor, repo_name="", corpora=())
    with ScriptedPeer("A").open(None) as session:
        side = server_side("A", cast("LlamaServerSession", session))
        found = side.decode(at, DraftContext(prompt=(1, 2, 3)), 5)
    assert (found.stats.n_prompt, found.stats.n_predicted) == (3, 5)


@pytest.fixture(scope="module")
def models():
    with loaded_models(SETTINGS) as found:
        yield found


@pytest.mark.real
def test_our_sides_say_the_same_and_the_humans_text_is_the_humans(models):
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
    decoder = Decoder(SETTINGS, tokenizer, weights)
    own = OwnDecoders(decoder)
    context = decoder.context(at, 24)
    answers = {side.name: side.decode(at, context, 24) for side in own.sides("edits")}
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
def test_edits_are_begun_copies_of_the_projects_blocks(models):
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
