"""One target pass of the speculative loop: draft, decode, verify, accept, roll back, count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from speclsp.decoding.protocol import Logits, Target, TreeTarget
from speclsp.decoding.sampling import LogitRow, RandomSampler, Sampler
from speclsp.decoding.verify import (
    NO_NODE,
    draft_limit,
    verify_chain,
    verify_sampled,
    verify_tree,
)
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.protocol import NO_TREE, DraftContext, DraftTree
from speclsp.drafting.token_tree import depth_first, is_chain, node_depths
from speclsp.errors import EngineError
from speclsp.request import FinishReason


class PassObserver(Protocol):
    """Is told what each target pass after the prefill cost, once the request has ended."""

    def observe(self, n_tokens: int, seconds: float, *, branched: bool) -> None:
        """A batch of ``n_tokens`` took ``seconds``; ``branched`` for a tree with branches."""


class EmissionObserver(Protocol):
    """Is told what was emitted, and by which logits."""

    def observe(self, token: int, row: LogitRow) -> None:
        """``token`` was emitted by the logits ``row``, shape [n_vocab]."""

    def end_pass(self) -> None:
        """The pass's tokens were all told; from now on their rows are not valid any more."""


@dataclass(slots=True)
class PassCounts:
    """The request's counts while it runs; times in seconds."""

    n_prompt_evaluated: int = 0
    n_target_passes: int = 0
    n_decode_passes: int = 0
    n_prefill_predicted: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    n_draft_passes: int = 0
    n_tried: int = 0
    n_draft_depths: int = 0
    n_single_passes: int = 0
    s_prompt: float = 0.0
    s_draft: float = 0.0
    s_verify: float = 0.0
    ns_native: int = 0
    s_single_passes: float = 0.0


