"""Decoding alone: every side continues the same tokens greedily, with no rule that ends a text.

The prompt is in every side's KV cache beforehand, so that the target has the same work to do, and
the texts must be the same.  What differs is who drafts what, and what the host adds.
A place is asked at once, since some servers remember what they generated and would draft that.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final, Literal

from benchmarks.askers import Answer
from benchmarks.figures import (
    Column,
    Figures,
    acceptance,
    drafted_per_pass,
    figures_of,
    figures_table,
    host_ms_per_step,
    ratio_table,
    side_named,
    tokens_per_pass,
    tokens_per_s,
)
from benchmarks.replay_project import ReplayCursor
from benchmarks.report import reason
from benchmarks.tables import Table
from speclsp.backends.weights import Tokenizer, Weights
from speclsp.decoding.sampling import Sampler, SamplingParams, make_sampler
from speclsp.decoding.speculate import generate
from speclsp.decoding.token_scores import TokenScores
from speclsp.drafting.drafter import DraftContext, TokenCorpus
from speclsp.drafting.proposer import Proposer
from speclsp.errors import SpecLspError
from speclsp.prompt.prompt import PromptBudget
from speclsp.reporting.session import summed
from speclsp.seam.statistics import RequestStats
from speclsp.settings import Settings
from tests.support.prompts import build_prompt

Task = Literal["cases", "edits", "gaps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodePlace:
    """A place in a file of a project."""

    task: Task
    cursor: ReplayCursor
    repo_name: str
    corpora: tuple[TokenCorpus, ...]
    """The project, without the file."""


def in_rounds(places: Sequence[DecodePlace], n_rounds: int) -> list[list[DecodePlace]]:
    """Deal places out to rounds: each place once, so that nobody can remember its answer."""
    return [list(places[idx::n_rounds]) for idx in range(n_rounds)]


_N_WARM_UP: Final = 4
"""Tokens that are decoded before, so that the models' KV caches hold the prompt: a draft model may
see it with the first draft only."""


Decode = Callable[[DecodePlace, DraftContext, int], Answer]
"""Continues a place's prompt by so many tokens.  Raises SpecLspError."""


@dataclass(frozen=True, slots=True)
class DecodeSide:
    """One side of the comparison."""

    name: str
    decode: Decode
    says_own_text: bool = True
    """Whether the text is the model's, so that it must be the same as the others'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One side's answer at a place."""

    stats: RequestStats
    is_same: bool
    """Whether its text is that without speculation."""


@dataclass(slots=True)
class DecodeRun:
    """A side over all rounds: the answers at each round's places."""

    name: str
    says_own_text: bool = True
    rounds: list[list[Decoded]] = field(default_factory=list)
    """Those that all sides have ended."""
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes with loaded models, in this process."""

    settings: Settings
    tokenizer: Tokenizer
    weights: Weights

    def context(self, place: DecodePlace, n_predict: int) -> DraftContext:
        """Return a place's prompt, and what drafts may come from."""
        cursor, vocabulary = place.cursor, self.tokenizer.vocabulary
        n_prompt = self.settings.n_prompt or self.weights.max_prompt
        prompt = build_prompt(
            self.tokenizer.family,
            vocabulary,
            repo_name=place.repo_name,
            path=cursor.path,
            prefix=cursor.prefix,
            suffix=cursor.suffix,
            budget=PromptBudget(n_prompt=min(n_prompt, self.weights.target.n_ctx - n_predict)),
            layout=self.settings.fim_layout,
        )
        return DraftContext(
            prompt=prompt.tokens,
            prefix=vocabulary.tokenize(cursor.prefix),
            suffix=vocabulary.tokenize(cursor.suffix),
            corpora=place.corpora,
        )

    def complete(
        self, context: DraftContext, n_predict: int, proposer: Proposer | None, sampler: Sampler
    ) -> Answer:
        """Continue a prompt; what passes took so far decides on drafts, and these passes add to it.

        Raises :class:`~speclsp.errors.DecodeError`.
        """
        started = perf_counter()
        cost, ends = self.weights.pass_cost, self.tokenizer.family.end_tokens
        generation = generate(
            self.weights.target,
            dataclasses.replace(context, verify_curve=cost.curve, single_s=cost.single_s),
            drafter=proposer,
            sampler=sampler,
            n_predict=n_predict,
            stop=lambda token: token in ends,
            interrupted=lambda: None,
            clock=perf_counter,
            scores=TokenScores(copy=context.regions[0] if context.regions else ()),
        )
        cost.learn(generation.pass_times)
        ms = 1000 * (perf_counter() - started)
        pieces = (self.tokenizer.vocabulary.piece(t) for t in generation.tokens if t not in ends)
        said = b"".join(pieces).decode("utf-8", "replace")
        return Answer(text=said, ms=ms, stats=generation.stats)


def greedy() -> Sampler:
    """Return a sampler that takes the likeliest token."""
    return make_sampler(SamplingParams(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, seed=0))


def rotated(n_items: int, shift: int) -> Sequence[int]:
    """Return the indices of ``n_items``, beginning at another one for each ``shift``."""
    return [(idx + shift) % n_items for idx in range(n_items)]


def decode_runs_of(sides: Sequence[DecodeSide]) -> list[DecodeRun]:
    """Return empty runs for :func:`decode_all`."""
    return [DecodeRun(side.name, side.says_own_text) for side in sides]


