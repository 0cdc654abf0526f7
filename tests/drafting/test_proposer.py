"""Trees: which are chains, and what is left of those that no target could verify."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_drafters import EmptyDrafter
from scripted_proposers import n_leaves, usable_tree

from speclsp.drafting.drafter import NO_DRAFT, NO_TREE, Draft, DraftTree
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.proposer import MeasuredDrafter, Proposer
from speclsp.drafting.token_tree import chain_tree, depth_first, is_chain, node_depths


def test_a_draft_is_a_chain():
    tree = chain_tree(Draft((7, 8, 9), "buffer", 3, (0.9, 0.8, 0.7)), "suffix")
    assert tree == DraftTree((7, 8, 9), (-1, 0, 1), ("suffix",) * 3, (0.9, 0.8, 0.7))
    assert chain_tree(Draft(), "suffix") == NO_TREE
    long = chain_tree(Draft(tuple(range(400))), "s")
    assert is_chain(long)
    assert n_leaves(long) == 1


@pytest.mark.parametrize(
    ("parents", "expected"),
    [((), True), ((-1,), True), ((-1, 0, 1), True), ((-1, -1), False), ((-1, 0, 0), False)],
)
def test_what_is_a_chain(parents, expected):
    assert is_chain(DraftTree((0,) * len(parents), parents)) is expected


def test_depths():
    assert node_depths((-1, 0, -1, 1, 2)) == [0, 1, 0, 2, 1]


def test_the_chain_of_drafters_is_a_proposer():
    assert isinstance(DraftMerger([]), Proposer)


@pytest.mark.parametrize(
    ("edges", "limits", "expected"),
    [
        # A repeated sibling goes, and so does what hangs on it.
        ([(-1, 1), (-1, 1), (1, 2), (0, 3)], (9, 9, 9), [(-1, 1), (0, 3)]),
        # Tokens outside the vocabulary, with what hangs on them.
        ([(-1, 9), (0, 1), (-1, -1), (-1, 2)], (9, 9, 9), [(-1, 2)]),
        # Parents that do not stand before their child.
        ([(0, 1), (5, 2), (-1, 3), (-7, 4)], (9, 9, 9), [(-1, 3)]),
        # A third leaf where two are the most; the branches that there are still grow.
        (
            [(-1, 1), (-1, 2), (-1, 3), (1, 4), (0, 5)],
            (9, 9, 2),
            [(-1, 1), (-1, 2), (1, 4), (0, 5)],
        ),
        ([(-1, 1), (0, 2), (0, 3), (1, 4)], (9, 9, 1), [(-1, 1), (0, 2), (1, 4)]),
        ([(-1, 1), (0, 2), (1, 3)], (2, 9, 1), [(-1, 1), (0, 2)]),
        ([(-1, 1)], (0, 9, 1), []),
    ],
)
def test_what_no_target_could_verify_is_left_out(edges, limits, expected):
    tree = DraftTree(
        tuple(token for _, token in edges),
        tuple(parent for parent, _ in edges),
        tuple(f"s{node}" for node in range(len(edges))),
        tuple(0.1 * node for node in range(len(edges))),
    )
    cut = usable_tree(tree, *limits)
    assert list(zip(cut.parents, cut.tokens, strict=True)) == expected
    by_token = dict(
        zip(tree.tokens, zip(tree.sources, tree.probabilities, strict=True), strict=True)
    )
    for token, *credit in zip(cut.tokens, cut.sources, cut.probabilities, strict=True):
        if tree.tokens.count(token) == 1:
            assert tuple(credit) == by_token[token]


@given(
    edges=st.lists(st.tuples(st.integers(-2, 12), st.integers(-1, 5)), max_size=12),
    n_max=st.integers(0, 12),
    n_branches=st.integers(1, 5),
)
def test_whatever_comes_a_usable_tree_is_left(edges, n_max, n_branches):
    tree = DraftTree(tuple(t for _, t in edges), tuple(p for p, _ in edges))
    cut = usable_tree(tree, n_max, 4, n_branches)
    assert len(cut.tokens) <= n_max
    assert n_leaves(cut) <= n_branches
    assert all(-1 <= parent < node for node, parent in enumerate(cut.parents))
    pairs = list(zip(cut.parents, cut.tokens, strict=True))
    assert len(set(pairs)) == len(pairs)
    assert all(0 <= token < 4 for token in cut.tokens)
    assert usable_tree(cut, n_max, 4, n_branches) == cut


@given(edges=st.lists(st.tuples(st.integers(-1, 9), st.integers(0, 3)), max_size=10))
def test_depth_first_is_the_same_tree(edges):
    tree = DraftTree(
        tuple(t for _, t in edges),
        tuple(p for p, _ in edges),
        tuple(f"s{node}" for node in range(len(edges))),
        tuple(float(node) for node in range(len(edges))),
    )
    tree = usable_tree(tree, 99, 4, 99)
    ordered, order = depth_first(tree)
    assert sorted(order) == list(range(len(tree.tokens)))
    assert ordered.tokens == tuple(tree.tokens[node] for node in order)
    assert ordered.sources == tuple(tree.sources[node] for node in order)
    assert ordered.probabilities == tuple(tree.probabilities[node] for node in order)
    back = [-1, *order]
    assert [back[parent + 1] for parent in ordered.parents] == [
        tree.parents[node] for node in order
    ]
    # Each node continues the one before it, or one of that one's ancestors.
    for node, parent in enumerate(ordered.parents):
        above = node - 1
        while above > parent:
            above = ordered.parents[above]
        assert above == parent
    assert depth_first(ordered)[1] == list(range(len(order)))


def test_foreign_integers_become_plain_ones():
    tree = DraftTree(tuple(np.array([1, 2])), tuple(np.array([-1, 0])), ("a", "a"))
    cut = usable_tree(tree, 9, 9, 1)
    assert all(type(number) is int for number in (*cut.tokens, *cut.parents))
    with pytest.raises(TypeError):
        usable_tree(DraftTree(("x",), (-1,)), 9, 9, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(("returned", "name"), [([1, 2], "list"), (None, "NoneType")])
def test_a_drafter_that_returns_no_draft_is_told_what_to_return(returned, name):
    class Wrong(EmptyDrafter):
        def draft(self, generated, n_max):
            return returned

    drafter = MeasuredDrafter(Wrong())
    assert drafter.draft([], 4) == NO_DRAFT
    assert drafter.failure is not None
    assert drafter.failure.message == (
        "drafter 'empty' failed in draft(): TypeError: it returned "
        f"{name}, not speclsp.drafting.drafter.Draft."
    )
