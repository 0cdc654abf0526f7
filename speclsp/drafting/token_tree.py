"""Token trees, and how they grow from candidates.

The candidates form a trie.  At each place of it the matches are considered in order, the highest
prior first.  A match is right with probability p̂, which its tokens share by the number of text
places that continue with each; the rest goes to the next match, for tokens that no earlier match
has.  A node's path probability is the product of the probabilities from the root down: the chance
that it becomes output.

A tree gains ln n where its pass emits n tokens, and costs ln T(k + 1) / T(1) with k nodes, so the
best draft has the highest geometric mean of a pass's speed: twice the time weighs as much as twice
the tokens.  The rate E n / T(k + 1) would emit more in the long run, by drafts that are more often
wrong, and more requests would take longer than without them.  A node at depth d adds
ln (d + 2) / (d + 1) to the gain if it becomes output.  Growth always adds the node that adds most
on average, so the first k nodes are the best tree of k nodes for every k.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter
from typing import Final, TypeAlias

from speclsp.drafting.acceptance import (
    BEHIND,
    FEW_PLACES,
    MANY_PLACES,
    ONE_PLACE,
    SEVERAL_TOKENS,
    AcceptanceTable,
    Cell,
    observe,
    prior,
)
from speclsp.drafting.cost import SHAPES
from speclsp.drafting.drafter import NO_TREE, Candidate, Draft, DraftTree

SIZES: Final = tuple(shape - 1 for shape in SHAPES[1:])
"""Draft sizes to choose from, beside the largest one: few, since backends reuse graphs."""

_Option: TypeAlias = tuple[int, float, str, list[Candidate]]
"""A token, p̂ given that its place is reached, the source, and the candidates that continue so."""
_p_of = itemgetter(1)


def is_chain(tree: DraftTree) -> bool:
    """Whether each node continues the one before it."""
    return tree.parents == tuple(range(-1, len(tree.parents) - 1))


def chain_tree(draft: Draft, source: str) -> DraftTree:
    """Return ``draft`` as a tree whose nodes are credited to ``source``."""
    n_nodes = len(draft.tokens)
    if not n_nodes:
        return NO_TREE
    return DraftTree(
        draft.tokens,
        tuple(range(-1, n_nodes - 1)),
        (source,) * n_nodes,
        draft.probabilities,
    )


def depth_first(tree: DraftTree) -> tuple[DraftTree, list[int]]:
    """Return the tree in depth-first order, and the former index of each node.

    Siblings keep their order.
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


def node_depths(parents: Sequence[int]) -> list[int]:
    """Return each node's depth; 0 for nodes that follow the text itself."""
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return depths


def path_along(tokens: Sequence[int], tree: DraftTree) -> list[int]:
    """Return the nodes of a tree that follow ``tokens``, from the root down."""
    children = {edge: node for node, edge in enumerate(zip(tree.parents, tree.tokens, strict=True))}
    path: list[int] = []
    node = -1
    for token in tokens:
        child = children.get((node, token))
        if child is None:
            break
        node = child
        path.append(node)
    return path


class _Place:
    """A place in the trie."""

    __slots__ = ("asked", "candidates", "depth", "places")

    def __init__(self, candidates: list[Candidate], depth: int) -> None:
        self.candidates = candidates
        self.depth = depth
        self.asked: list[tuple[Cell, Sequence[int]]] = []
        """The cells of the matches in order, and the tokens that each is responsible for."""
        self.places: dict[int, _Place] = {}
        """The places after options that became nodes."""


