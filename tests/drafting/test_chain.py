"""The chain: the first draft wins, broken drafters stay away from the loop, counts are right."""

import numpy as np
import pytest
from scripted_drafters import EmptyDrafter, ModelBase, ScriptedDrafter

from speclsp.drafting.drafter import NO_DRAFT, NO_TREE, Candidate, Draft, DraftContext, DraftTree
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.proposer import usable
from speclsp.settings import DraftMode

CONTEXT = DraftContext(prompt=(1, 2), n_vocab=10)


def test_the_first_draft_wins_and_only_its_drafter_hears_of_it():
    first = ScriptedDrafter([NO_DRAFT, Draft((1, 2, 3), "a")], "first")
    second = ScriptedDrafter([Draft((4, 5), "b")], "second")
    chain = DraftMerger([first, second])
    chain.begin(CONTEXT)
    assert chain.propose([], 8) == DraftTree((4, 5), (-1, 0), ("second", "second"))
    chain.accept([0])
    assert chain.propose([9], 8) == DraftTree((1, 2, 3), (-1, 0, 1), ("first",) * 3)
    chain.accept([0, 1, 2])
    assert (first.accepts, second.accepts) == ([3], [1])
    stats = chain.stats()
    assert list(stats) == ["first", "second"]
    assert (stats["first"].n_draft_calls, stats["second"].n_draft_calls) == (2, 1)
    assert (stats["first"].n_drafted, stats["first"].n_accepted) == (3, 3)
    assert (stats["second"].n_drafted_at, stats["second"].n_accepted_at) == ((1, 1), (1, 0))


def test_a_draft_that_no_pass_verified_counts_nowhere():
    chain = DraftMerger([ScriptedDrafter([Draft((1,)), Draft((2,))])])
    chain.begin(CONTEXT)
    chain.propose([], 8)
    chain.propose([], 8)
    chain.accept([])
    stats = chain.stats()["scripted"]
    assert (stats.n_draft_calls, stats.n_drafts, stats.n_drafted) == (2, 1, 1)
    assert (stats.n_accepted_drafts, stats.n_accept_calls) == (0, 1)


def test_an_accept_without_a_draft_is_nobodys():
    drafter = EmptyDrafter()
    chain = DraftMerger([drafter])
    chain.begin(CONTEXT)
    chain.propose([], 8)
    chain.accept([])
    assert drafter.accepts == []


class _FailsAt(ScriptedDrafter):
    def __init__(self, call: str) -> None:
        super().__init__([Draft((1,))] * 3, "failing")
        self._call = call

    def begin(self, context):
        if self._call == "begin":
            raise ValueError("no beginning")

    def draft(self, generated, n_max):
        if self._call == "draft":
            raise KeyError("nothing")
        return super().draft(generated, n_max)

    def accept(self, n_accepted):
        if self._call == "accept":
            raise OSError("no accepting")


@pytest.mark.parametrize("call", ["begin", "draft", "accept"])
def test_a_drafter_that_raises_is_left_out_until_the_next_request(call):
    good = ScriptedDrafter([Draft((7,))] * 9, "good")
    chain = DraftMerger([_FailsAt(call), good])
    for _ in range(2):
        chain.begin(CONTEXT)
        first = chain.propose([], 8).tokens
        chain.accept([0])
        assert first == ((1,) if call == "accept" else (7,))
        assert chain.propose([], 8).tokens == (7,)
        (failure,) = chain.failures
        assert "'failing'" in failure.message
        assert f"{call}()" in failure.message
        assert "drafters" in failure.remedy
        assert failure.__cause__ is not None
    assert chain.stats()["failing"].n_draft_calls == (0 if call == "begin" else 1)


