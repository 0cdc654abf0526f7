"""Trees: which are chains, and what is left of those that no target could verify."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_proposers import n_leaves, usable_tree

from speclsp.drafting.drafter import NO_TREE, Draft, DraftTree
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.proposer import Proposer
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


@given(edges=st.lists(st.tuples(st.integers(-1, 9), st.integers(0, 3)), max_size=10))
def test_depth_first_is_the_same_tree(edges):
    tree = usable_tree(DraftTree(tuple(t for _, t in edges), tuple(p for p, _ in edges)), 99, 99)
    tree = dataclasses.replace(
        tree,
        sources=tuple(f"s{node}" for node in range(len(tree.tokens))),
        probabilities=tuple(float(node) for node in range(len(tree.tokens))),
    )
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