@dataclass(slots=True)
class GrownTree:
    """A tree in the order of growth: parents first, and first what adds most to the gain."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    n_best: int = 0
    """Nodes of the prefix whose gain exceeds its cost most; 0 where none does."""
    gain: float = 0.0
    """What that prefix gains beyond its cost."""

    def first(self, n_nodes: int, owners: Mapping[str, str]) -> DraftTree:
        """Return the first ``n_nodes`` nodes, credited to the owners of their sources."""
        return DraftTree(
            tuple(self.tokens[:n_nodes]),
            tuple(self.parents[:n_nodes]),
            tuple([owners[source] for source in self.sources[:n_nodes]]),
            tuple(self.probabilities[:n_nodes]),
        )


class CandidateTrie:
    """All candidates of one pass; one tree grows from it."""

    def __init__(self, candidates: Sequence[Candidate], table: AcceptanceTable) -> None:
        self._table = table
        # By the priors: an order that is learned gained nothing.
        self._root = _Place(sorted(candidates, key=_prior_of, reverse=True), 0)

    def grow(self, n_branches: int, p_split: float, costs: Sequence[float]) -> GrownTree:
        """Grow a tree of at most ``n_branches`` leaves, and choose its best prefix.

        ``costs[k]`` is ln T(k + 1) / T(1), up to the most nodes of the tree.  A second and further
        child needs a p̂ of at least ``p_split``.  Nodes add less and less, so growth ends when no
        larger prefix could be better even if each further node added as much as the last one, or
        if all of them were in one path that is right whenever its first token is.
        """
        tree = GrownTree()
        n_max = len(costs) - 1
        ahead = [*(size for size in SIZES if size < n_max), n_max]
        order = count()
        heap: list[tuple[float, int, int, _Option, _Place, float]] = []
        has_child: set[int] = set()
        n_leaves = 1
        gain = best = 0.0

        def offer(node: int, place: _Place, path: float) -> None:
            options = self._options(place)[: None if n_branches > 1 else 1]
            adds = math.log1p(1.0 / (place.depth + 1))
            for rank, option in enumerate(options):
                longer = path * option[1]
                if not longer > 0.0 or (rank and option[1] < p_split):
                    break
                heapq.heappush(heap, (-longer * adds, next(order), node, option, place, longer))

        offer(-1, self._root, 1.0)
        reach = sum(option[1] for _, _, _, option, _, _ in heap)
        while heap and len(tree.tokens) < n_max:
            minus_added, _, parent, option, place, path = heapq.heappop(heap)
            if parent in has_child and n_leaves >= n_branches:
                continue
            n_leaves += parent in has_child
            has_child.add(parent)
            node = len(tree.tokens)
            token, probability, source, following = option
            tree.tokens.append(token)
            tree.parents.append(parent)
            tree.sources.append(source)
            tree.probabilities.append(probability)
            gain -= minus_added
            n_nodes = node + 1
            if n_nodes == ahead[0] and gain - costs[ahead.pop(0)] > best:
                best, tree.n_best = gain - costs[n_nodes], n_nodes
                tree.gain = best
            # The candidates may end after the next node, whatever the sizes are.
            if not ahead or not any(
                gain - minus_added * (size - n_nodes) > best + costs[size]
                and reach * math.log(size + 1) > best + costs[size]
                for size in (n_nodes + 1, *ahead)
            ):
                if heap or _goes_on(following, place.depth + 1):
                    return tree
                break
            below = place.places[token] = _Place(following, place.depth + 1)
            offer(node, below, path)
        n_nodes = len(tree.tokens)
        if gain - costs[n_nodes] > best:
            tree.gain, tree.n_best = gain - costs[n_nodes], n_nodes
        return tree

    def learn(self, emitted: Sequence[int]) -> None:
        """Count in the table which matches were right."""
        place: _Place | None = self._root
        for token in emitted:
            if place is None:
                return
            for cell, tokens in place.asked:
                right = token in tokens
                observe(cell, right=right)
                if right:
                    break
            place = place.places.get(token)

    def _options(self, place: _Place) -> list[_Option]:
        """Return the tokens that may follow a place, the most probable first."""
        depth = place.depth
        if len(place.candidates) == 1:
            (candidate,) = place.candidates
            if len(candidate.tokens) <= depth:
                return []
            token = candidate.tokens[depth]
            cell = self._cell(candidate, depth, _agreement(1, candidate.n_places))
            place.asked.append((cell, (token,)))
            return [(token, cell[0] / cell[1], candidate.source, place.candidates)]
        following: dict[int, list[Candidate]] = {}
        # The first candidate of each match, and its places by tokens that no earlier match has.
        matches: list[tuple[Candidate, dict[int, float]]] = []
        match = ("", -1)
        n_places = 0.0
        new: dict[int, float] = {}
        for candidate in place.candidates:
            tokens, source, length, n_own, own = candidate
            if len(tokens) <= depth:
                continue
            token = tokens[depth]
            n_places += n_own
            if match != (source, length) or own:
                match, new = (source, length), {}
                matches.append((candidate, new))
            known = following.get(token)
            if known is None:
                following[token] = [candidate]
                new[token] = n_own
            else:
                known.append(candidate)
                if token in new:
                    new[token] += n_own
        agreement = _agreement(len(following), n_places)
        options: list[_Option] = []
        left = 1.0
        for candidate, new in matches:
            if not new:
                continue
            cell = self._cell(candidate, depth, agreement)
            agreement = BEHIND
            place.asked.append((cell, list(new)))
            p = left * cell[0] / cell[1]
            left -= p
            share = p / sum(new.values())
            options += [(t, share * n, candidate.source, following[t]) for t, n in new.items()]
        options.sort(key=_p_of, reverse=True)
        return options

    def _cell(self, candidate: Candidate, depth: int, agreement: int) -> Cell:
        _, source, length, _, own = candidate
        if depth < len(own):
            return self._table.own(source, own[depth])
        return self._table.match(source, length and length + depth, agreement)


def _goes_on(candidates: Sequence[Candidate], depth: int) -> bool:
    return any(len(candidate.tokens) > depth for candidate in candidates)


def _prior_of(candidate: Candidate) -> float:
    _, source, match_length, _, own = candidate
    return own[0] if own else prior(source, match_length)


def _agreement(n_tokens: int, n_places: float) -> int:
    if n_tokens > 1:
        return SEVERAL_TOKENS
    return ONE_PLACE if n_places < 1.5 else FEW_PLACES if n_places < 4 else MANY_PLACES
