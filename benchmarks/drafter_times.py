"""Every drafter with the real model: what a completion takes, against no speculation.

All of them complete the same places in the same rounds, one after another in an order that
changes, so that whatever else the machine does hits all alike.  The prompt is in the KV cache
beforehand, as it is while someone types.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from benchmarks.drafter_choices import OFF, DrafterChoice, merged_choice, single_choices
from benchmarks.replay_project import ReplayCursor, ReplayProject
from speclsp.decoding.sampling import SamplingParams, make_sampler
from speclsp.decoding.speculate import Generation, generate
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.protocol import DraftContext, TokenCorpus
from speclsp.drafting.teacher_forcing import ReplayCounts
from speclsp.engine.models import Tokenizer, Weights
from speclsp.prompt.prompt import PromptBudget, build_prompt
from speclsp.settings import Settings
from speclsp.text.repetition import repeated_characters, repeated_lines


@dataclass(slots=True)
class DrafterTimes:
    """One drafter's completions with the real model."""

    drafter: str
    ms_by_round: list[list[float]] = field(default_factory=list)
    """For each round the milliseconds of each place's completion."""
    counts: ReplayCounts = field(default_factory=ReplayCounts)

    def percentile(self, share: float) -> float:
        """Return the milliseconds that a share of the completions stays within."""
        times = sorted(ms for ms_of_round in self.ms_by_round for ms in ms_of_round)
        return times[min(int(share * len(times)), len(times) - 1)] if times else 0.0

    def speedups(self, off: DrafterTimes) -> list[float]:
        """Return for each round the median over the places of time without / time with it."""
        return [
            statistics.median(
                plain / ms for plain, ms in zip(plain_round, ms_round, strict=True) if ms > 0.0
            )
            for plain_round, ms_round in zip(off.ms_by_round, self.ms_by_round, strict=True)
        ]


@dataclass(slots=True)
class TimedRun:
    """What the model did."""

    drafters: list[DrafterTimes]
    loop_share: float
    """Share of the completions that ended in a loop."""
    single_pass_ms: float
    """T(1), by the passes without speculation."""

    @property
    def off(self) -> DrafterTimes:
        """The baseline."""
        return self.drafters[0]


def time_drafters(
    project: ReplayProject,
    settings: Settings,
    tokenizer: Tokenizer,
    weights: Weights,
    *,
    n_cursors: int,
    n_rounds: int,
    n_predict: int,
    seed: int,
    progress: Callable[[str], None],
) -> TimedRun:
    """Complete places of a project with the real model, with each drafter and with none.

    Raises :class:`~speclsp.errors.DecodeError`.
    """
    choices = [
        DrafterChoice(OFF, settings),
        *single_choices(settings),
        merged_choice(settings, "chain"),
        merged_choice(settings, "auto"),
    ]
    times = [DrafterTimes(choice.name) for choice in choices]
    kept = [choice.proposer(weights.draft) if choice.keeps_no_text else None for choice in choices]
    n_prompt = min(weights.max_prompt, weights.target.n_ctx - n_predict)
    contexts = [
        draft_context(
            cursor,
            project.name,
            (project.corpus_without(cursor),),
            settings,
            tokenizer,
            weights,
            n_prompt=n_prompt,
        )
        for cursor in project.gaps(n_cursors, seed)
    ]
    n_loops = 0
    s_single, n_single = 0.0, 0
    for round_idx in range(n_rounds):
        for drafter in times:
            drafter.ms_by_round.append([])
        for place, context in enumerate(contexts):
            progress(f"round {round_idx + 1} of {n_rounds}, completion {place + 1}")
            warm = _complete(None, context, weights, tokenizer, n_predict)
            n_loops += _ends_in_loop(warm, tokenizer)
            s_single += warm.stats.ms_single_passes
            n_single += warm.stats.n_single_passes
            for idx in _rotated(len(choices), round_idx + place):
                proposer = kept[idx] or choices[idx].proposer(weights.draft)
                generation = _complete(proposer, context, weights, tokenizer, n_predict)
                _count(times[idx], generation)
    return TimedRun(
        drafters=times,
        loop_share=n_loops / max(1, n_rounds * len(contexts)),
        single_pass_ms=s_single / max(1, n_single),
    )


def draft_context(
    cursor: ReplayCursor,
    repo_name: str,
    corpora: tuple[TokenCorpus, ...],
    settings: Settings,
    tokenizer: Tokenizer,
    weights: Weights,
    *,
    n_prompt: int,
) -> DraftContext:
    """Return a place's prompt of at most ``n_prompt`` tokens, and what drafts may come from."""
    prompt = build_prompt(
        tokenizer.family,
        tokenizer.vocabulary,
        repo_name=repo_name,
        path=cursor.path,
        prefix=cursor.prefix,
        suffix=cursor.suffix,
        budget=PromptBudget(
            n_prompt=n_prompt, n_prefix=settings.n_prefix, n_suffix=settings.n_suffix
        ),
        window=None,
        layout=settings.fim_layout,
    )
    cost = weights.pass_cost
    return DraftContext(
        prompt=prompt.tokens,
        prefix=tokenizer.vocabulary.tokenize(cursor.prefix),
        suffix=tokenizer.vocabulary.tokenize(cursor.suffix),
        corpora=corpora,
        verify_curve=cost.curve,
        tree_curve=cost.tree_curve,
        single_s=cost.single_s,
    )


def _complete(
    proposer: Proposer | None,
    context: DraftContext,
    weights: Weights,
    tokenizer: Tokenizer,
    n_predict: int,
) -> Generation:
    return generate(
        weights.target,
        context,
        drafter=proposer,
        sampler=make_sampler(
            SamplingParams(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, seed=0)
        ),
        n_predict=n_predict,
        stop=lambda token: token in tokenizer.family.end_tokens,
        interrupted=lambda: None,
        clock=perf_counter,
    )


def _count(times: DrafterTimes, generation: Generation) -> None:
    stats = generation.stats
    times.ms_by_round[-1].append(stats.ms_total)
    counts = times.counts
    counts.n_tokens += stats.n_predicted
    counts.n_passes += stats.n_target_passes
    counts.n_drafted += stats.n_drafted
    counts.n_accepted += stats.n_accepted
    counts.n_draft_passes += stats.n_draft_passes


def _ends_in_loop(generation: Generation, tokenizer: Tokenizer) -> bool:
    pieces = b"".join(tokenizer.vocabulary.piece(token) for token in generation.tokens)
    lines = pieces.decode("utf-8", errors="replace").split("\n")
    return (
        any(repeated_lines(lines[:end]) is not None for end in range(1, len(lines) + 1))
        or repeated_characters(lines[-1]) is not None
    )


def _rotated(n_items: int, shift: int) -> Sequence[int]:
    return [(idx + shift) % n_items for idx in range(n_items)]
