"""One decision per pass: which drafters to ask, and what of their proposals to verify.

All candidates grow into one tree, and the merger verifies that prefix of it, or nothing, that has
the highest

    rate = (1 + Σ p̂ of its paths) / (T(k) / T(1)),

the tokens expected in the time of a pass without a draft.  Asking a drafter takes time, too: it is
asked where what its drafts saved on average, in units of T(1), is at least what asking takes, and a
model only where the look-ups found nothing to verify.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.cost import NOMINAL_SLOPE, SHAPES, lower_quartile, straight_curve
from speclsp.drafting.proposer import (
    Clock,
    DraftLimits,
    MeasuredDrafter,
    no_limits,
    stopped_clock,
)
from speclsp.drafting.protocol import (
    NO_TREE,
    Candidate,
    Draft,
    DraftContext,
    Drafter,
    DraftTree,
)
from speclsp.drafting.token_tree import CandidateTrie, chain_tree, node_depths
from speclsp.errors import DrafterError
from speclsp.request import DrafterStats
from speclsp.settings import DraftMode

_SAVED_PRIOR: Final = 1.0
"""Passes that asking is taken to save before the drafter was asked."""
_MEMORY: Final = 64.0
"""Times of asking after which an older one has lost 1 − 1/e of its weight."""
_N_TIMES: Final = 15
"""Latest times of asking, whose lower quartile counts: a call may be kept waiting."""
_EXPLORED: Final = 0.003
"""Share of the time for asking drafters that did not save what they take."""
_FIRST_TRY: Final = 16
"""Passes without a draft after which one is verified that would pay by the nominal cost, since what
passes are believed to cost may be wrong.  The pause doubles with each try that changed nothing."""
_MOST_TRIED: Final = 3
"""Most draft tokens of such a try."""

_NOMINAL: Final = straight_curve(NOMINAL_SLOPE)
_NOMINAL_RATIOS: Final = [_NOMINAL.ratio(size + 1) for size in range(_MOST_TRIED + 1)]


class _Plan(NamedTuple):
    """A draft, T(k) / T(1) of its pass, and the tokens that the pass is expected to emit."""

    tree: DraftTree = NO_TREE
    ratio: float = 1.0
    n_expected: float = 1.0


_NOTHING: Final = _Plan()


class _Worth:
    """What asking a drafter saved, on average of the last times, and what it took."""

    def __init__(self) -> None:
        self._saved = _SAVED_PRIOR
        self._n_known = 1.0
        self._seconds: deque[float] = deque(maxlen=_N_TIMES)
        self._credit = 0.0
        """What exploring may lose, in units of T(1)."""

    def pays(self, single_s: float) -> bool:
        """Whether to ask, where a pass without a draft takes ``single_s`` (0: not known).

        Each time exploring may lose a little more.  Losses by verifying its drafts lower p̂ and
        count nothing here.
        """
        self._credit += _EXPLORED
        cost = lower_quartile(self._seconds) / single_s if self._seconds and single_s > 0.0 else 0.0
        return cost - max(self._saved, 0.0) <= self._credit

    def learn(self, saved: float, seconds: float) -> None:
        """Note what asking saved, in units of T(1), and what it took."""
        self._credit = 0.0
        if self._n_known > 1.0:
            # The first call is not counted: it loads code, and a model evaluates its whole prompt.
            self._seconds.append(seconds)
        self._n_known = min(self._n_known + 1.0, _MEMORY)
        self._saved += (saved - self._saved) / self._n_known


class _Member:
    """A drafter, and what the pass at hand has of it."""

    def __init__(self, drafter: Drafter, limits: DraftLimits) -> None:
        self.measured = MeasuredDrafter(drafter, limits)
        self.name = drafter.name
        self.worth = _Worth()
        self.start_pass()

    def start_pass(self) -> None:
        """Forget the last pass."""
        self.was_asked = False
        self.seconds = 0.0
        self.draft = Draft()
        self.saved = 0.0


class DraftMerger:
    """Implements :class:`~speclsp.drafting.proposer.Proposer` with the decision above.

    ``mode`` ``chain`` verifies drafts without branches, ``tree`` and ``auto`` trees where the
    target can.  ``auto`` alone follows the clock: in the other modes every drafter is asked, and
    passes cost what the context says, or else a nominal amount.  ``first`` is llama.cpp's order of
    precedence: the first draft is verified, whole.

    ``n_max`` is the most nodes of a merged draft, ``limits`` those of a drafter's drafts, by name.
    A drafter that raises is left out until the next request begins.  Names must differ, which the
    registry ensures.
    """

    def __init__(
        self,
        drafters: Sequence[Drafter],
        table: AcceptanceTable | None = None,
        *,
        mode: DraftMode = "first",
        p_split: float = 0.0,
        n_max: int = SHAPES[-1] - 1,
        limits: Callable[[str], DraftLimits] = no_limits,
    ) -> None:
        self._members = [_Member(drafter, limits(drafter.name)) for drafter in drafters]
        if mode != "first":
            # Those that ask a model come last: they are worth most where the others know nothing.
            self._members.sort(key=lambda member: member.measured.asks_model)
        self.clock: Clock = stopped_clock
        self._table = table or AcceptanceTable()
        self._owners: dict[str, str] = {}
        """The drafters' names by the names of their sources."""
        self._mode = mode
        self._p_split = p_split
        self._n_max = n_max
        self._n_without = 0
        """Passes since the last one with a draft in which there were candidates."""
        self._next_try = _FIRST_TRY
        self._start_request(DraftContext(prompt=()))

    def _start_request(self, context: DraftContext) -> None:
        self._context = context
        self._curve = context.verify_curve or _NOMINAL
        self._ratios = [self._curve.ratio(size + 1) for size in range(self._n_max + 1)]
        """T(k + 1) / T(1) by k."""
        self._generated: Sequence[int] = ()
        self._n_generated = 0
        self._start_pass()

    def _start_pass(self) -> None:
        self._trie: CandidateTrie | None = None
        self._plan = _NOTHING
        for member in self._members:
            member.start_pass()

    @property
    def failures(self) -> tuple[DrafterError, ...]:
        """What made drafters of this request drop out."""
        failures = (member.measured.failure for member in self._members)
        return tuple(failure for failure in failures if failure is not None)

    def begin(self, context: DraftContext) -> None:
        """Start a request: counts start at 0, and drafters that had failed get a new chance.

        The drafters begin when they are first asked, with ``mode`` first at once.
        """
        # What the last pass of the request before emitted is known only now.
        self._learn(self._generated, is_end=True)
        self._start_request(context)
        for member in self._members:
            member.measured.start_anew()
            if self._mode == "first":
                member.measured.begin(context, self.clock)

    def propose(self, generated: Sequence[int], n_max: int) -> DraftTree:
        """Return what is expected to emit most tokens per time; often that is nothing."""
        self._learn(generated)
        if self._mode == "first":
            return self._first(generated, n_max)
        n_max = min(n_max, self._n_max)
        candidates: list[Candidate] = []
        for member in self._members:
            if not self._asks(member):
                continue
            started = self.clock()
            found = self._candidates(member, generated, n_max)
            if found:
                candidates += found
                self._decide(candidates, n_max)
            member.was_asked = True
            member.seconds = self.clock() - started
        if not self._plan.tree.tokens and candidates and self._mode == "auto":
            self._try(min(n_max, _MOST_TRIED))
        self._n_without = 0 if self._plan.tree.tokens else self._n_without + bool(candidates)
        return self._plan.tree

    def accept(self, path: Sequence[int]) -> None:
        """Count what became output, and tell the drafters how far theirs was verified."""
        tree = self._plan.tree
        if not tree.tokens:
            return
        depths = node_depths(tree.parents)
        accepted = set(path)
        edges = {
            edge: node for node, edge in enumerate(zip(tree.parents, tree.tokens, strict=True))
        }
        cost = (self._plan.ratio - 1.0) / len(tree.tokens)
        for member in self._members:
            nodes = [node for node, name in enumerate(tree.sources) if name == member.name]
            right = [depths[node] for node in nodes if node in accepted]
            member.saved += len(right) - cost * len(nodes)
            if nodes:
                member.measured.count([depths[node] for node in nodes], right)
            n_verified, n_accepted = len(nodes), len(right)
            if not member.measured.branches:
                verified = _nodes_along(member.draft.tokens, edges)
                n_verified, n_accepted = len(verified), len(accepted.intersection(verified))
            if n_verified:
                member.measured.accept(n_accepted, n_verified, self.clock)
        if self._mode == "first":
            self._plan = _NOTHING

    def stats(self) -> dict[str, DrafterStats]:
        """Counts and times since the last :meth:`begin`, by drafter name."""
        return {member.name: member.measured.stats() for member in self._members}

    def _learn(self, generated: Sequence[int], *, is_end: bool = False) -> None:
        """Learn from what was emitted since the last proposal."""
        emitted = generated[self._n_generated :]
        self._generated, self._n_generated = generated, len(generated)
        if emitted:
            if self._trie is not None:
                self._trie.learn(emitted, is_end=is_end)
            for member in self._members:
                if member.was_asked:
                    member.worth.learn(member.saved, member.seconds)
        self._start_pass()

    def _asks(self, member: _Member) -> bool:
        if self._mode != "auto":
            return True
        if member.measured.asks_model and self._plan.tree.tokens:
            return False
        return member.worth.pays(self._context.single_s)

    def _candidates(self, member: _Member, generated: Sequence[int], n_max: int) -> list[Candidate]:
        """Return a drafter's candidates, under the names that the table has for their sources."""
        n_vocab, measured = self._context.n_vocab, member.measured
        if not measured.has_begun:
            measured.begin(self._context, self.clock)
        if measured.branches:
            found = measured.candidates(generated, n_max, n_vocab, self.clock)
        else:
            draft = member.draft = measured.draft(generated, n_max, n_vocab, self.clock)
            found = [Candidate(draft.tokens, "", draft.match_length, 1.0, draft.probabilities)]
            if not draft.tokens:
                return []
        owned: list[Candidate] = []
        for tokens, own_source, match_length, n_places, probabilities in found:
            source = f"{member.name}:{own_source}" if own_source else member.name
            self._owners[source] = member.name
            owned.append(Candidate(tokens, source, match_length, n_places, probabilities))
        return owned

    def _decide(self, candidates: Sequence[Candidate], n_max: int) -> None:
        """Take the best prefix of the tree, or nothing."""
        self._trie = CandidateTrie(candidates, self._table)
        n_branches = 1 if self._mode == "chain" else self._context.n_branches
        grown = self._trie.grow(n_branches, self._p_split, self._ratios[: n_max + 1])
        self._plan = _NOTHING
        if grown.n_best:
            ratio = self._ratios[grown.n_best]
            self._plan = _Plan(grown.first(grown.n_best, self._owners), ratio, grown.n_expected)

    def _first(self, generated: Sequence[int], n_max: int) -> DraftTree:
        """Return the first draft."""
        n_vocab = self._context.n_vocab
        for member in self._members:
            member.draft = member.measured.draft(generated, n_max, n_vocab, self.clock)
            if member.draft.tokens:
                self._plan = _Plan(chain_tree(member.draft, member.name))
                break
        return self._plan.tree

    def _try(self, n_max: int) -> None:
        """Where drafts have not paid for long, verify one: what they cost may have changed."""
        if self._n_without >= self._next_try and self._trie is not None:
            self._next_try *= 2
            grown = self._trie.grow(1, self._p_split, _NOMINAL_RATIOS[: n_max + 1])
            self._plan = _Plan(grown.first(grown.n_best, self._owners), self._ratios[grown.n_best])


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
