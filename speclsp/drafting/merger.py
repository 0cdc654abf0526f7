"""One decision per pass: which drafters to ask, and which of their tokens to verify.

All candidates grow into one tree.  The merger verifies the prefix of it, or nothing, that has the
highest

    E ln (tokens emitted) − ln (T(k) / T(1)).

A draft model takes time, too: in mode auto it is asked where what its drafts save on average, times
the chance that the look-ups' tokens are wrong, is at least what asking takes.  Its chain then grows
into the same tree.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.cost import GPU_SLOPE, SHAPES, lower_quartile, straight_curve
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
from speclsp.drafting.proposer import (
    NO_LIMITS,
    Clock,
    DraftLimits,
    MeasuredDrafter,
    stopped_clock,
)
from speclsp.drafting.token_tree import (
    CandidateTrie,
    GrownTree,
    chain_tree,
    node_depths,
    path_along,
)
from speclsp.errors import DrafterError
from speclsp.settings import DraftMode
from speclsp.statistics import DrafterStats

_SAVED_PRIOR: Final = 1.0
"""Passes that asking a draft model is taken to save before it was asked."""
_MEMORY: Final = 64.0
"""Times of asking after which an older one has lost 1 − 1/e of its weight."""
_N_TIMES: Final = 15
"""Latest times of asking, whose lower quartile counts: a call may be delayed by other work."""
_EXPLORED: Final = 0.003
"""Share of the time for asking a draft model that did not save what it takes."""

_NOMINAL: Final = straight_curve(GPU_SLOPE)


class _ModelGain:
    """What asking a draft model saves and takes."""

    def __init__(self) -> None:
        self._saved = _SAVED_PRIOR
        """What asking saved, in units of T(1)."""
        self._needed = 1.0
        """How often it was needed when it was asked: the sum of the chances."""
        self._seconds: deque[float] = deque(maxlen=_N_TIMES)
        self._is_warm = False
        self._credit = 0.0
        """What exploring may lose, in units of T(1)."""
        self.start_pass()

    def start_pass(self) -> None:
        """Forget the last pass."""
        self.seconds: float | None = None
        """What asking took; None if it was not asked."""
        self.saved = 0.0
        self._need = 0.0

    def pays(self, single_s: float, need: float) -> bool:
        """Whether to ask it, where the others' tokens are all wrong with the chance ``need``.

        ``single_s`` is T(1), 0 if not known.  Each time exploring may lose a little more.  What
        verifying its drafts loses lowers p̂ and does not count here.
        """
        self._need = need
        self._credit += _EXPLORED
        is_known = single_s > 0.0 and self._seconds
        cost = lower_quartile(self._seconds) / single_s if is_known else 0.0
        return cost - max(self._saved, 0.0) / self._needed * need <= self._credit

    def learn(self) -> None:
        """Learn from the current pass what asking saves and takes."""
        if self.seconds is None:
            return
        self._credit = 0.0
        if self._is_warm:
            # The first call is not counted: a model evaluates its whole prompt.
            self._seconds.append(self.seconds)
        self._is_warm = True
        keep = 1.0 - 1.0 / _MEMORY
        self._saved = self._saved * keep + self.saved
        self._needed = self._needed * keep + self._need


class DraftMerger:
    """Implements :class:`~speclsp.drafting.proposer.Proposer` with the decision above.

    ``mode`` ``chain`` verifies drafts without branches, ``tree`` and ``auto`` verify trees if the
    target can.  Only ``auto`` depends on measured times: in the other modes a draft model is always
    asked, and passes cost what the context says, or else a nominal amount.  In ``first`` the first
    drafter with a draft wins and its draft is verified whole, as in llama.cpp.

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
        self._gains = {one.name: _ModelGain() for one in self._drafters if one.asks_model}
        self.clock: Clock = stopped_clock
        self._table = table or AcceptanceTable()
        self._owners: dict[str, str] = {}
        """The drafters' names by the names of their sources."""
        self._mode = mode
        self._p_split = p_split
        self._n_max = n_max
        self._start_request(NO_CONTEXT)

    def _start_request(self, context: DraftContext) -> None:
        self._context = context
        curve = context.verify_curve or _NOMINAL
        self._costs = [math.log(curve.ratio(size + 1)) for size in range(self._n_max + 1)]
        """ln T(k + 1) / T(1) by k."""
        self._generated: Sequence[int] = ()
        self._n_generated = 0
        self._start_pass()

    def _start_pass(self) -> None:
        self._trie: CandidateTrie | None = None
        self._grown = GrownTree()
        self._n_candidates = 0
        self._tree = NO_TREE
        self._drafts: dict[str, Draft] = {}
        """What drafters without branches drafted, by their names."""
        for gain in self._gains.values():
            gain.start_pass()

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
            gain = self._gains.get(drafter.name) if self._mode == "auto" else None
            if gain is not None:
                self._grow(candidates, n_max)
                if not gain.pays(self._context.single_s, self._need()):
                    continue
            started = self.clock()
            candidates += self._candidates(drafter, generated, n_max)
            if gain is not None:
                gain.seconds = self.clock() - started
        self._grow(candidates, n_max)
        if self._grown.n_best:
            self._tree = self._grown.first(self._grown.n_best, self._owners)
        return self._tree

    def accept(self, path: Sequence[int], *, stopped: bool = False) -> None:
        """Count what became output, and tell the drafters how far theirs was verified."""
        tree = self._tree
        if not tree.tokens:
            return
        depths = node_depths(tree.parents)
        accepted = set(path)
        behind = _nodes_below(path[-1], tree.parents) if stopped else set()
        cost = math.expm1(self._costs[min(len(tree.tokens), self._n_max)]) / len(tree.tokens)
        for drafter in self._drafters:
            nodes = [node for node, name in enumerate(tree.sources) if name == drafter.name]
            right = [depths[node] for node in nodes if node in accepted]
            if drafter.name in self._gains:
                self._gains[drafter.name].saved += len(right) - cost * len(nodes)
            if nodes:
                drafter.count([depths[node] for node in nodes], right)
            verified = set(nodes)
            if not drafter.branches:
                tokens = self._drafts.get(drafter.name, NO_DRAFT).tokens
                verified = set(path_along(tokens, tree))
            verified -= behind  # nothing below the output's end was compared with the output
            if verified:
                drafter.accept(len(verified & accepted), len(verified))

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
            for gain in self._gains.values():
                gain.learn()
        self._start_pass()

    def _need(self) -> float:
        """Return the chance that no token of the tree is right."""
        n_nodes = self._grown.n_best
        first = zip(self._grown.parents[:n_nodes], self._grown.probabilities, strict=False)
        return max(0.0, 1.0 - sum(p for parent, p in first if parent < 0))

    def _candidates(
        self, drafter: MeasuredDrafter, generated: Sequence[int], n_max: int
    ) -> list[Candidate]:
        """Return a drafter's candidates, under the names that the table has for their sources."""
        if drafter.branches:
            found = drafter.candidates(generated, n_max)
        else:
            draft = self._drafts[drafter.name] = drafter.draft(generated, n_max)
            if not draft.tokens:
                return []
            found = [
                Candidate(
                    draft.tokens,
                    draft.source,
                    draft.match_length,
                    probabilities=draft.probabilities,
                )
            ]
        owned: list[Candidate] = []
        for tokens, own_source, match_length, n_places, probabilities in found:
            source = f"{drafter.name}:{own_source}" if own_source else drafter.name
            self._owners[source] = drafter.name
            owned.append(Candidate(tokens, source, match_length, n_places, probabilities))
        return owned

    def _grow(self, candidates: Sequence[Candidate], n_max: int) -> None:
        """Grow the tree, unless it has grown from as many candidates."""
        if len(candidates) != self._n_candidates:
            self._n_candidates = len(candidates)
            self._trie = CandidateTrie(candidates, self._table)
            n_branches = 1 if self._mode == "chain" else self._context.n_branches
            self._grown = self._trie.grow(n_branches, self._p_split, self._costs[: n_max + 1])

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
