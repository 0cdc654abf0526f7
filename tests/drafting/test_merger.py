"""The merger: what it drafts in each mode, what it learns, and what it counts for whom."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from operator import eq

import numpy as np
import pytest
from character_tokens import where
from scripted_drafters import EmptyDrafter, ModelBase, ScriptedDrafter, SilentBase
from scripted_proposers import n_leaves

from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.cost import AskingCost, VerifyCurve, straight_curve
from speclsp.drafting.drafter import Candidate, Draft, DraftContext, Drafter, DraftTree
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.suffix import SuffixDrafter
from speclsp.drafting.token_tree import is_chain
from speclsp.settings import DraftMode

END = 9
FREE = VerifyCurve((1, 2), (1.0, 1.0))
DEAR = straight_curve(3.0)
STEEP = VerifyCurve((1, 2, 4, 8), (1.0, 1.4, 1.8, 2.6))


class Branching(SilentBase):
    """Gives the same candidates each time."""

    name = "branching"

    def __init__(self, *candidates: Candidate | Exception) -> None:
        super().__init__()
        self._candidates = candidates
        self.asked: list[int] = []

    def candidates(self, generated: Sequence[int], n_max: int) -> Sequence[Candidate]:
        self.asked.append(n_max)
        for candidate in self._candidates:
            if isinstance(candidate, Exception):
                raise candidate
        return [one for one in self._candidates if isinstance(one, Candidate)]


class Repeating(SilentBase):
    """Drafts the same tokens each time, and takes its time for it."""

    def __init__(self, tokens: Sequence[int], name: str, clock: Clock, seconds: float) -> None:
        super().__init__()
        self.name = name
        self._tokens = tuple(tokens)
        self._clock = clock
        self._seconds = seconds
        self.n_calls = 0

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        self.n_calls += 1
        self._clock.now += self._seconds
        return Draft(self._tokens[:n_max])


class RepeatingModel(Repeating, ModelBase):
    """A draft model that does so, and says what a token takes."""

    def __init__(self, tokens: Sequence[int], name: str, clock: Clock, seconds: float) -> None:
        super().__init__(tokens, name, clock, seconds)
        self.n_most = len(tokens)
        self.cost = AskingCost(seconds / len(tokens))


class Guessing(ModelBase):
    """A draft model that drafts three tokens, each right, 1, with a chance, and takes its time."""

    name = "draft"

    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__()
        self._clock = clock
        self._seconds = seconds
        self.cost = AskingCost(seconds / 3)
        self._random = random.Random(7)
        self.accuracy = 0.0
        self.n_calls = 0

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        self.n_calls += 1
        self._clock.now += self._seconds
        right = [self._random.random() < self.accuracy for _ in range(min(3, n_max))]
        return Draft(tuple(1 if one else 2 for one in right))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def merged(
    *drafters: Drafter,
    mode: DraftMode = "tree",
    curve: VerifyCurve = FREE,
    n_branches: int = 8,
    n_max: int = 15,
    n_vocab: int = 100,
) -> DraftMerger:
    merger = DraftMerger(drafters, AcceptanceTable(), mode=mode, p_split=0.0, n_max=n_max)
    merger.begin(
        DraftContext(prompt=(0,), verify_curve=curve, n_vocab=n_vocab, n_branches=n_branches)
    )
    return merger


def nodes(tree: DraftTree) -> set[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        paths.append((*(() if parent < 0 else paths[parent]), token))
    return set(paths)


TWO = (Candidate([1, 2, 3], "", 8), Candidate([1, 5], "", 8), Candidate([7], "", 4))


class TestModes:
    def test_it_is_a_proposer(self):
        assert isinstance(merged(), Proposer)

    def test_tree_holds_all_candidates(self):
        tree = merged(Branching(*TWO)).propose([], 15)
        assert nodes(tree) == {(1,), (1, 2), (1, 2, 3), (1, 5), (7,)}
        assert set(tree.sources) == {"branching"}
        assert len(tree.probabilities) == 5

    def test_chain_holds_the_best_path(self):
        tree = merged(Branching(*TWO), mode="chain").propose([], 15)
        assert nodes(tree) == {(1,), (1, 2), (1, 2, 3)}
        assert is_chain(tree)

    def test_a_target_without_branches_gets_chains(self):
        assert is_chain(merged(Branching(*TWO), mode="tree", n_branches=1).propose([], 15))

    def test_the_branches_are_limited(self):
        assert n_leaves(merged(Branching(*TWO), n_branches=2).propose([], 15)) == 2

    @pytest.mark.parametrize(("slope", "joined_as"), [(0.03, "tree"), (0.06, "chain")])
    def test_auto_takes_a_tree_where_passes_are_nearly_flat(
        self, slope: float, joined_as: DraftMode
    ):
        curve = straight_curve(slope)
        expected = merged(Branching(*TWO), curve=curve, mode=joined_as).propose([], 15)
        assert n_leaves(expected) == (3 if joined_as == "tree" else 1)
        assert merged(Branching(*TWO), curve=curve, mode="auto").propose([], 15) == expected

    def test_nothing_is_drafted_where_that_is_best(self):
        merger = merged(Branching(*TWO), curve=DEAR, mode="auto")
        assert merger.propose([], 15) == DraftTree()
        assert merged().propose([], 15) == DraftTree()
        assert merged(EmptyDrafter()).propose([], 15) == DraftTree()

    def test_the_limits_hold(self):
        drafter = Branching(Candidate([1] * 30, "", 40))
        assert len(merged(drafter, n_max=4).propose([], 15).tokens) == 0  # longer than asked for
        assert drafter.asked[-1] == 4
        long = merged(Branching(Candidate([1, 2, 3, 4], "", 40)), n_max=4)
        assert len(long.propose([], 15).tokens) == 4
        assert long.propose([], 2).tokens == ()


class TestSources:
    def test_plain_drafters_join_in(self):
        one, two = ScriptedDrafter([Draft((1, 2))], "one"), ScriptedDrafter([Draft((1, 3))], "two")
        tree = merged(one, two).propose([], 15)
        assert nodes(tree) == {(1,), (1, 2), (1, 3)}
        by_path = dict(zip(tree.tokens, tree.sources, strict=True))
        assert (by_path[2], by_path[3]) == ("one", "two")

    def test_what_is_no_candidate_is_left_out(self):
        bad = Branching(
            Candidate([], "", 4),
            Candidate([2], "", -4),
            Candidate([2], "", 4, 0.0),
            Candidate([2], "", 4, float("nan")),
            Candidate([3], "", 4),
        )
        assert nodes(merged(bad).propose([], 15)) == {(3,)}

    def test_a_drafter_that_raises_is_left_out_until_the_next_request(self):
        good = Branching(Candidate([1], "", 9))
        bad = Branching(ValueError("broken"))
        bad.name = "bad"
        plain = ScriptedDrafter([ValueError("broken too"), Draft((2,))], "plain")
        merger = merged(good, bad, plain)
        assert merger.propose([], 15).tokens == (1,)
        assert [error.message.split(":")[0] for error in merger.failures] == [
            "drafter 'bad' failed in candidates()",
            "drafter 'plain' failed in draft()",
        ]
        assert merger.propose([], 15).tokens == (1,)
        assert len(bad.asked) == 1
        merger.begin(DraftContext(prompt=(0,), verify_curve=FREE, n_branches=8))
        assert merger.failures == ()
        assert set(merger.propose([], 15).tokens) == {1, 2}

    @pytest.mark.parametrize(
        "candidate",
        [
            Candidate(["x"], "", 4),  # type: ignore[list-item]
            Candidate([1, 2.5, 3], "", 4),  # type: ignore[list-item]
            Candidate([1], "", 2.5),  # type: ignore[arg-type]
            Candidate([1], "", 4, 1.0, ["x"]),  # type: ignore[list-item]
            Candidate([1], "", 4, 1.0, None),  # type: ignore[arg-type]
            Candidate(None, "", 4),  # type: ignore[arg-type]
        ],
    )
    def test_what_is_no_number_drops_its_drafter(self, candidate):
        merger = merged(Branching(candidate))
        assert merger.propose([], 15) == DraftTree()
        assert "TypeError" in merger.failures[0].message

    def test_numbers_of_numpy_are_plain_ones(self):
        two = np.int64(2)
        candidate = Candidate(np.array([1]), "", two, 1.0, np.array([0.9]))  # type: ignore[arg-type]
        for drafter in (
            Branching(candidate),
            Branching(Candidate([1], "", two)),  # type: ignore[arg-type]
            Branching(Candidate([1], "", 2, 1.0, np.array([]))),  # type: ignore[arg-type]
            ScriptedDrafter([Draft((1,), "", two)]),  # type: ignore[arg-type]
            ScriptedDrafter([Draft((1,), "", 2, np.array([0.9]))]),  # type: ignore[arg-type]
        ):
            merger = merged(drafter)
            (token,) = merger.propose([], 15).tokens
            assert (token, type(token), merger.failures) == (1, int, ())

    @pytest.mark.parametrize("source", ["", "a", "a:b", "a/b"])
    def test_names_and_sources_may_be_anything(self, source):
        odd = Branching(Candidate([1], source, 4))
        odd.name = "o:d/d"
        tree = merged(odd).propose([], 15)
        assert tree.sources == ("o:d/d",)


@pytest.mark.parametrize(("source", "n_drafted"), [("region", 1), ("project", 0), ("", 0)])
def test_a_region_has_a_prior_of_its_own(source, n_drafted):
    drafter = ScriptedDrafter([Draft((1,), source, match_length=2)], "one")
    merger = merged(drafter, curve=straight_curve(0.5))
    assert merger.propose([], 15).sources == ("one",) * n_drafted


class TestCounting:
    def test_nodes_are_counted_for_whom_they_are_credited_to(self):
        one = ScriptedDrafter([Draft((1, 2), match_length=30)], "one")
        two = ScriptedDrafter([Draft((1, 3, 4), match_length=2)], "two")
        idle = EmptyDrafter()
        merger = merged(one, two, idle)
        tree = merger.propose([], 15)
        paths = [node for node, token in enumerate(tree.tokens) if token in (1, 3)]
        merger.accept(paths)
        stats = merger.stats()
        assert list(stats) == ["one", "two", "empty"]
        assert (stats["one"].n_drafted, stats["one"].n_accepted) == (2, 1)
        assert stats["one"].n_drafted_at == (1, 1)
        assert stats["one"].n_accepted_at == (1, 0)
        assert (stats["two"].n_drafted, stats["two"].n_accepted) == (2, 1)
        assert stats["two"].n_drafted_at == (0, 1, 1)
        assert stats["two"].n_accepted_at == (0, 1, 0)
        # Both drafts were verified to their ends, whoever their tokens are credited to.
        assert (one.accepts, two.accepts) == ([1], [2])
        assert idle.accepts == []
        assert stats["empty"].n_drafts == 0
        assert {name: s.n_draft_calls for name, s in stats.items()} == {
            "one": 1, "two": 1, "empty": 1,
        }  # fmt: skip
        assert stats["one"].n_begin_calls == 1

    def test_a_new_request_counts_anew(self):
        merger = merged(Branching(*TWO))
        merger.propose([], 15)
        merger.accept([])
        assert merger.stats()["branching"].n_drafted == 5
        merger.begin(DraftContext(prompt=(0,)))
        assert merger.stats()["branching"].n_drafted == 0

    def test_nothing_verified_counts_nothing(self):
        merger = merged(Branching(*TWO))
        merger.accept([])
        assert merger.stats()["branching"].n_drafts == 0


class TestLearning:
    def test_it_learns_from_all_that_was_emitted(self):
        drafter = Branching(Candidate([1, 2], "", 8))
        merger = merged(drafter, curve=straight_curve(0.3), mode="chain")
        # Only its first token is ever right.
        sizes = [len(merger.propose([1, 9] * number, 15).tokens) for number in range(200)]
        assert (sizes[0], sizes[-1]) == (2, 1)

    def test_it_learns_where_it_drafts_nothing(self):
        drafter = Branching(Candidate([1, 2, 3], "", 8))
        merger = merged(drafter, curve=straight_curve(0.9), mode="chain")
        drafted = [bool(merger.propose([1, 2, 3] * idx, 15).tokens) for idx in range(400)]
        assert not drafted[0]
        assert drafted[-1]


class TestFeedback:
    """What drafters are told of their drafts, and when."""

    class Noting(ScriptedDrafter):
        """Notes both numbers."""

        def __init__(self, draft: Draft, name: str):
            super().__init__([draft] * 9, name)
            self.told: list[tuple[int, int]] = []

        def accept(self, n_accepted: int, n_verified: int) -> None:  # type: ignore[override]
            self.told.append((n_accepted, n_verified))

    def test_a_draft_that_was_trimmed_and_right_is_no_miss(self):
        drafter = self.Noting(Draft((1, 2, 3, 4, 5, 6), match_length=2), "noting")
        merger = merged(drafter, curve=straight_curve(0.15), mode="chain")
        tree = merger.propose([], 15)
        assert 0 < len(tree.tokens) < 6
        merger.accept(range(len(tree.tokens)))
        assert drafter.told == [(len(tree.tokens), len(tree.tokens))]

    @pytest.mark.parametrize("mode", ["first", "chain", "tree"])
    def test_what_the_outputs_end_left_unverified_is_no_miss(self, mode):
        drafter = self.Noting(Draft((1, 2, 3, 4, 5, 6), match_length=30), "noting")
        merger = merged(drafter, mode=mode)
        assert merger.propose([], 15).tokens == (1, 2, 3, 4, 5, 6)
        merger.accept([0, 1], stopped=True)
        assert drafter.told == [(2, 2)]
        assert merger.stats()["noting"].n_drafted == 6

    def test_a_branch_beside_the_outputs_end_is_verified(self):
        told = []

        class Two(Branching):
            def accept(self, n_accepted, n_verified):  # type: ignore[override]
                told.append((n_accepted, n_verified))

        merger = merged(Two(Candidate((1, 2, 3), "", 8), Candidate((1, 4, 5), "", 4)))
        tree = merger.propose([], 15)
        assert sorted(tree.tokens) == [1, 2, 3, 4, 5]
        merger.accept([tree.tokens.index(1), tree.tokens.index(2)], stopped=True)
        assert told == [(2, 4)]

    def test_a_draft_is_followed_where_others_are_credited(self):
        sure = self.Noting(Draft((1, 2), match_length=30), "sure")
        unsure = self.Noting(Draft((1, 2, 3), match_length=1), "unsure")
        merger = merged(sure, unsure, mode="chain")
        tree = merger.propose([], 15)
        assert tree.sources[:2] == ("sure", "sure")
        merger.accept([0, 1])
        assert sure.told == [(2, 2)]
        assert unsure.told == [(2, len(tree.tokens))]

    def test_nothing_is_said_of_what_was_not_verified(self):
        better = self.Noting(Draft((1,), match_length=30), "better")
        worse = self.Noting(Draft((2,), match_length=1), "worse")
        merger = merged(better, worse, mode="chain")
        merger.propose([], 15)
        merger.accept([0])
        assert (better.told, worse.told) == ([(1, 1)], [])


class TestAsking:
    """Mode auto asks a draft model where that saves what it takes; other modes ask always."""

    def begin(self, merger: DraftMerger, curve: VerifyCurve = FREE):
        merger.begin(DraftContext(prompt=(0,), verify_curve=curve, single_s=1.0))

    def merged(self, clock: Clock, *drafters: Drafter, mode: DraftMode = "auto") -> DraftMerger:
        merger = merged(*drafters, mode=mode)
        merger.clock = clock
        self.begin(merger)
        return merger

    def pass_by(self, merger: DraftMerger, clock: Clock, n_passes: int = 1) -> int:
        """Passes of a target whose T(1) is a second, and which emits 1; returns its tokens."""
        emitted: list[int] = []
        for _ in range(n_passes):
            tree = merger.propose(emitted, 15)
            clock.now += FREE.ratio(len(tree.tokens) + 1)
            path = [node for node, token in enumerate(tree.tokens) if token == 1][:1]
            if tree.tokens:
                merger.accept(path)
            emitted += [1] * (len(path) + 1)
        return len(emitted)

    @pytest.mark.parametrize("mode", ["auto", "tree", "chain"])
    @pytest.mark.parametrize(("token", "pays"), [(1, True), (2, False)])
    def test_only_auto_minds_what_a_draft_model_takes(self, token, pays, mode):
        clock = Clock()
        model = RepeatingModel([token, token, token], "draft", clock, seconds=0.6)
        merger = self.merged(clock, model, mode=mode)
        self.pass_by(merger, clock, 100)
        if mode == "auto":
            assert (model.n_calls > 90) == pays
            assert model.n_calls > 3
        else:
            assert model.n_calls == 100
        assert merger.stats()["draft"].ms_draft == pytest.approx(600.0 * model.n_calls)

    def test_it_is_not_asked_before_both_models_times_are_known(self):
        clock = Clock()
        model = RepeatingModel([1, 1, 1], "draft", clock, seconds=0.1)
        cost, model.cost = model.cost, None
        merger = self.merged(clock, model)
        self.pass_by(merger, clock, 20)
        assert model.n_calls == 0
        model.cost = cost
        merger.begin(DraftContext(prompt=(0,), verify_curve=FREE))  # T(1) is not known
        self.pass_by(merger, clock)
        assert model.n_calls == 0
        self.begin(merger)
        self.pass_by(merger, clock)
        assert model.n_calls == 1

    def test_a_text_that_it_has_to_read_first_counts(self):
        clock = Clock()
        model = RepeatingModel([1, 1, 1], "draft", clock, seconds=0.1)
        model.lacking_s = 20.0
        merger = self.merged(clock, model)
        self.pass_by(merger, clock, 20)
        assert model.n_calls == 0
        model.lacking_s = 0.5
        self.begin(merger)
        self.pass_by(merger, clock)
        assert model.n_calls == 1

    def test_a_costly_draft_model_is_not_asked_where_others_know_more(self):
        clock = Clock()
        model = RepeatingModel([1], "draft", clock, seconds=0.9)
        sure = Branching(Candidate([1, 1, 1, 1], "", 40))
        merger = self.merged(clock, sure, model)
        self.pass_by(merger, clock, 60)
        assert model.n_calls < 10

    def n_asked_of(self, accuracies: Sequence[tuple[float, int]]) -> list[tuple[int, int]]:
        """Drafts and passes of a draft model that is right in such shares of its tokens.

        Each share goes with the tokens that are emitted meanwhile; pieces of 50 are requests.
        """
        clock = Clock()
        model = Guessing(clock, seconds=0.15)
        merger = self.merged(clock, model)
        found = []
        for accuracy, n_tokens in accuracies:
            model.accuracy = accuracy
            n_calls, n_passes = model.n_calls, 0
            for _ in range(n_tokens // 50):
                self.begin(merger, STEEP)
                emitted: list[int] = []
                while len(emitted) < 50:
                    tree = merger.propose(emitted, 15)
                    clock.now += STEEP.ratio(len(tree.tokens) + 1)
                    right = takewhile(partial(eq, 1), tree.tokens)
                    path = list(range(len(list(right))))
                    if tree.tokens:
                        merger.accept(path)
                    emitted += [1] * (len(path) + 1)
                    n_passes += 1
            found.append((model.n_calls - n_calls, n_passes))
        return found

    @pytest.mark.parametrize("accuracy", [0.0, 0.23])
    def test_a_bad_draft_model_is_hardly_asked(self, accuracy):
        (n_first, n_passes_first), (n_asked, n_passes) = self.n_asked_of(
            [(accuracy, 400), (accuracy, 4000)]
        )
        assert n_first < 0.1 * n_passes_first
        assert n_asked < 0.1 * n_passes

    def test_a_good_draft_model_is_asked_nearly_always(self):
        (n_asked, n_passes), (n_asked_then, n_passes_then) = self.n_asked_of(
            [(0.8, 400), (0.8, 2000)]
        )
        assert n_asked > 0.7 * n_passes
        assert n_asked_then > 0.95 * n_passes_then

    def test_it_finds_out_when_a_draft_model_gets_better_or_worse(self):
        found = self.n_asked_of([(0.8, 1000), (0.1, 1000), (0.1, 2000), (0.8, 6000), (0.8, 2000)])
        good, _, bad, _, good_again = (n_asked / n_passes for n_asked, n_passes in found)
        assert good > 0.8
        assert bad < 0.15
        assert good_again > 0.95

    def test_what_a_draft_model_takes_does_not_silence_the_others(self):
        clock = Clock()
        costly = Guessing(clock, seconds=20.0)
        merger = self.merged(clock, Branching(Candidate([1, 1, 1, 1], "", 40)), costly)
        assert self.pass_by(merger, clock, 60) > 60 + 50
        assert costly.n_calls <= 2

    @pytest.mark.parametrize(
        ("seconds", "least", "most"), [(0.001, 400, 400), (0.05, 60, 140), (0.5, 2, 6)]
    )
    def test_what_gains_nothing_may_take_a_small_share(self, seconds, least, most):
        clock = Clock()
        drafter = RepeatingModel([2], "slow", clock, seconds=seconds)
        merger = self.merged(clock, drafter)
        begun = 0
        for _ in range(40):
            self.begin(merger)
            self.pass_by(merger, clock, 10)
            begun += merger.stats()["slow"].n_begin_calls
        assert least <= drafter.n_calls <= most
        # Where a drafter is not asked, it does not even begin.
        assert begun == 40 or seconds > 0.01
        assert clock.now - 400.0 < 0.02 * 400.0


def test_the_last_pass_of_a_request_teaches_the_next_one():
    merger = merged(Branching(Candidate([1, 1], "", 3)), curve=straight_curve(0.4), mode="chain")
    sizes = []
    for _ in range(60):
        merger.begin(DraftContext(prompt=(0,), verify_curve=straight_curve(0.6)))
        emitted: list[int] = []
        sizes.append(len(merger.propose(emitted, 15).tokens))
        emitted += [1, 1, 5]
    assert (sizes[0], sizes[-1]) == (0, 2)


def test_several_places_of_real_text_make_branches():
    merger = DraftMerger(
        [SuffixDrafter(n_draft=15)], AcceptanceTable(), mode="tree", p_split=0.0, n_max=15
    )
    text = "return self.left\nreturn self.right\nreturn self."
    merger.begin(where(text, n_branches=4))
    tree = merger.propose([], 15)
    texts = {"".join(map(chr, path)) for path in nodes(tree)}
    assert {"l", "r"} <= texts
    assert {"left", "right"} & texts
    assert set(tree.sources) == {"suffix"}
