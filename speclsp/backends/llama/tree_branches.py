"""Numbers the branches of a token tree for a KV cache with sequences.

Each leaf is a branch, and each node belongs to the branches of all leaves below it.  Branches are
numbered depth-first, so the branches of a node are a range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TreeBranches:
    """Depth and branches of each node of a tree."""

    depths: list[int]
    """0 for the nodes that follow the text itself."""
    first_branches: list[int]
    ends: list[int]
    """Node i belongs to the branches ``first_branches[i]`` to ``ends[i] - 1``."""
    n_branches: int


def tree_branches(parents: Sequence[int], n_branches_max: int) -> TreeBranches:
    """Number the branches of the tree whose node i continues node ``parents[i]``, -1 the text.

    Branch 0 follows first children, which is the most probable path where children are sorted.
    Raises ValueError if a node precedes its parent or there are too many leaves.
    """
    n_nodes = len(parents)
    depths = [0] * n_nodes
    n_leaves = [0] * n_nodes
    has_child = [False] * n_nodes
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            raise ValueError(f"node {node} of the tree has node {parent} for its parent")
        if parent >= 0:
            depths[node] = depths[parent] + 1
            has_child[parent] = True
    n_branches = 0
    for node in range(n_nodes - 1, -1, -1):
        if not has_child[node]:
            n_leaves[node] = 1
        if parents[node] >= 0:
            n_leaves[parents[node]] += n_leaves[node]
        else:
            n_branches += n_leaves[node]
    if n_branches > n_branches_max:
        raise ValueError(f"a tree of {n_branches} branches where {n_branches_max} are the most")
    first_branches = [0] * n_nodes
    ends = [0] * n_nodes
    # The next branch of a node's children; the last entry is that of the text.
    following = [0] * (n_nodes + 1)
    for node, parent in enumerate(parents):
        first_branches[node] = following[node] = following[parent]
        following[parent] += n_leaves[node]
        ends[node] = following[parent]
    return TreeBranches(depths, first_branches, ends, n_branches)


def check_path(path: Sequence[int], parents: Sequence[int]) -> None:
    """Raise ValueError if ``path`` does not lead from the text down the tree."""
    above = -1
    for node in path:
        if not 0 <= node < len(parents) or parents[node] != above:
            raise ValueError(f"{list(path)} is not a path down the tree {list(parents)}")
        above = node
