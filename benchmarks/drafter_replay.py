"""Drafters replayed on a project: counts on the human's text, and sides that decode."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from benchmarks.askers import Answer
from benchmarks.decoding import DecodePlace, Decoder, DecodeSide, greedy
from benchmarks.replay_project import N_TRUTH, ReplayCursor, ReplayProject, Tokenize
from speclsp.backends.weights import Weights
from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.drafter import DraftContext, Drafter
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.ngram_cache import NAME as NGRAM_CACHE
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.registry import drafter_names, known_names, load_drafter
from speclsp.drafting.suffix import NAME as SUFFIX
from speclsp.drafting.suffix import SuffixDrafter
from speclsp.drafting.teacher_forcing import FREE_CURVE, ReplayCounts, replay
from speclsp.settings import DRAFT_MODEL, DraftMode, Settings

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


def decode_choices(settings: Settings, weights: Weights) -> list[DrafterChoice]:
    """Return the rows of decoding with the real model: none, each drafter alone, all merged."""
    model = [DrafterChoice(DRAFT_MODEL, settings, (DRAFT_MODEL,))] if weights.draft else []
    return [
        DrafterChoice(OFF, settings),
        *single_choices(settings),
        merged_choice(settings, "chain"),
        merged_choice(settings, "auto"),
        *model,
    ]


def drafter_side(choice: DrafterChoice, decoder: Decoder) -> DecodeSide:
    """Return a side that decodes with the drafters of a choice."""
    kept = choice.proposer(decoder.weights.draft) if choice.keeps_no_text else None

    def decode(_place: DecodePlace, context: DraftContext, n_predict: int) -> Answer:
        proposer = kept or choice.proposer(decoder.weights.draft)
        return decoder.complete(context, n_predict, proposer, greedy())

    return DecodeSide(choice.name, decode)
