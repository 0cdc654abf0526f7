"""Branches are the leaves, numbered so that each node's are a range."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclsp.backends.llama.tree_branches import check_path, tree_branches


@st.composite
def parent_lists(draw: st.DrawFn) -> list[int]:
    n_nodes = draw(st.integers(0, 20))
    return [draw(st.integers(-1, node - 1)) for node in range(n_nodes)]


def ancestors(parents: list[int], node: int) -> list[int]:
    path = []
    while node >= 0:
        path.append(node)
        node = parents[node]
    return path[::-1]


@given(parents=parent_lists())
def test_each_leaf_is_one_branch_and_shares_its_ancestors(parents):
    tree = tree_branches(parents, 100)
    leaves = [node for node in range(len(parents)) if node not in parents]
    assert tree.n_branches == len(leaves)
    members: dict[int, set[int]] = {branch: set() for branch in range(len(leaves))}
    for node in range(len(parents)):
        assert tree.depths[node] == len(ancestors(parents, node)) - 1
        assert tree.first_branches[node] < tree.ends[node]
        for branch in range(tree.first_branches[node], tree.ends[node]):
            members[branch].add(node)
    paths = {frozenset(ancestors(parents, leaf)) for leaf in leaves}
    assert {frozenset(nodes) for nodes in members.values()} == paths


def test_branch_0_is_that_of_the_first_children():
    tree = tree_branches([-1, -1, 1, 0, 0, 3], 4)
    assert tree.first_branches == [0, 2, 2, 0, 1, 0]
    assert tree.ends == [2, 3, 3, 1, 2, 1]
    assert tree.n_branches == 3


@pytest.mark.parametrize("parents", [[0], [-1, 1], [-2], [-1, 2, 0]])
def test_a_node_stands_behind_its_parent(parents):
    with pytest.raises(ValueError, match="for its parent"):
        tree_branches(parents, 8)


def test_too_many_leaves_are_refused():
    assert tree_branches([-1, -1, -1], 3).n_branches == 3
    with pytest.raises(ValueError, match="4 branches where 3"):
        tree_branches([-1, -1, -1, -1], 3)


@pytest.mark.parametrize("path", [[1], [0, 2], [0, 3], [0, 1, 1], [-1], [0, 9]])
def test_a_path_leads_down(path):
    parents = [-1, 0, -1, 1]
    for good in ([], [0], [0, 1], [0, 1, 3], [2]):
        check_path(good, parents)
    with pytest.raises(ValueError, match="not a path down"):
        check_path(path, parents)
