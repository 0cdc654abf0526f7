"""All drafters' candidates in one tree, of which as much is verified as pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

from speclsp.drafting.calibration import Calibration
from speclsp.drafting.candidates import Candidate, TreeDrafter, candidate_of
from speclsp.drafting.cost import VerifyCurve, straight_curve
from speclsp.drafting.draft_gain import DraftGain, gain_of
from speclsp.drafting.draft_length import COST_PER_DRAFT_TOKEN
from speclsp.drafting.draft_limits import DraftLimits
from speclsp.drafting.draft_size import best_size
from speclsp.drafting.measured import MeasuredDrafter
from speclsp.drafting.pass_times import DraftAllowance, DraftRest, PassTimes
from speclsp.drafting.proposer import chain_tree, node_depths
from speclsp.drafting.protocol import NO_TREE, Draft, DraftContext, Drafter, DraftTree
from speclsp.drafting.tree_building import CandidateTrie, Groups, GrownTree, grouped
from speclsp.errors import DrafterError
from speclsp.request import DrafterStats

MergeMode = Literal["auto", "tree", "chain"]

_PROBE_EVERY: Final = 16
"""Where short matches do not pay, one pass in so many looks at them all the same, to learn."""
_LEARN_EVERY: Final = 8
"""Passes that are learned from at once: behind each of them code and data are in no cache."""


class _Plan(NamedTuple):
    """A draft, what verifying it takes in units of T(1), and the tokens expected in that time."""

    tree: DraftTree
    ratio: float
    rate: float


_NO_PLAN: Final = _Plan(NO_TREE, 1.0, 1.0)


def _no_clock() -> float:
    return 0.0


class DraftMerger:
    """Implements :class:`~speclsp.drafting.proposer.Proposer`: what pays most of all candidates.

    ``mode`` ``chain`` takes the best path only, ``tree`` a tree wherever the target verifies one,
    and ``auto`` whichever promises more; it also rests where drafting as a whole has cost more
    than it gained.  ``n_max`` is the most nodes of a draft.  A drafter that raises is left out
    until the next request begins.  Names must differ, as the registry sees to.

    ``joining`` are drafters that nobody named: they are counted only where they drafted.
    """

    def __init__(
        self,
        drafters: Sequence[Drafter],
        calibration: Calibration,
        *,
        mode: MergeMode,
        p_split: float,
        n_max: int,
        joining: Sequence[Drafter] = (),
    ) -> None:
        self._joining = frozenset(drafter.name for drafter in joining)
        drafters = (*drafters, *joining)
        self.clock: Callable[[], float] = _no_clock
        """Returns seconds; the decoding loop lends its own, without one all times are 0."""
        self._members = {drafter.name: MeasuredDrafter(drafter) for drafter in drafters}
        self._branching = [
            self._members[drafter.name] for drafter in drafters if isinstance(drafter, TreeDrafter)
        ]
        self._plain = [
            (self._members[drafter.name], gain_of(drafter))
            for drafter in drafters
            if not isinstance(drafter, TreeDrafter)
        ]
        self._calibration = calibration
        self._mode = mode
        self._p_split = p_split
        self._n_max = n_max
        self._limits = DraftLimits(calibration, n_max)
        self._times = PassTimes()
        self._rest = DraftRest()
        self._allowance = DraftAllowance()
        self._n_proposals = 0
        self._costly_s = 0.0
        """What drafters took for the pass at hand that are weighed one by one, by their gain."""
        self._owners: dict[str, str] = {}
        self._weighed: list[tuple[CandidateTrie, Sequence[int]]] = []
        """What options were weighed for passes of which nothing was learned yet; what followed."""
        self._drawn: tuple[MeasuredDrafter, Draft] | None = None
        self._start_anew(DraftContext(prompt=()))

    def _start_anew(self, context: DraftContext) -> None:
        self._context = context
        self._has_begun = False
        self._generated: Sequence[int] = ()
        self._n_generated = 0
        self._trie: CandidateTrie | None = None
        self._tree = NO_TREE
        self._pass_cost: tuple[float, float] | None = None
        self._last_size = 0

    @property
    def failures(self) -> tuple[DrafterError, ...]:
        """What made drafters of this request drop out."""
        members = self._members.values()
        return tuple(member.failure for member in members if member.failure is not None)

    def begin(self, context: DraftContext) -> None:
        """Start a request: counts start at 0, and drafters that had failed get a new chance.

        The drafters begin when they are first asked: while drafting rests, they are not.
        """
        # What the last pass of the request before emitted is known only now.
        self._learn(self._generated)
        self._learn_weighed()
        self._start_anew(context)
        self._times.begin(context.single_s)
        self._allowance.begin()
        for member in self._members.values():
            member.start_anew()
        for _, gain in self._plain:
            gain.begin()

    def propose(self, generated: Sequence[int], n_max: int) -> DraftTree:
        """Return what is expected to emit most tokens per time; often that is nothing."""
        self._allowance.next_pass()
        if self._rest.rests():
            # Nothing else: a resting drafter must cost nothing where a token takes little time.
            self._rest.rest()
            self._tree = NO_TREE
            return NO_TREE
        if self._pass_cost is None and not self._may_look_up():
            self._tree = NO_TREE
            return NO_TREE
        started = self.clock()
        self._times.ended(started)
        self._generated = generated
        self._learn(generated)
        if self._rest.rests() or not self._may_look_up():
            self._allowance.spend(self._times.in_passes(self.clock() - started))
            return NO_TREE
        if not self._has_begun:
            self._begin_drafters()
            self._times.began(self.clock() - started)
        begun = self.clock()
        plan = self._best_plan(generated, min(n_max, self._n_max))
        self._tree = plan.tree
        ended = self.clock()
        self._times.started(ended, plan.ratio)
        if self._trie is not None:
            self._times.drafted(ended - begun - self._costly_s)
        self._pass_cost = (plan.ratio, self._times.in_passes(ended - started - self._costly_s))
        return plan.tree

    def _may_look_up(self) -> bool:
        """Whether this completion may pay for a look-up; only mode ``auto`` minds what it takes."""
        if self._mode != "auto":
            return True
        cost = self._times.overhead
        return self._allowance.covers(cost if self._has_begun else cost + self._times.beginning)

    def accept(self, path: Sequence[int]) -> None:
        """Count what became output, and tell the drafters that it is credited to."""
        self._times.ended(self.clock())
        tree = self._tree
        depths = node_depths(tree.parents)
        accepted = set(path)
        for name in dict.fromkeys(tree.sources):
            nodes = [node for node, source in enumerate(tree.sources) if source == name]
            right = [depths[node] for node in nodes if node in accepted]
            member = self._members[name]
            member.count([depths[node] for node in nodes], right)
            member.accept(len(right), self.clock)

    def stats(self) -> dict[str, DrafterStats]:
        """Counts and times since the last :meth:`begin`, by drafter name."""
        found = {name: member.stats() for name, member in self._members.items()}
        return {
            name: stats
            for name, stats in found.items()
            if stats.n_drafts or name not in self._joining
        }

    def _begin_drafters(self) -> None:
        self._has_begun = True
        context = self._context
        self._curve = context.verify_curve or straight_curve(COST_PER_DRAFT_TOKEN)
        self._tree_curve = context.tree_curve or self._curve
        self._n_vocab = context.n_vocab
        self._n_branches = 1 if self._mode == "chain" else context.n_branches
        curves = (self._curve, self._tree_curve) if self._n_branches > 1 else (self._curve,)
        self._limits.take(curves, self._times.overhead if self._mode == "auto" else 0.0)
        for member in self._members.values():
            member.begin(context, self.clock)

    def _learn(self, generated: Sequence[int]) -> None:
        """Learn from what was emitted since the last proposal."""
        emitted = generated[self._n_generated :]
        self._n_generated = len(generated)
        self._tree = NO_TREE
        if self._pass_cost is not None:
            if self._mode == "auto":
                self._rest.count(len(emitted), *self._pass_cost)
                self._allowance.count(len(emitted), *self._pass_cost)
            self._pass_cost = None
        if self._trie is not None:
            self._weighed.append((self._trie, emitted))
            self._trie = None
            if len(self._weighed) >= _LEARN_EVERY:
                self._learn_weighed()
            for _, gain in self._plain:
                gain.learn(emitted)

    def _learn_weighed(self) -> None:
        """Teach the calibration what became of the options that were weighed."""
        for trie, emitted in self._weighed:
            trie.learn(emitted)
        self._weighed.clear()

    def _best_plan(self, generated: Sequence[int], n_max: int) -> _Plan:
        """Ask the cheap drafters, and those that cost time where they are worth it.

        A draft that was drawn at random stands alone and whole, whatever was drawn: to choose among
        its tokens would change the output's law (Leviathan et al. 2023).  So whether to draw is
        decided before.
        """
        groups = self._branching_groups(generated, n_max)
        others: list[tuple[MeasuredDrafter, DraftGain]] = []
        for member, gain in self._plain:
            if gain.is_cheap(self._times.single_s):
                groups += self._plain_group(member, gain, generated, n_max)
            else:
                others.append((member, gain))
        plan = self._plan(groups, n_max)
        self._costly_s = 0.0
        for member, gain in others:
            n_unseen = member.n_unseen(generated)
            if gain.pays(plan.rate, self._curve, self._times.single_s, n_unseen):
                started = self.clock()
                own = self._plain_group(member, gain, generated, n_max)
                self._costly_s += self.clock() - started
                groups += own
                with_own = self._plan(groups, n_max) if own else plan
                worth = with_own if self._drawn is None else self._drawn_plan(own, n_max)
                gain.saved(worth.rate * worth.ratio / plan.rate - worth.ratio)
                plan = with_own
        if self._drawn is not None:
            member, draft = self._drawn
            tree = chain_tree(draft, member.name)
            plan = _Plan(tree, self._curve.ratio(len(tree.tokens) + 1), plan.rate)
        for _, gain in self._plain:
            gain.passed(plan.ratio)
        self._last_size = len(plan.tree.tokens)
        return plan

    def _drawn_plan(self, own: Groups, n_max: int) -> _Plan:
        """Return what a draft that was drawn is expected to give, standing alone and whole."""
        paths = CandidateTrie(own, self._calibration).grow(n_max, 1, self._p_split, 0.0)
        n_nodes = max((len(one.tokens) for _, candidates in own for one in candidates), default=0)
        ratio = self._curve.ratio(n_nodes + 1)
        return _Plan(NO_TREE, ratio, (1.0 + sum(paths.path_probabilities)) / ratio)

    def _branching_groups(self, generated: Sequence[int], n_max: int) -> Groups:
        self._n_proposals += 1
        self._drawn = None
        n_min = 1 if self._n_proposals % _PROBE_EVERY == 0 else self._limits.n_min_match
        groups: Groups = []
        for member in self._branching:
            found = member.candidates(generated, n_max, n_min, self._n_vocab, self.clock)
            groups += self._owned(member, found)
        return groups

    def _plain_group(
        self, member: MeasuredDrafter, gain: DraftGain, generated: Sequence[int], n_max: int
    ) -> Groups:
        started = self.clock()
        draft = member.draft(generated, n_max, self._n_vocab, self.clock)
        seconds = self.clock() - started
        gain.asked(draft, seconds, self._times.single_s)
        if draft.distributions and self._drawn is None:
            self._drawn = (member, draft)
        return self._owned(member, (candidate_of(draft),)) if draft.tokens else []

    def _owned(self, member: MeasuredDrafter, candidates: Sequence[Candidate]) -> Groups:
        """Group a drafter's candidates, and note whose their sources are."""
        groups = grouped(member.name, candidates)
        self._owners.update((source, member.name) for source, _ in groups)
        return groups

    def _plan(self, groups: Groups, n_max: int) -> _Plan:
        """Grow a chain from the candidates, and a tree where they part; return the better one."""
        if not groups:
            return _NO_PLAN
        trie = self._trie = CandidateTrie(groups, self._calibration)
        if self._n_branches > 1 and self._mode == "tree":
            return self._sized(self._grown_tree(trie, n_max), self._tree_curve)
        path = trie.grow(n_max, 1, self._p_split, self._limits.least_paths[0])
        chain = self._sized(path, self._curve)
        if self._n_branches == 1 or not path.may_branch:
            return chain
        tree = self._sized(self._grown_tree(trie, n_max), self._tree_curve)
        return tree if tree.rate > chain.rate else chain

    def _grown_tree(self, trie: CandidateTrie, n_max: int) -> GrownTree:
        return trie.grow(n_max, self._n_branches, self._p_split, self._limits.least_paths[1])

    def _sized(self, grown: GrownTree, curve: VerifyCurve) -> _Plan:
        n_nodes, rate = best_size(grown.path_probabilities, curve, self._last_size)
        return _Plan(grown.first(n_nodes, self._owners), curve.ratio(n_nodes + 1), rate)
