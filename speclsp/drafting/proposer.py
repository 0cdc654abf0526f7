"""What the decoding loop asks for drafts: all drafters behind one object, drafts as trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Final, Protocol, runtime_checkable

from speclsp.drafting.protocol import NO_TREE, Draft, DraftContext, DraftTree
from speclsp.errors import DrafterError
from speclsp.request import DrafterStats

_CHAIN: Final = tuple(range(-1, 255))
"""Parents of a tree without branches."""


@runtime_checkable
class Proposer(Protocol):
    """Speaks for all drafters.  It never raises, whatever they do.

    ``begin`` once per request, then ``propose`` before each target pass, and ``accept`` after each
    pass that verified a tree with nodes.
    """

    clock: Callable[[], float]
    """Returns seconds; the decoding loop lends its own."""

    @property
    def failures(self) -> tuple[DrafterError, ...]:
        """What made drafters of this request drop out."""

    def begin(self, context: DraftContext) -> None:
        """Start a request: counts start at 0."""

    def propose(self, generated: Sequence[int], n_max: int) -> DraftTree:
        """Return at most ``n_max`` nodes to follow the prompt and ``generated``.

        ``generated`` is the same list throughout a request and stays as it is afterwards.
        The tree is usable as it is (see :func:`usable_tree`) and has no more leaves than the
        context's ``n_branches``.
        """

    def accept(self, path: Sequence[int]) -> None:
        """The nodes ``path`` of the last tree, from the root down, became output; maybe none."""

    def stats(self) -> dict[str, DrafterStats]:
        """Counts and times since the last :meth:`begin`, by drafter name."""


def is_chain(tree: DraftTree) -> bool:
    """Whether each node continues the one before it."""
    n_nodes = len(tree.parents)
    if n_nodes <= len(_CHAIN):
        return tree.parents == _CHAIN[:n_nodes]
    return tree.parents == tuple(range(-1, n_nodes - 1))


def chain_tree(draft: Draft, source: str) -> DraftTree:
    """Return ``draft`` as a tree whose nodes are credited to ``source``."""
    n_nodes = len(draft.tokens)
    if not n_nodes:
        return NO_TREE
    parents = _CHAIN[:n_nodes] if n_nodes <= len(_CHAIN) else tuple(range(-1, n_nodes - 1))
    return DraftTree(
        draft.tokens, parents, (source,) * n_nodes, draft.probabilities, draft.distributions
    )


def usable_tree(tree: DraftTree, n_max: int, n_vocab: int, n_branches: int) -> DraftTree:
    """Return what of ``tree`` the target can verify; earlier nodes go before later ones.

    Left out are nodes that are no token id, that repeat a sibling, whose parent was left out or
    does not stand before them, that would make more than ``n_branches`` leaves, and all above
    ``n_max``.  ``n_vocab`` 0 means that the vocabulary's size is not known.  Raises TypeError for
    what is no integer at all.
    """
    kept: dict[int, int] = {-1: -1}
    n_children: dict[int, int] = {}
    seen: set[tuple[int, int]] = set()
    order: list[int] = []
    tokens: list[int] = []
    parents: list[int] = []
    n_leaves = 1
    for node, (raw_token, raw_parent) in enumerate(zip(tree.tokens, tree.parents, strict=False)):
        token, parent = index(raw_token), kept.get(index(raw_parent))
        if len(order) >= n_max:
            break
        if parent is None or token < 0 or (n_vocab and token >= n_vocab):
            continue
        branches_off = n_children.get(parent, 0) > 0
        if (parent, token) in seen or (branches_off and n_leaves >= n_branches):
            continue
        seen.add((parent, token))
        n_leaves += branches_off
        n_children[parent] = n_children.get(parent, 0) + 1
        kept[node] = len(order)
        order.append(node)
        tokens.append(token)
        parents.append(parent)
    if not order:
        return NO_TREE
    return DraftTree(
        tuple(tokens),
        tuple(parents),
        tuple(tree.sources[node] if node < len(tree.sources) else "" for node in order),
        tuple(tree.probabilities[node] for node in order)
        if len(tree.probabilities) == len(tree.tokens)
        else (),
    )


def depth_first(tree: DraftTree) -> tuple[DraftTree, list[int]]:
    """Return the same tree depth first, and where each of its nodes was before.

    A node's descendants follow it before anything else does; siblings keep their order.
    """
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents):
        children.setdefault(parent, []).append(node)
    order: list[int] = []
    places = {-1: -1}
    waiting = children.get(-1, [])[::-1]
    while waiting:
        node = waiting.pop()
        places[node] = len(order)
        order.append(node)
        waiting.extend(children.get(node, [])[::-1])
    reordered = DraftTree(
        tuple(tree.tokens[node] for node in order),
        tuple(places[tree.parents[node]] for node in order),
        tuple(tree.sources[node] for node in order) if tree.sources else (),
        tuple(tree.probabilities[node] for node in order) if tree.probabilities else (),
    )
    return reordered, order


def n_leaves(tree: DraftTree) -> int:
    """Return how many nodes have no child."""
    return len(tree.tokens) - len(set(tree.parents) - {-1})


def node_depths(parents: Sequence[int]) -> list[int]:
    """Return each node's depth, 0 for those that follow the text itself."""
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return depths
