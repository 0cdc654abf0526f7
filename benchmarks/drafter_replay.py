"""Drafters replayed on a project: counts on the human's text, times with the model."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final, Literal

from benchmarks.replay_project import N_TRUTH, ReplayCursor, ReplayProject, Tokenize
from speclsp.decoding.sampling import Sampler, SamplingParams, make_sampler
from speclsp.decoding.speculate import Generation, generate
from speclsp.decoding.token_scores import TokenScores
from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.ngram_cache import NAME as NGRAM_CACHE
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.protocol import DraftContext, Drafter, TokenCorpus
from speclsp.drafting.registry import DRAFT_MODEL, drafter_names, known_names, load_drafter
from speclsp.drafting.suffix import NAME as SUFFIX
from speclsp.drafting.suffix import SuffixDrafter
from speclsp.drafting.teacher_forcing import FREE_CURVE, ReplayCounts, replay
from speclsp.engine.models import Tokenizer, Weights
from speclsp.prompt.prompt import PromptBudget
from speclsp.request import RequestStats
from speclsp.settings import DraftMode, Settings
from speclsp.text.repetition import repeated_characters, repeated_lines
from tests.support.prompts import build_prompt

OFF: Final = "off"
MERGED: Final = "merged"
LLAMA_CPP: Final = frozenset(
    ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
)
"""Drafters that do what llama.cpp's do."""


@dataclass(frozen=True, slots=True)
class DrafterChoice:
    """One row of a comparison.

    Each completion gets new drafters: some remember text, and would draft the lines that
    another cursor takes out.  Learned probabilities are kept.
    """

    name: str
    settings: Settings
    drafters: tuple[str, ...] = ()
    mode: DraftMode | None = None
    """How they are merged; None for a drafter alone."""
    table: AcceptanceTable = dataclasses.field(default_factory=AcceptanceTable)

    @property
    def keeps_no_text(self) -> bool:
        """Whether its drafters remember no text and can be reused."""
        return set(self.drafters) <= {SUFFIX, NGRAM_CACHE, DRAFT_MODEL}

    def proposer(self, draft_model: Drafter | None = None) -> Proposer | None:
        """Return the proposer, or None for no drafts.

        Raises :class:`~speclsp.errors.DrafterError` for a drafter that cannot be created.
        """
        drafters: list[Drafter] = []
        for name in self.drafters:
            if name == SUFFIX:
                n_draft = self.settings.max_draft
                drafters.append(SuffixDrafter(n_draft=n_draft, table=self.table))
            elif name != DRAFT_MODEL:
                drafters.append(load_drafter(name, self.settings))
            elif draft_model is not None:
                drafters.append(draft_model)
        if not drafters:
            return None
        if self.mode is None:
            return DraftMerger(drafters)
        return DraftMerger(
            drafters,
            self.table,
            mode=self.mode,
            p_split=self.settings.p_split,
            n_max=self.settings.max_draft,
        )


def single_choices(settings: Settings) -> list[DrafterChoice]:
    """Return each installed drafter alone, but for the draft model."""
    names = [name for name in known_names() if name != DRAFT_MODEL]
    return [
        DrafterChoice(name, dataclasses.replace(settings, drafters=name), (name,)) for name in names
    ]


def merged_choice(settings: Settings, mode: DraftMode) -> DrafterChoice:
    """Return the settings' drafters, merged in a mode."""
    return DrafterChoice(f"{MERGED} {mode}", settings, drafter_names(settings.drafters), mode)


Task = Literal["gaps", "edits"]

N_DRAFT: Final = 15
"""Draft tokens of each pass."""
_N_PROMPT: Final = 1024
"""Tokens before the cursor that stand for the prompt."""


@dataclass(slots=True)
class DrafterCounts:
    """One drafter's counts on one task."""

    task: Task
    drafter: str
    counts: ReplayCounts = field(default_factory=ReplayCounts)


def count_drafters(
    project: ReplayProject,
    settings: Settings,
    tokenize: Tokenize,
    *,
    n_vocab: int,
    n_cursors: int,
    seed: int,
    progress: Callable[[str], None],
) -> Iterator[DrafterCounts]:
    """Replay a project with each drafter alone and with all merged; ``progress`` gets names."""
    tasks: list[tuple[Task, list[ReplayCursor]]] = [
        ("gaps", project.gaps(n_cursors, seed)),
        ("edits", project.edits(n_cursors, seed)),
    ]
    for task, cursors in tasks:
        replayable = [(_context(project, cursor, tokenize, n_vocab), cursor) for cursor in cursors]
        choices = [
            *single_choices(settings),
            merged_choice(settings, "chain"),
            merged_choice(settings, "tree"),
        ]
        for choice in choices:
            progress(f"{task}: {choice.name}")
            result = DrafterCounts(task, choice.name)
            _replay_all(choice, replayable, tokenize, result.counts)
            yield result


