"""One decision per pass: which drafters to ask, and which of their tokens to verify.

All candidates grow into one tree.  The merger verifies the prefix of it, or nothing, that has the
highest

    E ln (tokens emitted) − ln (T(k) / T(1)).

Asking a drafter takes time, too: in mode auto it is asked if the passes that its drafts saved on
average are at least what asking takes, and a draft model only if the look-ups found nothing to
verify.  A match grows by a token with each one that is emitted: a drafter is not asked before its
longest match could have become so long that a draft may pay.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.cost import GPU_SLOPE, SHAPES, lower_quartile, straight_curve
from speclsp.drafting.proposer import (
    NO_LIMITS,
    Clock,
    DraftLimits,
    MeasuredDrafter,
    stopped_clock,
)
from speclsp.drafting.protocol import (
    NO_CONTEXT,
    NO_DRAFT,
    NO_TREE,
    Candidate,
    DraftContext,
    Drafter,
    DraftTree,
)
from speclsp.drafting.token_tree import CandidateTrie, GrownTree, chain_tree, node_depths
from speclsp.errors import DrafterError
from speclsp.request import DrafterStats
from speclsp.settings import DraftMode

_SAVED_PRIOR: Final = 1.0
"""Passes that asking is taken to save before the drafter was asked."""
_MEMORY: Final = 64.0
"""Times of asking after which an older one has lost 1 − 1/e of its weight."""
_N_TIMES: Final = 15
"""Latest times of asking, whose lower quartile counts: a call may be delayed by other work."""
_EXPLORED: Final = 0.003
"""Share of the time for asking drafters that did not save what they take."""
_FIRST_TRY: Final = 16
"""Passes without a draft after which one is verified nevertheless, since the believed T(k) may be
wrong.  The pause doubles with each such try."""

_NOMINAL: Final = straight_curve(GPU_SLOPE)


class _Member:
    """A drafter, what asking it is worth, and its part in the current pass."""

    def __init__(self, drafter: Drafter, limits: DraftLimits) -> None:
        self.measured = MeasuredDrafter(drafter, limits)
        self.name = drafter.name
        self._mean_saved = _SAVED_PRIOR
        """What asking saved on average, in units of T(1)."""
        self._n_known = 1.0
        self._seconds: deque[float] = deque(maxlen=_N_TIMES)
        self._cost_s = 0.0
        """What asking takes."""
        self._credit = 0.0
        """What exploring may lose, in units of T(1)."""
        self.longest = math.inf
        """The most tokens that can match by now; infinite where p̂ follows from something else."""
        self.least_match = 0.0
        """The length of the shortest match whose tokens may pay."""
        self.start_pass()

    def start_pass(self) -> None:
        """Forget the last pass."""
        self.draft = NO_DRAFT
        self.seconds: float | None = None
        """What asking took; None if it was not asked."""
        self.saved = 0.0

    def pays(self, single_s: float) -> bool:
        """Whether to ask it, where a pass without a draft takes ``single_s`` (0: not known).

        Each time exploring may lose a little more.  What verifying its drafts loses lowers p̂ and
        does not count here.
        """
        self._credit += _EXPLORED
        cost = self._cost_s / single_s if single_s > 0.0 else 0.0
        return cost - max(self._mean_saved, 0.0) <= self._credit

    def learn(self) -> None:
        """Learn from the current pass what asking saves and takes."""
        if self.seconds is None:
            return
        self._credit = 0.0
        if self._n_known > 1.0:
            # The first call is not counted: it loads code, and a model evaluates its whole prompt.
            self._seconds.append(self.seconds)
            self._cost_s = lower_quartile(self._seconds)
        self._n_known = min(self._n_known + 1.0, _MEMORY)
        self._mean_saved += (self.saved - self._mean_saved) / self._n_known


class DraftMerger:
    """Implements :class:`~speclsp.drafting.proposer.Proposer` with the decision above.

    ``mode`` ``chain`` verifies drafts without branches, ``tree`` and ``auto`` verify trees if the
    target can.  Only ``auto`` depends on measured times: in the other modes every drafter is asked,
    and passes cost what the context says, or else a nominal amount.  In ``first`` the first
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
        self._members = [_Member(drafter, limits(drafter.name)) for drafter in drafters]
        # Models come last: they are worth most where the others know nothing.
        self._members.sort(key=lambda member: member.measured.asks_model)
        self.clock: Clock = stopped_clock
        self._table = table or AcceptanceTable()
        self._owners: dict[str, str] = {}
        """The drafters' names by the names of their sources."""
        self._mode = mode
        self._p_split = p_split
        self._n_max = n_max
        self._n_without = 0
        """Passes since the last one with a draft."""
        self._next_try = _FIRST_TRY
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
        for member in self._members:
            member.start_pass()

    @property
    def failures(self) -> tuple[DrafterError, ...]:
        """Why drafters were left out of this request."""
        failures = (member.measured.failure for member in self._members)
        return tuple(failure for failure in failures if failure is not None)

    def begin(self, context: DraftContext) -> None:
        """Start a request: counts start at 0, and drafters that failed get a new chance.

        Drafters begin when they are first asked, in ``mode`` first at once, as in llama.cpp.
        """
        # What the last pass of the request before emitted is known only now.
        self._learn(self._generated)
        self._start_request(context)
        # A chain of k tokens gains at most p̂ · ln (k + 1), where the first is right with p̂.
        p_least = min(
            (cost / math.log(k + 1) for k, cost in enumerate(self._costs) if k), default=0.0
        )
        for member in self._members:
            member.longest = math.inf
            member.least_match = self._table.least_match(member.name, p_least)
            member.measured.start(context, self.clock)
            if self._mode == "first":
                member.measured.begin()

    def propose(self, generated: Sequence[int], n_max: int) -> DraftTree:
        """Return the draft whose expected gain exceeds its cost most, often none."""
        n_new = len(generated) - self._n_generated
        self._learn(generated)
        if self._mode == "first":
            return self._first(generated, n_max)
        n_max = min(n_max, self._n_max)
        candidates: list[Candidate] = []
        for member in self._members:
            member.longest += n_new
            if not self._asks(member, candidates, n_max):
                continue
            started = self.clock()
            found = self._candidates(member, generated, n_max)
            # A drafter that found nothing may have left out short matches, or may be a model.
            lengths = (
                math.inf if one.probabilities else one.match_length or math.inf for one in found
            )
            member.longest = max(lengths, default=math.inf)
            candidates += found
            member.seconds = self.clock() - started
        if candidates:
            self._grow(candidates, n_max)
        n_nodes = self._grown.n_best or self._tries(candidates, n_max)
        self._n_without = 0 if n_nodes else self._n_without + 1
        if n_nodes:
            self._tree = self._grown.first(n_nodes, self._owners)
        return self._tree

    def accept(self, path: Sequence[int], *, stopped: bool = False) -> None:
        """Count what became output, and tell the drafters how far theirs was verified."""
        tree = self._tree
        if not tree.tokens:
            return
        depths = node_depths(tree.parents)
        accepted = set(path)
        # Below the output's end nothing was compared with the output.
        behind = {path[-1]} if stopped else set()
        for node, parent in enumerate(tree.parents):
            if parent in behind:
                behind.add(node)
        behind -= accepted
        edges = {
            edge: node for node, edge in enumerate(zip(tree.parents, tree.tokens, strict=True))
        }
        n_nodes = len(tree.tokens)
        cost = math.expm1(self._costs[min(n_nodes, self._n_max)]) / n_nodes
        for member in self._members:
            nodes = [node for node, name in enumerate(tree.sources) if name == member.name]
            right = [depths[node] for node in nodes if node in accepted]
            member.saved += len(right) - cost * len(nodes)
            if nodes:
                member.measured.count([depths[node] for node in nodes], right)
            verified = set(nodes)
            if not member.measured.branches:
                verified = set(_nodes_along(member.draft.tokens, edges))
            verified -= behind
            if verified:
                member.measured.accept(len(verified & accepted), len(verified))

    def stats(self) -> dict[str, DrafterStats]:
        """Counts and times since the last :meth:`begin`, by drafter name."""
        return {member.name: member.measured.stats() for member in self._members}

    def _learn(self, generated: Sequence[int]) -> None:
        """Learn from what was emitted since the last proposal."""
        emitted = generated[self._n_generated :]
        self._generated, self._n_generated = generated, len(generated)
        if emitted:
            if self._trie is not None:
                self._trie.learn(emitted)
            for member in self._members:
                member.learn()
        self._start_pass()

    def _asks(self, member: _Member, candidates: list[Candidate], n_max: int) -> bool:
        """Whether to ask a drafter after those that found ``candidates``."""
        if self._mode != "auto":
            return True
        if member.measured.asks_model and candidates:
            self._grow(candidates, n_max)
            if self._grown.n_best:
                return False
        if member.longest < member.least_match and self._n_without < self._next_try:
            return False
        return member.pays(self._context.single_s)

    def _candidates(self, member: _Member, generated: Sequence[int], n_max: int) -> list[Candidate]:
        """Return a drafter's candidates, under the names that the table has for their sources."""
        if member.measured.branches:
            found = member.measured.candidates(generated, n_max)
        else:
            draft = member.draft = member.measured.draft(generated, n_max)
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
            source = f"{member.name}:{own_source}" if own_source else member.name
            self._owners[source] = member.name
            owned.append(Candidate(tokens, source, match_length, n_places, probabilities))
        return owned

    def _grow(self, candidates: Sequence[Candidate], n_max: int) -> None:
        """Grow the tree, unless it has grown from as many candidates."""
        if len(candidates) != self._n_candidates:
            self._n_candidates = len(candidates)
            self._grow_at(self._costs[: n_max + 1], candidates)

    def _grow_at(self, costs: Sequence[float], candidates: Sequence[Candidate]) -> None:
        self._trie = CandidateTrie(candidates, self._table)
        n_branches = 1 if self._mode == "chain" else self._context.n_branches
        self._grown = self._trie.grow(n_branches, self._p_split, costs)

    def _tries(self, candidates: Sequence[Candidate], n_max: int) -> int:
        """Return the tokens to verify where none pays, now and then, to try the believed costs.

        They are those that would pay at half the cost, but no less than what one token is believed
        to cost, or else one.  None beside the prompt, whose last pass is not timed.
        """
        is_timed = self._mode == "auto" and self._n_generated > 0
        if not is_timed or not candidates or self._n_without < self._next_try:
            return 0
        self._next_try *= 2
        costs = self._costs[: n_max + 1]
        self._grow_at([max(costs[1], cost - math.log(2.0)) for cost in costs], candidates)
        return self._grown.n_best or 1

    def _first(self, generated: Sequence[int], n_max: int) -> DraftTree:
        """Return the first draft."""
        for member in self._members:
            member.draft = member.measured.draft(generated, n_max)
            if member.draft.tokens:
                self._tree = chain_tree(member.draft, member.name)
                break
        return self._tree


def _nodes_along(tokens: Sequence[int], edges: dict[tuple[int, int], int]) -> list[int]:
    """Return the nodes of a tree that follow ``tokens`` from the root down."""
    nodes: list[int] = []
    node: int | None = -1
    for token in tokens:
        node = edges.get((node, token)) if node is not None else None
        if node is None:
            break
        nodes.append(node)
    return nodes
