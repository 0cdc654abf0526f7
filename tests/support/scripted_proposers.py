"""Proposers of token trees that behave in one extreme way each, for the tests of losslessness."""

from collections.abc import Callable, Sequence

import numpy as np

from speclsp.drafting.drafter import NO_TREE, DraftContext, DraftTree
from speclsp.drafting.token_tree import node_depths
from speclsp.errors import DrafterError
from speclsp.seam.statistics import DrafterStats


def tree_of(edges: Sequence[tuple[int, int]], source: str = "tree") -> DraftTree:
    """A tree from (parent, token) per node."""
    return DraftTree(
        tuple(token for _, token in edges),
        tuple(parent for parent, _ in edges),
        (source,) * len(edges),
    )


class TreeProposer:
    """Proposes the trees that ``make`` returns, cut to what can be verified, and keeps books."""

    failures: tuple[DrafterError, ...] = ()

    def __init__(self, make: Callable[[Sequence[int]], DraftTree]) -> None:
        self._make = make
        self.clock: Callable[[], float] = lambda: 0.0
        self.trees: list[DraftTree] = []
        self.paths: list[tuple[int, ...]] = []
        self.contexts: list[DraftContext] = []

    def begin(self, context: DraftContext) -> None:
        self.contexts.append(context)
        self.trees.clear()
        self.paths.clear()

    def propose(self, generated: Sequence[int], n_max: int) -> DraftTree:
        context = self.contexts[-1]
        tree = usable_tree(self._make(generated), n_max, context.n_branches)
        if tree.tokens:
            self.trees.append(tree)
        return tree

    def accept(self, path: Sequence[int], *, stopped: bool = False) -> None:
        self.paths.append(tuple(path))

    def stats(self) -> dict[str, DrafterStats]:
        depths = [node_depths(tree.parents) for tree in self.trees]
        at = [depth for places in depths for depth in places]
        accepted = [
            places[node] for places, path in zip(depths, self.paths, strict=True) for node in path
        ]
        n_deep = max(at, default=-1) + 1
        return {
            "tree": DrafterStats(
                n_begin_calls=1,
                n_draft_calls=len(self.trees),
                n_accept_calls=len(self.paths),
                n_drafts=len(self.trees),
                n_accepted_drafts=sum(1 for path in self.paths if path),
                n_drafted=len(at),
                n_accepted=len(accepted),
                n_drafted_at=tuple(at.count(depth) for depth in range(n_deep)),
                n_accepted_at=tuple(accepted.count(depth) for depth in range(n_deep)),
            )
        }


def random_tree(
    generator: np.random.Generator,
    n_nodes: int,
    n_vocab: int,
    *,
    right: Sequence[int] = (),
    depth_bias: float = 0.5,
) -> DraftTree:
    """A random tree; with ``right``, these tokens are a path of it from the root, mixed in.

    With ``depth_bias`` 1 each node continues the one before it, with 0 any earlier one.
    """
    edges: list[tuple[int, int]] = []
    tip, n_placed = -1, 0
    while len(edges) < n_nodes:
        if n_placed < len(right) and generator.random() < 0.5:
            edges.append((tip, int(right[n_placed])))
            tip = len(edges) - 1
            n_placed += 1
            continue
        parent = len(edges) - 1
        if generator.random() >= depth_bias:
            parent = int(generator.integers(-1, len(edges)))
        edges.append((parent, int(generator.integers(n_vocab))))
    return tree_of(edges) if edges else NO_TREE


def random_trees(
    n_vocab: int, seed: int, n_nodes: int = 12, depth_bias: float = 0.5
) -> TreeProposer:
    """Random trees of 0 to ``n_nodes`` nodes."""
    generator = np.random.default_rng(seed)
    return TreeProposer(
        lambda generated: random_tree(
            generator, int(generator.integers(n_nodes + 1)), n_vocab, depth_bias=depth_bias
        )
    )


def oracle_trees(
    output: Sequence[int], n_vocab: int, seed: int, n_nodes: int = 12, depth_bias: float = 0.5
) -> TreeProposer:
    """Random trees of which some path is right for a random number of tokens."""
    generator = np.random.default_rng(seed)

    def make(generated: Sequence[int]) -> DraftTree:
        n_right = int(generator.integers(n_nodes + 1))
        right = output[len(generated) : len(generated) + n_right]
        return random_tree(generator, n_nodes, n_vocab, right=right, depth_bias=depth_bias)

    return TreeProposer(make)


def adversarial_trees(output: Sequence[int], n_vocab: int, n_branches: int = 4) -> TreeProposer:
    """All but the right token behind each right one, and the right path's rest behind these."""

    def make(generated: Sequence[int]) -> DraftTree:
        right = list(output[len(generated) : len(generated) + 4])
        edges: list[tuple[int, int]] = []
        tip = -1
        for place, token in enumerate(right):
            for wrong in range(1, n_branches):
                edges.append((tip, (token + wrong) % n_vocab))
                if place + 1 < len(right):
                    edges.append((len(edges) - 1, right[place + 1]))
            if len(generated) % 3 == place:
                break
            edges.append((tip, token))
            tip = len(edges) - 1
        return tree_of(edges) if edges else NO_TREE

    return TreeProposer(make)


def usable_tree(tree: DraftTree, n_max: int, n_branches: int) -> DraftTree:
    """Return what of ``tree`` the target can verify; earlier nodes go before later ones.

    Left out are nodes that repeat a sibling, whose parent was left out, that would make more than
    ``n_branches`` leaves, and all above ``n_max``.
    """
    kept, edges, n_leaves = {-1: -1}, list[tuple[int, int]](), 1
    for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
        above = kept.get(parent)
        if above is None or (above, token) in edges or len(edges) >= n_max:
            continue
        branches_off = any(above == other for other, _ in edges)
        if branches_off and n_leaves >= n_branches:
            continue
        n_leaves += branches_off
        kept[node] = len(edges)
        edges.append((above, token))
    return tree_of(edges)


def n_leaves(tree: DraftTree) -> int:
    """Return how many nodes have no child."""
    return len(tree.tokens) - len(set(tree.parents) - {-1})