def summary(results: Sequence[DrafterCounts]) -> dict[str, float]:
    """Return how the merged tree does in gaps beside the drafters alone, and its drafts in edits.

    Rates are tokens per pass; the drafts' length is the mean of the passes that had one.
    """
    tree = f"{MERGED} tree"
    found = {(result.task, result.drafter): result.counts for result in results}
    rates = {
        name: counts.tokens_per_pass for (task, name), counts in found.items() if task == "gaps"
    }
    single = [rate for name, rate in rates.items() if not name.startswith(MERGED)]
    llama_cpp = [rate for name, rate in rates.items() if name in LLAMA_CPP]
    return {
        "merged tokens per pass": rates[tree],
        "merged / best drafter alone": rates[tree] / max(single),
        "merged / best of llama.cpp's": rates[tree] / max(llama_cpp),
        "mean acceptance length in edits": found["edits", tree].mean_acceptance_length,
    }


def _context(
    project: ReplayProject, cursor: ReplayCursor, tokenize: Tokenize, n_vocab: int
) -> DraftContext:
    prefix = tokenize(cursor.prefix)
    return DraftContext(
        prompt=prefix[-_N_PROMPT:].tolist(),
        prefix=prefix,
        suffix=tokenize(cursor.suffix),
        corpora=(project.corpus_without(cursor),),
        verify_curve=FREE_CURVE,
        n_vocab=n_vocab,
        n_branches=N_DRAFT,
    )


def _replay_all(
    choice: DrafterChoice,
    replayable: list[tuple[DraftContext, ReplayCursor]],
    tokenize: Tokenize,
    counts: ReplayCounts,
) -> None:
    for context, cursor in replayable:
        proposer = choice.proposer()
        if proposer is not None:
            truth = tokenize(cursor.truth)[:N_TRUTH].tolist()
            replay(proposer, context, truth, N_DRAFT, counts)


@dataclass(slots=True)
class DrafterTimes:
    """One drafter's completions with the real model."""

    drafter: str
    counts: ReplayCounts = field(default_factory=ReplayCounts)
    ms_by_round: list[list[float]] = field(default_factory=list)
    """For each round the milliseconds of each place's completion."""

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
    """The completions of one run with the real model; the first drafter is none."""

    drafters: list[DrafterTimes]
    loop_share: float
    """Share of the places whose completion ended in a loop."""


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
    if weights.draft is not None:
        choices.append(DrafterChoice(DRAFT_MODEL, settings, (DRAFT_MODEL,)))
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
            n_prompt=n_prompt,
        )
        for cursor in project.gaps(n_cursors, seed)
    ]
    n_loops = 0
    for round_idx in range(n_rounds):
        for drafter in times:
            drafter.ms_by_round.append([])
        for place, context in enumerate(contexts):
            progress(f"round {round_idx + 1} of {n_rounds}, completion {place + 1}")
            # The first completion evaluates the prompt.
            warm = complete(context, tokenizer, weights, None, greedy(), n_predict)
            n_loops += _ends_in_loop(warm, tokenizer)
            for idx in rotated(len(choices), round_idx + place):
                proposer = kept[idx] or choices[idx].proposer(weights.draft)
                done = complete(context, tokenizer, weights, proposer, greedy(), n_predict)
                times[idx].ms_by_round[-1].append(done.stats.ms_total)
                _count(times[idx].counts, done.stats)
    return TimedRun(times, n_loops / max(1, n_rounds * len(contexts)))


def draft_context(
    cursor: ReplayCursor,
    repo_name: str,
    corpora: tuple[TokenCorpus, ...],
    settings: Settings,
    tokenizer: Tokenizer,
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
        budget=PromptBudget(n_prompt=n_prompt),
        window=None,
        layout=settings.fim_layout,
    )
    return DraftContext(
        prompt=prompt.tokens,
        prefix=tokenizer.vocabulary.tokenize(cursor.prefix),
        suffix=tokenizer.vocabulary.tokenize(cursor.suffix),
        corpora=corpora,
    )


def complete(
    context: DraftContext,
    tokenizer: Tokenizer,
    weights: Weights,
    proposer: Proposer | None,
    sampler: Sampler,
    n_predict: int,
    scores: TokenScores | None = None,
) -> Generation:
    """Continue a place's prompt with drafts by what passes took so far, which this adds to."""
    cost = weights.pass_cost
    generation = generate(
        weights.target,
        dataclasses.replace(context, verify_curve=cost.curve, single_s=cost.single_s),
        drafter=proposer,
        sampler=sampler,
        n_predict=n_predict,
        stop=lambda token: token in tokenizer.family.end_tokens,
        interrupted=lambda: None,
        clock=perf_counter,
        scores=scores,
    )
    cost.learn(generation.pass_times)
    return generation


def greedy() -> Sampler:
    """Return a sampler that takes the likeliest token."""
    return make_sampler(SamplingParams(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, seed=0))


def _count(counts: ReplayCounts, stats: RequestStats) -> None:
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


def rotated(n_items: int, shift: int) -> Sequence[int]:
    """Return the indices of ``n_items``, beginning at another one for each ``shift``."""
    return [(idx + shift) % n_items for idx in range(n_items)]
