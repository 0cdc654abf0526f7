"""The speculative decoding loop: prefill, then draft → one decode → verify → accept → roll back.

Between passes the KV cache holds the prompt and all emitted tokens but the last one, x₀.  A pass
decodes x₀ and a draft, a chain d₁ … d_k or a tree, in one batch, emits one token more than it
accepts (see :mod:`speclsp.decoding.verify`) and takes the rejected rest of the draft out of the
cache.  The prompt's last tokens are a pass too: the first
draft rides in the last batch of the prefill.  That batch is kept as small as the others, since
backends compute large batches by other kernels, whose last bits differ: what the draft leaves in
the cache must not depend on how long the prompt was.  While someone types, the new part of the
prompt is that small anyway.

Nothing here looks at the whole context once the prefill is done, so that a step's cost on the host
does not grow with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from speclsp.decoding.protocol import Logits, Target, TreeTarget, tree_target
from speclsp.decoding.sampling import LogitRow, Sampler
from speclsp.decoding.verify import (
    NO_NODE,
    draft_limit,
    verify_chain,
    verify_tree,
)
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.protocol import NO_TREE, DraftContext, Drafter, DraftTree
from speclsp.drafting.token_tree import depth_first, is_chain, node_depths
from speclsp.errors import DecodeInterruptedError, DrafterError, EngineError
from speclsp.request import DrafterStats, FinishReason, RequestStats

_COMPARE_AT_ONCE = 256
_N_LAST = 32
"""Most prompt tokens beside the first draft; llama.cpp's kernels change at 64 on the CPU."""


class PassObserver(Protocol):
    """Is told what each target pass after the prefill cost, once the request has ended."""

    def observe(self, n_tokens: int, seconds: float) -> None:
        """A batch of ``n_tokens`` took ``seconds``."""