def decode_all(
    runs: Sequence[DecodeRun],
    sides: Sequence[DecodeSide],
    rounds: Sequence[Sequence[DecodePlace]],
    context_of: Callable[[DecodePlace, int], DraftContext],
    *,
    plain: str,
    n_predict: int,
    progress: Callable[[str], None],
) -> None:
    """Have all sides continue all places, in an order that changes; a side that fails says why.

    ``runs`` are those of ``sides``, and get each round when it is whole, so that they hold what can
    be compared whenever this is interrupted.
    ``plain`` names the side without speculation, which must be among them.
    ``progress`` is told at each place who is next.
    """
    n_done = 0
    for places in rounds:
        found: list[list[Decoded]] = [[] for _ in runs]
        for place in places:
            context = context_of(place, n_predict)
            answers: dict[str, Answer] = {}
            for idx in rotated(len(sides), n_done):
                progress(f"{place.task}: {sides[idx].name}")
                if runs[idx].why_not:
                    continue
                try:
                    sides[idx].decode(place, context, _N_WARM_UP)
                    answers[sides[idx].name] = sides[idx].decode(place, context, n_predict)
                except SpecLspError as error:
                    runs[idx].why_not = reason(error)
            said = answers[plain].text if plain in answers else None
            for run, decoded in zip(runs, found, strict=True):
                if run.name in answers:
                    decoded.append(_decoded(answers[run.name], said))
            n_done += 1
        for run, decoded in zip(runs, found, strict=True):
            run.rounds.append(decoded)


def _decoded(answer: Answer, said: str | None) -> Decoded:
    is_same = said is not None and same_text(said, answer.text)
    return Decoded(stats=answer.stats, is_same=is_same)


def same_text(left: str, right: str) -> bool:
    """Return whether two texts are equal up to a character that the last token left unfinished."""
    return left.rstrip("\ufffd") == right.rstrip("\ufffd")


Answers = Sequence[Decoded]


def _of_sums(figure: Callable[[RequestStats], float | None]) -> Callable[[Answers], float | None]:
    """Return a figure of the sums over a round's answers."""
    return lambda answers: figure(_summed(answers))


def _summed(answers: Answers) -> RequestStats:
    return functools.reduce(summed, (one.stats for one in answers), RequestStats())


def _decode_speed(answers: Answers) -> float | None:
    return tokens_per_s(_summed(answers), n_requests=len(answers))


DECODE_COLUMNS: Final[tuple[Column[Answers], ...]] = (
    Column("tokens_per_s", "tokens/s", _decode_speed, "most"),
    Column("tokens_per_pass", "tokens/pass", _of_sums(tokens_per_pass), "most", 2),
    Column("acceptance", "accepted %", _of_sums(acceptance), "most"),
    Column("drafted", "drafted/pass", _of_sums(drafted_per_pass), "", 2),
    Column("host_ms", "host ms/step", _of_sums(host_ms_per_step), "least", 2),
)
"""Of a round's places."""


@dataclass(frozen=True, slots=True)
class TextCount:
    """How many of a side's texts equal those without speculation."""

    n_same: int
    n_all: int


@dataclass(frozen=True, slots=True)
class DecodedTask:
    """The figures of one kind of places."""

    task: Task
    sides: Sequence[Figures]
    texts: Mapping[str, TextCount]
    """By side; those that say another's text are left out."""


def decoded_figures(task: Task, runs: Sequence[DecodeRun]) -> DecodedTask:
    """Return each side's figures of decoding alone."""
    return DecodedTask(
        task=task,
        sides=[
            dataclasses.replace(
                figures_of(run.name, DECODE_COLUMNS, run.rounds, run.why_not),
                is_hypothetical=not run.says_own_text,
            )
            for run in runs
        ],
        texts={
            run.name: TextCount(
                n_same=sum(one.is_same for answers in run.rounds for one in answers),
                n_all=sum(len(answers) for answers in run.rounds),
            )
            for run in runs
            if run.says_own_text and not run.why_not
        },
    )


TASKS: Final[Mapping[Task, str]] = {
    "cases": "where an edit begins",
    "edits": "in a changed copy of a block",
    "gaps": "where lines were taken out",
}
_RATIO_COLUMNS: Final = ("tokens_per_s", "tokens_per_pass", "host_ms")


def decoded_table(
    decoded: DecodedTask, others: Mapping[str, Mapping[str, str]] | None = None
) -> Table:
    """Return what each side's decoding came to, and how many texts are the same.

    ``others`` are further columns, by header and side.
    """
    texts = {name: f"{count.n_same} of {count.n_all}" for name, count in decoded.texts.items()}
    title = f"Decoding alone {TASKS[decoded.task]}"
    columns = {**(others or {}), "same text": texts}
    return figures_table(title, DECODE_COLUMNS, decoded.sides, columns)


def decoded_ratio_table(decoded: DecodedTask, name: str) -> Table:
    """Return the ratios of the side of this name to the others, over the rounds."""
    shown = [column for column in DECODE_COLUMNS if column.name in _RATIO_COLUMNS]
    title = f"{name} / the others, decoding {TASKS[decoded.task]}"
    return ratio_table(title, shown, decoded.sides, side_named(decoded.sides, name))
