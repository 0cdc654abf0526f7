"""The speculative decoding loop: prefill, then draft → one decode → verify → accept → roll back.

Between passes the KV cache holds the prompt and all emitted tokens but the last one, x₀.  A pass
decodes x₀ and a draft, a chain d₁ … d_k or a tree, in one batch, emits one token more than it
accepts (see :mod:`speclsp.decoding.verify`) and removes the rejected part of the draft from the
cache.  The prompt's last tokens are a pass, too: the last batch of the prefill includes the first
draft.  That batch is as small as the others, since backends compute large batches by other kernels,
whose last bits differ: what the draft leaves in the cache must not depend on the length of the
prompt.  While the user types, the new part of the prompt is that small anyway.

After the prefill no step reads the whole context, so that its cost on the host is constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

from speclsp.common_ends import common_head
from speclsp.decoding.sampling import Sampler
from speclsp.decoding.target import Logits, Target, TreeTarget, tree_target
from speclsp.decoding.token_scores import TokenScores
from speclsp.decoding.verify import NO_NODE, draft_limit, verify_chain, verify_tree
from speclsp.drafting.drafter import NO_TREE, DraftContext, Drafter, DraftTree
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.token_tree import depth_first, is_chain, node_depths
from speclsp.errors import DecodeInterruptedError, DrafterError, EngineError, NoRoomError
from speclsp.seam.request import FinishReason
from speclsp.seam.statistics import RequestStats

_N_LAST = 32
"""Most prompt tokens beside the first draft; llama.cpp's kernels change at 64 on the CPU."""


@dataclass(slots=True)
class PassCounts:
    """The counts while it runs, as :class:`~speclsp.seam.statistics.RequestStats` has them."""

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
    ms_prompt: float = 0.0
    ms_draft: float = 0.0
    ms_verify: float = 0.0
    ms_decode: float = 0.0
    ms_single_passes: float = 0.0
    ms_draft_passes: float = 0.0
    ms_drafting: float = 0.0


