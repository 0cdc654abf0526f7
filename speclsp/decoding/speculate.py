"""The speculative decoding loop: prefill, then draft → one decode → verify → accept → roll back.

Between passes the KV cache holds the prompt and all emitted tokens but the last one, x₀.  A pass
(see :mod:`speclsp.decoding.passes`) decodes x₀ and a draft, a chain d₁ … d_k or a tree, in one
batch, emits one token more than it accepts (see :mod:`speclsp.decoding.verify`) and takes the
rejected rest of the draft out of the cache.  The prompt's last tokens are a pass too: the first
draft rides in the last batch of the prefill.  That batch is kept as small as the others, since
backends compute large batches by other kernels, whose last bits differ: what the draft leaves in
the cache must not depend on how long the prompt was.  While someone types, the new part of the
prompt is that small anyway.

Nothing here looks at the whole context once the prefill is done, so that a step's cost on the host
does not grow with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from speclsp.decoding.passes import EmissionObserver, Passes, PassObserver
from speclsp.decoding.protocol import Target, tree_target
from speclsp.decoding.sampling import Sampler
from speclsp.drafting.proposer import DrafterChain, Proposer
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
        proposer = drafter if isinstance(drafter, Proposer) else DrafterChain((drafter,))
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
    finally:
        s_draft = run.counts.s_draft - s_draft_before
        run.counts.s_prompt = run.clock() - started - s_draft
    finish = run.accept(logits, tree)
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