@pytest.mark.parametrize("mode", ["first", "tree"])
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "it returned NoneType, not speclsp.drafting.drafter.Draft."),
        ([1, 2], "it returned list, not speclsp.drafting.drafter.Draft."),
        (Draft(("x",)), ""),
        (Draft((None,)), ""),
        (Draft((1.5,)), ""),
        (Draft((1,), "", 2.0), ""),
        (Draft((1,), "", None), ""),
        (Draft((1,), "", 2, (None,)), ""),
    ],
)
def test_what_is_no_draft_counts_as_a_failure(answer, says, mode: DraftMode):
    chain = DraftMerger([ScriptedDrafter([answer])], mode=mode)
    chain.begin(CONTEXT)
    assert chain.propose([], 8) == NO_TREE
    (failure,) = chain.failures
    assert failure.message.startswith("drafter 'scripted' failed in draft(): TypeError: ")
    assert failure.message.endswith(says)


@pytest.mark.parametrize(
    ("tokens", "n_max", "n_vocab", "expected"),
    [
        ((1, 2, 3), 8, 10, (1, 2, 3)),
        ((1, 2, 3), 2, 10, (1, 2)),
        ((1, 2, 3), 0, 10, ()),
        ((1, 2, 3), -1, 10, ()),
        ((1, 10, 3), 1, 10, (1,)),
        ((1, 10**6), 8, 0, (1, 10**6)),
        (tuple(np.array([4, 5])), 8, 10, (4, 5)),
        ([4, 5], 8, 10, (4, 5)),
    ],
)
def test_drafts_are_cut_to_what_can_be_verified(tokens, n_max, n_vocab, expected):
    cut = usable(Draft(tokens, "s", 3), n_max, n_vocab)
    assert cut.tokens == expected
    assert all(type(token) is int for token in cut.tokens)
    assert (cut.source, cut.match_length) == (("s", 3) if expected else ("", 0))


class _Branching(ScriptedDrafter):
    def candidates(self, generated, n_max):
        return [Candidate((1,), "", 4), Candidate(self.draft(generated, n_max).tokens, "", 3)]


@pytest.mark.parametrize(
    ("kind", "mode", "call"),
    [(ScriptedDrafter, "first", "draft"), (_Branching, "chain", "candidates")],
)
@pytest.mark.parametrize("tokens", [(1, 10, 3), (1, -1), (99,)])
def test_tokens_outside_the_vocabulary_are_told_alike_and_leave_their_drafter_out(
    kind, mode: DraftMode, call: str, tokens: tuple[int, ...]
):
    odd, good = kind([Draft(tokens)], "odd"), ScriptedDrafter([Draft((7,), "", 40)], "good")
    chain = DraftMerger([odd, good], mode=mode)
    chain.begin(CONTEXT)
    assert chain.propose([], 8).tokens == (7,)
    (failure,) = chain.failures
    assert failure.message == (
        f"drafter 'odd' failed in {call}(): ValueError: it drafted tokens outside the vocabulary, "
        "which has 10."
    )


def test_times_come_from_the_clock_that_is_lent():
    looks = iter(range(100))
    chain = DraftMerger([ScriptedDrafter([Draft((1,))])])
    chain.clock = lambda: float(next(looks))
    chain.begin(CONTEXT)
    chain.propose([], 8)
    chain.accept([0])
    stats = chain.stats()["scripted"]
    assert (stats.ms_begin, stats.ms_draft, stats.ms_accept) == (1000.0, 1000.0, 1000.0)
    chain.begin(CONTEXT)
    assert chain.stats()["scripted"].n_drafts == 0


class ModelBacked(ScriptedDrafter, ModelBase):
    """Has a model that computes for a millisecond per draft; loading it took five."""

    ns_native = 5_000_000

    def draft(self, generated, n_max):
        self.ns_native += 1_000_000
        return super().draft(generated, n_max)


def test_what_a_drafters_model_computes_is_told_apart():
    chain = DraftMerger([ModelBacked([Draft((1,)), Draft((2,))], name="model"), EmptyDrafter()])
    chain.begin(CONTEXT)
    chain.propose([], 8)
    chain.propose([1], 8)
    assert {name: stats.ms_decode for name, stats in chain.stats().items()} == {
        "model": 2.0,
        "empty": 0.0,
    }
    chain.begin(CONTEXT)
    assert chain.stats()["model"].ms_decode == 0.0
