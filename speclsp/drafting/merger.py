"""One decision per pass: which drafters to ask, and which of their tokens to verify.

All candidates grow into one tree.  The merger verifies the prefix of it, or nothing, that has the
highest

    E ln (tokens emitted) − ln (T(k) / T(1)).

A draft model takes time, too: in mode auto it is asked where that, its own time counted, promises
more than the look-ups' tree.  Its chain then grows into the same tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from speclsp.drafting.acceptance import SMALL_MODEL, AcceptanceTable
from speclsp.drafting.cost import SHAPES, straight_curve
from speclsp.drafting.drafter import (
    NO_CONTEXT,
    NO_DRAFT,
    NO_TREE,
    Candidate,
    Draft,
    DraftContext,
    Drafter,
    DraftTree,
)
from speclsp.drafting.proposer import NO_LIMITS, Clock, DraftLimits, MeasuredDrafter, stopped_clock
from speclsp.drafting.token_tree import (
    CandidateTrie,
    GrownTree,
    chain_tree,
    node_depths,
    path_along,
)
from speclsp.errors import DrafterError
from speclsp.seam.statistics import DrafterStats
from speclsp.settings import DraftMode

_PRIOR_TRIES: Final = 8.0
"""How many tokens the prior of a draft model counts as: a few wrong ones say little."""

_MEMORY: Final = 512.0
"""Passes after which what a draft model got right has lost 1 − 1/e of its weight."""

_FLAT: Final = 1.3
"""T(8) / T(1) up to which `auto` verifies trees.  With the texts of Qwen2.5-Coder they save 2 to
3 % where it is 1.1; where it is 1.84, as on an H200, or 2.9, as on two cores, they only make work
for the host."""

_NOMINAL: Final = straight_curve(0.16)
"""T(k) / T(1) in the modes that do not follow the clock: 8 tokens as on GPUs, 2.1."""


class _ModelHits:
    """How often a draft model's tokens are right where those before them are.

    What it learned fades by the pass: a model that got better, or was unlucky, is asked again.
    """

    def __init__(self) -> None:
        self._right = self._tried = 0.0

    @property
    def p(self) -> float:
        """The chance that the next one is right."""
        return (SMALL_MODEL * _PRIOR_TRIES + self._right) / (_PRIOR_TRIES + self._tried)

    def learn(self, draft: Sequence[int], emitted: Sequence[int]) -> None:
        """Learn from a pass, with the draft that the model was asked for, if any."""
        keep = 1.0 - 1.0 / _MEMORY
        self._right, self._tried = self._right * keep, self._tried * keep
        for token, own in zip(draft, emitted, strict=False):
            self._tried += 1.0
            if token != own:
                break
            self._right += 1.0


class DraftMerger:
    """Implements :class:`~speclsp.drafting.proposer.Proposer` with the decision above.

    ``mode`` ``tree`` verifies trees if the target can, ``chain`` chains, and ``auto`` chains, or
    trees where passes are nearly flat.  Only ``auto`` depends on measured times: in the other modes
    a draft model is always asked, and passes cost what the context says, or else a nominal amount.
    In ``first`` the first drafter with a draft wins and its draft is verified whole, as in
    llama.cpp.

    ``n_max`` is the most nodes of a merged draft; ``limits`` returns those of a drafter's drafts by
    its name.  A drafter that raises is left out until the next request begins.  Names must differ,
    which the registry ensures.
    """

    def __init__(
        self,
        drafters: Sequence[Drafter],
        table: AcceptanceTable | None = None,
        *,
        mode: DraftMode = "first",
        p_split: float = 0.0,
        n_max: int = SHAPES[-1] - 1,
        limits: Callable[[str], DraftLimits] = lambda _name: NO_LIMITS,
    ) -> None:
        self._drafters = [MeasuredDrafter(drafter, limits(drafter.name)) for drafter in drafters]
        # Models come last: what they are worth depends on what the others found.
        self._drafters.sort(key=lambda drafter: drafter.asks_model)
        self._hits = {one.name: _ModelHits() for one in self._drafters if one.asks_model}
        self.clock: Clock = stopped_clock
        self._table = table or AcceptanceTable()
        self._mode = mode
        self._p_split = p_split
        self._n_max = n_max
        self._start_request(NO_CONTEXT)

    def _start_request(self, context: DraftContext) -> None:
        self._context = context
        self._curve = curve = context.verify_curve or _NOMINAL
        self._costs = [math.log(curve.ratio(size + 1)) for size in range(self._n_max + 1)]
        """ln T(k + 1) / T(1) by k."""
        is_flat = curve.ratio(8) <= _FLAT
        branches = self._mode == "tree" or (self._mode == "auto" and is_flat)
        self._n_branches = context.n_branches if branches else 1
        self._generated: Sequence[int] = ()
        self._n_generated = 0
        self._start_pass()

    def _start_pass(self) -> None:
        for drafter in self._drafters:
            drafter.start_pass()
        self._trie: CandidateTrie | None = None
        self._grown = GrownTree()
        self._n_candidates = 0
        self._tree = NO_TREE
        self._drafts: dict[str, Draft] = {}
        """What drafters without branches drafted, by their names."""

    @property
    def failures(self) -> tuple[DrafterError, ...]:
        """Why drafters were left out of this request."""
        failures = (drafter.failure for drafter in self._drafters)
        return tuple(failure for failure in failures if failure is not None)

    def begin(self, context: DraftContext) -> None:
        """Start a request: counts start at 0, and drafters that failed get a new chance.

        Drafters begin when they are first asked, in ``mode`` first at once, as in llama.cpp.
        """
        # What the last pass of the request before emitted is known only now.
        self._learn(self._generated)
        self._start_request(context)
        for drafter in self._drafters:
            drafter.start(context, self.clock)
            if self._mode == "first":
                drafter.begin()

    def propose(self, generated: Sequence[int], n_max: int) -> DraftTree:
        """Return the draft whose expected gain exceeds its cost most, often none."""
        self._learn(generated)
        if self._mode == "first":
            return self._first(generated, n_max)
        n_max = min(n_max, self._n_max)
        candidates: list[Candidate] = []
        for drafter in self._drafters:
            if drafter.asks_model and self._mode == "auto":
                self._grow(candidates, n_max)
                if not self._pays(drafter, generated, n_max):
                    continue
            candidates += self._candidates(drafter, generated, n_max)
        self._grow(candidates, n_max)
        if self._grown.n_best:
            owners = {
                source: drafter.name
                for drafter in self._drafters
                for source in drafter.sources.values()
            }
            self._tree = self._grown.first(self._grown.n_best, owners)
        return self._tree

    def accept(self, path: Sequence[int], *, stopped: bool = False) -> None:
        """Count what became output, and tell the drafters how far theirs was verified."""
        tree = self._tree
        if not tree.tokens:
            return
        depths = node_depths(tree.parents)
        accepted = set(path)
        behind = _nodes_below(path[-1], tree.parents) if stopped else set()
        for drafter in self._drafters:
            nodes = [node for node, name in enumerate(tree.sources) if name == drafter.name]
            right = [depths[node] for node in nodes if node in accepted]
            if nodes:
                drafter.count([depths[node] for node in nodes], right)
            verified = set(nodes)
            if not drafter.branches:
                tokens = self._drafts.get(drafter.name, NO_DRAFT).tokens
                verified = set(path_along(tokens, tree)) if tokens else set()
            verified -= behind  # nothing below the output's end was compared with the output
            if verified:
                drafter.accept(len(verified & accepted), len(verified))
            if self._n_generated:  # the prefill's pass is the prompt's
                drafter.count_step()

    def stats(self) -> dict[str, DrafterStats]:
        """Counts and times since the last :meth:`begin`, by drafter name."""
        return {drafter.name: drafter.stats() for drafter in self._drafters}

    def _learn(self, generated: Sequence[int]) -> None:
        """Learn from what was emitted since the last proposal."""
        emitted = generated[self._n_generated :]
        self._generated, self._n_generated = generated, len(generated)
        if emitted:
            if self._trie is not None:
                self._trie.learn(emitted)
            for name, hits in self._hits.items():
                hits.learn(self._drafts.get(name, NO_DRAFT).tokens, emitted)
        self._start_pass()

    def _pays(self, drafter: MeasuredDrafter, generated: Sequence[int], n_max: int) -> bool:
        """Whether asking a draft model promises more than what the others found."""
        single_s, p = self._context.single_s, self._hits[drafter.name].p
        # What it lacks of the text is only counted where that is all that may keep it from paying.
        for cost_of in (drafter.token_cost, drafter.asking_cost):
            cost = cost_of(generated) if single_s > 0.0 else None
            if cost is None:
                return False
            n_most = min(n_max, drafter.n_most)
            gain = cost.best_gain(p, n_most, self._curve, single_s)
            if gain <= max(0.0, self._grown.gain):
                return False
        return True

    def _candidates(
        self, drafter: MeasuredDrafter, generated: Sequence[int], n_max: int
    ) -> list[Candidate]:
        """Return a drafter's candidates, under the names that the table has for their sources."""
        if drafter.branches:
            return drafter.candidates(generated, n_max)
        draft = self._drafts[drafter.name] = drafter.draft(generated, n_max)
        if not draft.tokens:
            return []
        source = drafter.source(draft.source)
        return [
            Candidate(draft.tokens, source, draft.match_length, probabilities=draft.probabilities)
        ]

    def _grow(self, candidates: Sequence[Candidate], n_max: int) -> None:
        """Grow the tree, unless it has grown from as many candidates."""
        if len(candidates) != self._n_candidates:
            self._n_candidates = len(candidates)
            self._trie = CandidateTrie(candidates, self._table)
            costs = self._costs[: n_max + 1]
            self._grown = self._trie.grow(self._n_branches, self._p_split, costs)

    def _first(self, generated: Sequence[int], n_max: int) -> DraftTree:
        """Return the first draft."""
        for drafter in self._drafters:
            draft = self._drafts[drafter.name] = drafter.draft(generated, n_max)
            if draft.tokens:
                self._tree = chain_tree(draft, drafter.name)
                break
        return self._tree


def _nodes_below(top: int, parents: Sequence[int]) -> set[int]:
    """Return the nodes of a tree below one of its nodes."""
    below: set[int] = set()
    for node, parent in enumerate(parents):
        if parent == top or parent in below:
            below.add(node)
    return below
