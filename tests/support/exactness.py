"""Generations with drafts compared with the target's own tokens, token by token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from real_prompts import RealPrompt

from speclsp.backends.llama.context import LlamaTarget
from speclsp.decoding.sampling import GreedySampler, SamplingParams, SeededSampler, make_sampler
from speclsp.decoding.speculate import Generation, generate
from speclsp.decoding.target import Target
from speclsp.drafting.drafter import DraftContext, Drafter
from speclsp.drafting.proposer import Proposer
from speclsp.seam.request import FinishReason
from tests.support.margins import RecordingSampler


def sampling(mode: str, seed: int) -> SamplingParams:
    temperature = 0.0 if mode == "greedy" else 0.8
    return SamplingParams(temperature=temperature, top_k=40, top_p=0.95, min_p=0.05, seed=seed)


@dataclass(frozen=True)
class Reference:
    """What the target alone gives."""

    prompt: RealPrompt
    params: SamplingParams
    tokens: tuple[int, ...]
    margins: tuple[float, ...]


def run(
    target: Target,
    context: DraftContext,
    drafter: Drafter | Proposer | None,
    sampler: GreedySampler | SeededSampler | RecordingSampler,
    n_predict: int,
    *,
    stop: Callable[[int], bool] = lambda _token: False,
    interrupted: Callable[[], FinishReason | None] = lambda: None,
    clock: Callable[[], float] = lambda: 0.0,
) -> Generation:
    """Generate to the last token; by a real clock drafting rests, since looking things up takes
    longer than the embedded model.
    """
    return generate(
        target,
        context,
        drafter=drafter,
        sampler=sampler,
        n_predict=n_predict,
        stop=stop,
        interrupted=interrupted,
        clock=clock,
    )


@dataclass
class Outcome:
    """How one drafter's runs compare with the references."""

    n_tokens: int = 0
    n_mismatches: int = 0
    n_drafted: int = 0
    widest: float = 0.0
    """Largest margin of a choice that came out differently."""
    not_nearly_even: list[str] = field(default_factory=list)


def compare(
    target: LlamaTarget,
    reference: Reference,
    make_drafter: Callable[[Sequence[int]], Drafter | Proposer],
    epsilon: float,
    outcome: Outcome,
) -> None:
    """Generate with a drafter; behind a mismatch go on from the reference's tokens."""
    outcome.n_tokens += len(reference.tokens)
    start = 0
    while start < len(reference.tokens):
        done, rest = reference.tokens[:start], reference.tokens[start:]
        context = DraftContext(
            prompt=(*reference.prompt.tokens, *done),
            prefix=np.concatenate([reference.prompt.prefix, np.array(done, dtype=np.int32)]),
            suffix=reference.prompt.suffix,
        )
        sampler = make_sampler(reference.params)
        if isinstance(sampler, SeededSampler):
            sampler._generator.advance(start)
        generation = run(target, context, make_drafter(rest), sampler, len(rest))
        assert generation.drafter_failures == ()
        outcome.n_drafted += generation.stats.n_drafted
        assert len(generation.tokens) == len(rest)
        assert list(target.cached) == [*context.prompt, *generation.tokens][:-1]
        place = next((i for i, t in enumerate(rest) if generation.tokens[i] != t), None)
        if place is None:
            return
        start += place
        outcome.n_mismatches += 1
        outcome.widest = max(outcome.widest, reference.margins[start])
        if 2.0 * reference.margins[start] >= epsilon:
            outcome.not_nearly_even.append(
                f"{reference.prompt.name}: token {start} is {generation.tokens[place]} instead of "
                f"{reference.tokens[start]}, margin {reference.margins[start]:.5f}"
            )
        start += 1