@dataclass(slots=True, kw_only=True)
class Passes:
    """The state of one request in the loop."""

    target: Target
    trees: TreeTarget | None
    """The target again, where it evaluates trees."""
    proposer: Proposer | None
    observer: PassObserver | None
    sampler: Sampler
    n_predict: int
    stop: Callable[[int], bool]
    interrupted: Callable[[], FinishReason | None]
    clock: Callable[[], float]
    scores: EmissionObserver | None = None
    n_cached: int = 0
    emitted: list[int] = field(default_factory=list)
    counts: PassCounts = field(default_factory=PassCounts)
    timed: list[tuple[int, float, bool]] = field(default_factory=list)
    """What the observer is to be told of each pass."""
    _order: list[int] | None = None
    """Where the nodes of the tree at hand stand in the proposer's; None for the same places."""

    def begin(self, context: DraftContext) -> None:
        """Tell the drafters that the request starts."""
        if self.proposer is None:
            return
        started = self.clock()
        self.proposer.clock = self.clock
        n_branches = self.trees.n_branches if self.trees is not None else 1
        sampling = self.sampler.drafts() if isinstance(self.sampler, RandomSampler) else None
        self.proposer.begin(
            replace(
                context,
                n_vocab=self.target.n_vocab,
                n_branches=n_branches,
                sampling=sampling,
            )
        )
        self.counts.s_draft += self.clock() - started

    def draft(self, n_pending: int) -> DraftTree:
        """Return a draft that fits beside ``n_pending`` tokens, or nothing."""
        if self.proposer is None:
            return NO_TREE
        n_max = draft_limit(
            self.n_cached,
            n_pending,
            self.n_predict - len(self.emitted),
            self.target.n_ctx,
            self.target.n_batch,
        )
        if n_max == 0:
            return NO_TREE
        started = self.clock()
        tree = self.proposer.propose(self.emitted, n_max)
        self._order = None
        if not is_chain(tree):
            # So the first child's path lies in the cache without gaps, which later tokens would
            # fill: attention then adds up its terms in the order of the positions, as it does
            # without trees.
            tree, self._order = depth_first(tree)
        self.counts.s_draft += self.clock() - started
        return tree

    def decode(self, pending: Sequence[int], tree: DraftTree) -> Logits:
        """Evaluate ``pending`` and the draft behind it; row 1 + i is what follows node i.

        ``pending`` are the tokens that the cache lacks, the last one emitted included.
        """
        if is_chain(tree):
            logits = self.target.decode([*pending, *tree.tokens], len(tree.tokens) + 1)
        elif self.trees is not None:
            logits = self.trees.decode_tree(pending, tree.tokens, tree.parents)
        else:
            raise EngineError("a draft with branches was proposed to a target that has none.")
        self.n_cached += len(pending)
        return logits

    def accept(self, logits: Logits, tree: DraftTree) -> FinishReason | None:
        """Emit what the pass over ``tree`` yields, and roll the rest of the tree back."""
        n_before = len(self.emitted)
        verified, depth = self._verified(logits, tree)
        path: list[int] = []
        finish: FinishReason | None = None
        for token, node in verified:
            if self.scores is not None:
                # The row behind the node that the token follows; row 0 is that behind the text.
                self.scores.observe(token, logits[path[-1] + 1 if path else 0])
            self.emitted.append(token)
            if node != NO_NODE:
                path.append(node)
            if self.stop(token):
                finish = "stop"
                break
        if self.scores is not None:
            self.scores.end_pass()
        self._roll_back(tree, path)
        self.counts.n_target_passes += 1
        if self.proposer is not None and tree.tokens:
            tip = path[-1] if path else NO_NODE
            # The target's own token was tried against the children of the node that it follows.
            has_own = len(self.emitted) - n_before > len(path)
            self.counts.n_tried += len(path) + (has_own and tip in tree.parents)
            self.counts.n_draft_passes += 1
            self.counts.n_draft_depths += depth
            self.counts.n_drafted += len(tree.tokens)
            self.counts.n_accepted += len(path)
            started = self.clock()
            order = self._order
            self.proposer.accept(path if order is None else [order[node] for node in path])
            self.counts.s_draft += self.clock() - started
        if finish is None and len(self.emitted) >= self.n_predict:
            finish = "length"
        return finish

    def _verified(self, logits: Logits, tree: DraftTree) -> tuple[Iterator[tuple[int, int]], int]:
        """Return the tokens of the pass with their nodes, and the tree's depth."""
        tokens, drawn_from = tree.tokens, tree.distributions
        if not is_chain(tree):
            depth = max(node_depths(tree.parents)) + 1
            return verify_tree(logits, tokens, tree.parents, self.sampler), depth
        if len(drawn_from) == len(tokens) > 0 and isinstance(self.sampler, RandomSampler):
            return verify_sampled(logits, tokens, drawn_from, self.sampler), len(tokens)
        return verify_chain(logits, tokens, self.sampler), len(tokens)

    def step(self) -> FinishReason | None:
        """Make one pass after the prefill."""
        tree = self.draft(1)
        native_before = self.target.ns_native
        started = self.clock()
        logits = self.decode(self.emitted[-1:], tree)
        seconds = self.clock() - started
        self.counts.s_verify += seconds
        self.counts.ns_native += self.target.ns_native - native_before
        self.counts.n_decode_passes += 1
        self.timed.append((len(tree.tokens) + 1, seconds, not is_chain(tree)))
        finish = self.accept(logits, tree)
        if not tree.tokens:
            self.counts.n_single_passes += 1
            self.counts.s_single_passes += self.clock() - started
        return finish

    def tell_observer(self) -> None:
        """Tell what the passes took: nobody needs to know before, and a pass must not wait."""
        if self.observer is not None:
            for n_tokens, seconds, branched in self.timed:
                self.observer.observe(n_tokens, seconds, branched=branched)
        self.timed.clear()

    def _roll_back(self, tree: DraftTree, path: list[int]) -> None:
        """Leave of ``tree`` the accepted ``path`` in the cache."""
        self.n_cached += len(path)
        if self.trees is not None and not is_chain(tree):
            self.trees.keep_path(path)
        elif len(path) < len(tree.tokens):
            self.target.truncate(self.n_cached)
