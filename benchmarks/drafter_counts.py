"""Every drafter on a project's own text, counted without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from benchmarks.drafter_choices import (
    LLAMA_CPP,
    MERGED,
    DrafterChoice,
    merged_choice,
    single_choices,
)
from benchmarks.replay_project import N_TRUTH, ReplayCursor, ReplayProject, Tokenize
from speclsp.drafting.protocol import DraftContext
from speclsp.drafting.teacher_forcing import FREE_CURVE, ReplayCounts, replay
from speclsp.settings import Settings

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


@dataclass(frozen=True, slots=True)
class CountSummary:
    """What the merged tree is held to."""

    merged: float
    """Tokens per pass in gaps."""
    to_best_single: float
    """The same in units of the best drafter alone."""
    to_best_llama_cpp: float
    edit_length: float
    """Mean acceptance length of passes with a draft in edits; 0 where none were replayed."""


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
    """Replay a project with each drafter alone and with all merged; ``progress`` is told names."""
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


def summary(results: Sequence[DrafterCounts]) -> CountSummary:
    """Return the figures of the merged tree, and how they compare."""
    tree = f"{MERGED} tree"
    per_pass = {
        result.drafter: result.counts.tokens_per_pass for result in results if result.task == "gaps"
    }
    single = [rate for name, rate in per_pass.items() if not name.startswith(MERGED)]
    llama_cpp = [rate for name, rate in per_pass.items() if name in LLAMA_CPP]
    edits = [
        result.counts.mean_acceptance_length
        for result in results
        if result.task == "edits" and result.drafter == tree and result.counts.n_passes
    ]
    return CountSummary(
        merged=per_pass[tree],
        to_best_single=per_pass[tree] / max(single),
        to_best_llama_cpp=per_pass[tree] / max(llama_cpp),
        edit_length=max(edits, default=0.0),
    )


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
