"""Replaying a project: which places are drawn, and what is counted."""

from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.drafter_replay import (
    MERGED,
    DrafterChoice,
    DrafterCounts,
    count_drafters,
    merged_choice,
    single_choices,
    summary,
)
from benchmarks.replay_project import N_COPIED_LINES, N_GAP_LINES, ReplayProject
from speclsp.drafting.drafter import DraftContext, DraftTree, TokenArray
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.registry import known_names
from speclsp.drafting.teacher_forcing import ReplayCounts, replay
from speclsp.drafting.token_tree import path_along
from speclsp.settings import Settings


def tokenize(text: str) -> TokenArray:
    return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32)


def function(number: int) -> str:
    return (
        f"def handler_{number}(request, response):\n"
        f"    value_{number} = request.read({number})\n"
        f"    response.write(value_{number})\n"
        f"    return value_{number}\n\n"
    )


@pytest.fixture
def folder(tmp_path):
    for name in ("one.py", "two.py", "three.py"):
        text = "".join(function(idx) for idx in range(12))
        (tmp_path / name).write_text(f"# {name}\n" + text)
    (tmp_path / "short.py").write_text("x = 1\n")
    (tmp_path / "notes.md").write_text("word\n" * 100)
    return tmp_path


@pytest.fixture
def project(folder):
    return ReplayProject(folder, Settings(), tokenize)


def test_gaps_are_lines_taken_out(project, folder):
    cursors = project.gaps(20, seed=0)
    assert len(cursors) == 20
    for cursor in cursors:
        assert cursor.path in {"one.py", "two.py", "three.py"}
        assert cursor.prefix + cursor.truth + cursor.suffix == (folder / cursor.path).read_text()
        assert cursor.prefix.endswith("\n")
        assert N_GAP_LINES[0] <= cursor.truth.count("\n") <= N_GAP_LINES[1]
    assert project.gaps(20, seed=0) == cursors
    assert project.gaps(20, seed=1) != cursors


def test_edits_are_changed_copies(project, folder):
    cursors = project.edits(20, seed=0)
    assert len(cursors) == 20
    for cursor in cursors:
        assert cursor.prefix + cursor.suffix == (folder / cursor.path).read_text()
        copied = cursor.prefix.splitlines()[-N_COPIED_LINES[1] :]
        kept = [line for line in cursor.truth.splitlines() if line in copied]
        assert kept
        assert cursor.truth not in cursor.prefix


def test_the_cursors_own_file_is_not_searched(project):
    (cursor,) = project.gaps(1, seed=0)
    tail = tokenize(f"# {cursor.path}")
    assert project.corpus.continuation(tail, len(tail), len(tail), 4)[1] == len(tail)
    assert project.corpus_without(cursor).continuation(tail, len(tail), len(tail), 4)[1] == 0


class Scripted:
    """Proposes what it is told, and remembers what was accepted."""

    failures = ()

    def __init__(self, *trees: DraftTree) -> None:
        self._trees = list(trees)
        self.asked: list[tuple[int, int]] = []
        self.accepted: list[list[int]] = []
        self.clock = lambda: 0.0

    def begin(self, context: DraftContext) -> None:
        pass

    def propose(self, generated: Sequence[int], n_max: int) -> DraftTree:
        self.asked.append((len(generated), n_max))
        return self._trees.pop(0) if self._trees else DraftTree()

    def accept(self, path: Sequence[int], *, stopped: bool = False) -> None:
        self.accepted.append(list(path))

    def stats(self) -> dict[str, object]:
        return {}


def test_counts_of_a_replay():
    tree = DraftTree((1, 2, 9, 3), (-1, 0, 0, 1), ("a", "a", "b", "b"))
    wrong = DraftTree((7,), (-1,), ("a",))
    proposer = Scripted(tree, DraftTree(), wrong)
    counts = ReplayCounts()
    replay(proposer, DraftContext(prompt=(0,)), [1, 2, 3, 4, 5, 6, 8], 15, counts)
    assert proposer.accepted == [[0, 1, 3], []]
    assert proposer.asked == [(0, 6), (4, 2), (5, 1)]
    assert (counts.n_tokens, counts.n_passes, counts.n_draft_passes) == (7, 4, 2)
    assert (counts.n_drafted, counts.n_accepted) == (5, 3)
    assert counts.n_by_source == {"a": 2, "b": 1}
    assert counts.tokens_per_pass == 7 / 4
    assert counts.acceptance == 3 / 5
    assert counts.mean_acceptance_length == 1 + 3 / 2


def test_the_last_token_is_the_passs_own():
    chain = DraftTree((1, 2), (-1, 0), ("a", "a"))
    for truth, path in (([1, 2], [0]), ([1, 2, 3], [0, 1]), ([2, 1], [])):
        proposer = Scripted(chain)
        replay(proposer, DraftContext(prompt=(0,)), truth, 15, ReplayCounts())
        assert proposer.accepted == [path]
    assert path_along([1], DraftTree()) == []


def test_choices():
    settings = Settings(drafters="suffix,draft", max_draft=5)
    names = [choice.name for choice in single_choices(settings)]
    assert set(names) == set(known_names()) - {"draft"}
    for choice in single_choices(settings):
        assert isinstance(choice.proposer(), DraftMerger)
        assert choice.keeps_no_text == (choice.name in {"suffix", "ngram-cache"})
    tree = merged_choice(settings, "tree")
    assert isinstance(tree.proposer(), DraftMerger)
    assert tree.name == f"{MERGED} tree"
    assert tree.keeps_no_text
    assert DrafterChoice("off", settings).proposer() is None


def test_every_drafter_is_counted(project):
    told: list[str] = []
    results = list(
        count_drafters(
            project, Settings(), tokenize, n_vocab=256, n_cursors=3, seed=0, progress=told.append
        )
    )
    names = {*known_names(), "merged chain", "merged tree"} - {"draft"}
    assert {result.drafter for result in results if result.task == "gaps"} == names
    assert {result.drafter for result in results if result.task == "edits"} == names
    assert told == [f"{result.task}: {result.drafter}" for result in results]
    n_tokens = {result.counts.n_tokens for result in results if result.task == "gaps"}
    assert len(n_tokens) == 1
    by_name = {result.drafter: result.counts for result in results if result.task == "gaps"}
    # Every function is there twice more, in the other files.
    assert by_name["merged tree"].tokens_per_pass > 4
    assert by_name["suffix"].tokens_per_pass > 4
    assert by_name["merged tree"].n_by_source.keys() == {"suffix"}


def result_of(task: str, drafter: str, n_tokens: int, n_passes: int) -> DrafterCounts:
    counts = ReplayCounts(n_tokens, n_passes, n_passes, 100, n_tokens - n_passes)
    return DrafterCounts("gaps" if task == "gaps" else "edits", drafter, counts)


def test_the_summary_compares_with_the_best():
    figures = summary(
        [
            result_of("gaps", "suffix", 200, 100),
            result_of("gaps", "ngram-cache", 160, 100),
            result_of("gaps", "ngram-mod", 110, 100),
            result_of("gaps", "merged chain", 230, 100),
            result_of("gaps", "merged tree", 240, 100),
            result_of("edits", "merged tree", 500, 100),
            result_of("edits", "suffix", 900, 100),
        ]
    )
    assert figures == {
        "merged tokens per pass": 2.4,
        "merged / best drafter alone": pytest.approx(1.2),
        "merged / best of llama.cpp's": pytest.approx(1.5),
        "mean acceptance length in edits": 5.0,
    }
