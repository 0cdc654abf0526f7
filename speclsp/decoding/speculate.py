"""The speculative decoding loop: prefill, then draft → one decode → verify → accept → roll back.

Between passes the KV cache holds the prompt and all emitted tokens but the last one, x₀.  A pass
decodes x₀ and a draft d₁ … d_k in one batch, emits 1 … k + 1 tokens (see
:mod:`speclsp.decoding.verify`) and takes the rejected rest of the draft out of the cache.  The
prompt's last tokens are a pass too: the first draft rides in the last batch of the prefill.  That
batch is kept as small as the others, since backends compute large batches by other kernels, whose
last bits differ: what the draft leaves in the cache must not depend on how long the prompt was.
While someone types, the new part of the prompt is that small anyway.

Nothing here looks at the whole context once the prefill is done, so that a step's cost on the host
does not grow with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from speclsp.decoding.protocol import Logits, Target
from speclsp.decoding.sampling import Sampler
from speclsp.decoding.verify import draft_limit, verify_chain
from speclsp.drafting.chain import DrafterChain
from speclsp.drafting.protocol import DraftContext, Drafter
from speclsp.errors import DecodeInterruptedError, DrafterError, EngineError
from speclsp.request import DrafterStats, FinishReason, RequestStats

_COMPARE_AT_ONCE = 256
_N_LAST = 32
"""Most prompt tokens beside the first draft; llama.cpp's kernels change at 64 on the CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What one request emitted, why it ended and what it cost."""

    tokens: tuple[int, ...]
    finish_reason: FinishReason
    stats: RequestStats
    drafter_failures: tuple[DrafterError, ...] = ()
    """Drafters that raised and were left out; the tokens are not affected."""


@dataclass(slots=True)
class _Counts:
    """The request's counts while it runs; times in seconds."""

    n_prompt_evaluated: int = 0
    n_target_passes: int = 0
    n_decode_passes: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    n_single_passes: int = 0
    s_prompt: float = 0.0
    s_draft: float = 0.0
    s_verify: float = 0.0
    s_single_passes: float = 0.0


@dataclass(slots=True)
class _Run:
    """The state of one request in the loop."""

    target: Target
    drafters: DrafterChain | None
    sampler: Sampler
    n_predict: int
    stop: Callable[[int], bool]
    interrupted: Callable[[], FinishReason | None]
    clock: Callable[[], float]
    n_cached: int = 0
    emitted: list[int] = field(default_factory=list)
    counts: _Counts = field(default_factory=_Counts)

    def begin(self, context: DraftContext) -> None:
        if self.drafters is None:
            return
        started = self.clock()
        self.drafters.clock = self.clock
        self.drafters.begin(context)
        self.counts.s_draft += self.clock() - started

    def draft(self, n_pending: int) -> tuple[int, ...]:
        """Return a draft that fits beside ``n_pending`` tokens, or nothing."""
        if self.drafters is None:
            return ()
        n_max = draft_limit(
            self.n_cached,
            n_pending,
            self.n_predict - len(self.emitted),
            self.target.n_ctx,
            self.target.n_batch,
        )
        if n_max == 0:
            return ()
        started = self.clock()
        tokens = self.drafters.draft(self.emitted, n_max).tokens
        self.counts.s_draft += self.clock() - started
        return tokens

    def accept(self, logits: Logits, draft: tuple[int, ...]) -> FinishReason | None:
        """Emit what the pass over ``draft`` yields, and roll the rest of the draft back.

        The cache holds everything up to the draft's end when this is called.
        """
        n_before = len(self.emitted)
        finish: FinishReason | None = None
        for token in verify_chain(logits, draft, self.sampler):
            self.emitted.append(token)
            if self.stop(token):
                finish = "stop"
                break
        n_emitted = len(self.emitted) - n_before
        n_accepted = n_emitted
        if n_emitted > len(draft) or self.emitted[-1] != draft[n_emitted - 1]:
            n_accepted -= 1  # The last one is the target's own: a bonus or a correction.
        if n_accepted < len(draft):
            self.n_cached -= len(draft) - n_accepted
            self.target.truncate(self.n_cached)
        self.counts.n_target_passes += 1
        if self.drafters is not None and draft:
            self.counts.n_drafted += len(draft)
            self.counts.n_accepted += n_accepted
            started = self.clock()
            self.drafters.accept(n_accepted)
            self.counts.s_draft += self.clock() - started
        if finish is None and len(self.emitted) >= self.n_predict:
            finish = "length"
        return finish


