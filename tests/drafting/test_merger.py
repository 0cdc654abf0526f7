"""The merger: what it drafts in each mode, what it learns, and what it counts for whom."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from operator import eq

import numpy as np
import pytest
from scripted_drafters import EmptyDrafter, ScriptedDrafter, SilentBase

from speclsp.drafting.calibration import Calibration
from speclsp.drafting.candidates import Candidate
from speclsp.drafting.cost import VerifyCurve, straight_curve
from speclsp.drafting.distribution import Distribution
from speclsp.drafting.merger import DraftMerger, MergeMode
from speclsp.drafting.proposer import Proposer, is_chain, n_leaves
from speclsp.drafting.protocol import Draft, DraftContext, Drafter, DraftTree
from speclsp.drafting.suffix import SuffixDrafter

FREE = VerifyCurve((1, 2), (1.0, 1.0))
DEAR = straight_curve(3.0)
STEEP = VerifyCurve((1, 2, 4, 8), (1.0, 1.4, 1.8, 2.6))


class Branching(SilentBase):
    """Gives the same candidates each time."""

    name = "branching"

    def __init__(self, *candidates: Candidate | Exception) -> None:
        super().__init__()
        self._candidates = candidates
        self.asked: list[tuple[int, int]] = []

    def candidates(
        self, generated: Sequence[int], n_max: int, n_min_match: int
    ) -> Sequence[Candidate]:
        self.asked.append((n_max, n_min_match))
        for candidate in self._candidates:
            if isinstance(candidate, Exception):
                raise candidate
        return [
            candidate
            for candidate in self._candidates
            if isinstance(candidate, Candidate) and candidate.match_length >= n_min_match
        ]


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


class Guessing(SilentBase):
    """A draft model that drafts three tokens, each right, 1, with a chance, and takes its time."""

    name = "draft"
    ns_native = 0

    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__()
        self._clock = clock
        self._seconds = seconds
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
    mode: MergeMode = "tree",
    curve: VerifyCurve = FREE,
    tree_curve: VerifyCurve | None = None,
    n_branches: int = 8,
    n_max: int = 15,
    n_vocab: int = 100,
    calibration: Calibration | None = None,
) -> DraftMerger:
    merger = DraftMerger(
        drafters, calibration or Calibration(), mode=mode, p_split=0.0, n_max=n_max
    )
    merger.begin(
        DraftContext(
            prompt=(0,),
            verify_curve=curve,
            tree_curve=tree_curve,
            n_vocab=n_vocab,
            n_branches=n_branches,
        )
    )
    return merger


def nodes(tree: DraftTree) -> set[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        paths.append((*(() if parent < 0 else paths[parent]), token))
    return set(paths)


TWO = (Candidate([1, 2, 3], "", 8), Candidate([1, 5], "", 8), Candidate([7], "", 4))


class TestModes:
    def test_it_is_a_proposer(self) -> None:
        assert isinstance(merged(), Proposer)

    def test_tree_holds_all_candidates(self) -> None:
        tree = merged(Branching(*TWO)).propose([], 15)
        assert nodes(tree) == {(1,), (1, 2), (1, 2, 3), (1, 5), (7,)}
        assert set(tree.sources) == {"branching"}
        assert len(tree.probabilities) == 5

    def test_chain_holds_the_best_path(self) -> None:
        tree = merged(Branching(*TWO), mode="chain").propose([], 15)
        assert nodes(tree) == {(1,), (1, 2), (1, 2, 3)}
        assert is_chain(tree)

    def test_a_target_without_branches_gets_chains(self) -> None:
        for mode in ("tree", "auto"):
            assert is_chain(merged(Branching(*TWO), mode=mode, n_branches=1).propose([], 15))

    def test_the_branches_are_limited(self) -> None:
        assert n_leaves(merged(Branching(*TWO), n_branches=2).propose([], 15)) == 2

    def test_auto_takes_what_promises_more(self) -> None:
        tree = merged(Branching(*TWO), mode="auto").propose([], 15)
        assert n_leaves(tree) == 3
        dear = merged(Branching(*TWO), mode="auto", tree_curve=DEAR).propose([], 15)
        assert is_chain(dear)
        assert dear.tokens

    def test_nothing_is_drafted_where_that_is_best(self) -> None:
        merger = merged(Branching(*TWO), curve=DEAR, tree_curve=DEAR, mode="auto")
        assert merger.propose([], 15) == DraftTree()
        assert merged().propose([], 15) == DraftTree()
        assert merged(EmptyDrafter()).propose([], 15) == DraftTree()

    def test_the_limits_hold(self) -> None:
        drafter = Branching(Candidate([1] * 30, "", 40))
        assert len(merged(drafter, n_max=4).propose([], 15).tokens) == 0  # longer than asked for
        assert drafter.asked[-1][0] == 4
        long = merged(Branching(Candidate([1, 2, 3, 4], "", 40)), n_max=4)
        assert len(long.propose([], 15).tokens) == 4
        assert long.propose([], 2).tokens == ()


class TestSources:
    def test_plain_drafters_join_in(self) -> None:
        one, two = ScriptedDrafter([Draft((1, 2))], "one"), ScriptedDrafter([Draft((1, 3))], "two")
        tree = merged(one, two).propose([], 15)
        assert nodes(tree) == {(1,), (1, 2), (1, 3)}
        by_path = dict(zip(tree.tokens, tree.sources, strict=True))
        assert (by_path[2], by_path[3]) == ("one", "two")

    def test_what_is_no_token_is_left_out(self) -> None:
        bad = Branching(
            Candidate([1, 100], "", 4),
            Candidate([-1], "", 4),
            Candidate([], "", 4),
            Candidate([2], "", -4),
            Candidate([2], "", 4, 0.0),
            Candidate([2], "", 4, float("nan")),
            Candidate([3], "", 4),
        )
        assert nodes(merged(bad).propose([], 15)) == {(3,)}

    def test_a_drafter_that_raises_is_left_out_until_the_next_request(self) -> None:
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
            Candidate(None, "", 4),  # type: ignore[arg-type]
        ],
    )
    def test_what_is_no_number_drops_its_drafter(self, candidate: Candidate) -> None:
        merger = merged(Branching(candidate))
        assert merger.propose([], 15) == DraftTree()
        assert "TypeError" in merger.failures[0].message

    @pytest.mark.parametrize("source", ["", "a", "a:b", "a/b"])
    def test_names_and_sources_may_be_anything(self, source: str) -> None:
        odd = Branching(Candidate([1], source, 4))
        odd.name = "o:d/d"
        tree = merged(odd).propose([], 15)
        assert tree.sources == ("o:d/d",)


class TestCounting:
    def test_nodes_are_counted_for_whom_they_are_credited_to(self) -> None:
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
        assert one.accepts == two.accepts == [1]
        assert idle.accepts == []
        assert stats["empty"].n_drafts == 0
        assert {name: s.n_draft_calls for name, s in stats.items()} == {
            "one": 1, "two": 1, "empty": 1,
        }  # fmt: skip
        assert stats["one"].n_begin_calls == 1

    def test_a_new_request_counts_anew(self) -> None:
        merger = merged(Branching(*TWO))
        merger.propose([], 15)
        merger.accept([])
        assert merger.stats()["branching"].n_drafted == 5
        merger.begin(DraftContext(prompt=(0,)))
        assert merger.stats()["branching"].n_drafted == 0

    def test_nothing_verified_counts_nothing(self) -> None:
        merger = merged(Branching(*TWO))
        merger.accept([])
        assert merger.stats()["branching"].n_drafts == 0


class TestLearning:
    def test_it_learns_from_all_that_was_emitted(self) -> None:
        calibration = Calibration()
        drafter = Branching(Candidate([1, 2], "", 8))
        merger = merged(drafter, calibration=calibration, curve=straight_curve(0.3), mode="chain")
        sizes = []
        for number in range(200):
            # Only its first token is ever right.
            generated = [1, 9] * number
            sizes.append(len(merger.propose(generated, 15).tokens))
        assert sizes[0] == 2
        assert sizes[-1] == 1

    def test_the_next_request_knows_all_that_was_emitted_before(self) -> None:
        calibration = Calibration()
        merger = merged(Branching(Candidate([1, 2], "", 8)), calibration=calibration)
        merger.propose([], 15)
        merger.propose([1, 2], 15)
        rights = {name: right for name, (right, _) in calibration.cells().items()}
        merger.begin(DraftContext(prompt=(0,)))
        learned = {n for n, (right, _) in calibration.cells().items() if right != rights[n]}
        assert {name.partition("/")[0] for name in learned} == {"branching", "="}

    def test_it_learns_where_it_drafts_nothing(self) -> None:
        calibration = Calibration()
        curve = straight_curve(0.9)
        merger = merged(
            Branching(Candidate([1, 2, 3], "", 8)),
            calibration=calibration,
            curve=curve,
            mode="chain",
        )
        drafted = [bool(merger.propose([1, 2, 3] * idx, 15).tokens) for idx in range(400)]
        assert not drafted[0]
        assert drafted[-1]

    def test_short_matches_are_looked_at_now_and_then_where_they_do_not_pay(self) -> None:
        calibration = Calibration()
        merged(Branching(Candidate([1], "", 1)), calibration=calibration).propose([], 15)
        drafter = Branching(Candidate([1], "", 1))
        merger = merged(drafter, calibration=calibration, curve=straight_curve(0.6), n_branches=1)
        for idx in range(64):
            merger.propose([5] * idx, 15)
        asked = [n_min for _, n_min in drafter.asked]
        assert asked.count(1) == 4
        assert min(set(asked) - {1}) >= 4


class TestDrawnDrafts:
    DRAWN = Distribution(np.array([1, 2], dtype=np.int64), np.array([0.5, 0.5]))

    def test_a_drawn_draft_stands_alone_and_whole(self) -> None:
        drawn = Draft((2, 2, 2), distributions=(self.DRAWN,) * 3)
        known = Branching(Candidate([1], "", 2))
        merger = merged(known, ScriptedDrafter([drawn], "draft"), curve=DEAR)
        tree = merger.propose([], 15)
        assert (tree.tokens, tree.parents) == ((2, 2, 2), (-1, 0, 1))
        assert tree.distributions == (self.DRAWN,) * 3
        assert set(tree.sources) == {"draft"}
        merger.accept([0])
        assert merger.stats()["draft"].n_accepted == 1
        # The next pass has none, so the others' draft counts again.
        assert merger.propose([2, 1], 15).distributions == ()

    def test_whether_to_draw_is_decided_before(self) -> None:
        drawn = Draft((2,), distributions=(self.DRAWN,))
        model = ScriptedDrafter([drawn] * 200, "draft")
        merger = merged(Branching(Candidate([1, 1, 1, 1], "", 40)), model)
        n_drawn = 0
        for idx in range(100):
            tree = merger.propose([1] * 5 * idx, 15)
            n_drawn += bool(tree.distributions)
            merger.accept([] if tree.distributions else [0, 1, 2, 3])
        assert 1 < n_drawn < 10


class TestCosts:
    def pass_by(self, merger: DraftMerger, clock: Clock, emitted: list[int], right: int) -> None:
        """One pass of a target whose T(1) is a second."""
        tree = merger.propose(emitted, 15)
        clock.now += FREE.ratio(len(tree.tokens) + 1)
        path = [node for node, token in enumerate(tree.tokens) if token == right][:1]
        if tree.tokens:
            merger.accept(path)
        emitted += [right] * (len(path) + 1)

    @pytest.mark.parametrize(("token", "runs"), [(1, True), (2, False)])
    def test_a_costly_drafter_runs_only_where_it_pays(self, token: int, runs: bool) -> None:
        clock = Clock()
        model = Repeating([token, token, token], "draft", clock, seconds=0.5)
        merger = merged(model, mode="chain")
        merger.clock = clock
        emitted: list[int] = []
        for _ in range(100):
            self.pass_by(merger, clock, emitted, right=1)
        assert (model.n_calls > 90) == runs
        assert (model.n_calls > 3) or not runs
        assert merger.stats()["draft"].ms_draft == pytest.approx(500.0 * model.n_calls)

    def test_what_a_costly_drafter_takes_does_not_hold_back_short_completions(self) -> None:
        clock = Clock()
        model = Repeating([1, 1, 1], "draft", clock, seconds=0.4)
        merger = merged(model, mode="auto")
        merger.clock = clock
        for _ in range(40):
            merger.begin(DraftContext(prompt=(), verify_curve=FREE))
            emitted: list[int] = []
            for _ in range(10):
                self.pass_by(merger, clock, emitted, right=1)
        assert model.n_calls > 300

    def test_a_costly_drafter_is_not_asked_where_others_know_more(self) -> None:
        clock = Clock()
        model = Repeating([1], "draft", clock, seconds=0.9)
        sure = Branching(Candidate([1, 1, 1, 1], "", 40))
        merger = merged(model, sure, mode="chain")
        merger.clock = clock
        emitted: list[int] = []
        for _ in range(60):
            self.pass_by(merger, clock, emitted, right=1)
        assert model.n_calls < 10

    def n_asked_of(self, accuracies: Sequence[tuple[float, int]]) -> list[tuple[int, int]]:
        """Drafts and passes of a draft model that is right in such shares of its tokens.

        Each share goes with the tokens that are emitted meanwhile; pieces of 50 are requests.
        """
        clock = Clock()
        model = Guessing(clock, seconds=0.15)
        merger = merged(model, mode="chain")
        merger.clock = clock
        found = []
        for accuracy, n_tokens in accuracies:
            model.accuracy = accuracy
            n_calls, n_passes = model.n_calls, 0
            for _ in range(n_tokens // 50):
                merger.begin(DraftContext(prompt=(0,), verify_curve=STEEP))
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
    def test_a_bad_draft_model_is_hardly_asked(self, accuracy: float) -> None:
        (n_first, n_passes_first), (n_asked, n_passes) = self.n_asked_of(
            [(accuracy, 400), (accuracy, 4000)]
        )
        assert n_first < 0.1 * n_passes_first
        assert n_asked < 0.04 * n_passes

    def test_a_good_draft_model_is_asked_nearly_always(self) -> None:
        (n_asked, n_passes), (n_asked_then, n_passes_then) = self.n_asked_of(
            [(0.8, 400), (0.8, 2000)]
        )
        assert n_asked > 0.7 * n_passes
        assert n_asked_then > 0.95 * n_passes_then

    def test_it_finds_out_when_a_draft_model_gets_better_or_worse(self) -> None:
        found = self.n_asked_of([(0.8, 1000), (0.1, 1000), (0.1, 2000), (0.8, 6000), (0.8, 2000)])
        good, _, bad, _, good_again = (n_asked / n_passes for n_asked, n_passes in found)
        assert good > 0.8
        assert bad < 0.1
        assert good_again > 0.95

    def test_what_a_draft_model_costs_does_not_make_the_others_rest(self) -> None:
        clock = Clock()
        costly = Guessing(clock, seconds=20.0)
        sure = Branching(Candidate([1, 1, 1, 1], "", 40))
        merger = merged(sure, costly, mode="auto")
        merger.clock = clock
        emitted: list[int] = []
        n_drafts = 0
        for _ in range(60):
            before = len(emitted)
            self.pass_by(merger, clock, emitted, right=1)
            n_drafts += len(emitted) > before + 1
        assert n_drafts > 50
        # The first may have evaluated a prompt; the second tells what drafts take.
        assert costly.n_calls == 2

    def test_in_auto_mode_it_rests_where_it_gains_nothing(self) -> None:
        def n_asked(mode: MergeMode) -> int:
            clock = Clock()
            drafter = Branching(Candidate([2], "", 40))
            slow = Repeating([], "slow", clock, seconds=0.05)
            merger = merged(drafter, slow, mode=mode)
            merger.clock = clock
            emitted: list[int] = []
            for _ in range(400):
                self.pass_by(merger, clock, emitted, right=1)
            return slow.n_calls

        assert n_asked("chain") == 400
        assert 10 < n_asked("auto") < 100

    def test_while_it_rests_drafters_do_not_even_begin(self) -> None:
        clock = Clock()
        drafter = Branching(Candidate([2], "", 40))
        slow = Repeating([], "slow", clock, seconds=0.05)
        merger = merged(drafter, slow, mode="auto")
        merger.clock = clock
        n_begun = []
        for _ in range(40):
            merger.begin(DraftContext(prompt=(0,), verify_curve=FREE))
            emitted: list[int] = []
            for _ in range(4):
                self.pass_by(merger, clock, emitted, right=1)
            n_begun.append(merger.stats()["slow"].n_begin_calls)
        assert n_begun[0] == 1
        assert n_begun.count(0) > 10

    def n_looked_up(
        self, n_tokens: int, seconds: float, token: int, n_completions: int = 32
    ) -> list[int]:
        """Look-ups of each completion, with drafters that take ``seconds`` for one."""
        clock = Clock()
        drafter = Repeating([token] * 3, "slow", clock, seconds=seconds)
        merger = merged(drafter, mode="auto")
        merger.clock = clock
        n_calls = []
        for _ in range(n_completions):
            merger.begin(DraftContext(prompt=(0,), verify_curve=FREE))
            emitted: list[int] = []
            before = drafter.n_calls
            while len(emitted) < n_tokens:
                self.pass_by(merger, clock, emitted, right=1)
            n_calls.append(drafter.n_calls - before)
        return n_calls

    def test_a_short_completion_does_not_pay_for_look_ups(self) -> None:
        n_calls = self.n_looked_up(n_tokens=2, seconds=0.03, token=2)
        # The first ones tell what they take; later one in so many looks whether that has changed.
        assert n_calls == [2] * 4 + [0] * 16 + [1] + [0] * 11

    def test_a_long_one_looks_up_after_a_while(self) -> None:
        n_calls = self.n_looked_up(n_tokens=40, seconds=0.03, token=2, n_completions=3)
        assert all(5 <= n <= 14 for n in n_calls[1:])
        assert n_calls[0] < 24

    def test_a_cheap_look_up_is_always_made(self) -> None:
        n_calls = self.n_looked_up(n_tokens=2, seconds=0.005, token=2, n_completions=8)
        assert n_calls == [2] * 8

    def test_where_look_ups_gain_much_every_completion_has_them(self) -> None:
        n_calls = self.n_looked_up(n_tokens=4, seconds=0.03, token=1)
        assert min(n_calls[4:]) >= 1

    def test_it_goes_on_where_it_gains(self) -> None:
        clock = Clock()
        slow = Repeating([1], "slow", clock, seconds=0.05)
        merger = merged(slow, mode="auto")
        merger.clock = clock
        emitted: list[int] = []
        for _ in range(400):
            self.pass_by(merger, clock, emitted, right=1)
        assert slow.n_calls == 400


def test_the_last_pass_of_a_request_teaches_the_next_one() -> None:
    calibration = Calibration()
    drafter = Branching(Candidate([1, 1], "", 8))
    merger = merged(drafter, mode="chain", calibration=calibration)
    before = calibration.cells()
    emitted: list[int] = []
    tree = merger.propose(emitted, 15)
    merger.accept(range(len(tree.tokens)))
    emitted += [1, 1, 5]
    merger.begin(DraftContext(prompt=(0,)))
    learned = {name: cell for name, cell in calibration.cells().items() if name in before}
    assert learned != before
    merger.begin(DraftContext(prompt=(0,)))
    assert {name: calibration.cells()[name] for name in before} == learned


def test_several_places_of_real_text_make_branches() -> None:
    def ids(text: str) -> np.ndarray:
        return np.array([ord(c) for c in text], dtype=np.int32)

    merger = DraftMerger(
        [SuffixDrafter(n_draft=15)], Calibration(), mode="tree", p_split=0.0, n_max=15
    )
    merger.begin(
        DraftContext(
            prompt=(0,),
            prefix=ids("return self.left\nreturn self.right\nreturn self."),
            verify_curve=FREE,
            n_branches=4,
        )
    )
    tree = merger.propose([], 15)
    texts = {"".join(map(chr, path)) for path in nodes(tree)}
    assert {"l", "r"} <= texts
    assert {"left", "right"} & texts
    assert set(tree.sources) == {"suffix"}