@dataclass(slots=True, kw_only=True)
class Passes:
    """The state of one request in the loop."""

    target: Target
    trees: TreeTarget | None
    """The target again, where it evaluates trees."""
    prompt: Sequence[int]
    proposer: Proposer | None
    sampler: Sampler
    n_predict: int
    stop: Callable[[int], bool]
    interrupted: Callable[[], FinishReason | None]
    clock: Callable[[], float]
    scores: TokenScores | None = None
    n_cached: int = 0
    emitted: list[int] = field(default_factory=list)
    from_drafts: list[int] = field(default_factory=list)
    """Indexes of the emitted tokens that were draft tokens."""
    counts: PassCounts = field(default_factory=PassCounts)
    pass_times: list[tuple[int, float]] = field(default_factory=list)
    """Tokens and seconds of each pass after the prefill."""
    _order: list[int] | None = None
    """The proposer's indexes of the current tree's nodes; None if they are the same."""

    def begin(self, context: DraftContext) -> None:
        """Start the request for the drafters."""
        if self.proposer is None:
            return
        started = self.clock()
        self.proposer.clock = self.clock
        n_branches = self.trees.n_branches if self.trees is not None else 1
        self.proposer.begin(replace(context, n_vocab=self.target.n_vocab, n_branches=n_branches))
        self.counts.ms_draft += self._ms_since(started)

    def draft(self, n_pending: int) -> DraftTree:
        """Return a draft that fits beside ``n_pending`` tokens, or none."""
        if self.proposer is None:
            return NO_TREE
        n_max = draft_limit(
            self.n_cached,
            n_pending,
            self.n_predict - len(self.emitted),
            self.target.n_ctx,
            self.target.n_batch,
        )
        n_max = min(n_max, self.target.max_draft)
        if n_max == 0:
            return NO_TREE
        started = self.clock()
        tree = self.proposer.propose(self.emitted, n_max)
        self._order = None
        if not is_chain(tree):
            # The first child's path then has no gaps in the cache, which later tokens would fill:
            # attention adds its terms in the order of the positions, as it does without trees.
            tree, self._order = depth_first(tree)
        self.counts.ms_draft += self._ms_since(started)
        return tree

    def decode(self, pending: Sequence[int], tree: DraftTree) -> tuple[Logits, DraftTree]:
        """Evaluate ``pending`` and the draft after it; row 1 + i predicts what follows node i.

        ``pending`` are the tokens that the cache lacks, the last one emitted included.  Returns the
        draft, too: none where the cache had no room for it.
        """
        try:
            logits = self._decoded(pending, tree)
        except NoRoomError:
            if not tree.tokens or len(self.target.cached) < self.n_cached:
                raise
            tree = NO_TREE
            logits = self._decoded(pending, tree)
        self.n_cached += len(pending)
        return logits, tree

    def _decoded(self, pending: Sequence[int], tree: DraftTree) -> Logits:
        if is_chain(tree):
            return self.target.decode([*pending, *tree.tokens], len(tree.tokens) + 1)
        if self.trees is None:
            raise EngineError("a draft with branches was proposed to a target that has none.")
        return self.trees.decode_tree(pending, tree.tokens, tree.parents)

    def accept(self, logits: Logits, tree: DraftTree) -> FinishReason | None:
        """Emit the tokens of the pass over ``tree``, and roll the rest of the tree back."""
        n_before = len(self.emitted)
        verified, depth = self._verified(logits, tree)
        path: list[int] = []
        finish: FinishReason | None = None
        for token, node in verified:
            if self.scores is not None:
                # The row of the node that the token follows; row 0 follows the text.
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
            # The target's own token was compared with the children of the node that it follows.
            has_own = len(self.emitted) - n_before > len(path)
            if self.counts.n_decode_passes:
                n_right = len(path) if has_own else len(path) - 1
                self.counts.n_tried += n_right + (has_own and tip in tree.parents)
                self.counts.n_draft_depths += depth if has_own else n_right
            self.counts.n_draft_passes += 1
            self.counts.n_drafted += len(tree.tokens)
            self.counts.n_accepted += len(path)
            started = self.clock()
            order = self._order
            nodes = path if order is None else [order[node] for node in path]
            self.proposer.accept(nodes, stopped=not has_own)
            self.counts.ms_draft += self._ms_since(started)
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
        began, ms_draft_before = self.clock(), self.counts.ms_draft
        pending = self.pending()
        # Where going back took more than the draft, a draft now would be taken back further still.
        tree = self.draft(1) if len(pending) == 1 else NO_TREE
        native_before = self.target.ns_native
        started = self.clock()
        logits, tree = self.decode(pending, tree)
        seconds = self.clock() - started
        self.counts.ms_verify += seconds * 1e3
        self.counts.ms_decode += (self.target.ns_native - native_before) / 1e6
        self.counts.n_decode_passes += 1
        self.pass_times.append((len(pending) + len(tree.tokens), seconds))
        finish = self.accept(logits, tree)
        if not tree.tokens:
            self.counts.n_single_passes += 1
            self.counts.ms_single_passes += self._ms_since(started)
        else:
            self.counts.ms_draft_passes += self._ms_since(began)
            self.counts.ms_drafting += self.counts.ms_draft - ms_draft_before
        return finish

    def pending(self) -> Sequence[int]:
        """Return the tokens that the cache lacks: one after a pass, unless it had to go back."""
        n_pending = len(self.prompt) + len(self.emitted) - self.n_cached
        if n_pending <= len(self.emitted):
            return self.emitted[-n_pending:]
        return [*self.prompt[self.n_cached :], *self.emitted]

    def generation(self, finish: FinishReason, ms_total: float) -> Generation:
        """Return the request's tokens and cost at its end."""
        proposer = self.proposer
        return Generation(
            tokens=tuple(self.emitted),
            finish_reason=finish,
            stats=RequestStats(
                **asdict(self.counts),
                n_prompt=len(self.prompt),
                n_predicted=len(self.emitted),
                drafters=proposer.stats() if proposer is not None else {},
                ms_predict=ms_total - self.counts.ms_prompt,
                ms_total=ms_total,
            ),
            from_drafts=tuple(self.from_drafts),
            drafter_failures=proposer.failures if proposer is not None else (),
            pass_times=tuple(self.pass_times),
        )

    def _ms_since(self, started: float) -> float:
        return (self.clock() - started) * 1e3

    def _roll_back(self, tree: DraftTree, path: list[int]) -> None:
        """Keep the accepted ``path`` of ``tree`` in the cache."""
        self.n_cached += len(path)
        if self.trees is not None and not is_chain(tree):
            self.trees.keep_path(path)
        elif len(path) < len(tree.tokens):
            self.target.truncate(self.n_cached)
            self.n_cached = len(self.target.cached)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A request's tokens, why it ended and its cost."""

    tokens: tuple[int, ...]
    finish_reason: FinishReason
    stats: RequestStats
    from_drafts: tuple[int, ...] = ()
    """Indexes of the tokens that were accepted from drafts."""
    drafter_failures: tuple[DrafterError, ...] = ()
    """Errors of drafters that were left out; the tokens are not affected."""
    pass_times: tuple[tuple[int, float], ...] = ()
    """Tokens and seconds of each target pass after the prefill."""


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
    scores: TokenScores | None = None,
) -> Generation:
    """Continue ``context.prompt`` by at most ``n_predict`` tokens.

    The tokens are those that target and sampler give without a drafter, whatever the drafter does.
    ``n_predict`` is reduced so that prompt and output fit the target's context.

    ``stop`` is called once for every emitted token, in order; True ends the generation with
    ``stop``, and that token is the last of the output.  ``interrupted`` is called before each
    decode; a reason ends the generation with that reason, as does a decode that is interrupted.
    ``clock`` returns seconds; ``scores`` gets each emitted token with the logits that it was chosen
    by, before ``stop`` is asked.

    Afterwards the target's cache holds a prefix of prompt + output: unless the request was
    interrupted, all of it except at most the last token.

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
        prompt=prompt,
        proposer=proposer,
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
            finish = _prefill(run)
            while finish is None:
                finish = interrupted() or run.step()
        except DecodeInterruptedError:
            # The target was interrupted for the reason that ``interrupted`` returns.
            finish = interrupted() or "cancelled"
    return run.generation(finish, (clock() - started) * 1e3)


def _prefill(run: Passes) -> FinishReason | None:
    """Evaluate the part of the prompt that is not in the cache, and emit the first tokens.

    At least the prompt's last token is evaluated, since the cache holds no logits.
    """
    started = run.clock()
    ms_draft_before = run.counts.ms_draft
    try:
        finish = _evaluate_all_but_the_last(run)
        if finish is not None:
            return finish
        pending = run.prompt[run.n_cached :]
        tree = run.draft(len(pending))
        logits, tree = run.decode(pending, tree)
        run.counts.n_prompt_evaluated += len(pending)
        # The first token counts as prompt time, as in llama.cpp.
        finish = run.accept(logits, tree)
    finally:
        ms_draft = run.counts.ms_draft - ms_draft_before
        run.counts.ms_prompt = (run.clock() - started) * 1e3 - ms_draft
    run.counts.n_prefill_predicted = len(run.emitted)
    return finish


def _evaluate_all_but_the_last(run: Passes) -> FinishReason | None:
    """Fill the cache up to the last batch; ``interrupted`` is called between chunks.

    Chunks have the target's n_ubatch tokens, which may change.  If more than ``_N_LAST`` tokens are
    new, the last batch has one of them.
    """
    target, prompt = run.target, run.prompt
    n_chunk = min(target.n_ubatch, target.n_batch)
    target.truncate(min(common_head(target.cached, prompt), len(prompt) - 1))
    run.n_cached = len(target.cached)
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


def _check_prompt(n_prompt: int, n_ctx: int) -> None:
    if n_prompt == 0:
        raise EngineError("the prompt is empty.")
    if n_prompt >= n_ctx:
        raise EngineError(
            f"the prompt has {n_prompt} tokens and the context {n_ctx} positions, "
            "which leaves no room for output.",
            remedy="Lower `n_prompt` or raise `ctx_size`.",
        )