def generate(
    target: Target,
    context: DraftContext,
    *,
    drafter: Drafter | None,
    sampler: Sampler,
    n_predict: int,
    stop: Callable[[int], bool],
    interrupted: Callable[[], FinishReason | None],
    clock: Callable[[], float],
) -> Generation:
    """Continue ``context.prompt`` by at most ``n_predict`` tokens.

    The tokens are those that the target and the sampler give without a drafter, whatever the
    drafter does.  ``n_predict`` is cut so that prompt and output fit the target's context.

    ``stop`` is asked once for every emitted token, in order; True ends with ``stop``, and that
    token is the last of the output.  ``interrupted`` is asked before each decode call; a reason
    ends with it and what was emitted so far, as does a decode that is stopped from outside.
    ``clock`` returns seconds.

    Afterwards the target's cache holds a prefix of prompt + output, all of it but at most the
    last token unless the request was interrupted.

    Raises :class:`EngineError`, before the cache is touched, for a prompt that is empty or leaves
    no room for a token, and :class:`~speclsp.errors.DecodeError` from the target.
    """
    prompt = list(context.prompt)
    _check_prompt(len(prompt), target.n_ctx)
    chain = None
    if drafter is not None:
        chain = drafter if isinstance(drafter, DrafterChain) else DrafterChain((drafter,))
    run = _Run(
        target=target,
        drafters=chain,
        sampler=sampler,
        n_predict=min(n_predict, target.n_ctx - len(prompt)),
        stop=stop,
        interrupted=interrupted,
        clock=clock,
    )
    started = clock()
    finish: FinishReason | None = "length" if run.n_predict <= 0 else None
    if finish is None:
        run.begin(replace(context, n_vocab=target.n_vocab))
        try:
            finish = _prefill(run, prompt)
            while finish is None:
                finish = interrupted() or _step(run)
        except DecodeInterruptedError:
            # The target was told to stop for the reason that ``interrupted`` gives.
            finish = interrupted() or "cancelled"
    return Generation(
        tokens=tuple(run.emitted),
        finish_reason=finish,
        stats=_stats(run, len(prompt), clock() - started),
        drafter_failures=chain.failures if chain is not None else (),
    )


def _prefill(run: _Run, prompt: list[int]) -> FinishReason | None:
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
        draft = run.draft(len(pending))
        logits = run.target.decode([*pending, *draft], len(draft) + 1)
        run.n_cached += len(pending) + len(draft)
        run.counts.n_prompt_evaluated += len(pending)
    finally:
        s_draft = run.counts.s_draft - s_draft_before
        run.counts.s_prompt = run.clock() - started - s_draft
    return run.accept(logits, draft)


def _evaluate_all_but_the_last(run: _Run, prompt: list[int]) -> FinishReason | None:
    """Fill the cache up to what the last batch evaluates, asking between the chunks.

    Chunks of n_ubatch tokens are what the backend computes at once anyway.  Where more than
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
        chunk = prompt[run.n_cached : min(run.n_cached + n_chunk, end)]
        target.decode(chunk, 0)
        run.n_cached += len(chunk)
        run.counts.n_prompt_evaluated += len(chunk)
        finish = run.interrupted()
    return finish


def _step(run: _Run) -> FinishReason | None:
    """Make one pass after the prefill."""
    draft = run.draft(1)
    started = run.clock()
    logits = run.target.decode([run.emitted[-1], *draft], len(draft) + 1)
    decoded = run.clock()
    run.n_cached += 1 + len(draft)
    run.counts.s_verify += decoded - started
    run.counts.n_decode_passes += 1
    finish = run.accept(logits, draft)
    if not draft:
        run.counts.n_single_passes += 1
        run.counts.s_single_passes += run.clock() - started
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


def _stats(run: _Run, n_prompt: int, s_total: float) -> RequestStats:
    counts = run.counts
    drafters: dict[str, DrafterStats] = run.drafters.stats() if run.drafters is not None else {}
    return RequestStats(
        n_prompt=n_prompt,
        n_prompt_evaluated=counts.n_prompt_evaluated,
        n_predicted=len(run.emitted),
        n_target_passes=counts.n_target_passes,
        n_decode_passes=counts.n_decode_passes,
        n_drafted=counts.n_drafted,
        n_accepted=counts.n_accepted,
        n_single_passes=counts.n_single_passes,
        drafters=drafters,
        ms_prompt=counts.s_prompt * 1e3,
        ms_predict=(s_total - counts.s_prompt) * 1e3,
        ms_draft=counts.s_draft * 1e3,
        ms_verify=counts.s_verify * 1e3,
        ms_single_passes=counts.s_single_passes * 1e3,
        ms_total=s_total * 1e3,
    )