class EmissionObserver(Protocol):
    """Is told what was emitted, and by which logits."""

    def observe(self, token: int, row: LogitRow) -> None:
        """``token`` was emitted by the logits ``row``, shape [n_vocab]."""


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
    from_drafts: list[int] = field(default_factory=list)
    """Indexes of the emitted tokens that were draft tokens."""
    counts: PassCounts = field(default_factory=PassCounts)
    timed: list[tuple[int, float]] = field(default_factory=list)
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
        self.proposer.begin(replace(context, n_vocab=self.target.n_vocab, n_branches=n_branches))
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
                self.from_drafts.append(len(self.emitted) - 1)
            if self.stop(token):
                finish = "stop"
                break
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
        if is_chain(tree):
            return verify_chain(logits, tree.tokens, self.sampler), len(tree.tokens)
        depth = max(node_depths(tree.parents)) + 1
        return verify_tree(logits, tree.tokens, tree.parents, self.sampler), depth

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
        self.timed.append((len(tree.tokens) + 1, seconds))
        finish = self.accept(logits, tree)
        if not tree.tokens:
            self.counts.n_single_passes += 1
            self.counts.s_single_passes += self.clock() - started
        return finish

    def tell_observer(self) -> None:
        """Tell what the passes took: nobody needs to know before, and a pass must not wait."""
        if self.observer is not None:
            for n_tokens, seconds in self.timed:
                self.observer.observe(n_tokens, seconds)
        self.timed.clear()

    def _roll_back(self, tree: DraftTree, path: list[int]) -> None:
        """Leave of ``tree`` the accepted ``path`` in the cache."""
        self.n_cached += len(path)
        if self.trees is not None and not is_chain(tree):
            self.trees.keep_path(path)
        elif len(path) < len(tree.tokens):
            self.target.truncate(self.n_cached)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What one request emitted, why it ended and what it cost."""

    tokens: tuple[int, ...]
    finish_reason: FinishReason
    stats: RequestStats
    from_drafts: tuple[int, ...] = ()
    """Indexes of the tokens that were accepted from drafts."""
    drafter_failures: tuple[DrafterError, ...] = ()
    """Drafters that raised and were left out; the tokens are not affected."""


def generate(
    target: Target,
    context: DraftContext,
    *,
    drafter: Drafter | Proposer | None,
    sampler: Sampler,
    n_predict: int,
    stop: Callable[[int], bool],
    interrupted: Callable[[], FinishReason | None],
    clock: Callable[[], float],
    observer: PassObserver | None = None,
    scores: EmissionObserver | None = None,
) -> Generation:
    """Continue ``context.prompt`` by at most ``n_predict`` tokens.

    The tokens are those that the target and the sampler give without a drafter, whatever the
    drafter does.  ``n_predict`` is cut so that prompt and output fit the target's context.

    ``stop`` is asked once for every emitted token, in order; True ends with ``stop``, and that
    token is the last of the output.  ``interrupted`` is asked before each decode call; a reason
    ends with it and what was emitted so far, as does a decode that is stopped from outside.
    ``clock`` returns seconds; ``observer`` is told what passes took by it, and
    ``scores`` each emitted token with the logits that it was chosen by, before ``stop`` is asked.

    Afterwards the target's cache holds a prefix of prompt + output, all of it but at most the
    last token unless the request was interrupted.

    Raises :class:`EngineError`, before the cache is touched, for a prompt that is empty or leaves
    no room for a token, and :class:`~speclsp.errors.DecodeError` from the target.
    """
    prompt = list(context.prompt)
    _check_prompt(len(prompt), target.n_ctx)
    proposer = None
    if drafter is not None:
        proposer = drafter if isinstance(drafter, Proposer) else DraftMerger((drafter,))
    run = Passes(
        target=target,
        trees=tree_target(target),
        proposer=proposer,
        observer=observer,
        sampler=sampler,
        n_predict=min(n_predict, target.n_ctx - len(prompt)),
        stop=stop,
        interrupted=interrupted,
        clock=clock,
        scores=scores,
    )
    started = clock()
    finish: FinishReason | None = "length" if run.n_predict <= 0 else None
    if finish is None:
        run.begin(context)
        try:
            finish = _prefill(run, prompt)
            while finish is None:
                finish = interrupted() or run.step()
        except DecodeInterruptedError:
            # The target was told to stop for the reason that ``interrupted`` gives.
            finish = interrupted() or "cancelled"
        finally:
            run.tell_observer()
    return Generation(
        tokens=tuple(run.emitted),
        finish_reason=finish,
        stats=_stats(run, len(prompt), clock() - started),
        from_drafts=tuple(run.from_drafts),
        drafter_failures=proposer.failures if proposer is not None else (),
    )


def _prefill(run: Passes, prompt: list[int]) -> FinishReason | None:
    """Evaluate the prompt from where the cache differs from it, and emit the first tokens.

    At least the prompt's last token is evaluated, since the cache holds no logits.
    """
    started = run.clock()
    s_draft_before = run.counts.s_draft
    try:
        finish = _evaluate_all_but_the_last(run, prompt)
        if finish is not None:
            return finish
        pending = prompt[run.n_cached :]
        tree = run.draft(len(pending))
        logits = run.decode(pending, tree)
        run.counts.n_prompt_evaluated += len(pending)
        # The first token belongs to the prompt's time, as in llama.cpp: what follows is one pass
        # like the other.
        finish = run.accept(logits, tree)
    finally:
        s_draft = run.counts.s_draft - s_draft_before
        run.counts.s_prompt = run.clock() - started - s_draft
    run.counts.n_prefill_predicted = len(run.emitted)
    return finish


def _evaluate_all_but_the_last(run: Passes, prompt: list[int]) -> FinishReason | None:
    """Fill the cache up to what the last batch evaluates, asking between the chunks.

    Chunks of n_ubatch tokens are what the target computes best; it may change.  Where more than
    ``_N_LAST`` tokens are new, the last batch has one of them.
    """
    target = run.target
    n_chunk = min(target.n_ubatch, target.n_batch)
    run.n_cached = min(common_prefix_length(target.cached, prompt), len(prompt) - 1)
    target.truncate(run.n_cached)
    n_new = len(prompt) - run.n_cached
    end = len(prompt) - 1 if n_new > min(_N_LAST, n_chunk) else run.n_cached
    finish = run.interrupted()
    while finish is None and run.n_cached < end:
        n_chunk = min(target.n_ubatch, target.n_batch)
        chunk = prompt[run.n_cached : min(run.n_cached + n_chunk, end)]
        target.decode(chunk, 0)
        run.n_cached += len(chunk)
        run.counts.n_prompt_evaluated += len(chunk)
        finish = run.interrupted()
    return finish


def common_prefix_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many leading tokens are equal.

    Compares slices, which runs in C, and looks at single tokens only where slices differ.
    """
    n_tokens = min(len(left), len(right))
    for start in range(0, n_tokens, _COMPARE_AT_ONCE):
        end = min(start + _COMPARE_AT_ONCE, n_tokens)
        left_slice, right_slice = list(left[start:end]), list(right[start:end])
        if left_slice != right_slice:
            pairs = zip(left_slice, right_slice, strict=True)
            return start + next(idx for idx, (a, b) in enumerate(pairs) if a != b)
    return n_tokens


def _check_prompt(n_prompt: int, n_ctx: int) -> None:
    if n_prompt == 0:
        raise EngineError("the prompt is empty.")
    if n_prompt >= n_ctx:
        raise EngineError(
            f"the prompt has {n_prompt} tokens and the context {n_ctx} positions, "
            "which leaves no room for output.",
            remedy="Lower `n_prompt` or raise `ctx_size`.",
        )


def _stats(run: Passes, n_prompt: int, s_total: float) -> RequestStats:
    counts = run.counts
    drafters: dict[str, DrafterStats] = run.proposer.stats() if run.proposer is not None else {}
    return RequestStats(
        n_prompt=n_prompt,
        n_prompt_evaluated=counts.n_prompt_evaluated,
        n_predicted=len(run.emitted),
        n_target_passes=counts.n_target_passes,
        n_decode_passes=counts.n_decode_passes,
        n_prefill_predicted=counts.n_prefill_predicted,
        n_drafted=counts.n_drafted,
        n_accepted=counts.n_accepted,
        n_draft_passes=counts.n_draft_passes,
        n_tried=counts.n_tried,
        n_draft_depths=counts.n_draft_depths,
        n_single_passes=counts.n_single_passes,
        drafters=drafters,
        ms_prompt=counts.s_prompt * 1e3,
        ms_predict=(s_total - counts.s_prompt) * 1e3,
        ms_draft=counts.s_draft * 1e3,
        ms_verify=counts.s_verify * 1e3,
        ms_decode=counts.ns_native / 1e6,
        ms_single_passes=counts.s_single_passes * 1e3,
        ms_total=s_total * 1e3,
    )
